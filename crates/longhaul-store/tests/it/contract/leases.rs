//! One writer a thread.

use std::time::Duration;

use longhaul_core::Scope;
use longhaul_store::{Lease, LeaseError, LeaseToken, Store, StoreError, values};

use super::{Ground, on};
use crate::support::notes;

on! { file, memory, postgres: a_held_thread_is_refused_and_free_afterwards, whoever_was_taken_over_cannot_commit_any_more }

const TTL: Duration = Duration::from_secs(60);

async fn acquire(store: &Store) -> Result<Lease, LeaseError> {
    Lease::acquire(store, &Scope::single_user(), &"project_001".parse().unwrap(), TTL).await
}

async fn a_held_thread_is_refused_and_free_afterwards(ground: Ground) {
    let store = ground.open().await;
    let other = store.clone();
    let lease = acquire(&store).await.unwrap();
    let refused = acquire(&other).await;
    assert!(
        matches!(&refused, Err(LeaseError::Held { holder: Some(holder), .. }) if holder.pid == std::process::id()),
        "{refused:?}"
    );
    lease.release().await.unwrap();
    drop(acquire(&other).await.unwrap());
    acquire(&store).await.unwrap();
}

async fn whoever_was_taken_over_cannot_commit_any_more(ground: Ground) {
    let store = ground.open().await;
    let lease = acquire(&store).await.unwrap();
    let write = |n: i64, token: LeaseToken| {
        store.write(move |tx| {
            tx.check_lease(&token)?;
            tx.execute("INSERT INTO notes VALUES ('a', ?1, 'x')", &values![n])
        })
    };
    write(1, lease.token().clone()).await.unwrap();
    // What another host does once it has not heard of us for the time to live.
    store
        .write(|tx| tx.execute("UPDATE leases SET token = token + 1, host = 'elsewhere', pid = 1", &[]))
        .await
        .unwrap();
    let refused = write(2, lease.token().clone()).await;
    assert!(matches!(refused, Err(StoreError::LeaseLost { .. })), "{refused:?}");
    assert_eq!(notes(&store).await, [1]);
    // The other host's row is respected although the lock of this host is free, until it expires.
    drop(lease);
    assert!(matches!(acquire(&store).await, Err(LeaseError::Held { holder: Some(h), .. }) if h.host == "elsewhere"));
    store.write(|tx| tx.execute("UPDATE leases SET expires_at = 1", &[])).await.unwrap();
    acquire(&store).await.unwrap();
}

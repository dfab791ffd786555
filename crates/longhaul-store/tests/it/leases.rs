//! One writer a thread: refused while held, taken over when its owner is dead, fenced when it has been taken over.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use longhaul_core::{Scope, ThreadId};
use longhaul_store::{Lease, LeaseError, Store, StoreError, lease_holder, values};

use crate::support::{notes, open};

const TTL: Duration = Duration::from_secs(60);
const OWNER: &str = "LONGHAUL_TEST_LEASE_OWNER";

fn thread() -> ThreadId {
    "project_001".parse().unwrap()
}

async fn acquire(store: &Store) -> Result<Lease, LeaseError> {
    Lease::acquire(store, &Scope::single_user(), &thread(), TTL).await
}

#[tokio::test]
async fn a_held_thread_is_refused_with_its_holder_and_free_after_release_or_drop() {
    let dir = tempfile::tempdir().unwrap();
    let (store, other) = (open(dir.path()).await, open(dir.path()).await);
    let lease = acquire(&store).await.unwrap();
    let Err(LeaseError::Held { thread: held, holder: Some(holder) }) = acquire(&other).await else {
        panic!("the second lease was not refused");
    };
    assert_eq!((held, holder.pid), (thread(), std::process::id()));
    // Another thread, and the same name in another tenant, are free.
    let elsewhere = Scope { tenant: "tenant_other".parse().unwrap(), ..Scope::single_user() };
    Lease::acquire(&other, &elsewhere, &thread(), TTL).await.unwrap();
    Lease::acquire(&other, &Scope::single_user(), &"project_002".parse().unwrap(), TTL).await.unwrap();

    lease.release().await.unwrap();
    let read = |read: &longhaul_store::ReadTx<'_>| lease_holder(read, &Scope::single_user(), &thread());
    assert_eq!(store.read(read).await.unwrap(), None);
    drop(acquire(&other).await.unwrap());
    acquire(&store).await.unwrap();
}

#[tokio::test]
async fn a_killed_owner_on_this_host_is_taken_over_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "leases::owner_process", "--nocapture"])
        .env(OWNER, dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("leased")));
    let store = open(dir.path()).await;
    let refused = acquire(&store).await;
    assert!(
        matches!(&refused, Err(LeaseError::Held { holder: Some(holder), .. }) if holder.pid == owner.id()),
        "{refused:?}"
    );
    owner.kill().unwrap();
    owner.wait().unwrap();
    acquire(&store).await.unwrap();
}

/// Not a test by itself: the process that the test above kills while it holds the lease.
#[tokio::test]
async fn owner_process() {
    let Some(dir) = std::env::var_os(OWNER) else { return };
    let store = open(dir.as_ref()).await;
    let _lease = acquire(&store).await.unwrap();
    println!("leased");
    // Ends when the parent kills it, or ends itself.
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await;
}

#[tokio::test]
async fn whoever_was_taken_over_cannot_commit_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let lease = acquire(&store).await.unwrap();
    let write = |n: i64, token: longhaul_store::LeaseToken| {
        let store = store.clone();
        async move {
            store
                .write(move |tx| {
                    tx.check_lease(&token)?;
                    tx.execute("INSERT INTO notes VALUES ('a', ?1, 'x')", &values![n])
                })
                .await
        }
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

#[tokio::test]
async fn the_heartbeat_moves_the_end_of_the_row() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let lease = Lease::acquire(&store, &Scope::single_user(), &thread(), Duration::from_millis(200)).await.unwrap();
    let end = || store.read(|read| read.query_one("SELECT expires_at FROM leases", &[], |row| row.get::<i64>(0)));
    let first: i64 = end().await.unwrap();
    let moved = async {
        while end().await.unwrap() == first {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), moved).await.expect("the heartbeat never came");
    drop(lease);
}

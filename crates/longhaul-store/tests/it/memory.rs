//! A store in memory behaves as one on the disk, as far as one process can tell.

use longhaul_core::{Digest, EventDraft, Scope};
use longhaul_store::{Lease, LeaseError, Place, StoreError, events, values};
use serde_json::json;

use crate::support::{notes, open_in_memory, task};

#[tokio::test]
async fn its_handles_share_rows_events_and_blobs_and_nobody_else_does() {
    let store = open_in_memory().await;
    assert_eq!(store.place(), &Place::Memory);
    let (clone, stranger) = (store.clone(), open_in_memory().await);
    let scope = Scope::single_user();
    let task = task(&store, &scope, "t1").await;
    let mut live = clone.subscribe();
    let writer = task.clone();
    let event = store
        .write(move |tx| {
            tx.execute("INSERT INTO notes VALUES ('a', 1, 'x')", &[])?;
            tx.append_event(&writer, None, None, EventDraft::business("note.taken", json!({})))
        })
        .await
        .map_err(|error: StoreError| error)
        .unwrap();
    let digest = store.blobs().put(&scope, "会議の記録").await.unwrap();
    drop(store);

    assert_eq!(notes(&clone).await, [1]);
    assert_eq!(live.recv().await.unwrap(), event);
    let reader = scope.clone();
    let logged = clone.read(move |read| events(read, &reader, Some(&task.task), 0, 10)).await.unwrap();
    assert_eq!(logged, [event]);
    assert_eq!(clone.blobs().get(&scope, &digest).await.unwrap(), "会議の記録".as_bytes());
    let other = Scope { tenant: "tenant_other".parse().unwrap(), ..scope.clone() };
    assert!(matches!(clone.blobs().get(&other, &digest).await, Err(StoreError::BlobMissing { .. })));
    assert_eq!(notes(&stranger).await, [0_i64; 0]);
    assert!(matches!(stranger.blobs().get(&scope, &digest).await, Err(StoreError::BlobMissing { .. })));
}

#[tokio::test]
async fn what_fails_or_panics_is_undone_and_a_read_cannot_write() {
    let store = open_in_memory().await;
    let note = |n: i64, fails: bool| {
        store.write(move |tx| {
            tx.execute("INSERT INTO notes VALUES ('a', ?1, 'x')", &values![n])?;
            assert_ne!(n, 2, "planned");
            if fails { Err(StoreError::NoRow { sql: "planned".into() }) } else { Ok(()) }
        })
    };
    assert!(matches!(note(1, true).await, Err(StoreError::NoRow { .. })));
    assert!(matches!(note(2, false).await, Err(StoreError::Panicked { .. })));
    note(3, false).await.unwrap();
    let written = store.read(|read| read.query("INSERT INTO notes VALUES ('a', 9, 'x') RETURNING n", &[], |_| Ok(())));
    assert!(matches!(written.await, Err(StoreError::ReadOnly { .. })));
    let panicked = store.read(|_| -> Result<(), StoreError> { panic!("planned") }).await;
    assert!(matches!(&panicked, Err(StoreError::Panicked { message }) if message == "planned"), "{panicked:?}");
    assert_eq!(notes(&store).await, [3]);
}

#[tokio::test]
async fn a_thread_is_held_by_one_handle_until_it_is_dropped() {
    let store = open_in_memory().await;
    let (scope, thread) = (Scope::single_user(), "project_001".parse().unwrap());
    let ttl = std::time::Duration::from_secs(60);
    let lease = Lease::acquire(&store, &scope, &thread, ttl).await.unwrap();
    let other = store.clone();
    let refused = Lease::acquire(&other, &scope, &thread, ttl).await;
    assert!(
        matches!(&refused, Err(LeaseError::Held { holder: Some(holder), .. }) if holder.pid == std::process::id()),
        "{refused:?}"
    );
    drop(lease);
    let lease = Lease::acquire(&other, &scope, &thread, ttl).await.unwrap();
    let token = lease.token().clone();
    other.write(move |tx| tx.check_lease(&token)).await.unwrap();
}

#[tokio::test]
async fn a_digest_is_read_from_its_bytes_and_from_its_text() {
    let store = open_in_memory().await;
    let digest = Digest::of("abc");
    let params = values![&digest, digest.as_bytes().to_vec(), vec![1_u8; 31]];
    store
        .read(move |read| {
            read.query_one("SELECT ?1, ?2, ?3", &params, |row| {
                assert_eq!((row.get::<Digest>(0)?, row.get::<Digest>(1)?), (digest, digest));
                assert!(matches!(row.get::<Digest>(2), Err(StoreError::Column { column: 2, .. })));
                Ok(())
            })
        })
        .await
        .unwrap();
}

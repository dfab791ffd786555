//! Who commits, and when: alone on the caller's thread, in a group as soon as there are several, and nobody waits for
//! ever.

use std::time::Duration;

use longhaul_core::{Ambient, EventDraft, Scope};
use longhaul_store::{Faults, Store, StoreError, StoreSettings, values};

use crate::support::{NOTES, notes, open, task};

async fn with_faults(dir: &std::path::Path) -> (Store, Faults) {
    let faults = Faults::new();
    let store = Store::open_with_faults(StoreSettings::new(dir), Ambient::system(), &[NOTES], faults.clone()).await;
    (store.unwrap(), faults)
}

async fn note(store: &Store, n: i64) -> Result<std::thread::ThreadId, StoreError> {
    store
        .write(move |tx| {
            tx.execute("INSERT INTO notes VALUES ('a', ?1, 'x')", &values![n])?;
            Ok(std::thread::current().id())
        })
        .await
}

#[tokio::test]
async fn tasks_of_one_thread_are_committed_together() {
    let dir = tempfile::tempdir().unwrap();
    let (store, faults) = with_faults(dir.path()).await;
    let writers: Vec<_> = (0..64)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                for turn in 0..4 {
                    note(&store, n * 4 + turn).await?;
                }
                Ok::<_, StoreError>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    assert_eq!(notes(&store).await, (0..256).collect::<Vec<_>>());
    // 256 transactions; how many share a commit is a matter of timing, that they share is not.
    assert!(faults.commits() < 128, "{} commits", faults.commits());
}

#[tokio::test]
async fn a_lone_transaction_is_committed_where_it_was_asked_for_unless_another_process_is_at_it() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _faults) = with_faults(dir.path()).await;
    let mut here = 0;
    for n in 0..20 {
        here += usize::from(note(&store, n).await.unwrap() == std::thread::current().id());
    }
    // A disk that takes its time is waited for elsewhere.
    assert!(here > 0);
    let other = rusqlite::Connection::open(dir.path().join("longhaul.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { note(&store, 20).await }
    });
    // This thread goes on meanwhile, or it could never end the other transaction.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    other.execute_batch("COMMIT").unwrap();
    assert_ne!(waiting.await.unwrap().unwrap(), std::thread::current().id());
    assert_eq!(notes(&store).await.len(), 21);
}

#[tokio::test]
async fn a_process_that_does_not_let_go_is_told_of_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let settings = StoreSettings { busy_ms_max: 50, ..StoreSettings::new(dir.path()) };
    let store = Store::open(settings, Ambient::system(), &[NOTES]).await.unwrap();
    let other = rusqlite::Connection::open(dir.path().join("longhaul.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = note(&store, 1).await;
    assert!(matches!(refused, Err(StoreError::Locked { .. })), "{refused:?}");
    other.execute_batch("COMMIT").unwrap();
    note(&store, 2).await.unwrap();
    assert_eq!(notes(&store).await, [2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_come_in_the_order_of_their_numbers_whoever_commits() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let task = task(&store, &Scope::single_user(), "t1").await;
    let mut live = store.subscribe();
    // One writer is alone and commits by itself; then there are four, and the writer's thread commits.
    for writers in [1, 4] {
        let writers: Vec<_> = (0..writers)
            .map(|_| {
                let (store, task) = (store.clone(), task.clone());
                tokio::spawn(async move {
                    for _ in 0..50 {
                        let task = task.clone();
                        let draft = EventDraft::internal("note.taken", serde_json::json!({}));
                        store.write(move |tx| tx.append_event(&task, None, None, draft)).await.unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
    }
    let mut last = 0;
    for _ in 0..250 {
        let event = live.recv().await.unwrap();
        assert!(event.seq > last, "{} after {last}", event.seq);
        last = event.seq;
    }
    assert!(live.try_recv().is_err());
}

/// Futures that are dropped at any point leave whole transactions or none, and everybody else goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_go_away_hold_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _faults) = with_faults(dir.path()).await;
    let writers: Vec<_> = (0..8_i64)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for turn in 0..60 {
                    let n = writer * 1000 + turn * 2;
                    let pair = store.write(move |tx| {
                        tx.execute("INSERT INTO notes VALUES ('a', ?1, 'x')", &values![n])?;
                        tx.execute("INSERT INTO notes VALUES ('a', ?1, 'x')", &values![n + 1]).map(drop)
                    });
                    // Each third one is dropped after a moment that may come before, within or after the commit.
                    let patience = if turn % 3 == 0 { Duration::from_micros(turn as u64 * 10) } else { Duration::MAX };
                    if let Ok(outcome) = tokio::time::timeout(patience, pair).await {
                        outcome.map_err(|error: StoreError| error)?;
                        acknowledged.push(n);
                    }
                }
                Ok::<_, StoreError>(acknowledged)
            })
        })
        .collect();
    let all = async {
        let mut acknowledged = Vec::new();
        for writer in writers {
            acknowledged.extend(writer.await.unwrap().unwrap());
        }
        acknowledged
    };
    let acknowledged = tokio::time::timeout(Duration::from_secs(60), all).await.expect("a writer was held up");
    drop(store);
    let found = notes(&open(dir.path()).await).await;
    for n in acknowledged {
        assert!(found.binary_search(&n).is_ok(), "{n} was acknowledged and is not there");
    }
    for n in &found {
        assert!(found.binary_search(&(n ^ 1)).is_ok(), "half of the transaction of {n} is there");
    }
}

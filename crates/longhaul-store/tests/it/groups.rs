//! Group commits of a file: one transaction for many.

use std::task::{Context, Waker};

use longhaul_store::{Store, StoreError, Tx, values};

use crate::support::{notes, open};

fn note(tx: &mut Tx<'_>, n: i64) -> Result<(), StoreError> {
    tx.execute("INSERT INTO notes VALUES ('tenant_a', ?1, 'x')", &values![n]).map(drop)
}

type Outcome = std::pin::Pin<Box<dyn Future<Output = Result<(), StoreError>>>>;

/// A transaction that waits for the writer: its future has been polled once.
fn queued(store: &Store, work: impl FnOnce(&mut Tx<'_>) -> Result<(), StoreError> + Send + 'static) -> Outcome {
    let store = store.clone();
    let mut outcome: Outcome = Box::pin(async move { store.write(work).await });
    let first = outcome.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(first.is_pending(), "{first:?}");
    outcome
}

/// Runs these transactions as one group: the writer is held by another one, on another thread, until all are queued.
async fn as_one_group(store: &Store, group: impl FnOnce() -> Vec<Outcome>) -> Vec<Result<(), StoreError>> {
    let (go, wait) = std::sync::mpsc::channel();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let holder = std::thread::spawn({
        let (store, runtime) = (store.clone(), tokio::runtime::Builder::new_current_thread().build().unwrap());
        move || {
            runtime.block_on(store.write(move |tx| {
                begun.send(()).unwrap();
                wait.recv().unwrap();
                note(tx, 0)
            }))
        }
    });
    has_begun.await.unwrap();
    let group = group();
    go.send(()).unwrap();
    holder.join().unwrap().unwrap();
    let mut outcomes = Vec::new();
    for outcome in group {
        outcomes.push(outcome.await);
    }
    outcomes
}

#[tokio::test]
async fn a_commit_that_fails_is_told_to_everybody_in_its_group() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let outcomes = as_one_group(&store, || {
        vec![
            queued(&store, |tx| note(tx, 1)),
            // A contradiction that the database looks for at the commit only.
            queued(&store, |tx| {
                tx.execute("PRAGMA defer_foreign_keys = ON", &[])?;
                tx.execute("INSERT INTO users VALUES ('tenant_nowhere', 'user_a', 1)", &[]).map(drop)
            }),
            queued(&store, |tx| note(tx, 2)),
        ]
    })
    .await;
    for outcome in &outcomes {
        assert!(matches!(outcome, Err(StoreError::Constraint { .. })), "{outcome:?}");
    }
    store.write(|tx| note(tx, 3)).await.unwrap();
    assert_eq!(notes(&store).await, [0, 3]);
}

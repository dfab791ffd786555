//! Planned deaths behave as real ones: what was refused left nothing behind, what was cut is all there.

use longhaul_core::{Ambient, EventDraft, Scope};
use longhaul_store::{Faults, Store, StoreError, StoreSettings, values};
use serde_json::json;

use crate::support::{NOTES, notes, open, task};

async fn note(store: &Store, n: i64) -> Result<(), StoreError> {
    store.write(move |tx| tx.execute("INSERT INTO notes VALUES ('a', ?1, 'x')", &values![n]).map(drop)).await
}

async fn with_faults(settings: StoreSettings) -> (Store, Faults) {
    let faults = Faults::new();
    let store = Store::open_with_faults(settings, Ambient::system(), &[NOTES], faults.clone()).await.unwrap();
    (store, faults)
}

async fn dies_and_lives_again(settings: StoreSettings) -> Store {
    let (store, faults) = with_faults(settings).await;
    let scope = Scope::single_user();
    note(&store, 1).await.unwrap();
    // What fails by itself is no commit.
    assert!(matches!(note(&store, 1).await, Err(StoreError::Constraint { .. })));
    assert_eq!(faults.commits(), 1);
    faults.die_after(2);
    note(&store, 2).await.unwrap();
    for n in 3..6 {
        let refused = note(&store, n).await;
        assert!(matches!(refused, Err(StoreError::Killed { commits: 2, .. })), "{refused:?}");
    }
    let read = store.read(|read| read.query("SELECT n FROM notes", &[], |row| row.get::<i64>(0))).await;
    assert!(matches!(read, Err(StoreError::Killed { .. })), "{read:?}");
    assert!(matches!(store.blobs().put(&scope, "x").await, Err(StoreError::Killed { .. })));
    faults.revive();
    assert_eq!(notes(&store).await, [1, 2]);
    note(&store, 6).await.unwrap();
    assert_eq!((notes(&store).await, faults.commits()), (vec![1, 2, 6], 3));
    store
}

#[tokio::test]
async fn in_memory_and_on_the_disk_a_death_keeps_what_was_committed_before_it() {
    dies_and_lives_again(StoreSettings::in_memory()).await;
    let dir = tempfile::tempdir().unwrap();
    drop(dies_and_lives_again(StoreSettings::new(dir.path())).await);
    assert_eq!(notes(&open(dir.path()).await).await, [1, 2, 6]);
}

async fn is_cut(settings: StoreSettings) {
    let (store, faults) = with_faults(settings).await;
    let task = task(&store, &Scope::single_user(), "t1").await;
    let mut live = store.subscribe();
    faults.fail_commit_but_keep(faults.commits() + 2);
    note(&store, 1).await.unwrap();
    let cut = store.write(move |tx| {
        tx.append_event(&task, None, None, EventDraft::business("note.taken", json!({})))?;
        tx.execute("INSERT INTO notes VALUES ('a', 2, 'x')", &[])
    });
    assert!(matches!(cut.await, Err(StoreError::OutcomeUnknown { .. })));
    // Nobody was told, as nobody would have been.
    assert!(live.try_recv().is_err());
    note(&store, 3).await.unwrap();
    assert_eq!(notes(&store).await, [1, 2, 3]);
}

#[tokio::test]
async fn a_commit_of_unknown_outcome_has_taken_place() {
    is_cut(StoreSettings::in_memory()).await;
    let dir = tempfile::tempdir().unwrap();
    is_cut(StoreSettings::new(dir.path())).await;
}

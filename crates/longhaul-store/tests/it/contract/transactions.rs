//! Commits, what is undone, snapshots.

use longhaul_store::{Store, StoreError, Tx, values};

use super::{Ground, on};
use crate::support::notes;

on! { file, memory, postgres: a_failing_or_panicking_closure_undoes_only_itself, a_read_cannot_write_and_a_wrong_type_is_named,
a_contradiction_leaves_the_transaction_usable, a_planned_death_and_a_cut_commit_are_told_apart }

mod lasting {
    use super::{
        a_read_sees_one_moment_however_much_is_written_meanwhile, many_writers_lose_nothing, on,
        what_was_acknowledged_is_there_after_reopening,
    };
    on! { file, postgres: what_was_acknowledged_is_there_after_reopening, a_read_sees_one_moment_however_much_is_written_meanwhile, many_writers_lose_nothing }
}

fn note(tx: &mut Tx<'_>, n: i64) -> Result<(), StoreError> {
    tx.execute("INSERT INTO notes VALUES ('tenant_a', ?1, 'x')", &values![n]).map(drop)
}

async fn what_was_acknowledged_is_there_after_reopening(ground: Ground) {
    let store = ground.open().await;
    store.write(|tx| note(tx, 1)).await.unwrap();
    drop(store);
    assert_eq!(notes(&ground.open().await).await, [1]);
}

async fn a_read_sees_one_moment_however_much_is_written_meanwhile(ground: Ground) {
    let store = ground.open().await;
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let reading = tokio::spawn({
        let store = store.clone();
        async move {
            store
                .read(move |read| {
                    let count = |sql| read.query_one(sql, &[], |row| row.get::<i64>(0));
                    let before = count("SELECT count(*) FROM notes")?;
                    begun.send(()).unwrap();
                    wait.recv().unwrap();
                    Ok::<_, StoreError>((before, count("SELECT count(*) FROM notes")?))
                })
                .await
        }
    });
    has_begun.await.unwrap();
    store.write(|tx| note(tx, 1)).await.unwrap();
    go.send(()).unwrap();
    assert_eq!(reading.await.unwrap().unwrap(), (0, 0));
    assert_eq!(notes(&store).await, [1]);
}

async fn a_read_cannot_write_and_a_wrong_type_is_named(ground: Ground) {
    let store = ground.open().await;
    let written = store.read(|read| read.query("INSERT INTO notes VALUES ('a', 1, 'x') RETURNING n", &[], |_| Ok(())));
    assert!(written.await.is_err());
    let error = store.read(|read| read.query_one("SELECT 'x'", &[], |row| row.get::<i64>(0))).await.unwrap_err();
    let error: StoreError = error;
    assert_eq!(error.to_string(), "column 0 holds the text \"x\", not an integer");
}

/// Twenty at once: some share a commit, those that fail are undone alone.
async fn a_failing_or_panicking_closure_undoes_only_itself(ground: Ground) {
    let store = ground.open().await;
    let outcomes: Vec<_> = (1..=20_i64)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                store
                    .write(move |tx| {
                        note(tx, n)?;
                        match n % 3 {
                            0 => note(tx, n),
                            1 => Ok(()),
                            _ => panic!("planned"),
                        }
                    })
                    .await
            })
        })
        .collect();
    for (n, outcome) in (1..).zip(outcomes) {
        let outcome = outcome.await.unwrap();
        match n % 3 {
            0 => assert!(matches!(outcome, Err(StoreError::Constraint { .. })), "{n}: {outcome:?}"),
            1 => assert!(outcome.is_ok(), "{n}: {outcome:?}"),
            _ => assert!(
                matches!(&outcome, Err(StoreError::Panicked { message }) if message == "planned"),
                "{n}: {outcome:?}"
            ),
        }
    }
    assert_eq!(notes(&store).await, [1, 4, 7, 10, 13, 16, 19]);
}

async fn a_contradiction_leaves_the_transaction_usable(ground: Ground) {
    let store = ground.open().await;
    let told = store
        .write(|tx| {
            note(tx, 1)?;
            let twice = note(tx, 1);
            let defect = tx.query("SELECT nothing FROM notes", &[], |_| Ok(()));
            note(tx, 2)?;
            let count = tx.query_one("SELECT count(*) FROM notes", &[], |row| row.get::<i64>(0))?;
            Ok::<_, StoreError>((twice, defect, count))
        })
        .await
        .unwrap();
    assert!(matches!(told, (Err(StoreError::Constraint { .. }), Err(StoreError::Sql { .. }), 2)), "{told:?}");
    assert_eq!(notes(&store).await, [1, 2]);
}

async fn a_planned_death_and_a_cut_commit_are_told_apart(ground: Ground) {
    let (store, faults) = ground.open_with_faults().await;
    let write = |n| store.write(move |tx| note(tx, n));
    write(1).await.unwrap();
    faults.fail_commit_but_keep(2);
    assert!(matches!(write(2).await, Err(StoreError::OutcomeUnknown { .. })));
    faults.die_after(3);
    write(3).await.unwrap();
    assert!(matches!(write(4).await, Err(StoreError::Killed { commits: 3, .. })));
    let read = store.read(|read| read.query("SELECT 1", &[], |_| Ok(()))).await;
    assert!(matches!(read, Err(StoreError::Killed { .. })), "{read:?}");
    faults.revive();
    write(5).await.unwrap();
    assert_eq!(notes(&store).await, [1, 2, 3, 5]);
}

/// Two openings, many writers: what one reads in its transaction is true until its commit.
async fn many_writers_lose_nothing(ground: Ground) {
    let (first, second) = tokio::join!(ground.open(), ground.open());
    let count = |store: &Store| {
        let store = store.clone();
        tokio::spawn(async move {
            store
                .write(|tx| {
                    let last = tx.query_one("SELECT coalesce(max(n), 0) FROM notes", &[], |row| row.get::<i64>(0))?;
                    note(tx, last + 1)
                })
                .await
        })
    };
    let writers: Vec<_> = (0..100).map(|n| count(if n % 2 == 0 { &first } else { &second })).collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    assert_eq!(notes(&first).await, (1..=100).collect::<Vec<_>>());
}

//! Commits, group commits, events, snapshots.

use std::task::{Context, Waker};

use longhaul_core::{EventDraft, Scope};
use longhaul_store::{Store, StoreError, Tx, events, tasks, values};
use serde_json::json;

use crate::support::{notes, open, task};

fn note(tx: &mut Tx<'_>, n: i64) -> Result<(), StoreError> {
    tx.execute("INSERT INTO notes VALUES ('tenant_a', ?1, 'x')", &values![n]).map(drop)
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.write(|tx| note(tx, 1)).await.unwrap();
    drop(store);
    assert_eq!(notes(&open(dir.path()).await).await, [1]);
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
async fn a_failing_or_panicking_closure_undoes_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let transaction = |n: i64| {
        queued(&store, move |tx| {
            note(tx, n)?;
            match n % 3 {
                0 => note(tx, n),
                1 => Ok(()),
                _ => panic!("planned"),
            }
        })
    };
    let outcomes = as_one_group(&store, || (1..=20).map(transaction).collect()).await;
    for (n, outcome) in (1..).zip(&outcomes) {
        match n % 3 {
            0 => assert!(matches!(outcome, Err(StoreError::Constraint { .. })), "{n}: {outcome:?}"),
            1 => assert!(outcome.is_ok(), "{n}: {outcome:?}"),
            _ => assert!(
                matches!(outcome, Err(StoreError::Panicked { message }) if message == "planned"),
                "{n}: {outcome:?}"
            ),
        }
    }
    assert_eq!(notes(&store).await, [0, 1, 4, 7, 10, 13, 16, 19]);
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

#[tokio::test]
async fn events_are_published_after_the_commit_and_never_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let scope = Scope::single_user();
    let task = task(&store, &scope, "t1").await;
    let mut live = store.subscribe();
    for (n, fails) in [(1, false), (2, true), (3, false)] {
        let task = task.clone();
        let outcome = store
            .write(move |tx| {
                tx.append_event(&task, None, Some("a/1"), EventDraft::business("note.taken", json!({ "n": n })))?;
                if fails { Err(StoreError::NoRow { sql: "planned".into() }) } else { Ok(()) }
            })
            .await;
        assert_eq!(outcome.is_err(), fails);
    }
    let logged = store.read(move |read| events(read, &scope, Some(&task.task), 0, 10)).await.unwrap();
    assert_eq!(logged.iter().map(|event| event.data["n"].clone()).collect::<Vec<_>>(), [json!(1), json!(3)]);
    for expected in logged {
        assert_eq!(live.recv().await.unwrap(), expected);
    }
    assert!(live.try_recv().is_err());
}

#[tokio::test]
async fn an_event_that_is_too_large_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let task = task(&store, &Scope::single_user(), "t1").await;
    let draft = EventDraft::internal("too.big", json!("x".repeat(70_000)));
    let error = store.write(move |tx| tx.append_event(&task, None, None, draft).map(drop)).await.unwrap_err();
    assert!(matches!(&error, StoreError::EventTooLarge { kind, bytes: 70_002, .. } if kind == "too.big"), "{error}");
}

#[tokio::test]
async fn nobody_reads_the_rows_of_another_tenant_or_user() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let mine = Scope::single_user();
    let theirs = Scope { tenant: "tenant_other".parse().unwrap(), ..mine.clone() };
    let colleague = Scope { user: "user_other".parse().unwrap(), ..mine.clone() };
    let owned = task(&store, &mine, "t1").await;
    // The same thread name in another tenant is another task.
    task(&store, &theirs, "t1").await;
    let task = owned.clone();
    store.write(move |tx| tx.append_event(&task, None, None, EventDraft::business("a.b", json!({})))).await.unwrap();
    for (scope, expected) in [(mine, 1), (theirs, 0), (colleague, 0)] {
        let (id, reader) = (owned.task.clone(), scope.clone());
        let seen = store.read(move |read| events(read, &reader, Some(&id), 0, 10)).await.unwrap();
        assert_eq!(seen.len(), expected, "{scope:?}");
        let (id, reader) = (owned.task.clone(), scope.clone());
        let found = store.read(move |read| longhaul_store::tasks::get(read, &reader, &id)).await.unwrap();
        assert_eq!(found.is_some(), expected == 1, "{scope:?}");
    }
}

#[tokio::test]
async fn a_read_sees_one_moment_however_much_is_written_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
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

#[tokio::test]
async fn a_read_cannot_write_and_a_wrong_type_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let written = store.read(|read| read.query("INSERT INTO notes VALUES ('a', 1, 'x') RETURNING n", &[], |_| Ok(())));
    assert!(written.await.is_err());
    let error = store.read(|read| read.query_one("SELECT 'x'", &[], |row| row.get::<i64>(0))).await.unwrap_err();
    let error: StoreError = error;
    assert_eq!(error.to_string(), "column 0 holds the text \"x\", not an integer");
}

#[tokio::test]
async fn a_task_is_found_by_what_it_is_known_by_and_its_thread_is_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let scope = Scope::single_user();
    let new = |thread: &str, dir: &str| tasks::NewTask {
        thread: thread.parse().unwrap(),
        kind: "notes".to_owned(),
        title: "聊天应用".to_owned(),
        dir: Some(dir.to_owned()),
        model: None,
        data: json!({ "request": "作る" }),
    };
    let create = |scope: &Scope, session: Option<longhaul_core::SessionId>, new: tasks::NewTask| {
        let scope = scope.clone();
        store.write(move |tx| tasks::create(tx, &scope, session.as_ref(), new))
    };
    let first = create(&scope, None, new("t1", "/a")).await.unwrap();
    let second = create(&scope, Some(first.scope.session.clone()), new("t2", "/a")).await.unwrap();
    assert_eq!(first.scope.session, second.scope.session);
    let taken = create(&scope, None, new("t1", "/b")).await;
    assert!(matches!(taken, Err(StoreError::Constraint { .. })), "{taken:?}");
    let colleague = Scope { user: "user_other".parse().unwrap(), ..scope.clone() };
    let foreign = create(&colleague, Some(first.scope.session.clone()), new("t3", "/b")).await;
    assert!(matches!(foreign, Err(StoreError::Constraint { .. })), "{foreign:?}");

    let (reader, id) = (scope.clone(), first.scope.task.clone());
    store
        .write(move |tx| tasks::update(tx, &reader, &id, Some("/moved"), Some("cassette:demo"), &json!({})))
        .await
        .unwrap();
    let found = store.read(move |read| {
        let by_dir = |dir| tasks::by_dir(read, &scope, dir).map(|task| task.map(|task| task.thread.to_string()));
        let moved = tasks::by_thread(read, &scope, &"t1".parse().unwrap())?.unwrap();
        Ok::<_, StoreError>((by_dir("/a")?, by_dir("/moved")?, moved.model, tasks::list(read, &scope, 10)?.len()))
    });
    let expected = (Some("t2".to_owned()), Some("t1".to_owned()), Some("cassette:demo".to_owned()), 2);
    assert_eq!(found.await.unwrap(), expected);
}

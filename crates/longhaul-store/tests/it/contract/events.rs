//! The event log: numbered, published, everybody's own.

use longhaul_core::{EventDraft, Scope};
use longhaul_store::{StoreError, events};
use serde_json::json;

use super::{Ground, on};
use crate::support::task;

on! { file, memory, postgres: events_are_published_after_the_commit_and_never_without_it, an_event_that_is_too_large_is_refused_by_name,
nobody_reads_the_rows_of_another_tenant_or_user }

mod lasting {
    use super::{on, whoever_reads_on_from_the_last_number_misses_nothing};
    on! { file, postgres: whoever_reads_on_from_the_last_number_misses_nothing }
}

async fn events_are_published_after_the_commit_and_never_without_it(ground: Ground) {
    let store = ground.open().await;
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

async fn an_event_that_is_too_large_is_refused_by_name(ground: Ground) {
    let store = ground.open().await;
    let task = task(&store, &Scope::single_user(), "t1").await;
    let draft = EventDraft::internal("too.big", json!("x".repeat(70_000)));
    let error = store.write(move |tx| tx.append_event(&task, None, None, draft).map(drop)).await.unwrap_err();
    assert!(matches!(&error, StoreError::EventTooLarge { kind, bytes: 70_002, .. } if kind == "too.big"), "{error}");
}

async fn nobody_reads_the_rows_of_another_tenant_or_user(ground: Ground) {
    let store = ground.open().await;
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

/// Eight writers on two openings append; a reader asks again and again for what came after the last number it saw.
async fn whoever_reads_on_from_the_last_number_misses_nothing(ground: Ground) {
    const EACH: usize = 25;
    let (first, second) = tokio::join!(ground.open(), ground.open());
    let scope = Scope::single_user();
    let task = task(&first, &scope, "t1").await;
    let writers: Vec<_> = (0..8)
        .map(|n| {
            let (store, task) = (if n % 2 == 0 { first.clone() } else { second.clone() }, task.clone());
            tokio::spawn(async move {
                for turn in 0..EACH {
                    let task = task.clone();
                    store
                        .write(move |tx| {
                            tx.append_event(&task, None, None, EventDraft::business("a.b", json!({ "n": turn })))?;
                            tx.append_event(&task, None, None, EventDraft::business("a.c", json!({ "n": turn })))
                        })
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    let (mut last, mut seen) = (0, 0);
    while seen < 8 * EACH * 2 {
        let reader = scope.clone();
        let page = second.read(move |read| events(read, &reader, None, last, 1000)).await.unwrap();
        for event in page {
            assert!(event.seq > last);
            last = event.seq;
            seen += 1;
        }
        assert!(
            seen == 8 * EACH * 2 || writers.iter().any(|w| !w.is_finished()) || {
                // All have ended: whatever is still to come is there now.
                let reader = scope.clone();
                !second.read(move |read| events(read, &reader, None, last, 1)).await.unwrap().is_empty()
            },
            "{seen} seen, and no more come"
        );
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

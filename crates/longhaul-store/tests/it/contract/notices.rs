//! Hints from one process to another.

use std::time::Duration;

use longhaul_store::{NOTICE_BYTES_MAX, Notice, Notices, StoreError, Tx};

use super::{Ground, on};
use crate::support::notes;

on! { file, memory, postgres: a_notice_is_heard_after_its_commit_and_not_without_it, a_notice_that_is_too_large_is_refused }

mod lasting {
    use super::{on, other_openings_hear_that_there_is_something, other_openings_hear_what_was_said};
    on! { file: other_openings_hear_that_there_is_something }
    on! { postgres: other_openings_hear_what_was_said }
}

async fn next(notices: &mut Notices) -> Notice {
    tokio::time::timeout(Duration::from_secs(20), notices.next()).await.expect("no notice came").expect("closed")
}

async fn a_notice_is_heard_after_its_commit_and_not_without_it(ground: Ground) {
    let store = ground.open().await;
    let mut heard = store.listen("work");
    for (payload, channel, fails) in
        [("undone", "work", true), ("elsewhere", "rest", false), ("作業 1\n2", "work", false)]
    {
        let sent = store
            .write(move |tx| {
                tx.notify(channel, payload)?;
                if fails { Err(StoreError::NoRow { sql: "planned".into() }) } else { Ok(()) }
            })
            .await;
        assert_eq!(sent.is_err(), fails);
    }
    // A file's store says nothing of its own writes but what was said.
    let mut notice = next(&mut heard).await;
    while notice.payload.is_none() {
        notice = next(&mut heard).await;
    }
    assert_eq!(notice.payload.as_deref(), Some("作業 1\n2"));
}

async fn other_openings_hear_that_there_is_something(ground: Ground) {
    let (store, other) = (ground.open().await, ground.open_on("elsewhere").await);
    let mut heard = other.listen("work");
    // The first look.
    next(&mut heard).await;
    store.write(|tx| tx.execute("INSERT INTO notes VALUES ('a', 1, 'x')", &[])).await.unwrap();
    assert_eq!(next(&mut heard).await.payload, None);
    assert_eq!(notes(&other).await, [1]);
}

async fn other_openings_hear_what_was_said(ground: Ground) {
    let (store, other) = (ground.open().await, ground.open_on("elsewhere").await);
    let mut heard = other.listen("work");
    let said = |tx: &mut Tx<'_>| {
        tx.notify("work", "1")?;
        tx.execute("INSERT INTO notes VALUES ('a', 1, 'x')", &[])
    };
    store.write(said).await.unwrap();
    assert_eq!(next(&mut heard).await.payload.as_deref(), Some("1"));
    assert_eq!(notes(&other).await, [1]);
}

async fn a_notice_that_is_too_large_is_refused(ground: Ground) {
    let store = ground.open().await;
    let payload = "x".repeat(NOTICE_BYTES_MAX);
    let exact = payload[4..].to_owned();
    let refused = store.write(move |tx| tx.notify("work", &payload)).await;
    assert!(matches!(refused, Err(StoreError::NoticeTooLarge { .. })), "{refused:?}");
    store.write(move |tx| tx.notify("work", &exact)).await.unwrap();
}

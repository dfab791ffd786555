//! How long records are kept, what holds them, and that nothing is left behind.

use std::time::Duration;

use longhaul_store::StoreError;
use longhaul_workspace::{
    Filter, Find, Ingest, Kind, NewLink, NewMilestone, Relation, RetentionRule, Workspace, WorkspaceError,
};

use crate::ground::{Ground, note, owner};

async fn count(ground: &Ground, table: &'static str) -> i64 {
    let sql = format!("select count(*) from {table}");
    let rows = ground.store.read(move |read| read.query_one(&sql, &[], |row| row.get::<i64>(0)));
    rows.await.map_err(|error: StoreError| error).unwrap()
}

#[tokio::test]
async fn what_has_expired_is_found_by_nobody_and_goes_with_all_it_had() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let until = |text: &str, minutes| Ingest { expires_at: Some(ground.clock.at(minutes)), ..note(text) };
    let (shared, large) = ("shared harbour words", "a large harbour ".repeat(2_000));
    let stays = task.ingest(note(shared)).await.unwrap();
    let goes = task.ingest(until(shared, 10)).await.unwrap();
    task.ingest(until("alone in the harbour", 10)).await.unwrap();
    task.ingest(until(&large, 10)).await.unwrap();
    let held = task.ingest(until("needed for recovery", 10)).await.unwrap();
    task.reach(NewMilestone { name: "m".into(), refs: vec![held.clone()], ..NewMilestone::default() }).await.unwrap();
    task.link(NewLink::new(&goes.id, Relation::Supports, &stays.id)).await.unwrap();
    assert_eq!(task.search(&Find::new("harbour", 9)).await.unwrap().hits.len(), 4);

    ground.clock.advance_minutes(11);
    assert!(matches!(task.read(&goes).await, Err(WorkspaceError::NoSuchRecord(_))));
    assert_eq!(task.search(&Find::new("harbour", 9)).await.unwrap().hits.len(), 1);
    assert_eq!(task.list(Filter::default(), None, 9).await.unwrap().records.len(), 2);
    let tended = ground.workspace.tend(Duration::ZERO).await.unwrap();
    assert_eq!((tended.records, tended.contents, tended.links), (3, 1, 1));
    assert_eq!((count(&ground, "records").await, count(&ground, "contents").await), (2, 2));
    assert_eq!(ground.memory.sweep_expired().await.unwrap(), 21);
    assert_eq!(task.read(&stays).await.unwrap().1, shared.as_bytes());
    assert_eq!(task.read(&held).await.unwrap().1, b"needed for recovery");
    assert_eq!(ground.workspace.tend(Duration::ZERO).await.unwrap().records, 0);
}

#[tokio::test]
async fn rules_say_how_long_what_is_kept() {
    let ground = Ground::new().await;
    let rule = |collection: Option<&str>, kind, minutes: i64| RetentionRule {
        collection: collection.map(Into::into),
        kind,
        keep_ms: minutes * 60_000,
    };
    let rules = vec![rule(Some("logs"), None, 10), rule(None, Some(Kind::Observation), 20)];
    let workspace = Workspace::with_retention(ground.store.clone(), ground.memory.clone(), rules);
    let task = workspace.task(&owner("t", "a", "1"));
    let own = ground.clock.at(5);
    for (collection, kind, said, expected) in [
        ("logs", Kind::Observation, None, Some(ground.clock.at(10))),
        ("pages", Kind::Observation, None, Some(ground.clock.at(20))),
        ("pages", Kind::Decision, None, None),
        ("logs", Kind::Note, Some(own), Some(own)),
    ] {
        let what = Ingest { expires_at: said, ..Ingest::new(kind, collection, "s", "agent", "x") };
        let kept = task.ingest(what).await.unwrap();
        assert_eq!(task.get(&kept).await.unwrap().expires_at, expected);
    }
}

#[tokio::test]
async fn a_sweep_removes_what_no_record_holds_and_nothing_else() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let large = |n: usize| format!("{n} ").repeat(20_000);
    let kept = task.ingest(note(&large(1))).await.unwrap();
    let staged = task.stage(note(&large(2))).await.unwrap();
    ground.clock.advance_minutes(24 * 60);
    ground.workspace.tend(Duration::from_secs(3_600)).await.unwrap();
    assert_eq!(task.read(&kept).await.unwrap().0.size, large(1).len() as u64);
    let swept = ground.workspace.tend(Duration::ZERO).await.unwrap().blobs;
    assert!(swept.kept >= 1, "{swept:?}");
    let gone = ground.store.blobs().get(&task.owner().scope, &staged.reference().digest).await;
    assert!(matches!(gone, Err(StoreError::BlobMissing { .. })), "{gone:?}");
    assert_eq!(task.read(&kept).await.unwrap().0.size, large(1).len() as u64);
}

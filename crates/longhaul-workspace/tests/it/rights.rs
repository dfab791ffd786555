//! Who may see and write what, within a tenant and beyond it.

use longhaul_core::{RecordId, Scope};
use longhaul_memory::{
    Grantee,
    user::{Switches, UserMemory},
};
use longhaul_store::{StoreError, tasks};
use longhaul_workspace::{Filter, Find, NewLink, NewMilestone, Relation, WorkspaceError, partition_of};

use crate::ground::{Ground, note, owner, scope};

#[tokio::test]
async fn others_find_nothing_even_by_id() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let kept = task.ingest(note("the secret harbour")).await.unwrap();
    for (tenant, user) in [("other", "a"), ("t", "b")] {
        let foreign = ground.workspace.user(&scope(tenant, user));
        assert!(matches!(foreign.read(&kept).await, Err(WorkspaceError::NoSuchRecord(_))));
        assert!(matches!(foreign.get(&kept.id).await, Err(WorkspaceError::NoSuchRecord(_))));
        assert!(matches!(foreign.links(kept.id.as_str()).await, Err(WorkspaceError::NoSuchEnd { .. })));
        assert!(foreign.search(&Find::new("harbour", 5)).await.unwrap().hits.is_empty());
        assert!(foreign.tasks(10).await.unwrap().is_empty());
        // The same task's name, said by somebody else.
        let theirs = ground.workspace.task(&owner(tenant, user, "1"));
        let mine = theirs.ingest(note("mine")).await;
        let reached = NewMilestone { name: "m".into(), refs: vec![kept.clone()], ..NewMilestone::default() };
        assert!(matches!(theirs.reach(reached).await, Err(WorkspaceError::NoSuchRecord(_))));
        if tenant == "other" {
            mine.unwrap();
            assert_eq!(theirs.list(Filter::default(), None, 9).await.unwrap().records.len(), 1);
        } else {
            assert!(matches!(mine, Err(WorkspaceError::NoAccess { .. })), "{mine:?}");
            assert!(matches!(theirs.list(Filter::default(), None, 9).await, Err(WorkspaceError::NoAccess { .. })));
            assert!(matches!(theirs.search(&Find::new("x", 5)).await, Err(WorkspaceError::NoAccess { .. })));
        }
    }
}

#[tokio::test]
async fn a_grant_on_the_tasks_partition_opens_it_and_taking_it_back_closes_it() {
    let ground = Ground::new().await;
    let (task, other) = (ground.task("1"), ground.workspace.task(&owner("t", "b", "1")));
    let kept = task.ingest(note("the harbour opens at six")).await.unwrap();
    let (mine, theirs) = (scope("t", "a"), scope("t", "b"));
    let (partition, grantee) = (partition_of(&task.owner().task), Grantee::User(theirs.user.clone()));

    ground.memory.grant(&mine, &partition, &grantee, false).await.unwrap();
    assert_eq!(other.read(&kept).await.unwrap().1, b"the harbour opens at six");
    assert_eq!(other.search(&Find::new("harbour", 5)).await.unwrap().hits.len(), 1);
    assert_eq!(other.user().search(&Find::new("harbour", 5)).await.unwrap().hits.len(), 1);
    assert!(matches!(other.ingest(note("x")).await, Err(WorkspaceError::NoAccess { .. })));

    ground.memory.grant(&mine, &partition, &grantee, true).await.unwrap();
    let answer = other.ingest(note("and closes at ten")).await.unwrap();
    other.link(NewLink::new(&answer.id, Relation::Answers, &kept.id)).await.unwrap();
    // The owner sees what was written into the task; the writer goes on seeing their own.
    assert_eq!(task.list(Filter::default(), None, 9).await.unwrap().records.len(), 2);
    ground.memory.revoke(&mine, &partition, &grantee).await.unwrap();
    assert!(matches!(other.read(&kept).await, Err(WorkspaceError::NoSuchRecord(_))));
    assert!(other.user().links(answer.id.as_str()).await.unwrap().is_empty());
    assert_eq!(other.read(&answer).await.unwrap().1, b"and closes at ten");
    assert_eq!(task.read(&answer).await.unwrap().0.owner.scope, theirs);
}

#[tokio::test]
async fn a_tasks_records_belong_to_the_tasks_user() {
    let ground = Ground::new().await;
    let mine = scope("t", "a");
    let writer = mine.clone();
    let task = ground.store.write(move |tx| {
        let new = tasks::NewTask {
            thread: "project".parse().expect("a literal thread id"),
            kind: "review".into(),
            title: "a review".into(),
            dir: None,
            model: None,
            data: serde_json::json!({}),
        };
        tasks::create(tx, &writer, None, new)
    });
    let task = task.await.map_err(|error: StoreError| error).unwrap();
    let mut stranger = task.scope.clone();
    stranger.scope = Scope { user: scope("t", "b").user, ..mine };
    let first = ground.workspace.task(&stranger).ingest(note("first!")).await;
    assert!(matches!(first, Err(WorkspaceError::NoAccess { .. })), "{first:?}");
    ground.workspace.task(&task.scope).ingest(note("mine")).await.unwrap();
    let nobody = ground.workspace.task(&task.scope).get(&RecordId::from_body("x")).await;
    assert!(matches!(nobody, Err(WorkspaceError::NoSuchRecord(_))));
}

#[tokio::test]
async fn a_user_whose_memory_is_off_keeps_records_that_nobody_searches() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let off = Switches { memory: false, implicit: false };
    UserMemory::new(ground.memory.clone()).switch(&scope("t", "a"), off).await.unwrap();
    let kept = task.ingest(note("the harbour")).await.unwrap();
    assert_eq!(task.read(&kept).await.unwrap().1, b"the harbour");
    let found = task.search(&Find::new("harbour", 5)).await.unwrap();
    assert!(found.hits.is_empty() && found.notes[0].contains("switched off"), "{found:?}");
}

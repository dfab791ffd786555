//! Milestones: a name, a checkpoint, and refs that hold.

use longhaul_core::{Digest, ExecutionId};
use longhaul_store::{StoreError, events};
use longhaul_workspace::{NewMilestone, WorkspaceError};

use crate::ground::{Ground, note};

fn named(name: &str) -> NewMilestone {
    NewMilestone { name: name.to_owned(), ..NewMilestone::default() }
}

#[tokio::test]
async fn a_milestone_is_found_by_its_task_and_never_replaced() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let draft = task.ingest(note("a draft")).await.unwrap();
    let reached =
        NewMilestone { refs: vec![draft.clone()], note: Some("危険を確認".into()), ..named("risk-review") };
    let first = task.reach(reached.clone()).await.unwrap();
    let again = task.reach(reached.clone()).await.unwrap_err();
    assert!(matches!(&again, WorkspaceError::MilestoneTaken { version: 1, milestone, .. } if *milestone == first.id));
    assert!(again.to_string().contains("revise: true"), "{again}");
    let second = task.reach(NewMilestone { revise: true, ..reached }).await.unwrap();
    ground.clock.advance_minutes(1);
    task.reach(named("done")).await.unwrap();

    assert_eq!(task.milestone("risk-review").await.unwrap(), Some(second.clone()));
    assert_eq!((second.version, &second.refs), (2, &vec![draft]));
    let names: Vec<_> = task.milestones(10).await.unwrap().into_iter().map(|m| (m.name, m.version)).collect();
    assert_eq!(names, [("done".into(), 1), ("risk-review".into(), 2), ("risk-review".into(), 1)]);
    assert_eq!(ground.task("2").milestone("risk-review").await.unwrap(), None);
    let owner = task.owner().clone();
    let log = ground.store.read(move |read| events(read, &owner.scope, Some(&owner.task), 0, 10)).await;
    let log = log.map_err(|error: StoreError| error).unwrap();
    assert_eq!(log.iter().filter(|event| event.kind == "milestone.reached").count(), 3);
}

#[tokio::test]
async fn a_milestone_points_only_to_what_is_there() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let kept = task.ingest(note("a draft")).await.unwrap();
    let mut other = kept.clone();
    other.digest = Digest::of("something else");
    let mut gone = kept.clone();
    gone.id = "rec_gone".parse().unwrap();
    let with = |refs| NewMilestone { refs, ..named("m") };
    assert!(matches!(task.reach(with(vec![kept.clone(), other])).await, Err(WorkspaceError::DigestMismatch { .. })));
    assert!(matches!(task.reach(with(vec![gone])).await, Err(WorkspaceError::NoSuchRecord(_))));
    assert!(matches!(task.reach(with(vec![kept; 300])).await, Err(WorkspaceError::Field { name: "refs", .. })));
    // This store knows no executions at all.
    let execution = Some(ExecutionId::from_body("none"));
    let refused = task.reach(NewMilestone { execution, ..named("m") }).await;
    assert!(matches!(refused, Err(WorkspaceError::UnknownEnd { .. })), "{refused:?}");
    let refused = task.reach(NewMilestone { superstep: Some(3), ..named("m") }).await;
    assert!(matches!(refused, Err(WorkspaceError::Field { name: "superstep", .. })));
    assert!(matches!(task.reach(named("")).await, Err(WorkspaceError::Field { name: "name", .. })));
    assert_eq!(task.milestones(10).await.unwrap(), []);
}

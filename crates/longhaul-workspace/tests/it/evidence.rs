//! Links: both ends are there; and what stands behind a decision is found along them.

use longhaul_core::RecordId;
use longhaul_store::{StoreError, tasks};
use longhaul_workspace::{Ingest, Kind, NewLink, RecordRef, Relation, TaskWorkspace, Toward, WorkspaceError};

use crate::ground::{Ground, note, owner, scope};

async fn kept(task: &TaskWorkspace, kind: Kind, summary: &str) -> RecordRef {
    task.ingest(Ingest::new(kind, "review", summary, "tool:reader", summary)).await.unwrap()
}

fn ids(graph: &longhaul_workspace::EvidenceGraph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.summary.as_deref().unwrap_or(node.id.as_str())).collect()
}

#[tokio::test]
async fn both_ends_must_be_there() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let here = task.ingest(note("here")).await.unwrap();
    let foreign = ground.workspace.task(&owner("other", "a", "1")).ingest(note("there")).await.unwrap();
    let others = ground.workspace.task(&owner("t", "b", "2")).ingest(note("b's")).await.unwrap();
    let gone = RecordId::from_body("gone");
    for target in [gone.as_str(), foreign.id.as_str(), others.id.as_str(), "task_none", "mem_none", "msg_none"] {
        for (source, target) in [(here.id.as_str(), target), (target, here.id.as_str())] {
            let refused = task.link(NewLink::new(source, Relation::Supports, target)).await;
            assert!(matches!(refused, Err(WorkspaceError::NoSuchEnd { .. })), "{source} {target}: {refused:?}");
        }
    }
    for unknown in ["", "nothing", "verdict_1", "rec_/1", "exec_1/a/1/b#1", "' or 1=1 --_x"] {
        let refused = task.link(NewLink::new(&here.id, Relation::Supports, unknown)).await.unwrap_err();
        assert!(matches!(&refused, WorkspaceError::UnknownEnd { .. }), "{unknown}: {refused:?}");
        assert!(refused.to_string().contains("rec_"), "{refused}");
    }
    let itself = task.link(NewLink::new(&here.id, Relation::Supports, &here.id)).await;
    assert!(matches!(itself, Err(WorkspaceError::Field { name: "target", .. })));
    assert!("NO".parse::<Relation>().is_err());
    assert!(task.user().links(here.id.as_str()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_link_is_stored_once_between_whatever_the_store_knows() {
    let ground = Ground::new().await;
    let writer = scope("t", "a");
    let row = ground.store.write(move |tx| {
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
    let row = row.await.map_err(|error: StoreError| error).unwrap();
    let task = ground.workspace.task(&row.scope);
    let here = task.ingest(note("here")).await.unwrap();
    let link = NewLink {
        note: Some("なぜなら".into()),
        ..NewLink::new(&here.id, "blocks".parse().unwrap(), &row.scope.task)
    };
    task.link(link.clone()).await.unwrap();
    task.link(link).await.unwrap();
    task.link(NewLink::new(&here.id, Relation::Cites, &row.scope.session)).await.unwrap();
    let links = task.user().links(row.scope.task.as_str()).await.unwrap();
    assert_eq!((links.len(), links[0].relation.as_str(), links[0].note.as_deref()), (1, "blocks", Some("なぜなら")));
    assert_eq!(task.user().links(here.id.as_str()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn what_supports_a_decision_and_what_became_of_an_observation() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let page = kept(&task, Kind::Observation, "page 12").await;
    let other = kept(&task, Kind::Observation, "page 20").await;
    let finding = kept(&task, Kind::Evidence, "the clause is missing").await;
    let doubt = kept(&task, Kind::Evidence, "an annex has it").await;
    let decision = kept(&task, Kind::Decision, "high risk").await;
    let report = kept(&task, Kind::Artifact, "report").await;
    for (source, relation, target) in [
        (&finding, Relation::DerivedFrom, &page),
        (&finding, Relation::Supports, &decision),
        (&doubt, Relation::Refutes, &decision),
        (&doubt, Relation::Cites, &other),
        (&report, Relation::DerivedFrom, &decision),
        // A circle that somebody made.
        (&page, Relation::DerivedFrom, &report),
    ] {
        task.link(NewLink::new(&source.id, relation, &target.id)).await.unwrap();
        // They are told in the order in which they were made.
        ground.clock.advance_minutes(1);
    }
    let user = task.user();
    let behind = user.supports(decision.id.as_str()).await.unwrap();
    assert_eq!(behind.nodes.len(), 6);
    assert_eq!(ids(&behind)[..3], ["high risk", "the clause is missing", "an annex has it"]);
    let near = user.walk(decision.id.as_str(), Toward::Origins, 1).await.unwrap();
    assert_eq!((near.nodes.len(), near.links.len(), near.truncated), (3, 2, true));
    let became = user.became(other.id.as_str()).await.unwrap();
    assert_eq!(ids(&became)[..4], ["page 20", "an annex has it", "high risk", "report"]);
    let around = user.walk(finding.id.as_str(), Toward::Both, 1).await.unwrap();
    assert_eq!(around.nodes.len(), 3);

    let picture = near.mermaid();
    let expected = format!(
        "flowchart TD\n    n0[\"decision: high risk<br/>{}\"]\n    n1[\"evidence: the clause is missing<br/>{}\"]\n    \
         n2[\"evidence: an annex has it<br/>{}\"]\n    n1 -->|supports| n0\n    n2 -->|refutes| n0\n    more[\"and more\"]\n",
        decision.id, finding.id, doubt.id
    );
    assert_eq!(picture, expected);
}

//! Shared knowledge: proposed with evidence, decided by a person, versioned, rolled back; facts are what was approved.

use longhaul_core::{Scope, TaskId};
use longhaul_memory::{
    Grantee, Kind, Namespace, NewMemory, Source,
    user::{Actor, By},
};
use longhaul_store::events;
use longhaul_workspace::review::{
    NewProposal, ReviewError, ReviewState, Reviewed, SharedKnowledge, Standing, shared_partition,
};
use serde_json::{Value, json};

use crate::ground::{Ground, note, owner, scope};

struct Desk {
    ground: Ground,
    evidence: String,
}

fn agent() -> Actor {
    Actor::Agent("coder".into())
}

fn person(scope: &Scope) -> By {
    By::person(&scope.user)
}

impl Desk {
    async fn new() -> Self {
        let ground = Ground::new().await;
        let evidence = ground.task("t1").ingest(note("netstat shows port 8080")).await.unwrap().id.to_string();
        let desk = Self { ground, evidence };
        let schema = json!({"type": "object", "required": ["port"], "properties": {"port": {"type": "integer"}}});
        desk.knowledge().define_schema("port@1", schema.clone()).await.unwrap();
        desk.knowledge().define_schema("port@1", schema).await.unwrap();
        desk
    }

    fn knowledge(&self) -> SharedKnowledge {
        self.of("a")
    }

    fn of(&self, user: &str) -> SharedKnowledge {
        self.ground.workspace.user(&scope("t", user)).shared_knowledge()
    }

    async fn propose(&self, value: Value) -> Result<Reviewed, ReviewError> {
        let new = NewProposal::set("billing/port", "port@1", value, agent()).because("seen in the log");
        self.ground.task("t1").propose(new.shown_by(&self.evidence)).await
    }

    async fn approved(&self, port: u32) -> Reviewed {
        let proposal = self.propose(json!({"port": port, "what": "the billing gateway"})).await.unwrap();
        self.knowledge().approve(&proposal.id, &person(&scope("t", "a"))).await.unwrap()
    }

    async fn facts(&self, user: &str) -> Vec<u32> {
        let facts = self.of(user).facts("port of the billing gateway", 10).await.unwrap();
        facts.into_iter().map(|fact| port(&fact.standing)).collect()
    }
}

fn port(standing: &Standing) -> u32 {
    let Standing::Approved { version } = standing else { panic!("{standing:?}") };
    version.said.as_ref().and_then(|said| said.value["port"].as_u64()).unwrap_or_default() as u32
}

#[tokio::test]
async fn a_fact_is_what_a_person_approved() {
    let desk = Desk::new().await;
    let proposal = desk.propose(json!({"port": 8080, "what": "the billing gateway"})).await.unwrap();
    assert_eq!((proposal.state, proposal.base_version), (ReviewState::Pending, 0));
    assert_eq!(desk.facts("a").await, Vec::<u32>::new());
    assert_eq!(desk.knowledge().get("billing/port").await.unwrap(), None);
    // Neither an agent, nor the background, nor somebody else's name decides.
    for by in [By::agent("coder", None), By::system("sure enough"), person(&scope("t", "b"))] {
        let refused = desk.knowledge().approve(&proposal.id, &by).await;
        assert!(matches!(refused, Err(ReviewError::NotAPerson { .. })), "{refused:?}");
    }
    let by = By { why: "I looked".into(), ..person(&scope("t", "a")) };
    let applied = desk.knowledge().approve(&proposal.id, &by).await.unwrap();
    assert_eq!(
        (applied.state, applied.version, applied.note.as_deref()),
        (ReviewState::Applied, Some(1), Some("I looked"))
    );
    assert_eq!(desk.facts("a").await, [8080]);
    // Everybody of the tenant reads; nobody of another does.
    assert_eq!(desk.facts("b").await, [8080]);
    let elsewhere = desk.ground.workspace.user(&scope("t2", "a")).shared_knowledge();
    assert!(elsewhere.facts("billing gateway port", 5).await.unwrap().is_empty());
    assert!(elsewhere.get("billing/port").await.unwrap().is_none());
    assert!(matches!(elsewhere.proposal(&proposal.id).await, Err(ReviewError::NoProposal { .. })));
    let again = desk.knowledge().approve(&proposal.id, &by).await;
    assert!(matches!(again, Err(ReviewError::Decided { .. })), "{again:?}");
    // The evidence is linked to the proposal, and each step is an event without the value.
    let links = desk.ground.workspace.user(&scope("t", "a")).links(&proposal.id.to_string()).await.unwrap();
    assert_eq!(
        (links.len(), links[0].source.as_str(), links[0].relation.as_str()),
        (1, desk.evidence.as_str(), "supports")
    );
    let (seen, task): (Scope, TaskId) = (scope("t", "a"), owner("t", "a", "t1").task);
    let log = desk.ground.store.read(move |read| events(read, &seen, Some(&task), 0, 100)).await.unwrap();
    let kinds: Vec<&str> =
        log.iter().map(|event| event.kind.as_str()).filter(|kind| kind.starts_with("shared")).collect();
    assert_eq!(kinds, ["shared.proposed", "shared.approved"]);
    assert!(!log.iter().any(|event| event.kind.starts_with("shared") && event.data.to_string().contains("8080")));
}

#[tokio::test]
async fn what_waits_was_rejected_or_rolled_back_is_no_fact() {
    let desk = Desk::new().await;
    desk.approved(8080).await;
    desk.approved(9090).await;
    assert_eq!(desk.facts("a").await, [9090]);
    let rejected = desk.propose(json!({"port": 1, "what": "the billing gateway"})).await.unwrap();
    let by = By { why: "a typo".into(), ..person(&scope("t", "a")) };
    desk.knowledge().reject(&rejected.id, &by).await.unwrap();
    let again = desk.propose(json!({"port": 1, "what": "the billing gateway"})).await.unwrap_err();
    assert!(again.to_string().contains("(a typo); propose it again with other evidence"), "{again}");
    assert_eq!(desk.facts("a").await, [9090]);

    let back = desk.knowledge().rollback("billing/port", 1, &by).await.unwrap();
    assert_eq!((back.version, back.of_version, port_of(&back)), (3, Some(1), 8080));
    assert_eq!(desk.facts("a").await, [8080]);
    let nothing = desk.knowledge().rollback("billing/port", 0, &by).await.unwrap();
    assert_eq!((nothing.version, nothing.said), (4, None));
    assert_eq!(desk.facts("a").await, Vec::<u32>::new());
    assert!(desk.knowledge().entries("", 10).await.unwrap().is_empty());
    desk.knowledge().rollback("billing/port", 2, &by).await.unwrap();
    assert_eq!(desk.facts("a").await, [9090]);
    let history = desk.knowledge().history("billing/port").await.unwrap();
    assert_eq!(history.iter().map(|version| version.version).collect::<Vec<_>>(), [5, 4, 3, 2, 1]);
    for (key, version) in [("billing/port", 6), ("unheard/of", 1)] {
        let missing = desk.knowledge().rollback(key, version, &by).await;
        assert!(matches!(missing, Err(ReviewError::NoVersion { .. })), "{missing:?}");
    }
    // An entry goes by a proposal as well.
    let retire = NewProposal::retire("billing/port", agent()).shown_by(&desk.evidence);
    let gone = desk.ground.task("t1").propose(retire).await.unwrap();
    desk.knowledge().approve(&gone.id, &by).await.unwrap();
    assert_eq!(desk.facts("a").await, Vec::<u32>::new());
}

fn port_of(version: &longhaul_workspace::review::SharedVersion) -> u64 {
    version.said.as_ref().and_then(|said| said.value["port"].as_u64()).unwrap_or_default()
}

#[tokio::test]
async fn a_proposal_needs_evidence_a_schema_and_a_value_that_fits() {
    let desk = Desk::new().await;
    let task = desk.ground.task("t1");
    let set = |value: Value| NewProposal::set("billing/port", "port@1", value, agent());
    let bare = task.propose(set(json!({"port": 1}))).await;
    assert!(matches!(bare, Err(ReviewError::NoEvidence)), "{bare:?}");
    let theirs = desk.ground.workspace.task(&owner("t", "b", "t9")).ingest(note("private")).await.unwrap();
    for missing in ["rec_none", theirs.id.as_str(), "nonsense_1"] {
        let refused = task.propose(set(json!({"port": 1})).shown_by(missing)).await;
        assert!(matches!(refused, Err(ReviewError::Workspace(_))), "{missing}: {refused:?}");
    }
    let misfit = desk.propose(json!({"port": "eighty"})).await.unwrap_err();
    assert!(misfit.to_string().contains("content.port"), "{misfit}");
    let unknown = NewProposal::set("a", "nobody@1", json!(1), agent()).shown_by(&desk.evidence);
    let unknown = task.propose(unknown).await.unwrap_err();
    assert!(unknown.to_string().contains("there are: port@1"), "{unknown}");
    let otherwise = desk.knowledge().define_schema("port@1", json!({"type": "string"})).await;
    assert!(matches!(otherwise, Err(ReviewError::SchemaTaken { .. })), "{otherwise:?}");
    assert!(desk.knowledge().define_schema("bad@1", json!({"type": 7})).await.is_err());
    assert!(desk.knowledge().proposals(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn who_may_decide_is_who_was_granted_it() {
    let desk = Desk::new().await;
    desk.approved(8080).await;
    let theirs = NewProposal::set("billing/port", "port@1", json!({"port": 7}), agent());
    let their_task = desk.ground.workspace.task(&owner("t", "b", "t2"));
    let shown = their_task.ingest(note("seen by b")).await.unwrap();
    let proposal = their_task.propose(theirs.shown_by(&shown.id)).await.unwrap();
    let (b, a) = (scope("t", "b"), scope("t", "a"));
    let refused = desk.of("b").approve(&proposal.id, &person(&b)).await;
    assert!(matches!(refused, Err(ReviewError::Memory(_))), "{refused:?}");
    assert!(desk.of("b").rollback("billing/port", 0, &person(&b)).await.is_err());
    // One's own are seen, those of others only by who decides.
    assert_eq!(desk.of("b").proposals(None).await.unwrap().len(), 1);
    assert_eq!(desk.knowledge().proposals(None).await.unwrap().len(), 2);
    assert!(desk.of("c").proposals(None).await.unwrap().is_empty());
    let grantee = Grantee::User(b.user.clone());
    desk.ground.memory.grant(&a, &shared_partition(), &grantee, true).await.unwrap();
    desk.of("b").approve(&proposal.id, &person(&b)).await.unwrap();
    assert_eq!(desk.knowledge().get("billing/port").await.unwrap().map(|version| port_of(&version)), Some(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_rest_on_one_version_one_is_applied() {
    let desk = Desk::new().await;
    let one = desk.propose(json!({"port": 1})).await.unwrap();
    let other = desk.propose(json!({"port": 2})).await.unwrap();
    let (knowledge, by) = (desk.knowledge(), person(&scope("t", "a")));
    let (first, second) = tokio::join!(knowledge.approve(&one.id, &by), knowledge.approve(&other.id, &by));
    assert_eq!([first.is_ok(), second.is_ok()].iter().filter(|ok| **ok).count(), 1, "{first:?} {second:?}");
    let lost = first.err().or(second.err()).unwrap();
    assert!(matches!(lost, ReviewError::Outdated { base: 0, now: 1, .. }), "{lost}");
    // What wants the same and waits is one proposal with the evidence of both.
    let three = desk.propose(json!({"port": 3})).await.unwrap();
    let more = desk.ground.task("t1").ingest(note("seen again")).await.unwrap();
    let again = NewProposal::set("billing/port", "port@1", json!({"port": 3}), agent()).shown_by(&more.id);
    let again = desk.ground.task("t1").propose(again).await.unwrap();
    assert_eq!((again.id == three.id, again.evidence.len()), (true, 2));
}

#[tokio::test]
async fn what_was_merely_written_down_is_labelled_as_such() {
    let desk = Desk::new().await;
    desk.approved(8080).await;
    let a = scope("t", "a");
    for (kind, text) in [
        (Kind::Episode, "the billing gateway answered on port 9999"),
        (Kind::Fact, "the billing gateway's port is 4711, says an unreviewed fact"),
    ] {
        desk.ground.memory.add(&a, NewMemory::new("project", kind, Source::Agent, text)).await.unwrap();
    }
    // Even the owner of the partition cannot slip a fact in beside the versions.
    let mut slipped = NewMemory::new("shared", Kind::Fact, Source::Agent, "billing/port\nthe billing gateway port: 1");
    slipped.namespace = shared_partition();
    desk.ground.memory.add(&a, slipped).await.unwrap();
    let recalled = desk.knowledge().recall("port of the billing gateway", 10, &[Namespace::default()]).await.unwrap();
    assert_eq!(recalled.len(), 2, "{recalled:?}");
    assert_eq!(port(&recalled[0].standing), 8080);
    assert!(
        matches!(&recalled[1].standing, Standing::Episodic { kind: Kind::Episode, source: Source::Agent, .. }),
        "{recalled:?}"
    );
    assert_eq!(desk.facts("a").await, [8080]);
}

//! Erasing whatever is left of somebody: nothing of theirs is in any file afterwards, and everything of others is as it
//! was; refused while something goes on; cut short at any commit, it goes on with the same receipt.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use longhaul_core::{Ambient, Digest, Scope, Subject, TaskScope, ThreadId};
use longhaul_durable::{
    Answer, END, Effect, Graph, GraphBuilder, GraphState, NodeError, Outcome, RunOptions, Runtime, START, Wait,
};
use longhaul_memory::{Fact, Kind as MemoryKind, Memory, Namespace, NewMemory, Query, Source};
use longhaul_operate::{ErasureReceipt, OperateError, Operator};
use longhaul_store::{Faults, Store, StoreError, tasks, values};
use longhaul_workspace::{Ingest, Kind, NewLink, NewMilestone, RecordRef, Relation, Workspace, partition_of};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::ground::{Ground, on_both, open};

on_both!(
    nothing_of_a_user_is_left_in_any_file_and_everything_of_others_is_as_it_was,
    a_task_a_session_and_a_subject_go_alone,
    what_has_not_ended_is_refused_with_what_to_do,
    what_others_have_too_stays_theirs,
    cut_short_at_any_commit_it_goes_on_with_the_same_receipt,
    another_tenants_ids_reach_nothing,
);

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Work {
    mark: String,
    #[append]
    said: Vec<String>,
}

fn graph() -> Graph<Work> {
    GraphBuilder::<Work>::new("work", 1)
        .node("look", |ctx, state: Arc<Work>| async move {
            let seen = format!("seen {}", state.mark);
            let seen = ctx.step("look", Effect::Pure, async { Ok(seen) }).await?;
            Ok(WorkUpdate::new().said([seen]))
        })
        .node("ask", |ctx, state: Arc<Work>| async move {
            let answer: Answer<bool> = ctx.pause_for(Wait::approval(&format!("is {} fine?", state.mark))).await?;
            Ok::<_, NodeError>(WorkUpdate::new().said([format!("{:?}", answer.into_value())]))
        })
        .edge(START, "look")
        .edge("look", "ask")
        .edge("ask", END)
        .build()
        .unwrap()
}

/// Somebody's traces: in every owner, each with their mark.
struct Life {
    mark: String,
    owner: TaskScope,
    thread: ThreadId,
    small: RecordRef,
    large: RecordRef,
}

/// Where somebody's facts are; a namespace's name stays, and should say nothing.
fn facts(mark: &str) -> Namespace {
    format!("facts-{}", &Digest::of(mark).hex()[..8]).parse().unwrap()
}

/// A content that compression gains nothing on, with the mark in its middle.
fn large(mark: &str) -> Vec<u8> {
    let noise = |from: u64| (from..from + 1_000).flat_map(|n| *Digest::of(format!("{mark}{n}")).as_bytes());
    noise(0).chain(mark.bytes()).chain(noise(1_000)).collect()
}

async fn begin(store: &Store, scope: &Scope, mark: &str) -> (TaskScope, ThreadId, Runtime) {
    let thread: ThreadId = format!("thread-{mark}").parse().unwrap();
    let new = tasks::NewTask {
        thread: thread.clone(),
        kind: "test".into(),
        title: format!("about {mark}"),
        dir: None,
        model: None,
        data: json!({ "mark": mark }),
    };
    let of = scope.clone();
    let task = store.write(move |tx| tasks::create(tx, &of, None, new)).await.unwrap();
    (task.scope, thread, Runtime::new(store.clone(), Ambient::system()))
}

impl Life {
    async fn live(store: &Store, tenant: &str, user: &str, mark: &str) -> Self {
        let scope = Scope { tenant: tenant.parse().unwrap(), user: user.parse().unwrap() };
        let (owner, thread, runtime) = begin(store, &scope, mark).await;
        let initial = Work { mark: mark.to_owned(), ..Work::default() };
        let graph = graph();
        let run = |initial| runtime.run(&graph, &owner, &thread, initial, RunOptions::default());
        let Outcome::Waiting(waits) = run(initial.clone()).await.unwrap() else { panic!("it asks") };
        runtime.continue_with(&scope, &waits[0].id, json!(true), mark, mark).await.unwrap();
        assert!(matches!(run(initial).await.unwrap(), Outcome::Completed(_)));

        let memory = Memory::new(store.clone(), None);
        let workspace = Workspace::new(store.clone(), memory.clone());
        let task = workspace.task(&owner);
        let about = format!("customer:{mark}");
        let small = Ingest {
            subject: Some(about.clone()),
            ..Ingest::new(Kind::Observation, "notes", &format!("of {mark}"), "test", format!("small {mark}"))
        };
        let small = task.ingest(small).await.unwrap();
        let bytes = Ingest::new(Kind::Evidence, "files", "a file", "test", large(mark));
        let large = task.ingest(bytes).await.unwrap();
        task.link(NewLink::new(&small.id, Relation::Supports, &large.id)).await.unwrap();
        let reached = NewMilestone {
            name: format!("reached {mark}"),
            execution: None,
            superstep: None,
            refs: vec![large.clone()],
            note: Some(mark.to_owned()),
            revise: false,
        };
        task.reach(reached).await.unwrap();
        say(store, &owner, mark).await;
        let fact = NewMemory {
            namespace: facts(mark),
            fact: Some(Fact { subject: about, attribute: "name".to_owned(), ..Fact::default() }),
            ..NewMemory::new("facts", MemoryKind::Fact, Source::User, format!("their name is {mark}"))
        };
        memory.add(&scope, fact).await.unwrap();
        Self { mark: mark.to_owned(), owner, thread, small, large }
    }

    /// What is left of it where it can be asked for: facts, index of records, contents.
    async fn left(&self, store: &Store) -> (usize, bool, bool) {
        let memory = Memory::new(store.clone(), None);
        let namespaces = vec![facts(&self.mark), partition_of(&self.owner.task)];
        let query = Query { namespaces, ..Query::new(&self.mark, 10) };
        let found = memory.search(&self.owner.scope, &query).await.unwrap();
        let hits = found.hits.iter().filter(|hit| hit.item.content.contains(&self.mark)).count();
        let task = Workspace::new(store.clone(), memory).task(&self.owner);
        (hits, task.read(&self.small).await.is_ok(), task.read(&self.large).await.is_ok())
    }

    fn subject(&self, what: &str) -> Subject {
        match what {
            "user" => Subject::User(self.owner.scope.user.clone()),
            "task" => Subject::Task(self.owner.task.clone()),
            "session" => Subject::Session(self.owner.session.clone()),
            _ => Subject::Named(format!("customer:{}", self.mark)),
        }
    }
}

/// A message of a conversation, with its state.
async fn say(store: &Store, owner: &TaskScope, mark: &str) {
    let TaskScope { scope, session, task, trace } = owner;
    let (id, said) = (format!("msg_{mark}"), format!("I am {mark}"));
    let message = values![&scope.tenant, session, id, &scope.user, task, trace, &said];
    let state = values![&scope.tenant, session, &scope.user, task, trace, &said];
    store
        .write(move |tx| {
            tx.execute(
                "INSERT INTO messages (tenant_id, session_id, seq, message_id, user_id, task_id, trace_id, role, content,
                     tokens, created_at, schema)
                 VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, 'user', ?7, 3, 1, 1)",
                &message,
            )?;
            tx.execute(
                "INSERT INTO session_states (tenant_id, session_id, user_id, task_id, trace_id, memo, version, summary,
                     window_from, last_seq, bytes, title, deleting, created_at, updated_at, schema)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?6, 0, 1, 10, ?6, 0, 1, 1, 1)",
                &state,
            )
        })
        .await
        .map_err(|error: StoreError| error)
        .unwrap();
}

async fn erase(store: &Store, tenant: &str, subject: &Subject, dry: bool) -> Result<ErasureReceipt, OperateError> {
    let scope = Scope { tenant: tenant.parse().unwrap(), user: "user_operator".parse().unwrap() };
    let operator = Operator::over(store.clone(), Ambient::system(), scope, "tester".to_owned());
    operator.erase(&Memory::new(store.clone(), None), subject, dry).await
}

async fn receipts(store: &Store, tenant: &str) -> Vec<ErasureReceipt> {
    let scope = Scope { tenant: tenant.parse().unwrap(), user: "user_operator".parse().unwrap() };
    let operator = Operator::over(store.clone(), Ambient::system(), scope, "tester".to_owned());
    operator.erasures().await.unwrap()
}

fn files_with(dir: &Path, text: &str) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else if std::fs::read(&path).is_ok_and(|bytes| holds(&bytes, text.as_bytes())) {
                found.push(path);
            }
        }
    }
    found
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    let first = text[0];
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == first) {
        if rest[at..].starts_with(text) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// Everything with this mark, as text.
async fn told(ground: &Ground, mark: &str) -> Vec<String> {
    ground.everything().await.into_iter().filter(|line| line.contains(mark)).collect()
}

async fn nothing_of_a_user_is_left_in_any_file_and_everything_of_others_is_as_it_was(ground: Ground) {
    let store = ground.store().await;
    let ada = Life::live(&store, "tenant_a", "user_ada", "xyzzyplugh").await;
    let bob = Life::live(&store, "tenant_a", "user_bob", "frobozzgnu").await;
    let other = Life::live(&store, "tenant_b", "user_ada", "quuxfnord").await;
    let (of_bob, of_other) = (told(&ground, &bob.mark).await, told(&ground, &other.mark).await);
    assert!(of_bob.len() > 8, "{of_bob:?}");
    for dir in ground.files() {
        assert!(!files_with(&dir, &ada.mark).is_empty(), "it is there before");
    }
    let everything = ground.everything().await;
    let counted = erase(&store, "tenant_a", &ada.subject("user"), true).await.unwrap();
    assert!(counted.dry_run && counted.erased_at.is_none() && counted.total() > 20, "{counted:?}");
    assert_eq!(ground.everything().await, everything, "counting changes nothing");
    assert_eq!(receipts(&store, "tenant_a").await, []);

    let receipt = erase(&store, "tenant_a", &ada.subject("user"), false).await.unwrap();
    assert_eq!(receipt.pending, Vec::<String>::new());
    for what in [
        "records",
        "contents in rows",
        "blobs",
        "links",
        "milestones",
        "messages",
        "executions",
        "events",
        "tasks",
        "sessions",
        "users",
        "memories",
        "states of conversations",
    ] {
        assert!(receipt.erased.contains_key(what), "{what} in {receipt:?}");
    }
    for dir in ground.files() {
        assert_eq!(files_with(&dir, &ada.mark), Vec::<PathBuf>::new());
    }
    assert_eq!(ada.left(&store).await, (0, false, false));
    assert!(told(&ground, &ada.mark).await.is_empty() && told(&ground, ada.owner.task.as_str()).await.is_empty());
    assert_eq!((told(&ground, &bob.mark).await, told(&ground, &other.mark).await), (of_bob, of_other));
    for life in [&bob, &other] {
        let (hits, small, large) = life.left(&store).await;
        assert!(hits >= 2 && small && large, "{hits} {small} {large}");
    }
    let operator = ground.operator().await;
    let report = operator.verify().await.unwrap();
    assert!(report.is_sound(), "{report}");

    // One receipt, which tells nothing of what it was about.
    let listed = receipts(&store, "tenant_a").await;
    assert_eq!(listed, [receipt.clone()]);
    let printed = serde_json::to_string(&listed).unwrap();
    for hidden in [&ada.mark, "user_ada", ada.owner.task.as_str(), ada.owner.session.as_str(), ada.small.id.as_str()] {
        assert!(!printed.contains(hidden), "{hidden} in {printed}");
    }
    assert!(printed.contains("backups and copies of this store"), "{printed}");
    assert_eq!(receipts(&store, "tenant_b").await, []);
    let again = erase(&store, "tenant_a", &ada.subject("user"), false).await.unwrap();
    assert_eq!(again.total(), 0, "{again:?}");
}

async fn a_task_a_session_and_a_subject_go_alone(ground: Ground) {
    let store = ground.store().await;
    for (n, what) in ["task", "session", "subject"].into_iter().enumerate() {
        let gone = Life::live(&store, "tenant_a", "user_ada", &format!("gone{n}xyzzy")).await;
        let kept = Life::live(&store, "tenant_a", "user_ada", &format!("kept{n}plugh")).await;
        let of_kept = told(&ground, &kept.mark).await;
        let receipt = erase(&store, "tenant_a", &gone.subject(what), false).await.unwrap();
        assert_eq!((receipt.asked.as_str(), receipt.pending.len()), (what, 0), "{receipt:?}");
        assert_eq!(told(&ground, &kept.mark).await, of_kept, "{what}");
        let (hits, small, large) = kept.left(&store).await;
        assert!(hits >= 2 && small && large, "{what}: {hits} {small} {large}");
        let (hits, small, large) = gone.left(&store).await;
        match what {
            // Its record and its fact, and nothing that does not say it is about it.
            "subject" => assert!((hits, small, large) == (0, false, true), "{hits} {small} {large}"),
            // Facts on somebody are not a task's or a session's.
            _ => {
                assert!((hits, small, large) == (1, false, false), "{what}: {hits} {small} {large}");
                let traces = told(&ground, &gone.mark).await;
                assert!(traces.is_empty(), "{what}: {traces:?}");
            }
        }
    }
    let report = ground.operator().await.verify().await.unwrap();
    assert!(report.is_sound(), "{report}");
}

async fn what_has_not_ended_is_refused_with_what_to_do(ground: Ground) {
    let store = ground.store().await;
    let scope = Scope { tenant: "tenant_a".parse().unwrap(), user: "user_ada".parse().unwrap() };
    let (owner, thread, runtime) = begin(&store, &scope, "xyzzyplugh").await;
    let initial = Work { mark: "xyzzyplugh".to_owned(), ..Work::default() };
    let outcome = runtime.run(&graph(), &owner, &thread, initial, RunOptions::default()).await.unwrap();
    assert!(matches!(outcome, Outcome::Waiting(_)));
    let task = Workspace::new(store.clone(), Memory::new(store.clone(), None)).task(&owner);
    let about = Ingest { subject: Some("customer:42".into()), ..Ingest::new(Kind::Note, "notes", "s", "test", "x") };
    task.ingest(about).await.unwrap();
    let everything = ground.everything().await;
    let execution = runtime.find(&scope, &thread).await.unwrap().unwrap();
    for subject in ["user_ada", owner.task.as_str(), owner.session.as_str(), "customer:42"] {
        for dry in [true, false] {
            let error = erase(&store, "tenant_a", &subject.parse().unwrap(), dry).await.unwrap_err();
            assert!(matches!(error, OperateError::Unfinished { .. }), "{error:?}");
            let said = error.to_string();
            assert!(said.contains(&format!("longhaul cancel {}", execution.id)) && said.contains("waiting"), "{said}");
        }
    }
    assert_eq!(ground.everything().await, everything, "nothing was changed");
    runtime.cancel(&scope, &thread, "ada", "to be erased").await.unwrap();
    let receipt = erase(&store, "tenant_a", &"user_ada".parse().unwrap(), false).await.unwrap();
    assert!(receipt.erased["executions"] == 1 && receipt.erased_at.is_some(), "{receipt:?}");
    assert!(told(&ground, "xyzzyplugh").await.is_empty());
}

/// The same content of two users is kept once, and stays for the one who is left.
async fn what_others_have_too_stays_theirs(ground: Ground) {
    let store = ground.store().await;
    let mut kept = Vec::new();
    for user in ["user_ada", "user_bob"] {
        let scope = Scope { tenant: "tenant_a".parse().unwrap(), user: user.parse().unwrap() };
        let (owner, ..) = begin(&store, &scope, user).await;
        let task = Workspace::new(store.clone(), Memory::new(store.clone(), None)).task(&owner);
        let mut refs = Vec::new();
        for content in [large("the same"), b"the same and small".to_vec()] {
            refs.push(task.ingest(Ingest::new(Kind::Note, "notes", "shared", "test", content)).await.unwrap());
        }
        kept.push((task, refs));
    }
    for (turn, user) in ["user_ada", "user_bob"].into_iter().enumerate() {
        let receipt = erase(&store, "tenant_a", &user.parse().unwrap(), false).await.unwrap();
        assert_eq!(receipt.erased["records"], 2);
        let shared = receipt.not_covered.iter().any(|what| what.contains("other records of the tenant"));
        assert_eq!((shared, receipt.erased.contains_key("blobs")), (turn == 0, turn == 1), "{receipt:?}");
        for (task, refs) in &kept[turn + 1..] {
            for reference in refs {
                task.read(reference).await.unwrap();
            }
        }
        let report = ground.operator().await.verify().await.unwrap();
        assert!(report.findings.is_empty(), "{report}");
    }
}

async fn cut_short_at_any_commit_it_goes_on_with_the_same_receipt(ground: Ground) {
    let [dir, url] = ground.address();
    let faults = Faults::new();
    let store = open(&dir, &url, faults.clone()).await;
    // On a server each round rewrites every table.
    let stride = if url.is_empty() { 1 } else { 5 };
    let mut after = 0;
    loop {
        let (mark, user) = (format!("xyzzyplugh{after}"), format!("user_ada{after}"));
        let life = Life::live(&store, "tenant_a", &user, &mark).await;
        let before = faults.commits();
        faults.die_after(before + after);
        let outcome = erase(&store, "tenant_a", &life.subject("user"), false).await;
        faults.revive();
        let ended = outcome.is_ok();
        let open: Vec<_> =
            receipts(&store, "tenant_a").await.into_iter().filter(|one| one.erased_at.is_none()).collect();
        assert_eq!(open.len(), usize::from(!ended && after > 0), "{after}: {open:?}");
        let receipt = erase(&store, "tenant_a", &life.subject("user"), false).await.unwrap();
        if let [open] = &open[..] {
            assert_eq!(open.id, receipt.id, "it is one receipt");
        }
        if !ended {
            for what in ["records", "blobs", "executions", "events", "messages", "users"] {
                assert!(receipt.erased.contains_key(what), "{after}: {what} in {receipt:?}");
            }
        }
        assert!(told(&ground, &mark).await.is_empty(), "{after}");
        for dir in ground.files() {
            assert_eq!(files_with(&dir, &mark), Vec::<PathBuf>::new(), "{after}");
        }
        if ended {
            break;
        }
        after += stride;
    }
    assert!(after > 8, "{after}");
    assert!(receipts(&store, "tenant_a").await.iter().all(|receipt| receipt.erased_at.is_some()));
}

async fn another_tenants_ids_reach_nothing(ground: Ground) {
    let store = ground.store().await;
    let life = Life::live(&store, "tenant_a", "user_ada", "xyzzyplugh").await;
    let before = told(&ground, &life.mark).await;
    for what in ["user", "task", "session", "subject"] {
        let receipt = erase(&store, "tenant_b", &life.subject(what), false).await.unwrap();
        assert_eq!((receipt.total(), receipt.erased_at.is_some()), (0, true), "{receipt:?}");
    }
    assert_eq!(told(&ground, &life.mark).await, before);
    let (hits, small, large) = life.left(&store).await;
    assert!(hits >= 2 && small && large);
    assert_eq!(life.thread.as_str(), "thread-xyzzyplugh");
}

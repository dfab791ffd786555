//! Each owner's prohibition, as a test. Those that belong to one crate are tested there; docs/what-goes-where.md has the
//! whole list.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use longhaul::{
    Ambient, SessionId, TaskScope, ThreadId,
    durable::{END, Flow, Graph, GraphBuilder, GraphState, NodeError, Outcome, RunOptions, Runtime, START},
    memory::Memory,
    store::{Store, StoreError, StoreSettings},
    workspace::{Ingest, Kind, NewMilestone, Workspace, WorkspaceError},
};
use longhaul_core::EventDraft;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::compiler::errors;

#[test]
fn without_a_scope_nothing_compiles() {
    // With a scope each of them does.
    let with = errors(
        "async fn all<S: GraphState>(workspace: Workspace, runtime: Runtime, store: Store, memory: Memory, owner: TaskScope,
             graph: Graph<S>, state: S, thread: ThreadId, digest: Digest, what: Ingest, query: Query) {
             let _ = workspace.task(&owner).ingest(what).await;
             let _ = workspace.user(&owner.scope).links(\"rec_1\").await;
             let _ = runtime.run(&graph, &owner, &thread, state, RunOptions::default()).await;
             let _ = runtime.executions(&owner.scope, ExecutionFilter::default()).await;
             let _ = store.blobs().get(&owner.scope, &digest).await;
             let _ = memory.search(&owner.scope, &query).await;
         }",
    );
    assert_eq!(with, "");
    let signature = "async fn all<S: GraphState>(workspace: Workspace, runtime: Runtime, store: Store, memory: Memory,
             graph: Graph<S>, state: S, thread: ThreadId, digest: Digest, what: Ingest, query: Query)";
    for (call, expected) in [
        ("workspace.task().ingest(what).await", "this method takes 1 argument but 0 arguments were supplied"),
        ("workspace.ingest(what).await", "no method named `ingest` found for struct"),
        ("workspace.user().links(\"rec_1\").await", "this method takes 1 argument but 0 arguments were supplied"),
        ("workspace.task(None).ingest(what).await", "mismatched types"),
        ("runtime.run(&graph, &thread, state, RunOptions::default()).await", "argument #2 of type `&"),
        ("runtime.executions(ExecutionFilter::default()).await", "argument #1 of type `&"),
        ("store.blobs().get(&digest).await", "argument #1 of type `&"),
        ("memory.search(&query).await", "argument #1 of type `&"),
        // There is no scope that one gets by leaving it to somebody else.
        ("workspace.user(&Scope::default()).links(\"rec_1\").await", "no function or associated item named `default`"),
        ("workspace.task(&Default::default()).ingest(what).await", "is not implemented for `TaskScope`"),
    ] {
        let said = errors(&format!("{signature} {{ let _ = {call}; }}"));
        assert!(said.contains(expected), "{call}: {said}");
    }
}

#[test]
fn what_a_user_interface_is_sent_has_a_type_of_its_own() {
    let business = "fn show(told: &StreamedEvent) -> String { to_ui_json(told).unwrap_or_default() }";
    assert_eq!(errors(business), "");
    for (raw, expected) in [
        ("fn show(raw: &Event) -> String { to_ui_json(raw).unwrap_or_default() }", "Event: ForUsers` is not satisfied"),
        (
            "fn show(raw: &Progress) -> String { to_ui_json(raw).unwrap_or_default() }",
            "Progress: ForUsers` is not satisfied",
        ),
        ("fn show(raw: Event) -> TaskEvent { raw }", "expected `TaskEvent`, found `Event`"),
        ("fn show(raw: Event) -> TaskEvent { raw.into() }", "TaskEvent: From<"),
        ("fn show(raw: Event) -> BusinessEvent { raw.into() }", "BusinessEvent: From<"),
        ("struct Own; impl ForUsers for Own {}", "Own: "),
    ] {
        let said = errors(raw);
        assert!(said.contains(expected), "{raw}: {said}");
    }
}

#[test]
fn a_remark_is_no_approval() {
    let with = |line: &str| {
        errors(&format!(
            "async fn answer(runtime: Runtime, scope: Scope, note: InterventionId, wait: WaitId, asked: WaitInfo) {{
                 let value = asked.payload;
                 {line}
             }}"
        ))
    };
    assert_eq!(with("let _ = runtime.continue_with(&scope, &wait, value, \"1\", \"ada\").await;"), "");
    let said = with("let _ = runtime.continue_with(&scope, &note, value, \"1\", \"ada\").await;");
    assert!(said.contains("expected `&WaitId`, found `&InterventionId`"), "{said}");
}

#[test]
fn a_node_cannot_change_what_its_graph_holds() {
    let node = |before: &str, within: &str| {
        errors(&format!(
            "fn graph<S: GraphState>() -> GraphBuilder<S> {{
                 {before}
                 GraphBuilder::<S>::new(\"g\", 1).node(\"n\", move |_, _| {{
                     {within}
                     std::future::pending::<Result<Flow<S::Update>, NodeError>>()
                 }})
             }}"
        ))
    };
    assert_eq!(node("let most = 3;", "let _ = most;"), "");
    let said = node("let mut progress = 0;", "progress += 1;");
    assert!(said.contains("as it is a captured variable in a `Fn` closure"), "{said}");
    let said = node("let progress = std::cell::Cell::new(0);", "progress.set(1);");
    assert!(said.contains("cannot be shared between threads safely"), "{said}");
}

#[test]
fn an_observer_is_given_nothing_it_could_change() {
    let observer = |closure: &str| {
        errors(&format!("fn watch(runtime: Runtime) -> Runtime {{ runtime.with_observer({closure}) }}"))
    };
    assert_eq!(observer("|seen: &Observed| Ok(drop(seen.clone()))"), "");
    let said = observer("|seen: &mut Observed| Ok(())");
    assert!(said.contains("type mismatch in closure arguments") || said.contains("is not satisfied"), "{said}");
    // Nor can it say what is to be done: its answer is an error or nothing.
    let said = observer("|seen: &Observed| Ok(Flow::goto(\"elsewhere\"))");
    assert!(said.contains("mismatched types") || said.contains("expected"), "{said}");
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Words(Vec<String>);

impl GraphState for Words {
    type Update = Vec<String>;
    fn apply(&mut self, update: Vec<String>) {
        self.0.extend(update);
    }
}

async fn store() -> Store {
    let sets = [longhaul::durable::MIGRATIONS, longhaul::memory::MIGRATIONS, longhaul::workspace::MIGRATIONS];
    Store::open(StoreSettings::in_memory(), Ambient::system(), &sets).await.unwrap()
}

/// Each of three nodes adds its thread's name; they take turns.
fn turns(meeting: Arc<tokio::sync::Barrier>) -> Graph<Words> {
    let node = move |name: &'static str| {
        let meeting = meeting.clone();
        move |ctx: longhaul::durable::NodeContext, state: Arc<Words>| {
            let meeting = meeting.clone();
            async move {
                // Both executions are in this node now.
                meeting.wait().await;
                Ok::<_, NodeError>(Flow::update(vec![format!("{} {name} {}", ctx.thread(), state.0.len())]))
            }
        }
    };
    GraphBuilder::<Words>::new("turns", 1)
        .node("a", node("a"))
        .node("b", node("b"))
        .node("c", node("c"))
        .edge(START, "a")
        .edge("a", "b")
        .edge("b", "c")
        .edge("c", END)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_of_one_graph_share_no_progress() {
    let runtime = Runtime::new(store().await, Ambient::system());
    let graph = turns(Arc::new(tokio::sync::Barrier::new(2)));
    let run = async |name: &str| {
        let thread: ThreadId = name.parse().unwrap();
        let scope = TaskScope { session: SessionId::from_body(name), ..TaskScope::single_user() };
        runtime.run(&graph, &scope, &thread, Words::default(), RunOptions::default()).await.unwrap()
    };
    let both = async { tokio::join!(run("one"), run("two")) };
    let (one, two) = tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    for (outcome, name) in [(one, "one"), (two, "two")] {
        let Outcome::Completed(state) = outcome else { panic!("{outcome:?}") };
        assert_eq!(state.0, [format!("{name} a 0"), format!("{name} b 1"), format!("{name} c 2")]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_value_is_refused_wherever_it_is_put() {
    let store = store().await;
    let large = "x".repeat(300_000);
    let owner = TaskScope::single_user();
    let task = Workspace::new(store.clone(), Memory::new(store.clone(), None)).task(&owner);
    // In an event.
    let draft = EventDraft::business("told", json!({ "text": large }));
    let (at, text) = (owner.clone(), large.clone());
    let refused = store.write(move |tx| tx.append_event(&at, None, None, draft).map(drop)).await;
    assert!(matches!(refused, Err(StoreError::EventTooLarge { .. })), "{refused:?}");
    // In what is said of a record, rather than in it.
    let refused = task.ingest(Ingest::new(Kind::Artifact, "artifacts", &text, "agent", "short")).await;
    assert!(matches!(refused, Err(WorkspaceError::Field { name: "summary", .. })), "{refused:?}");
    // In a milestone, which is no place for a transcript.
    let reached = NewMilestone { name: "done".to_owned(), note: Some(text.clone()), ..NewMilestone::default() };
    let refused = task.reach(reached).await;
    assert!(matches!(refused, Err(WorkspaceError::Field { name: "note", .. })), "{refused:?}");
    // In state; the error says where.
    let runtime = Runtime::new(store, Ambient::system());
    let put = text.clone();
    let graph = GraphBuilder::<Words>::new("large", 1)
        .node("put", move |_, _| {
            let put = put.clone();
            async move { Ok::<_, NodeError>(vec![put]) }
        })
        .edge(START, "put")
        .edge("put", END)
        .build()
        .unwrap();
    let thread: ThreadId = "large".parse().unwrap();
    let outcome = runtime.run(&graph, &owner, &thread, Words::default(), RunOptions::default()).await;
    assert!(!matches!(outcome, Ok(Outcome::Completed(_))), "{outcome:?}");
    // As content it is welcome.
    task.ingest(Ingest::new(Kind::Artifact, "artifacts", "a long report", "agent", text)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ingesting_writes_no_fact_and_nothing_about_a_user() {
    let store = store().await;
    let task = Workspace::new(store.clone(), Memory::new(store.clone(), None)).task(&TaskScope::single_user());
    let text = "My name is Ada, I live in Rome. Remember that I always want short answers.";
    for kind in Kind::KNOWN {
        task.ingest(Ingest::new(kind, "notes", "what the user said", "user", text)).await.unwrap();
    }
    let read = store.read(|read| {
        let mut counted = Vec::new();
        for table in ["memory_users", "memory_user_entries", "memory_user_versions", "memory_proposals"] {
            let many: u64 = read.query_one(&format!("SELECT count(*) FROM {table}"), &[], |row| row.get(0))?;
            counted.push((table, many));
        }
        let kinds = read.query("SELECT DISTINCT namespace FROM memories", &[], |row| row.get::<String>(0))?;
        Ok::<_, StoreError>((counted, kinds))
    });
    let (counted, namespaces) = read.await.unwrap();
    assert!(counted.iter().all(|(_, many)| *many == 0), "{counted:?}");
    // The index of the task, and nothing else, knows of it.
    assert_eq!(namespaces, ["ws:default"]);
}

/// The text of all sources below a folder.
fn sources(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push((path.clone(), fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn the_gateway_does_no_step_of_the_work() {
    let mut found = Vec::new();
    let gateway = Path::new(env!("CARGO_MANIFEST_DIR")).join("../longhaul-server/src");
    sources(&gateway, &mut found);
    assert!(found.len() > 5, "{found:?}");
    for (path, text) in found {
        // It answers, asks and hands on; what is done, nodes of graphs do.
        for word in ["GraphBuilder", "NodeContext", "Effect::", ".step(", ".step_tx(", "impl GraphState"] {
            assert!(!text.contains(word), "{} has {word:?} in it", path.display());
        }
    }
}

/// Kept for the guard above: an observer sees copies of what is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_sees_only_what_has_been_recorded() {
    let seen = Arc::new(Mutex::new(0));
    let noting = seen.clone();
    let runtime =
        Runtime::new(store().await, Ambient::system()).with_observer(move |_: &longhaul::durable::Observed| {
            *noting.lock().unwrap() += 1;
            Err("whatever it says has no consequence".into())
        });
    let graph = turns(Arc::new(tokio::sync::Barrier::new(1)));
    let thread: ThreadId = "seen".parse().unwrap();
    let outcome =
        runtime.run(&graph, &TaskScope::single_user(), &thread, Words::default(), RunOptions::default()).await;
    let Ok(Outcome::Completed(state)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(state.0.len(), 3);
}

//! Branches of a thread, edits by hand, copies, removal: on memory, on files and on PostgreSQL.

use std::{path::Path, sync::Arc, time::Duration};

use longhaul_core::{Ambient, Scope, ThreadId};
use longhaul_durable::{
    Checkpoint, DurableError, END, Effect, Form, Graph, GraphBuilder, GraphState, MIGRATIONS, NodeError, Outcome,
    Point, RunOptions, Runtime, START, Status, Wait,
};
use longhaul_store::{Lease, Store, StoreError, StoreSettings};
use longhaul_testbed::PrivateCluster;
use serde::{Deserialize, Serialize};

use crate::support::{Done, Words, completed, scope, thread};

/// Runs the story on each kind of store, each fresh.
async fn everywhere<F: Future<Output = ()>>(story: impl Fn(Store) -> F) {
    let open = async |settings| Store::open(settings, Ambient::system(), &[MIGRATIONS]).await.unwrap();
    story(open(StoreSettings::in_memory()).await).await;
    let dir = tempfile::tempdir().unwrap();
    story(open(StoreSettings::new(dir.path())).await).await;
    let database = PrivateCluster::shared().unwrap().create_database().unwrap();
    let dir = tempfile::tempdir().unwrap();
    story(open(StoreSettings::from_url(&database.url(), dir.path() as &Path).unwrap()).await).await;
}

fn single() -> Scope {
    Scope::single_user()
}

fn named(name: &str) -> ThreadId {
    name.parse().unwrap()
}

/// Adds "1", "2", "3" in three supersteps.
fn counting() -> Graph<Words> {
    GraphBuilder::new("counting", 1)
        .node("count", |_, state: Arc<Words>| async move { Ok(vec![(state.count + 1).to_string()]) })
        .edge(START, "count")
        .branch("count", &["count", END], |state| if state.count < 3 { "count" } else { END })
        .build()
        .unwrap()
}

async fn run(runtime: &Runtime, graph: &Graph<Words>, thread: &ThreadId) -> Outcome<Words> {
    runtime.run(graph, &scope(), thread, Words::default(), RunOptions::default()).await.unwrap()
}

/// Everything in the store that this crate wrote, as text.
async fn contents(store: &Store) -> String {
    let tables = ["executions", "checkpoints", "snapshots", "tasks_done", "steps", "effects", "waits", "answers"];
    let read = store.read(move |read| {
        let count =
            |table: &str| read.query_one(&format!("SELECT count(*) FROM {table}"), &[], |row| row.get::<u64>(0));
        let counts: Result<Vec<_>, StoreError> =
            tables.iter().map(|table| Ok(format!("{table} {}", count(table)?))).collect();
        let rows = read.query(
            "SELECT execution_id || ns || superstep || frontier || data FROM checkpoints ORDER BY 1",
            &[],
            |row| row.get::<String>(0),
        )?;
        Ok::<_, StoreError>(format!("{counts:?} {rows:?}"))
    });
    read.await.unwrap()
}

#[tokio::test]
async fn a_thread_branches_and_its_old_branch_survives() {
    everywhere(async |store: Store| {
        let runtime = Runtime::new(store.clone(), Ambient::system());
        completed(run(&runtime, &counting(), &thread()).await);
        let old = runtime.find(&single(), &thread()).await.unwrap().unwrap();
        let fork = runtime.fork::<Words>(&scope(), &old.id, 1, &thread()).await.unwrap();
        assert_eq!((fork.status, &fork.thread), (Status::Stopped, &thread()));
        assert_eq!(runtime.find(&single(), &thread()).await.unwrap().unwrap().id, fork.id);
        // A second branch gives the unfinished first one up.
        let second = runtime.fork::<Words>(&scope(), &old.id, 2, &thread()).await.unwrap();
        let branches = runtime.branches(&single(), &thread()).await.unwrap();
        let known: Vec<_> = branches.iter().map(|e| (e.id.clone(), e.status)).collect();
        let expected = [
            (second.id.clone(), Status::Stopped),
            (fork.id.clone(), Status::Abandoned),
            (old.id.clone(), Status::Completed),
        ];
        assert_eq!(known, expected);
        assert_eq!(completed(run(&runtime, &counting(), &thread()).await), Words::of(&["1", "2", "3"]));
        for (execution, superstep, words) in [(&old, 3, &["1", "2", "3"][..]), (&fork, 1, &["1"])] {
            let state: Words = runtime.state_at(&single(), &execution.id, superstep).await.unwrap();
            assert_eq!(state, Words::of(words));
        }
        // All branches are in the thread's history; pages of it make up the whole.
        let all = runtime.history(&single(), &thread(), 100).await.unwrap();
        let supersteps: Vec<_> = all.iter().map(|c| c.superstep).collect();
        assert_eq!(supersteps, [3, 2, 1, 3, 2, 1, 0]);
        let mut paged: Vec<Checkpoint> = runtime.history(&single(), &thread(), 2).await.unwrap();
        loop {
            let before = paged.last().unwrap().point();
            let page = runtime.history_before(&single(), &thread(), &before, 2).await.unwrap();
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, all);
        assert!(store.verify(longhaul_durable::CHECKS).await.unwrap().is_sound());
    })
    .await;
}

#[tokio::test]
async fn a_replay_from_the_end_does_nothing_and_from_before_runs_on_a_branch() {
    everywhere(async |store: Store| {
        let runtime = Runtime::new(store.clone(), Ambient::system());
        completed(run(&runtime, &counting(), &thread()).await);
        let old = runtime.find(&single(), &thread()).await.unwrap().unwrap();
        let before = contents(&store).await;
        let end = Point::new(&old.id, 3);
        let outcome = runtime.replay(&counting(), &scope(), &end, RunOptions::default()).await.unwrap();
        assert_eq!(completed(outcome), Words::of(&["1", "2", "3"]));
        assert_eq!(contents(&store).await, before);
        let early: Point = format!("{}@1", old.id).parse().unwrap();
        let outcome = runtime.replay(&counting(), &scope(), &early, RunOptions::default()).await.unwrap();
        assert_eq!(completed(outcome), Words::of(&["1", "2", "3"]));
        assert_eq!(runtime.branches(&single(), &thread()).await.unwrap().len(), 2);
    })
    .await;
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, GraphState)]
struct Level {
    #[append]
    log: Vec<String>,
}

/// Three levels, each of two nodes `a` and `b`, with the next level between them.
fn nested(done: &Done) -> Graph<Level> {
    let say = |level: &'static str, done: &Done| {
        let done = done.clone();
        move |_, _: Arc<Level>| {
            let done = done.clone();
            async move {
                done.add(level);
                Ok(LevelUpdate::new().log([level.to_owned()]))
            }
        }
    };
    let inner = GraphBuilder::<Level>::new("inner", 1)
        .node("a", say("3a", done))
        .node("b", say("3b", done))
        .edge(START, "a")
        .edge("a", "b")
        .edge("b", END)
        .build()
        .unwrap();
    let middle = GraphBuilder::<Level>::new("middle", 1)
        .node("a", say("2a", done))
        .shared_subgraph("inner", inner)
        .node("b", say("2b", done))
        .edge(START, "a")
        .edge("a", "inner")
        .edge("inner", "b")
        .edge("b", END)
        .build()
        .unwrap();
    GraphBuilder::<Level>::new("outer", 1)
        .node("a", say("1a", done))
        .subgraph(
            "middle",
            middle,
            |_: &Level| Level { log: vec!["begun".to_owned()] },
            |level: Level| LevelUpdate::new().log(level.log),
        )
        .node("b", say("1b", done))
        .edge(START, "a")
        .edge("a", "middle")
        .edge("middle", "b")
        .edge("b", END)
        .build()
        .unwrap()
}

#[tokio::test]
async fn one_looks_into_and_forks_inside_three_levels_of_subgraphs() {
    everywhere(async |store: Store| {
        let runtime = Runtime::new(store.clone(), Ambient::system());
        let done = Done::default();
        let graph = nested(&done);
        let run = async |thread: ThreadId| {
            let options = RunOptions::default();
            let outcome = runtime.run(&graph, &scope(), &thread, Level::default(), options).await.unwrap();
            let Outcome::Completed(state) = outcome else { panic!("{outcome:?}") };
            state
        };
        let whole = ["1a", "begun", "2a", "3a", "3b", "2b", "1b"];
        assert_eq!(run(thread()).await.log, whole);
        assert_eq!(done.take(), ["1a", "2a", "3a", "3b", "2b", "1b"]);
        let execution = runtime.find(&single(), &thread()).await.unwrap().unwrap().id;
        let (middle, inner) = ("2.0.middle>", "2.0.middle>2.0.inner>");
        assert_eq!(runtime.namespaces(&single(), &execution).await.unwrap(), ["", middle, inner]);
        let history = runtime.history_inside(&single(), &execution, inner, None, 10).await.unwrap();
        assert_eq!(history.iter().map(|c| c.superstep).collect::<Vec<_>>(), [2, 1, 0]);
        let next = runtime.history_inside(&single(), &execution, inner, Some(1), 10).await.unwrap();
        assert_eq!(next, history[2..]);
        for (ns, superstep, log) in [
            ("", 1, &whole[..1]),
            (middle, 0, &["begun"]),
            (middle, 1, &["begun", "2a"]),
            (inner, 0, &["begun", "2a"]),
            (inner, 1, &["begun", "2a", "3a"]),
            (middle, 2, &["begun", "2a", "3a", "3b"]),
        ] {
            let point = Point { execution: execution.clone(), ns: ns.to_owned(), superstep };
            assert_eq!(point.to_string().parse::<Point>().unwrap(), point);
            let state: Level = runtime.state_inside(&single(), &point).await.unwrap();
            assert_eq!(state.log, log, "{point}");
        }
        // A fork in the innermost goes on there, and does nothing again that came before.
        let point = Point { execution: execution.clone(), ns: inner.to_owned(), superstep: 1 };
        runtime.fork_inside::<Level>(&scope(), &point, &named("thread_2")).await.unwrap();
        assert_eq!(run(named("thread_2")).await.log, whole);
        assert_eq!(done.take(), ["3b", "2b", "1b"]);
        let nowhere = Point { ns: "2.0.middle>9.0.inner>".to_owned(), ..point };
        let missing = runtime.fork_inside::<Level>(&scope(), &nowhere, &named("thread_3")).await;
        assert!(matches!(missing, Err(DurableError::NoCheckpoint { .. })), "{missing:?}");
        assert_eq!(runtime.find(&single(), &named("thread_3")).await.unwrap(), None);
        let report = store.verify(longhaul_durable::CHECKS).await.unwrap();
        assert!(report.is_sound(), "{report}");
    })
    .await;
}

/// `good` finishes at once; `bad` fails until it is told not to.
fn siblings(done: &Done, fails: bool) -> Graph<Words> {
    let done = done.clone();
    GraphBuilder::<Words>::new("siblings", 1)
        .node("split", |_, _| async { Ok(vec!["split".to_owned()]) })
        .node("good", move |_, _| {
            let done = done.clone();
            async move {
                done.add("good");
                Ok(vec!["good".to_owned()])
            }
        })
        .node("bad", move |_, _| async move {
            if fails {
                return Err(NodeError::gave_up(std::io::Error::other("not yet")));
            }
            Ok(vec!["bad".to_owned()])
        })
        .edge(START, "split")
        .edge("split", "good")
        .edge("split", "bad")
        .edge("good", END)
        .edge("bad", END)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_fork_ignores_what_unfinished_siblings_have_recorded() {
    everywhere(async |store: Store| {
        let runtime = Runtime::new(store, Ambient::system());
        let done = Done::default();
        let outcome = run(&runtime, &siblings(&done, true), &thread()).await;
        assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
        assert_eq!(done.take(), ["good"]);
        let origin = runtime.find(&single(), &thread()).await.unwrap().unwrap().id;
        runtime.fork::<Words>(&scope(), &origin, 1, &named("thread_2")).await.unwrap();
        let fine = siblings(&done, false);
        assert_eq!(completed(run(&runtime, &fine, &named("thread_2")).await), Words::of(&["split", "good", "bad"]));
        assert_eq!(done.take(), ["good"]);
        // The origin has kept its sibling's result.
        assert_eq!(completed(run(&runtime, &fine, &thread()).await), Words::of(&["split", "good", "bad"]));
        assert!(done.take().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_state_is_edited_as_a_checkpoint_of_its_own() {
    everywhere(async |store: Store| {
        let runtime = Runtime::new(store.clone(), Ambient::system());
        let graph = counting();
        let edit = async |words: &[&str], as_node| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            runtime.update_state(&graph, &single(), &thread(), words, as_node, "ann").await
        };
        let nothing = edit(&["x"], None).await;
        assert!(matches!(nothing, Err(DurableError::NoThread { .. })), "{nothing:?}");
        let stop = RunOptions { stop_when: Some(Arc::new(|s: &Words| s.count == 1)), ..RunOptions::default() };
        runtime.run(&graph, &scope(), &thread(), Words::default(), stop).await.unwrap();
        let before = contents(&store).await;
        // While somebody holds the thread nothing is changed.
        let lease = Lease::acquire(&store, &single(), &thread(), Duration::from_secs(30)).await.unwrap();
        let held = edit(&["x"], None).await;
        assert!(matches!(held, Err(DurableError::Lease(_))), "{held:?}");
        lease.release().await.unwrap();
        let unknown = edit(&["x"], Some("stranger")).await;
        assert!(matches!(unknown, Err(DurableError::NoNode { .. })), "{unknown:?}");
        assert_eq!(contents(&store).await, before);

        let point = edit(&["edited"], None).await.unwrap();
        assert_eq!(point.superstep, 2);
        let history = runtime.history(&single(), &thread(), 1).await.unwrap();
        assert_eq!((history[0].form, &*history[0].position.frontier[0].node), (Form::Edited, "count"));
        assert_eq!(completed(run(&runtime, &graph, &thread()).await), Words::of(&["1", "edited", "3"]));
        // As the node itself: its branch says that nothing is left.
        edit(&["more"], Some("count")).await.unwrap();
        let execution = runtime.find(&single(), &thread()).await.unwrap().unwrap();
        assert_eq!(execution.status, Status::Completed);
        let state: Words = runtime.state(&single(), &thread()).await.unwrap().unwrap();
        assert_eq!(state, Words::of(&["1", "edited", "3", "more"]));
        assert!(store.verify(longhaul_durable::CHECKS).await.unwrap().is_sound());
    })
    .await;
}

#[tokio::test]
async fn no_edit_makes_an_act_happen_twice() {
    let store = Store::open(StoreSettings::in_memory(), Ambient::system(), &[MIGRATIONS]).await.unwrap();
    let runtime = Runtime::new(store, Ambient::system());
    let graph = GraphBuilder::<Words>::new("paying", 1)
        .node("pay", |ctx, _| async move {
            ctx.step("charge", Effect::Once, async { Ok(()) }).await?;
            Err::<Vec<String>, _>(NodeError::gave_up(std::io::Error::other("later")))
        })
        .edge(START, "pay")
        .edge("pay", END)
        .build()
        .unwrap();
    run(&runtime, &graph, &thread()).await;
    let edit = runtime.update_state(&graph, &single(), &thread(), Vec::new(), None, "ann").await;
    let Err(DurableError::ActsRecorded { acts, superstep: 1, .. }) = edit else { panic!("{edit:?}") };
    assert_eq!(acts, ["charge"]);
}

/// Works, then asks.
fn asking(done: &Done) -> Graph<Words> {
    let done = done.clone();
    GraphBuilder::<Words>::new("asking", 1)
        .node("ask", move |ctx, _| {
            let done = done.clone();
            async move {
                let word = ctx
                    .step("work", Effect::Pure, async move {
                        done.add("work");
                        Ok("worked".to_owned())
                    })
                    .await?;
                let answer = ctx.pause_for::<String>(Wait::approval("go on?")).await?;
                Ok(vec![word, answer.into_value().unwrap_or_default()])
            }
        })
        .edge(START, "ask")
        .edge("ask", END)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_thread_is_copied_with_what_is_under_way_and_both_go_on() {
    everywhere(async |store: Store| {
        let runtime = Runtime::new(store.clone(), Ambient::system());
        let done = Done::default();
        let (from, to) = (thread(), named("thread_2"));
        completed(run(&runtime, &counting(), &from).await);
        assert!(matches!(run(&runtime, &asking(&done), &from).await, Outcome::Waiting(_)));
        let copies = runtime.copy_thread(&single(), &from, &to).await.unwrap();
        assert_eq!(copies.len(), 2);
        let again = runtime.copy_thread(&single(), &from, &to).await;
        assert!(matches!(again, Err(DurableError::ThreadTaken { .. })), "{again:?}");
        let report = store.verify(longhaul_durable::CHECKS).await.unwrap();
        assert!(report.is_sound(), "{report}");
        done.take();
        for (thread, word) in [(&to, "copy"), (&from, "original")] {
            runtime.continue_thread(&single(), thread, word.into(), word, "ann").await.unwrap();
            assert_eq!(completed(run(&runtime, &asking(&done), thread).await), Words::of(&["worked", word]));
            let first: Words = runtime.state_at(&single(), &copies[0].id, 3).await.unwrap();
            assert_eq!(first, Words::of(&["1", "2", "3"]));
        }
        // The recorded step came along.
        assert!(done.take().is_empty());
    })
    .await;
}

#[tokio::test]
async fn what_is_removed_leaves_nothing_and_takes_nothing_else_along() {
    everywhere(async |store: Store| {
        let runtime = Runtime::new(store.clone(), Ambient::system());
        let other = named("thread_2");
        completed(run(&runtime, &counting(), &other).await);
        let before = contents(&store).await;
        completed(run(&runtime, &counting(), &thread()).await);
        run(&runtime, &asking(&Done::default()), &thread()).await;
        runtime.continue_thread(&single(), &thread(), "yes".into(), "r1", "ann").await.unwrap();
        let newest = runtime.find(&single(), &thread()).await.unwrap().unwrap().id;
        let stranger = Scope { user: "user_other".parse().unwrap(), ..single() };
        let hidden = runtime.delete_execution(&stranger, &newest).await;
        assert!(matches!(hidden, Err(DurableError::NoExecution { .. })), "{hidden:?}");
        assert_eq!(runtime.delete_thread(&stranger, &thread()).await.unwrap(), 0);
        runtime.delete_execution(&single(), &newest).await.unwrap();
        let state: Words = runtime.state(&single(), &thread()).await.unwrap().unwrap();
        assert_eq!(state, Words::of(&["1", "2", "3"]));
        let lease = Lease::acquire(&store, &single(), &thread(), Duration::from_secs(30)).await.unwrap();
        let held = runtime.delete_thread(&single(), &thread()).await;
        assert!(matches!(held, Err(DurableError::Lease(_))), "{held:?}");
        lease.release().await.unwrap();
        assert_eq!(runtime.delete_thread(&single(), &thread()).await.unwrap(), 1);
        assert_eq!(contents(&store).await, before);
        assert_eq!(runtime.state::<Words>(&single(), &thread()).await.unwrap(), None);
    })
    .await;
}

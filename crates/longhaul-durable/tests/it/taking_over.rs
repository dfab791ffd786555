//! Executions that another release of the graph began, and a look at them beforehand.

use std::sync::Arc;

use longhaul_core::{Digest, Scope};
use longhaul_durable::{
    DurableError, END, Effect, Graph, GraphBuilder, GraphState, Key, Misfit, NodeError, Outcome, Problem, Resources,
    RunOptions, START, Status, StopWhen,
};
use longhaul_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::support::{Words, World, completed, scope, thread, world};

mod old {
    use super::{Deserialize, GraphState, Serialize};
    #[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
    pub(super) struct Notes {
        #[append]
        pub(super) lines: Vec<String>,
        pub(super) title: String,
    }
}

/// `title` is called `heading` now, and lines are counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, GraphState)]
struct Notes {
    #[append]
    lines: Vec<String>,
    #[serde(default)]
    heading: String,
}

fn single() -> Scope {
    Scope::single_user()
}

/// The first release: `write` thrice, then `check`, which gives up.
fn first() -> Graph<old::Notes> {
    GraphBuilder::<old::Notes>::new("notes", 1)
        .node("write", |_, state: Arc<old::Notes>| async move {
            Ok(old::NotesUpdate::new().lines([format!("line {}", state.lines.len())]).title("mine"))
        })
        .node("check", |ctx, _| async move {
            ctx.step("look", Effect::Pure, async { Ok(1_u64) }).await?;
            Err::<old::NotesUpdate, _>(NodeError::gave_up(std::io::Error::other("not yet")))
        })
        .edge(START, "write")
        .branch("write", &["write", "check"], |state| if state.lines.len() < 3 { "write" } else { "check" })
        .edge("check", END)
        .build()
        .unwrap()
}

/// The second release, in which `check` is called `review`.
fn second() -> GraphBuilder<Notes> {
    GraphBuilder::<Notes>::new("notes", 2)
        .state_version(2)
        .node("review", |ctx, state: Arc<Notes>| async move {
            let looked = ctx.step("look", Effect::Pure, async { Ok(2_u64) }).await?;
            Ok(NotesUpdate::new().lines([format!("{} {looked}", state.heading)]))
        })
        .node("check", |ctx, state: Arc<Notes>| async move {
            let looked = ctx.step("look", Effect::Pure, async { Ok(2_u64) }).await?;
            Ok(NotesUpdate::new().lines([format!("{} {looked}", state.heading)]))
        })
        .edge(START, "review")
        .edge("review", "check")
        .edge("check", END)
}

async fn left_by_the_first(world: &World) {
    let initial = old::Notes::default();
    let outcome = world.runtime.run(&first(), &scope(), &thread(), initial, RunOptions::default()).await.unwrap();
    assert!(matches!(outcome, Outcome::Failed { superstep: 4, .. }), "{outcome:?}");
}

/// Every row of every table, for a comparison.
async fn everything(world: &World) -> Vec<String> {
    let tables =
        ["executions", "checkpoints", "snapshots", "tasks_done", "steps", "effects", "waits", "answers", "events"];
    let read = world.store.read(move |read| {
        let mut all = Vec::new();
        for table in tables {
            all.push(format!(
                "{table}: {}",
                read.query_one(&format!("SELECT count(*) FROM {table}"), &[], |row| row.get::<u64>(0))?
            ));
        }
        all.extend(read.query(
            "SELECT execution_id || status || fingerprint || state_version || updated_at FROM executions
             UNION ALL SELECT execution_id || ns || superstep || frontier || form || data FROM checkpoints
             UNION ALL SELECT execution_id || ns || superstep || name || result FROM steps ORDER BY 1",
            &[],
            |row| row.get::<String>(0),
        )?);
        Ok::<_, StoreError>(all)
    });
    read.await.unwrap()
}

#[tokio::test]
async fn without_a_migration_another_graph_is_refused_with_what_does_not_fit() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    left_by_the_first(&world).await;
    let before = everything(&world).await;
    let graph = GraphBuilder::<Notes>::new("notes", 2)
        .node("review", |_, _| async { Ok(NotesUpdate::new()) })
        .edge(START, "review")
        .edge("review", END)
        .build()
        .unwrap();
    let run = world.runtime.run(&graph, &scope(), &thread(), Notes::default(), RunOptions::default()).await;
    let Err(DurableError::GraphChanged { misfits, .. }) = &run else { panic!("{run:?}") };
    let expected =
        [Misfit::Field { field: "title".to_owned() }, Misfit::Node { ns: String::new(), node: "check".to_owned() }];
    assert_eq!(misfits[..], expected);
    let words = run.unwrap_err().to_string();
    assert!(words.contains("the node check, which is to run next, is gone"), "{words}");
    let looked = world.runtime.inspect(&graph, &single(), &thread(), &Resources::new()).await.unwrap().unwrap();
    assert!(matches!(looked.problems[0], Problem::GraphChanged { .. }), "{looked:?}");
    assert!(looked.problems.contains(&Problem::Misfit(expected[1].clone())), "{looked:?}");
    assert_eq!(everything(&world).await, before);
}

#[tokio::test]
async fn a_migration_changes_state_and_position_in_one_commit() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    left_by_the_first(&world).await;
    let before = everything(&world).await;
    let refused = async |graph: &Graph<Notes>| {
        let run = world.runtime.run(graph, &scope(), &thread(), Notes::default(), RunOptions::default()).await;
        assert_eq!(everything(&world).await, before);
        run.unwrap_err()
    };
    // Read by the new type something would be lost; a migration may refuse; its position may not fit.
    let lossy = second().migrate(1, |_, _| Ok(())).build().unwrap();
    let error = refused(&lossy).await;
    assert!(matches!(&error, DurableError::OldState { lost: Some(path), .. } if path == "state.title"), "{error:?}");
    let failing = second().migrate_from::<old::Notes, _>(1, |_, _| Err("no".into())).build().unwrap();
    assert!(matches!(refused(&failing).await, DurableError::Migration { .. }));
    let lost = second()
        .migrate_from::<old::Notes, _>(1, |_, position| {
            position.frontier[0].node = "review".into();
            Ok(())
        })
        .build()
        .unwrap();
    let error = refused(&lost).await;
    let DurableError::Misfits { misfits, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(&misfits[..], [Misfit::Recorded { what, .. }] if what == "step look"), "{misfits:?}");

    let good = second()
        .migrate_from::<old::Notes, _>(1, |state, _| {
            state["heading"] = state["title"].take();
            Ok(())
        })
        .build()
        .unwrap();
    let looked = world.runtime.inspect(&good, &single(), &thread(), &Resources::new()).await.unwrap().unwrap();
    assert!(looked.is_clear(), "{looked:?}");
    let outcome = world.runtime.run(&good, &scope(), &thread(), Notes::default(), RunOptions::default()).await.unwrap();
    let Outcome::Completed(state) = outcome else { panic!("{outcome:?}") };
    // The step that the first release recorded counts.
    assert_eq!(state.lines, ["line 0", "line 1", "line 2", "mine 1"]);
    assert!(world.kinds().await.contains(&"execution.migrated".to_owned()));
    let all = world.runtime.branches(&single(), &thread()).await.unwrap();
    assert_eq!(all.iter().map(|e| e.status).collect::<Vec<_>>(), [Status::Completed, Status::Abandoned]);
    let kept: old::Notes = world.runtime.state_at(&single(), &all[1].id, 3).await.unwrap();
    assert_eq!(kept.title, "mine");
    let report = world.store.verify(longhaul_durable::CHECKS).await.unwrap();
    assert!(report.is_sound(), "{report}");
}

#[tokio::test]
async fn a_compatible_graph_goes_on_where_it_has_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = |extra: bool, next: &'static str| {
        let mut graph = GraphBuilder::<Words>::new("grown", 1)
            .node("one", |_, _| async { Ok(vec!["one".to_owned()]) })
            .node(next, |_, _| async { Ok(vec!["two".to_owned()]) })
            .edge(START, "one")
            .edge("one", next);
        graph = match extra {
            true => graph
                .node("three", |_, _| async { Ok(vec!["three".to_owned()]) })
                .edge(next, "three")
                .edge("three", END),
            false => graph.edge(next, END),
        };
        graph
    };
    let old = graph(false, "two").build().unwrap();
    let stop: StopWhen<Words> = Arc::new(|state| state.count == 1);
    world.run_with(&old, RunOptions { stop_when: Some(stop), ..RunOptions::default() }).await;
    let renamed = graph(true, "deux").compatible_with(*old.fingerprint()).build().unwrap();
    let run = world.runtime.run(&renamed, &scope(), &thread(), Words::default(), RunOptions::default()).await;
    assert!(matches!(&run, Err(DurableError::GraphChanged { misfits, .. }) if misfits.len() == 1), "{run:?}");
    let grown = graph(true, "two").compatible_with(*old.fingerprint()).build().unwrap();
    assert_eq!(completed(world.run(&grown).await), Words::of(&["one", "two", "three"]));
    let execution = world.runtime.find(&single(), &thread()).await.unwrap().unwrap();
    assert_eq!(execution.fingerprint, *grown.fingerprint());
}

/// A state whose `apply` can be another one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Sum<const FACTOR: u64>(u64, String);

impl<const FACTOR: u64> GraphState for Sum<FACTOR> {
    type Update = (u64, String);
    fn apply(&mut self, update: Self::Update) {
        self.0 += FACTOR * update.0;
        self.1 = update.1;
    }
}

fn summing<const FACTOR: u64>(browser: &Key<String>) -> Graph<Sum<FACTOR>> {
    GraphBuilder::<Sum<FACTOR>>::new("summing", 1)
        .node("add", |_, _| async { Ok((1, "x".repeat(4_000))) })
        .requires("add", browser)
        .blobs(|_| vec![Digest::of("lost")])
        .edge(START, "add")
        .branch("add", &["add", END], |state| if state.0 < 30 { "add" } else { END })
        .build()
        .unwrap()
}

#[tokio::test]
async fn an_inspection_finds_what_stands_in_the_way_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let key = Key::<String>::new("browser");
    let stop: StopWhen<Sum<1>> = Arc::new(|state| state.0 >= 20);
    let resources = Resources::new().with_key(&key, Arc::new("there".to_owned()));
    let options = RunOptions { stop_when: Some(stop), resources: resources.clone(), ..RunOptions::default() };
    assert!(world.runtime.inspect(&summing::<1>(&key), &single(), &thread(), &resources).await.unwrap().is_none());
    let outcome = world.runtime.run(&summing::<1>(&key), &scope(), &thread(), Sum::default(), options).await.unwrap();
    assert!(matches!(outcome, Outcome::Stopped(_)), "{outcome:?}");
    let before = everything(&world).await;
    let lost = Problem::LostBlob(Digest::of("lost"));
    let looked = world.runtime.inspect(&summing::<1>(&key), &single(), &thread(), &resources).await.unwrap().unwrap();
    assert_eq!(looked.problems, std::slice::from_ref(&lost));
    // Another reducer gives another sum than was written down; and the browser is missing.
    let looked =
        world.runtime.inspect(&summing::<2>(&key), &single(), &thread(), &Resources::new()).await.unwrap().unwrap();
    let [Problem::ReducerChanged(point), Problem::MissingResource(missing), found] = &looked.problems[..] else {
        panic!("{looked:?}")
    };
    assert_eq!((missing.node.as_str(), found), ("add", &lost));
    assert!(point.superstep > 0);
    assert_eq!(everything(&world).await, before);
    let damage = "UPDATE checkpoints SET data = replace(data, 'xx', 'xy') WHERE superstep = 2";
    world.store.write(|tx| tx.execute(damage, &[])).await.map_err(|error: StoreError| error).unwrap();
    let looked = world.runtime.inspect(&summing::<1>(&key), &single(), &thread(), &resources).await.unwrap().unwrap();
    assert!(matches!(&looked.problems[0], Problem::Damaged(point) if point.superstep == 2), "{looked:?}");
    assert!(looked.problems[0].to_string().contains("is damaged"));
}

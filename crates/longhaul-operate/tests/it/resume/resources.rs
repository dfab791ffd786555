//! Which live resources are needed: inspecting lists exactly those declared, and a run without them changes nothing.

use std::sync::{Arc, Mutex};

use longhaul_core::ThreadId;
use longhaul_durable::{
    Answer, DurableError, END, Graph, GraphBuilder, GraphState, Key, NodeError, Outcome, Problem, Resources,
    RunOptions, START, Wait,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::ground::{Ground, on_both, scope};

on_both!(inspecting_lists_exactly_what_is_declared_and_refusing_changes_nothing);

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Draft {
    #[append]
    lines: Vec<String>,
}

/// A live object: it cannot be in a state.
#[derive(Debug, Default)]
struct Press(Mutex<Vec<String>>);

const PRESS: Key<Press> = Key::new("press");
const ARCHIVE: Key<Press> = Key::new("archive");

/// Writes, asks, then needs both; a graph inside needs the archive too.
fn graph() -> Graph<Draft> {
    let inner = GraphBuilder::<Draft>::new("filing", 1)
        .node("file", |ctx, _| async move {
            let archive = ctx.resources().get_key(&ARCHIVE)?;
            archive.0.lock().unwrap().push("filed".to_owned());
            Ok::<_, NodeError>(DraftUpdate::new().lines(["filed".to_owned()]))
        })
        .requires("file", &ARCHIVE)
        .edge(START, "file")
        .edge("file", END)
        .build()
        .unwrap();
    GraphBuilder::<Draft>::new("publishing", 1)
        .node("ask", |ctx, _| async move {
            let answer: Answer<bool> = ctx.pause_for(Wait::approval("print it?")).await?;
            Ok(DraftUpdate::new().lines([format!("{:?}", answer.into_value())]))
        })
        .node("print", |ctx, _| async move {
            let press = ctx.resources().get_key(&PRESS)?;
            press.0.lock().unwrap().push("printed".to_owned());
            Ok::<_, NodeError>(DraftUpdate::new().lines(["printed".to_owned()]))
        })
        .requires("print", &PRESS)
        .shared_subgraph("filing", inner)
        .edge(START, "ask")
        .edge("ask", "print")
        .edge("print", "filing")
        .edge("filing", END)
        .build()
        .unwrap()
}

async fn inspecting_lists_exactly_what_is_declared_and_refusing_changes_nothing(ground: Ground) {
    let thread: ThreadId = "post-1".parse().unwrap();
    let (press, archive) = (Arc::new(Press::default()), Arc::new(Press::default()));
    let given = Resources::new().with_key(&PRESS, press.clone()).with_key(&ARCHIVE, archive.clone());
    {
        let runtime = ground.runtime().await;
        let with = RunOptions { resources: given.clone(), ..RunOptions::default() };
        let outcome = runtime.run(&graph(), &scope(), &thread, Draft::default(), with).await.unwrap();
        let Outcome::Waiting(waits) = outcome else { panic!("{outcome:?}") };
        runtime.continue_with(&scope().scope, &waits[0].id, json!(true), "yes", "ada").await.unwrap();
    }
    // Another process, which has nothing alive.
    let runtime = ground.runtime().await;
    let before = ground.everything().await;
    let looked = runtime.inspect(&graph(), &scope().scope, &thread, &Resources::new()).await.unwrap().unwrap();
    let needed: Vec<String> = looked
        .problems
        .iter()
        .map(|problem| match problem {
            Problem::MissingResource(missing) => format!("{} needs {}", missing.node, missing.resource),
            other => panic!("{other}"),
        })
        .collect();
    let own = std::any::type_name::<Press>();
    assert_eq!(needed, [format!("print needs press ({own})"), format!("filing>file needs archive ({own})")]);
    for (given, missing) in [(Resources::new(), 2), (Resources::new().with_key(&PRESS, press.clone()), 1)] {
        let with = RunOptions { resources: given, ..RunOptions::default() };
        let refused = runtime.run(&graph(), &scope(), &thread, Draft::default(), with).await;
        let Err(DurableError::MissingResources { missing: found }) = refused else { panic!("{refused:?}") };
        assert_eq!(found.len(), missing);
    }
    assert_eq!(ground.everything().await, before, "refusing changed something");
    // With them, the answer that had been given is used.
    let with = RunOptions { resources: given, ..RunOptions::default() };
    let outcome = runtime.run(&graph(), &scope(), &thread, Draft::default(), with).await.unwrap();
    let Outcome::Completed(state) = outcome else { panic!("{outcome:?}") };
    assert_eq!(state.lines, ["Some(true)", "printed", "filed"]);
    assert_eq!((press.0.lock().unwrap().len(), archive.0.lock().unwrap().len()), (1, 1));
}

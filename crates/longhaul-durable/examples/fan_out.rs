//! Parallel work: as many tasks as there are topics, a branch of another length beside them, a join, and reducers that
//! say how results come together. One task fails; the next run does only what is unfinished.
//!
//! ```text
//! cargo run -p longhaul-durable --example fan_out
//! ```

use std::{
    error::Error,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use longhaul_core::{Ambient, TaskScope};
use longhaul_durable::{
    END, Effect, Graph, GraphBuilder, GraphState, MIGRATIONS, NodeError, Outcome, Resources, RunOptions, Runtime,
    START, Send, StepError,
};
use longhaul_store::{Store, StoreSettings};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Report {
    topics: Vec<String>,
    /// Grows by what each task finds, in the order of the tasks, whichever was first.
    #[append]
    findings: Vec<String>,
    /// Several tasks may propose one; this function decides.
    #[reduce(keep_longest)]
    title: String,
    picture: String,
    text: String,
}

fn keep_longest(title: &mut String, proposed: String) {
    if proposed.len() > title.len() {
        *title = proposed;
    }
}

/// Something live that nodes need and state must not hold.
struct Library {
    closed: AtomicBool,
}

impl Library {
    fn read_about(&self, topic: &str) -> Result<String, StepError> {
        if topic == "volcanoes" && self.closed.load(Ordering::Relaxed) {
            return Err(io::Error::other("the volcano room is closed today").into());
        }
        Ok(format!("{topic} are older than you think"))
    }
}

fn graph() -> Result<Graph<Report>, Box<dyn Error>> {
    let graph = GraphBuilder::<Report>::new("report", 1)
        .node_with_input("research", |ctx, _state, topic: String| async move {
            let library = ctx.resources().get::<Library>()?;
            println!("  task {} researches {topic}", ctx.task());
            let title = format!("On {topic}");
            let finding = ctx.step("read", Effect::Pure, async move { library.read_about(&topic) }).await?;
            Ok(ReportUpdate::new().findings([finding]).title(title))
        })
        .node("paint", |_, _| async { Ok::<_, NodeError>(ReportUpdate::new().picture("a picture")) })
        .node("frame", |_, state| async move {
            Ok::<_, NodeError>(ReportUpdate::new().picture(format!("{}, framed", state.picture)))
        })
        .node("write", |_, state| async move {
            let text = format!("{} ({}): {}", state.title, state.picture, state.findings.join("; "));
            Ok::<_, NodeError>(ReportUpdate::new().text(text))
        })
        // All of these at once: one `research` for each topic, and the way by `paint`, which takes longer.
        .fan_out(START, &["research"], |report| {
            report.topics.iter().map(|topic| Send::new("research", topic)).collect()
        })
        .edge(START, "paint")
        .edge("paint", "frame")
        // Once, when both have arrived.
        .join(&["research", "frame"], "write")
        .edge("write", END)
        .build()?;
    Ok(graph)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let graph = graph()?;
    println!("{}", graph.shape().to_mermaid());
    let store = Store::open(StoreSettings::in_memory(), Ambient::system(), &[MIGRATIONS]).await?;
    let runtime = Runtime::new(store, Ambient::system());
    let library = Arc::new(Library { closed: AtomicBool::new(true) });
    let topics = ["whales", "volcanoes", "cathedrals"].map(str::to_owned).to_vec();
    let initial = Report { topics, ..Report::default() };
    for run in 1..=2 {
        println!("run {run}");
        let options = RunOptions { resources: Resources::new().with(library.clone()), ..RunOptions::default() };
        match runtime.run(&graph, &TaskScope::single_user(), &"report".parse()?, initial.clone(), options).await? {
            Outcome::Completed(report) => println!("{}", report.text),
            Outcome::Failed { node, error, .. } => {
                println!("  {node} failed: {}", error.source().map_or(String::new(), ToString::to_string))
            }
            other @ (Outcome::Stopped(_) | Outcome::Cancelled | Outcome::Waiting(_) | Outcome::NeedsReconcile(_)) => {
                println!("{other:?}")
            }
        }
        library.closed.store(false, Ordering::Relaxed);
    }
    Ok(())
}

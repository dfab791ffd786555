//! The smallest durable graph: one node, two recorded steps, and a process that may die between them.
//!
//! ```text
//! cargo run -p longhaul-durable --example hello -- --crash    # dies after the first step
//! cargo run -p longhaul-durable --example hello               # goes on: the first step does not run again
//! ```
//!
//! `--store FOLDER` says where everything is recorded.

use std::{env, error::Error, process};

use longhaul_core::{Ambient, TaskScope};
use longhaul_durable::{END, Effect, GraphBuilder, GraphState, MIGRATIONS, Outcome, RunOptions, Runtime, START};
use longhaul_store::{Store, StoreSettings};
use serde::{Deserialize, Serialize};

/// What the graph works on. The derive makes `HelloUpdate`: what a node changes of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Hello {
    name: String,
    #[append]
    lines: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let crash = env::args().any(|argument| argument == "--crash");
    let graph = GraphBuilder::<Hello>::new("hello", 1)
        .node("greet", move |ctx, state| async move {
            let name = state.name.clone();
            let think = async move {
                println!("step 1 runs: thinking of a greeting");
                Ok(format!("Hello, {name}!"))
            };
            let greeting = ctx.step("think", Effect::Pure, think).await?;
            if crash {
                println!("the process dies");
                process::exit(137);
            }
            let look = async {
                println!("step 2 runs: looking at the weather");
                Ok("It rains.".to_owned())
            };
            let weather = ctx.step("look", Effect::Pure, look).await?;
            println!("{} of 2 steps had been recorded by an earlier process", ctx.replayed_steps());
            Ok(HelloUpdate::new().lines([greeting, weather]))
        })
        .edge(START, "greet")
        .edge("greet", END)
        .build()?;

    let folder = env::args().skip_while(|argument| argument != "--store").nth(1);
    let folder = folder.map_or_else(|| env::temp_dir().join("longhaul-hello"), Into::into);
    let store = Store::open(StoreSettings::new(folder), Ambient::system(), &[MIGRATIONS]).await?;
    let runtime = Runtime::new(store, Ambient::system());
    let initial = Hello { name: "Ada".into(), lines: Vec::new() };
    // Starts the thread's execution, or goes on with the one that a dead process left.
    let outcome =
        runtime.run(&graph, &TaskScope::single_user(), &"hello".parse()?, initial, RunOptions::default()).await?;
    let Outcome::Completed(hello) = outcome else { return Err(format!("{outcome:?}").into()) };
    println!("{}", hello.lines.join(" "));
    Ok(())
}

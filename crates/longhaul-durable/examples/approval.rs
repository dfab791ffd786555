//! A person decides. The run ends while it waits, so nothing needs to stay alive: answer in a minute or in a month.
//!
//! ```text
//! cargo run -p longhaul-durable --example approval                # drafts a post, asks, and ends
//! cargo run -p longhaul-durable --example approval -- --approve   # answers and goes on: the draft is not made again
//! ```
//!
//! Instead of `--approve` there are `--reject` and the command `longhaul approve`, which the first run prints.
//! `--store FOLDER` says where everything is recorded.

use std::{env, error::Error, path::PathBuf};

use longhaul_core::{Ambient, TaskScope};
use longhaul_durable::{
    Answer, Continued, END, Effect, Flow, Graph, GraphBuilder, GraphState, MIGRATIONS, NodeError, Outcome, RunOptions,
    Runtime, START, Wait,
};
use longhaul_store::{Store, StoreSettings};
use serde::{Deserialize, Serialize};
use serde_json::json;

const WEEK_MS: u64 = 7 * 24 * 60 * 60 * 1000;

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Post {
    topic: String,
    draft: String,
    verdict: String,
}

fn graph() -> Result<Graph<Post>, Box<dyn Error>> {
    let graph = GraphBuilder::<Post>::new("post", 1)
        .node("draft", |ctx, state| async move {
            let topic = state.topic.clone();
            let write = async move {
                println!("drafting (this costs money)");
                Ok(format!("Ten things nobody tells you about {topic}"))
            };
            Ok(PostUpdate::new().draft(ctx.step("write", Effect::Pure, write).await?))
        })
        .node("ask", |ctx, state| async move {
            let question = Wait::approval("publish this post?")
                .payload(json!({ "draft": state.draft }))
                .schema(json!({ "type": "boolean" }))
                .deadline_ms(WEEK_MS);
            // Ends the node here until there is an answer; then the node runs again from its top and gets it.
            let answer: Answer<bool> = ctx.pause_for(question).await?;
            Ok(match answer {
                Answer::Given { value: true, actor, .. } => {
                    Flow::update(PostUpdate::new().verdict(format!("approved by {actor}"))).goto("publish")
                }
                Answer::Given { value: false, actor, .. } => {
                    Flow::update(PostUpdate::new().verdict(format!("rejected by {actor}"))).goto(END)
                }
                Answer::Expired { .. } => Flow::update(PostUpdate::new().verdict("nobody answered")).goto(END),
            })
        })
        .node("publish", |ctx, state| async move {
            let draft = state.draft.clone();
            // A real site would be given the key, and so know a second request for the first.
            let key = ctx.step_id("post it").to_string();
            let publish = async move {
                println!("publishing {draft:?}");
                Ok(())
            };
            ctx.step("post it", Effect::Idempotent { key }, publish).await?;
            Ok::<_, NodeError>(Flow::nothing())
        })
        .edge(START, "draft")
        .edge("draft", "ask")
        .goto("ask", &["publish", END])
        .edge("publish", END)
        .build()?;
    Ok(graph)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let says = |word: &str| arguments.iter().any(|argument| argument == word);
    let folder = arguments.iter().skip_while(|argument| *argument != "--store").nth(1);
    let folder = folder.map_or_else(|| env::temp_dir().join("longhaul-approval"), PathBuf::from);
    let store = Store::open(StoreSettings::new(&folder), Ambient::system(), &[MIGRATIONS]).await?;
    let runtime = Runtime::new(store, Ambient::system());
    let (scope, thread) = (TaskScope::single_user(), "post".parse()?);

    if says("--approve") || says("--reject") {
        // For the one thing that waits on the thread. The request's name makes a repeated answer the same one.
        let answer = json!(says("--approve"));
        let person = "the person at the keyboard";
        let continued = runtime.continue_thread(&scope.scope, &thread, answer, "example", person).await;
        if let Continued::Repeated(wait) = continued.map_err(|refused| refused.to_string())? {
            println!("that was answered before, by {}", wait.actor.unwrap_or_default());
            return Ok(());
        }
    }
    let initial = Post { topic: "moss".into(), ..Post::default() };
    match runtime.run(&graph()?, &scope, &thread, initial, RunOptions::default()).await? {
        Outcome::Waiting(waits) => {
            for wait in waits {
                println!("waiting for an answer: {} {}", wait.name, wait.payload);
                println!("  longhaul approve {} --store {}", wait.id, folder.display());
                println!("and run this again; or both at once:");
                println!("  cargo run -p longhaul-durable --example approval -- --approve");
            }
        }
        Outcome::Completed(post) => println!("{}: {}", post.draft, post.verdict),
        other @ (Outcome::Stopped(_) | Outcome::Cancelled | Outcome::NeedsReconcile(_) | Outcome::Failed { .. }) => {
            println!("{other:?}");
        }
    }
    Ok(())
}

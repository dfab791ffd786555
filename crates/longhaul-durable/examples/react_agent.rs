//! The loop of model and tools: the model asks for tools, each call runs as a task of its own, their results go back,
//! until the model answers. The model here follows a script, so nothing is needed but this program; for a real one
//! implement `Model`. A second question on the same thread goes on with the conversation.
//!
//! ```text
//! cargo run -p longhaul-durable --example react_agent
//! ```

use std::{error::Error, sync::Arc};

use longhaul_core::{Ambient, TaskScope};
use longhaul_durable::{
    END, Effect, Flow, Graph, GraphBuilder, GraphState, Key, MIGRATIONS, Outcome, Resources, RunOptions, Runtime, START,
};
use longhaul_store::{Store, StoreSettings};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Message {
    User(String),
    Assistant(String),
    Tool { call: String, result: String },
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Chat {
    #[append]
    messages: Vec<Message>,
}

/// What a model says: an answer, or the tools it wants first.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Reply {
    text: String,
    calls: Vec<String>,
}

trait Model: std::marker::Send + Sync {
    fn reply(&self, messages: &[Message]) -> Reply;
}

const MODEL: Key<dyn Model> = Key::new("model");

struct Scripted;

impl Model for Scripted {
    fn reply(&self, messages: &[Message]) -> Reply {
        let degrees = |result: &String| result.trim_end_matches(" °C").parse::<i32>().unwrap_or(0);
        let seen: Vec<(&String, i32)> = messages
            .iter()
            .filter_map(|message| match message {
                Message::Tool { call, result } => Some((call, degrees(result))),
                Message::User(_) | Message::Assistant(_) => None,
            })
            .collect();
        let warmest = seen.iter().max_by_key(|(_, degrees)| *degrees);
        match (messages.last(), warmest) {
            (Some(Message::User(text)), None) => {
                let calls = ["Oslo", "Turin"].into_iter().filter(|city| text.contains(city)).map(str::to_owned);
                Reply { text: "Let me look.".into(), calls: calls.collect() }
            }
            (_, Some((city, degrees))) => Reply { text: format!("{city}, at {degrees} °C."), calls: Vec::new() },
            (_, None) => Reply { text: "Ask me about a city.".into(), calls: Vec::new() },
        }
    }
}

fn graph() -> Result<Graph<Chat>, Box<dyn Error>> {
    let graph = GraphBuilder::<Chat>::new("agent", 1)
        .node("model", |ctx, state| async move {
            let model = ctx.resources().get_key(&MODEL)?;
            // Recorded: after a crash the same reply is there, and is not paid for again.
            let reply: Reply = ctx.step("ask", Effect::Pure, async move { Ok(model.reply(&state.messages)) }).await?;
            let said = Flow::update(ChatUpdate::new().messages([Message::Assistant(reply.text)]));
            if reply.calls.is_empty() {
                return Ok(said.goto(END));
            }
            Ok(reply.calls.iter().fold(said, |said, call| said.send("tool", call)))
        })
        .node_with_input("tool", |ctx, _, call: String| async move {
            let city = call.clone();
            let look = async move { Ok(if city == "Oslo" { "3 °C" } else { "19 °C" }.to_owned()) };
            let result = ctx.step("thermometer", Effect::Pure, look).await?;
            Ok(ChatUpdate::new().messages([Message::Tool { call, result }]))
        })
        .requires("model", &MODEL)
        .edge(START, "model")
        .goto("model", &["tool", END])
        .edge("tool", "model")
        .build()?;
    Ok(graph)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let graph = graph()?;
    let store = Store::open(StoreSettings::in_memory(), Ambient::system(), &[MIGRATIONS]).await?;
    let runtime = Runtime::new(store, Ambient::system());
    let (scope, thread) = (TaskScope::single_user(), "chat".parse()?);
    for question in ["Which is warmer, Oslo or Turin?", "Where should I go, then?"] {
        // What was said before, and the new question.
        let mut chat: Chat = runtime.state(&scope.scope, &thread).await?.unwrap_or_default();
        let known = chat.messages.len();
        chat.messages.push(Message::User(question.into()));
        let resources = Resources::new().with_key(&MODEL, Arc::new(Scripted));
        let options = RunOptions { resources, ..RunOptions::default() };
        let outcome = runtime.run(&graph, &scope, &thread, chat, options).await?;
        let Outcome::Completed(chat) = outcome else { return Err(format!("{outcome:?}").into()) };
        for message in &chat.messages[known..] {
            match message {
                Message::User(text) => println!("you    {text}"),
                Message::Assistant(text) => println!("agent  {text}"),
                Message::Tool { call, result } => println!("tool   {call}: {result}"),
            }
        }
    }
    Ok(())
}

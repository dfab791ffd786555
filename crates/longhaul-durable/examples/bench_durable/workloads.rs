//! LangGraph's own bench workloads, in its sizes: `fanout:K`, `react:K`, `wide_state:ENTRIES:N`, `wide_dict:ENTRIES:N`,
//! `sequential:K`, each with `:saver` for a store in memory. There a run keeps one checkpoint at its end; here every
//! superstep is kept, as always.

use anyhow::{Context, bail, ensure};
use longhaul_durable::{END, Graph, GraphBuilder, GraphState, START, Send};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    measure::{Stopwatch, median},
    place::{Bench, Mode, on_one_thread},
    wide,
};

/// Measures a whole run, in milliseconds by the clock and of CPU time: the middle of at least three, of more while they are short; the first warms up.
pub(crate) fn measure(name: &str) -> anyhow::Result<Value> {
    let mut parts: Vec<&str> = name.split(':').collect();
    let mode = if parts.last() == Some(&"saver") { Mode::Memory } else { Mode::None };
    if mode == Mode::Memory {
        parts.pop();
    }
    let kind = parts.remove(0).to_owned();
    let sizes = parts.iter().map(|size| size.parse()).collect::<Result<Vec<usize>, _>>()?;
    on_one_thread(async move {
        let bench = Bench::open(mode).await?;
        let (ms, cpu_ms) = match (kind.as_str(), sizes.as_slice()) {
            ("fanout", [count]) => {
                let start = Jokes { subjects: (0..*count).map(letters).collect(), jokes: Vec::new() };
                let told = |state: &Jokes| state.jokes.len() == *count && state.jokes.iter().all(|joke| bumped(joke));
                repeated(&bench, &fanout()?, &start, told).await?
            }
            ("react", [rounds]) => {
                let start = Conversation { messages: vec![Message::Human { content: "hi?".to_owned() }] };
                let answered = |state: &Conversation| state.messages.len() == 2 * rounds + 2;
                repeated(&bench, &react(*rounds)?, &start, answered).await?
            }
            ("wide_state" | "wide_dict", [entries, size]) => {
                let start = wide::start(bench.store.as_ref(), *entries).await?;
                let filled = |state: &wide::Wide| state.filled(*size);
                repeated(&bench, &wide::graph(*size)?, &start, filled).await?
            }
            ("sequential", [count]) => {
                let graph = sequential(*count)?;
                repeated(&bench, &graph, &Conversation::default(), |state| state.messages.is_empty()).await?
            }
            _ => bail!("no such workload: {kind} {sizes:?}"),
        };
        Ok(json!({ "ms": ms, "cpu_ms": cpu_ms }))
    })
}

async fn repeated<S: GraphState>(
    bench: &Bench,
    graph: &Graph<S>,
    start: &S,
    right: impl Fn(&S) -> bool,
) -> anyhow::Result<(f64, f64)> {
    let once = async || {
        let watch = Stopwatch::start();
        let state = bench.complete(graph, start.clone()).await?;
        let (ms, cpu_ms) = (watch.ms(), watch.cpu_us() / 1_000.0);
        ensure!(right(&state), "the workload came to a wrong result");
        anyhow::Ok((ms, cpu_ms))
    };
    let (first, _) = once().await?;
    let count = (500.0 / first.max(1.0)).clamp(3.0, 20.0) as usize;
    let mut times = Vec::new();
    for _ in 0..count {
        times.push(once().await?);
    }
    let (ms, cpu_ms) = times.into_iter().unzip();
    Ok((median(ms), median(cpu_ms)))
}

/// A thousand letters, different for each number.
fn letters(number: usize) -> Vec<char> {
    let mut seed = number as u64 + 1;
    (0..1_000).map(|_| wide::letter(&mut seed)).collect()
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Jokes {
    #[append]
    subjects: Vec<Vec<char>>,
    #[append]
    jokes: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Joke {
    letters: Vec<char>,
    subject: String,
    jokes: Vec<String>,
}

fn bumped(joke: &str) -> bool {
    joke.ends_with(&" a".repeat(10))
}

fn first(state: &Joke) -> &str {
    state.jokes.first().map_or("", String::as_str)
}

/// Each subject goes through a subgraph of its own: edit, generate, bump ten times.
fn fanout() -> anyhow::Result<Graph<Jokes>> {
    let inner = GraphBuilder::<Joke>::new("joke", 1)
        .node("edit", |_, state| async move {
            // As the original prints a list of letters: five characters for each.
            let mut list = String::with_capacity(state.letters.len() * 5 + 20);
            for letter in &state.letters {
                list.push_str(if list.is_empty() { "['" } else { ", '" });
                list.push(*letter);
                list.push('\'');
            }
            list.push_str("] - hohoho");
            Ok(JokeUpdate::new().subject(list))
        })
        .node("generate", |_, state| async move {
            Ok(JokeUpdate::new().jokes(vec![format!("Joke about {}", state.subject)]))
        })
        .node("bump", |_, state| async move { Ok(JokeUpdate::new().jokes(vec![format!("{} a", first(&state))])) })
        .edge(START, "edit")
        .edge("edit", "generate")
        .edge("generate", "bump")
        .edge("generate", END)
        .branch("bump", &["bump", END], |state| if bumped(first(state)) { END } else { "bump" })
        .build()?;
    let outer = GraphBuilder::<Jokes>::new("jokes", 1)
        .subgraph_with_input(
            "generate_joke",
            inner,
            |_: &Jokes, letters: Vec<char>| Joke { letters, ..Joke::default() },
            |joke| JokesUpdate::new().jokes(joke.jokes),
        )
        .fan_out(START, &["generate_joke"], |state| {
            state.subjects.iter().map(|subject| Send::new("generate_joke", subject)).collect()
        })
        .edge("generate_joke", END);
    Ok(outer.build()?)
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Message {
    Human { content: String },
    Ai { id: String, content: String, calls: Vec<Call> },
    Tool { call: String, content: String },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Call {
    id: String,
    name: String,
    query: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Conversation {
    #[append]
    messages: Vec<Message>,
}

/// Text as long as a UUID.
fn uuid(number: usize) -> String {
    format!("{number:08x}-0000-4000-8000-{number:012x}")
}

/// A scripted model that calls one tool `rounds` times (3,600 letters in, 36,000 out), then answers.
fn react(rounds: usize) -> anyhow::Result<Graph<Conversation>> {
    let call = |n: usize| Call { id: uuid(n), name: "tool".to_owned(), query: uuid(n).repeat(100) };
    let mut answers: Vec<Message> =
        (0..rounds).map(|n| Message::Ai { id: uuid(n), content: String::new(), calls: vec![call(n)] }).collect();
    answers.push(Message::Ai { id: uuid(rounds), content: "answer".repeat(100), calls: Vec::new() });
    let answers = std::sync::Arc::new(answers);
    let graph = GraphBuilder::<Conversation>::new("react", 1)
        .node("agent", move |_, state| {
            // Before the n-th answer there are the question and n pairs of call and result.
            let answer = answers.get(state.messages.len() / 2).cloned();
            async move { Ok(ConversationUpdate::new().messages(answer)) }
        })
        .node("tools", |_, state| async move {
            let results: Vec<Message> = calls(&state).iter().map(result).collect();
            Ok(ConversationUpdate::new().messages(results))
        })
        .edge(START, "agent")
        .branch("agent", &["tools", END], |state| if calls(state).is_empty() { END } else { "tools" })
        .edge("tools", "agent");
    Ok(graph.build()?)
}

fn calls(state: &Conversation) -> &[Call] {
    match state.messages.last() {
        Some(Message::Ai { calls, .. }) => calls,
        Some(Message::Human { .. } | Message::Tool { .. }) | None => &[],
    }
}

fn result(call: &Call) -> Message {
    Message::Tool { call: call.id.clone(), content: format!("result for query: {}", call.query).repeat(10) }
}

/// `count` nodes in a row that do nothing.
fn sequential(count: usize) -> anyhow::Result<Graph<Conversation>> {
    let names: Vec<String> = (0..count).map(|n| format!("node_{n}")).collect();
    let mut graph = GraphBuilder::<Conversation>::new("sequential", 1);
    for name in &names {
        graph = graph.node(name, |_, _| async { Ok(ConversationUpdate::new()) });
    }
    let ends = [names.first().context("no nodes")?, names.last().context("no nodes")?];
    graph = graph.edge(START, ends[0]).edge(ends[1], END);
    for pair in names.windows(2) {
        graph = graph.edge(&pair[0], &pair[1]);
    }
    Ok(graph.build()?)
}

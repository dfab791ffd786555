//! Which steps run again and which do not: a real process, killed (SIGKILL) at every boundary of a commit, right before
//! it and right after it, and a payment server that counts.

use std::{
    env,
    net::SocketAddr,
    os::unix::process::ExitStatusExt,
    process::{Command, Output},
    sync::Arc,
};

use longhaul_core::{Ambient, ThreadId};
use longhaul_durable::{
    Answer, END, Effect, Graph, GraphBuilder, GraphState, NodeError, Outcome, RunOptions, Runtime, START, Settlement,
    Wait,
};
use longhaul_store::Faults;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::bank::{Book, request};
use crate::ground::{Ground, on_both, open, scope};

on_both!(killed_at_every_boundary_of_a_commit_nothing_is_paid_or_shipped_twice);

/// Set for the process that is killed: folder, address of the store, server, order, boundary.
const SUBJECT: &str = "LONGHAUL_TEST_SUBJECT";

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Order {
    order: String,
    #[append]
    receipts: Vec<String>,
}

/// Quotes, charges, asks, ships.
fn graph(bank: SocketAddr) -> Graph<Order> {
    GraphBuilder::<Order>::new("order", 1)
        .node("pay", move |ctx, state: Arc<Order>| async move {
            let order = &state.order;
            let quote =
                ctx.step("quote", Effect::Pure, async { Ok(request(bank, "quote", order, "-").await?) }).await?;
            let key = ctx.step_id("charge").to_string();
            let effect = Effect::Idempotent { key: key.clone() };
            let charge = ctx.step("charge", effect, async { Ok(request(bank, "charge", order, &key).await?) }).await?;
            Ok(OrderUpdate::new().receipts([quote, charge]))
        })
        .node("ask", |ctx, _| async move {
            let answer: Answer<bool> = ctx.pause_for(Wait::approval("ship it?")).await?;
            Ok(OrderUpdate::new().receipts([format!("shipping: {:?}", answer.into_value())]))
        })
        .node("ship", move |ctx, state: Arc<Order>| async move {
            let order = &state.order;
            let ship = ctx.step("ship", Effect::Once, async { Ok(request(bank, "ship", order, "-").await?) }).await?;
            Ok::<_, NodeError>(OrderUpdate::new().receipts([ship]))
        })
        .edge(START, "pay")
        .edge("pay", "ask")
        .edge("ask", "ship")
        .edge("ship", END)
        .build()
        .unwrap()
}

/// Brings an order to its end, doing what a person would do: answers, and asks the server about acts of unknown outcome.
async fn supervise(runtime: &Runtime, bank: SocketAddr, order: &str) -> Result<Order, String> {
    let (graph, scope, thread) = (graph(bank), scope(), order.parse::<ThreadId>().unwrap());
    loop {
        let initial = Order { order: order.to_owned(), ..Order::default() };
        // Asked first: an end that was committed and not heard of is an end.
        let known = runtime.find(&scope.scope, &thread).await.map_err(|error| error.to_string())?;
        if known.is_some_and(|known| known.status.is_finished()) {
            let state = runtime.state(&scope.scope, &thread).await.map_err(|error| error.to_string())?;
            return state.ok_or_else(|| "no state".to_owned());
        }
        let outcome = runtime.run(&graph, &scope, &thread, initial, RunOptions::default()).await;
        match outcome.map_err(|error| error.to_string())? {
            Outcome::Completed(state) => return Ok(state),
            Outcome::Waiting(waits) => {
                for wait in waits {
                    let answered = runtime.continue_with(&scope.scope, &wait.id, json!(true), "yes", "ada").await;
                    answered.map_err(|error| error.to_string())?;
                }
            }
            Outcome::NeedsReconcile(pending) => {
                for effect in pending {
                    let receipt = request(bank, "asked", order, "-").await.map_err(|error| error.to_string())?;
                    let settlement =
                        if receipt == "none" { Settlement::DidNotHappen } else { Settlement::Happened(json!(receipt)) };
                    let settled = runtime.reconcile(&scope.scope, &effect.step, settlement).await;
                    settled.map_err(|error| error.to_string())?;
                }
            }
            other => return Err(format!("{other:?}")),
        }
    }
}

/// Not a test by itself: the process that is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subject_process() {
    let Ok(told) = env::var(SUBJECT) else { return };
    let words: Vec<&str> = told.split('\n').collect();
    let [dir, url, bank, order, boundary] = words[..] else { panic!("{told:?}") };
    let faults = Faults::new();
    let store = open(dir, url, faults.clone()).await;
    let runtime = Runtime::new(store, Ambient::system());
    let end = || rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    if let Some((when, n)) = boundary.split_once(' ') {
        let n: u64 = n.parse().unwrap();
        match when {
            "before" => faults.die_after(n - 1),
            _ => faults.right_after(n, end),
        }
    }
    match supervise(&runtime, bank.parse().unwrap(), order).await {
        Ok(state) => println!("SAID {} {}", faults.commits(), serde_json::to_string(&state).unwrap()),
        // The commit at which the process was to die has been refused: it does nothing more.
        Err(_) if boundary.starts_with("before") => end(),
        Err(error) => panic!("{error}"),
    }
}

fn live(address: &[String; 2], bank: SocketAddr, order: &str, boundary: &str) -> Output {
    let told = [&address[0], &address[1], &bank.to_string(), order, boundary].join("\n");
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "resume::again::subject_process", "--nocapture"])
        .env(SUBJECT, told)
        .output()
        .unwrap()
}

/// The commits and the state that a life ended with.
fn said(output: &Output) -> (u64, Order) {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.split_once("SAID ")).unwrap_or_else(|| panic!("{output:?}")).1;
    let (commits, state) = line.split_once(' ').unwrap();
    (commits.parse().unwrap(), serde_json::from_str(state).unwrap())
}

async fn recorded(runtime: &Runtime, order: &str) -> Vec<String> {
    let thread: ThreadId = order.parse().unwrap();
    let Some(execution) = runtime.find(&scope().scope, &thread).await.unwrap() else { return Vec::new() };
    let story = runtime.story(&scope().scope, &execution.id, 1_000).await.unwrap();
    let done = |what: &longhaul_durable::Happening| match what {
        longhaul_durable::Happening::Step { step, .. } => Some(step.name.clone()),
        _ => None,
    };
    story.iter().filter_map(|moment| done(&moment.what)).collect()
}

async fn killed_at_every_boundary_of_a_commit_nothing_is_paid_or_shipped_twice(ground: Ground) {
    let (book, bank) = Book::open();
    // Made by now, so that no life is spent on it.
    let runtime = ground.runtime().await;
    let address = ground.address();
    let (commits, calm) = said(&live(&address, bank, "calm", ""));
    assert!(commits >= 8, "{commits}");
    let mut settled = 0;
    for n in 1..=commits {
        for when in ["before", "after"] {
            let order = format!("{when}-{n}");
            let killed = live(&address, bank, &order, &format!("{when} {n}"));
            assert_eq!(killed.status.signal(), Some(9), "{order}: {killed:?}");
            let kept = recorded(&runtime, &order).await;
            let before = |kind: &str| book.arrivals(kind, &order);
            let arrived = [before("quote"), before("charge"), before("ship")];
            let (_, state) = said(&live(&address, bank, &order, ""));
            // What was recorded did not run again; what was not, did.
            for (kind, arrived) in ["quote", "charge", "ship"].into_iter().zip(arrived) {
                let again = before(kind) - arrived;
                let expected = match kind {
                    // Who asks finds out that it had been shipped; then it is not shipped again.
                    "ship" => usize::from(arrived == 0),
                    _ => usize::from(!kept.iter().any(|name| name == kind)),
                };
                assert_eq!(again, expected, "{order}: {kind}, after {kept:?} had been recorded");
            }
            settled += u32::from(arrived[2] == 1 && !kept.iter().any(|name| name == "ship"));
            assert_eq!((book.done("charge", &order), book.done("ship", &order)), (1, 1), "{order}");
            let expected: Vec<String> = calm.receipts.iter().map(|line| line.replace("calm", &order)).collect();
            assert_eq!(state.receipts, expected, "{order}");
        }
    }
    // In one life the server had shipped and nobody had heard of it.
    assert_eq!(settled, 1, "the act of unknown outcome was not met");
}

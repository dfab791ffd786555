//! The smallest program, and whether memory stays flat over many supersteps.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::ensure;
use longhaul_durable::{END, GraphBuilder, GraphState, START};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    loops::{Count, counting},
    measure::memory_kb,
    place::{Bench, Mode, completed, on_one_thread, options, scope},
};

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Greeting {
    x: String,
}

pub(crate) fn once(mode: Mode) -> anyhow::Result<Value> {
    on_one_thread(async {
        let graph = GraphBuilder::<Greeting>::new("hello", 1)
            .node("a", |_, _| async { Ok(GreetingUpdate::new().x("hello")) })
            .edge(START, "a")
            .edge("a", END)
            .build()?;
        let state = Bench::open(mode).await?.complete(&graph, Greeting::default()).await?;
        ensure!(state.x == "hello", "it said {}", state.x);
        Ok(json!({ "peak_kb": memory_kb("VmHWM")? }))
    })
}

/// Resident memory when a tenth of the supersteps is done, and at the end.
pub(crate) fn flat(mode: Mode, count: u64) -> anyhow::Result<Value> {
    on_one_thread(async {
        let bench = Bench::open(mode).await?;
        let graph = counting(count)?;
        let early = Arc::new(Mutex::new(None));
        let seen = early.clone();
        let mut options = options::<Count>();
        options.stop_when = Some(Arc::new(move |state| {
            if state.n == count / 10 {
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = memory_kb("VmRSS").ok();
            }
            false
        }));
        let (scope, thread) = (scope()?, bench.new_thread()?);
        let outcome = bench.runtime.run(&graph, &scope, &thread, Count::default(), options).await?;
        let state = completed(outcome)?;
        ensure!(state.n == count, "it counted to {}", state.n);
        let early = *early.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(json!({ "rss_kb_early": early, "rss_kb_late": memory_kb("VmRSS")? }))
    })
}

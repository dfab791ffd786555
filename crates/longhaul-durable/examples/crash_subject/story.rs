//! What every thread of the crash subject does: rounds of a recorded value, acts of each kind, parallel parts with rows
//! of their own, a question to a person and a graph inside.
//!
//! It owns the acts' names, `WHAT.ROUND` or `WHAT.ROUND.PART`, which are also their steps' names: the judge
//! (`cargo xtask crash durable`) knows the same names. Each act's receipt becomes a line of the state.

use std::{io, sync::Arc, time::Duration};

use longhaul_core::Ambient;
use longhaul_durable::{
    END, Effect, Flow, Graph, GraphBuilder, GraphError, GraphState, NodeContext, NodeError, Probed, START, Send,
    StepError, Wait,
};
use longhaul_store::{Migrations, values};
use serde::{Deserialize, Serialize};

use crate::receiver::Receiver;

pub(crate) const ROUNDS: u64 = 3;
const PARTS: u64 = 3;

/// Rows of "another crate", written with a step's result.
pub(crate) const NOTES: Migrations = Migrations {
    component: "crash_notes",
    steps: &["CREATE TABLE crash_notes (tenant_id TEXT NOT NULL, thread TEXT NOT NULL, act TEXT NOT NULL) STRICT"],
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, GraphState)]
pub(crate) struct Story {
    #[append]
    pub(crate) lines: Vec<String>,
    round: u64,
}

/// What acts need.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) receiver: Receiver,
    pub(crate) ambient: Ambient,
}

impl World {
    /// The act itself: it takes a moment, and sometimes nobody hears that it took place.
    async fn act(&self, thread: &str, kind: &str, act: &str, key: &str) -> Result<String, StepError> {
        self.pause(4).await;
        let receipt = self.receiver.arrive(thread, kind, act, key)?;
        self.pause(12).await;
        if kind != "pure" && self.ambient.rng.next_u64().is_multiple_of(50) {
            return Err(io::Error::other("planned: the answer got lost").into());
        }
        Ok(receipt)
    }

    async fn pause(&self, ms_max: u64) {
        tokio::time::sleep(Duration::from_micros(self.ambient.rng.next_u64() % (ms_max * 1_000))).await;
    }

    async fn pure(&self, ctx: &NodeContext, act: &str) -> Result<String, NodeError> {
        let receipt = ctx.step(act, Effect::Pure, self.act(ctx.thread().as_str(), "pure", act, "-")).await?;
        Ok(format!("{act}={receipt}"))
    }

    async fn idempotent(&self, ctx: &NodeContext, act: &str) -> Result<String, NodeError> {
        let key = ctx.step_id(act).to_string();
        let effect = Effect::Idempotent { key: key.clone() };
        let receipt = ctx.step(act, effect, self.act(ctx.thread().as_str(), "idempotent", act, &key)).await?;
        Ok(format!("{act}={receipt}"))
    }

    async fn once(&self, ctx: &NodeContext, act: &str) -> Result<String, NodeError> {
        let receipt = ctx.step(act, Effect::Once, self.act(ctx.thread().as_str(), "once", act, "-")).await?;
        Ok(format!("{act}={receipt}"))
    }

    async fn probed(&self, ctx: &NodeContext, act: &str) -> Result<String, NodeError> {
        let thread = ctx.thread().as_str();
        let probe = async { Ok(self.receiver.receipt(thread, act)?.map_or(Probed::DidNotHappen, Probed::Happened)) };
        let receipt = ctx.step_probed(act, probe, self.act(thread, "once", act, "-")).await?;
        Ok(format!("{act}={receipt}"))
    }

    async fn noted(&self, ctx: &NodeContext, act: &str) -> Result<String, NodeError> {
        let thread = ctx.thread().as_str();
        let row = (ctx.scope().scope.tenant.clone(), thread.to_owned(), act.to_owned());
        let commit = move |tx: &mut longhaul_store::Tx<'_>, _: &String| {
            let (tenant, thread, act) = &row;
            tx.execute("INSERT INTO crash_notes VALUES (?1, ?2, ?3)", &values![tenant, thread, act]).map(drop)
        };
        let receipt = ctx.step_tx(act, Effect::Pure, self.act(thread, "pure", act, "-"), commit).await?;
        Ok(format!("{act}={receipt}"))
    }
}

/// The graph, in which `world` is acted upon.
pub(crate) fn story(world: &World) -> Result<Graph<Story>, GraphError> {
    let worlds: [World; 4] = std::array::from_fn(|_| world.clone());
    let [tick, part, gather, deep] = worlds;
    let inner = GraphBuilder::<Story>::new("inner", 1)
        .node("deep", move |ctx, story: Arc<Story>| {
            let world = deep.clone();
            async move {
                let line = world.idempotent(&ctx, &format!("deep.{}", story.round)).await?;
                Ok(StoryUpdate::new().lines([line]))
            }
        })
        .edge(START, "deep")
        .edge("deep", END)
        .build()?;
    GraphBuilder::<Story>::new("story", 1)
        .node("tick", move |ctx, story: Arc<Story>| {
            let world = tick.clone();
            async move {
                let round = story.round;
                let value = world.pure(&ctx, &format!("value.{round}")).await?;
                let sent = world.idempotent(&ctx, &format!("send.{round}")).await?;
                let paid = world.once(&ctx, &format!("pay.{round}")).await?;
                let booked = world.probed(&ctx, &format!("book.{round}")).await?;
                Ok(StoryUpdate::new().lines([value, sent, paid, booked]))
            }
        })
        .node_with_input("part", move |ctx, story: Arc<Story>, part_number: u64| {
            let world = part.clone();
            async move {
                let value = world.pure(&ctx, &format!("look.{}.{part_number}", story.round)).await?;
                let noted = world.noted(&ctx, &format!("note.{}.{part_number}", story.round)).await?;
                Ok(StoryUpdate::new().lines([value, noted]))
            }
        })
        .node("gather", move |ctx, story: Arc<Story>| {
            let world = gather.clone();
            async move {
                let mut lines = vec![world.pure(&ctx, &format!("gather.{}", story.round)).await?];
                if story.round == 1 {
                    let answer = ctx.pause_for::<String>(Wait::approval("ask.1")).await?;
                    lines.push(format!("ask.1={}", answer.into_value().unwrap_or_default()));
                }
                Ok(StoryUpdate::new().lines(lines))
            }
        })
        .subgraph(
            "inner",
            inner,
            |story: &Story| Story { round: story.round, ..Story::default() },
            |inner: Story| StoryUpdate::new().lines(inner.lines),
        )
        .node("turn", |_, story: Arc<Story>| async move { Ok(Flow::update(StoryUpdate::new().round(story.round + 1))) })
        .edge(START, "tick")
        .fan_out("tick", &["part"], |_| (0..PARTS).map(|n| Send::new("part", &n)).collect())
        .join(&["part"], "gather")
        .edge("gather", "inner")
        .edge("inner", "turn")
        .branch("turn", &["tick", END], |story| if story.round < ROUNDS { "tick" } else { END })
        .build()
}

//! What the nodes of random graphs do, and the world outside in which they do it.
//!
//! It owns the acts: which kind a place has follows from its name alone. It remembers every arrival, and which of them
//! it may not see again because they were recorded.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use longhaul_durable::{Answer, Effect, NodeContext, NodeError, Probed, StepError, StepId, Wait};
use longhaul_store::{Store, StoreError, Tx, values};
use tokio_util::sync::CancellationToken;

use super::{
    graphs::{Log, LogUpdate},
    records::Records,
};

/// The world outside. Clones share it.
#[derive(Clone)]
pub(super) struct World {
    pub(super) seed: u64,
    /// Whether nodes and acts fail, the first time.
    pub(super) fails: bool,
    /// Whether nodes wait for answers.
    pub(super) waits: bool,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    arrivals: Vec<Arrival>,
    failed: BTreeSet<String>,
    /// Acts that are in the store and must not be done again.
    recorded: BTreeSet<String>,
    wrong: Vec<String>,
    /// What happens with which arrival.
    ambush: Option<(u64, Ambush)>,
    stolen: Option<Records>,
}

/// What happens outside while something is being done.
pub(super) enum Ambush {
    /// Another machine takes the thread from this store.
    Theft(Store),
    /// Somebody is called.
    Call(CancellationToken),
}

/// Something that was done.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    pub(super) id: String,
    pub(super) kind: Kind,
    key: String,
    pub(super) value: u64,
}

/// What stands at one place of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Pure,
    Idempotent,
    Once,
    Probed,
    Row,
    Wait,
    Waits,
    Deadline,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let (fails, waits) = (seed.is_multiple_of(2), !seed.is_multiple_of(3));
        Self { seed, fails, waits, inner: Arc::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// A number that belongs to this text.
    pub(super) fn pick(&self, text: &str) -> u64 {
        let start = 0xcbf2_9ce4_8422_2325 ^ self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mix = text.bytes().fold(start, |mix, byte| (mix ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        (mix ^ (mix >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
    }

    fn kind(&self, place: &str, n: usize) -> Kind {
        match self.pick(&format!("{place} {n}")) % 20 {
            6..8 => Kind::Idempotent,
            8..10 => Kind::Once,
            10..12 => Kind::Probed,
            12..14 => Kind::Row,
            14 if self.waits => Kind::Wait,
            15 if self.waits => Kind::Waits,
            16 if self.waits => Kind::Deadline,
            _ => Kind::Pure,
        }
    }

    /// Does two things and then, perhaps, fails this once.
    pub(super) async fn work(&self, ctx: &NodeContext, log: &Log) -> Result<LogUpdate, NodeError> {
        let place = ctx.step_id("").within();
        let mut seen = Vec::new();
        for n in 0..2 {
            let value = (log.lines.len() * 10 + n) as u64;
            seen.push(self.one(ctx, self.kind(&place, n), value).await?.to_string());
        }
        if self.fails && self.pick(&place).is_multiple_of(4) && self.inner().failed.insert(place) {
            return Err(NodeError::gave_up(io::Error::other("planned")));
        }
        Ok(LogUpdate::new().lines([format!("{} {}", ctx.node(), seen.join(" "))]))
    }

    async fn one(&self, ctx: &NodeContext, kind: Kind, value: u64) -> Result<u64, NodeError> {
        let id = ctx.step_id("do");
        let act = self.act(&id, kind, value);
        match kind {
            Kind::Pure => ctx.step("do", Effect::Pure, act).await,
            Kind::Idempotent => ctx.step("do", Effect::Idempotent { key: id.to_string() }, act).await,
            Kind::Once => ctx.step("do", Effect::Once, act).await,
            Kind::Probed => {
                let known = || self.arrived(&id.within()).map_or(Probed::DidNotHappen, |it| Probed::Happened(it.value));
                ctx.step_probed("do", async { Ok(known()) }, act).await
            }
            Kind::Row => {
                let (tenant, row) = (ctx.scope().scope.tenant.clone(), id.within());
                let commit = move |tx: &mut Tx<'_>, _: &u64| {
                    tx.execute("INSERT INTO simulated VALUES (?1, ?2)", &values![&tenant, row]).map(drop)
                };
                ctx.step_tx("do", Effect::Pure, act, commit).await
            }
            Kind::Wait => answer(ctx.pause_for(Wait::approval("do")).await?),
            Kind::Waits => {
                let answers = ctx.pause_for_all([Wait::event("first"), Wait::webhook("second")]).await?;
                answers.into_iter().try_fold(0, |sum, one| Ok(sum * 1_000 + answer(one)?))
            }
            Kind::Deadline => {
                let wait = Wait::approval("late").deadline_ms(1_000 + value).default_answer(value);
                match ctx.pause_for::<u64>(wait).await? {
                    Answer::Expired { default: Some(value) } => Ok(value),
                    other => Err(NodeError::gave_up(io::Error::other(format!("{other:?}")))),
                }
            }
        }
    }

    async fn act(&self, id: &StepId, kind: Kind, value: u64) -> Result<u64, StepError> {
        let (within, ambush) = (id.within(), self.arrive(id, kind, value));
        match ambush {
            Some(Ambush::Theft(store)) => {
                let stolen = steal(&store).await?;
                self.inner().stolen = Some(stolen);
            }
            Some(Ambush::Call(somebody)) => somebody.cancel(),
            None => {}
        }
        // Another task has its turn here.
        tokio::task::yield_now().await;
        let loses =
            matches!(kind, Kind::Idempotent | Kind::Once | Kind::Probed) && self.pick(&within).is_multiple_of(5);
        if self.fails && loses && self.inner().failed.insert(within) {
            return Err(io::Error::other("planned: the answer got lost").into());
        }
        Ok(value)
    }

    /// Notes the arrival; what is to happen with it.
    fn arrive(&self, id: &StepId, kind: Kind, value: u64) -> Option<Ambush> {
        let mut inner = self.inner();
        let (within, key) = (id.within(), id.to_string());
        if inner.recorded.contains(&within) {
            inner.wrong.push(format!("{within} was recorded and is done again"));
        }
        let before = inner.arrivals.iter().filter(|arrival| arrival.id == within);
        let before: Vec<Arrival> = before.cloned().collect();
        match kind {
            Kind::Once | Kind::Probed if !before.is_empty() => inner.wrong.push(format!("{within} happens twice")),
            Kind::Idempotent if before.iter().any(|arrival| arrival.key != key) => {
                inner.wrong.push(format!("{within} comes with two keys"));
            }
            _ => {}
        }
        inner.arrivals.push(Arrival { id: within, kind, key, value });
        let now = inner.arrivals.len() as u64;
        inner.ambush.take_if(|(moment, _)| *moment <= now).map(|(_, ambush)| ambush)
    }

    /// Plans what happens with this arrival, from 1.
    pub(super) fn plan(&self, arrival: u64, ambush: Ambush) {
        self.inner().ambush = Some((arrival, ambush));
    }

    /// What was recorded when the thread was taken away, once.
    pub(super) fn stolen(&self) -> Option<Records> {
        self.inner().stolen.take()
    }

    pub(super) fn arrived(&self, id: &str) -> Option<Arrival> {
        self.inner().arrivals.iter().find(|arrival| arrival.id == id).cloned()
    }

    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        self.inner().arrivals.clone()
    }

    /// From now on these must not be done again.
    pub(super) fn keep(&self, recorded: BTreeSet<String>) {
        self.inner().recorded.extend(recorded);
    }

    pub(super) fn wrong(&self) -> Vec<String> {
        self.inner().wrong.clone()
    }

    /// How often each act was done.
    pub(super) fn times(&self) -> BTreeMap<String, u32> {
        let mut times = BTreeMap::new();
        self.inner().arrivals.iter().for_each(|arrival| *times.entry(arrival.id.clone()).or_default() += 1);
        times
    }
}

fn answer(answer: Answer<u64>) -> Result<u64, NodeError> {
    answer.into_value().ok_or_else(|| NodeError::gave_up(io::Error::other("an answer without a value")))
}

/// Another machine takes the thread, as far as the store can tell.
async fn steal(store: &Store) -> Result<Records, StoreError> {
    let taken = store.write(|tx| {
        tx.execute("UPDATE leases SET token = token + 1", &[])?;
        Records::read(tx)
    });
    taken.await
}

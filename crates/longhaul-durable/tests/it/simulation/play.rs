//! One run of a random graph to its end, with one thing that goes wrong on the way, and a supervisor who does what is to
//! be done: runs again, answers, settles, lets time pass.

use std::{
    collections::BTreeSet,
    fmt,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use longhaul_core::{Ambient, Clock, SeededRng, TimeMs};
use longhaul_durable::{
    DurableError, GivenAnswer, Graph, MIGRATIONS, NodeError, Outcome, PendingEffect, RunOptions, Runtime, Settlement,
    Status, WaitInfo,
};
use longhaul_store::{Faults, LeaseError, Store, StoreError, StoreSettings};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    graphs::{Log, graph},
    records::{ROWS, Records},
    world::{Ambush, Kind, World},
};
use crate::support::{scope, thread};

/// What goes wrong. Printed and read as `none`, `death:7`, `deaths:7+2`, `cut:7`, `theft:7`, `drop:7`,
/// `cancel:7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Harm {
    None,
    /// The store dies after so many commits.
    Death(u64),
    /// And again so many commits later.
    Deaths(u64, u64),
    /// Nobody hears of this commit.
    Cut(u64),
    /// Somebody else takes the thread with this arrival.
    Theft(u64),
    /// The run's future is dropped with this arrival.
    Drop(u64),
    /// The run is cancelled with this arrival.
    Cancel(u64),
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Death(after) => write!(f, "death:{after}"),
            Self::Deaths(after, then) => write!(f, "deaths:{after}+{then}"),
            Self::Cut(commit) => write!(f, "cut:{commit}"),
            Self::Theft(arrival) => write!(f, "theft:{arrival}"),
            Self::Drop(arrival) => write!(f, "drop:{arrival}"),
            Self::Cancel(arrival) => write!(f, "cancel:{arrival}"),
        }
    }
}

impl FromStr for Harm {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("{text}: say none, death:7, deaths:7+2, cut:7, theft:7, drop:7 or cancel:7");
        let (name, number) = text.split_once(':').unwrap_or((text, "0"));
        let (first, second) = number.split_once('+').unwrap_or((number, "0"));
        let (first, second) = (first.parse().map_err(wrong)?, second.parse().map_err(wrong)?);
        match name {
            "none" => Ok(Self::None),
            "death" => Ok(Self::Death(first)),
            "deaths" => Ok(Self::Deaths(first, second)),
            "cut" => Ok(Self::Cut(first)),
            "theft" => Ok(Self::Theft(first)),
            "drop" => Ok(Self::Drop(first)),
            "cancel" => Ok(Self::Cancel(first)),
            _ => Err(format!("{text}: what is that?")),
        }
    }
}

/// What a run came to.
pub(super) struct Played {
    pub(super) log: Log,
    /// Superstep, nodes and position of each checkpoint.
    pub(super) history: Vec<String>,
    pub(super) records: Records,
    pub(super) world: World,
    pub(super) commits: u64,
    /// How often something went wrong.
    pub(super) harmed: u64,
    /// Acts of unknown outcome that nobody was asked about.
    pub(super) unlisted: Vec<String>,
}

#[derive(Debug)]
struct Hands(AtomicI64);

impl Clock for Hands {
    fn now(&self) -> TimeMs {
        TimeMs(self.0.load(Ordering::SeqCst))
    }
}

struct Supervisor {
    seed: u64,
    harm: Harm,
    world: World,
    graph: Graph<Log>,
    store: Store,
    runtime: Runtime,
    faults: Faults,
    hands: Arc<Hands>,
    /// Heard when a run is to be dropped or cancelled.
    call: CancellationToken,
    harmed: u64,
    /// Acts that were begun, and of which the store does not know what became.
    unknown: BTreeSet<String>,
    turn: u64,
}

pub(super) async fn play(seed: u64, harm: Harm) -> Played {
    let (world, faults) = (World::new(seed), Faults::new());
    let hands = Arc::new(Hands(AtomicI64::new(1_000_000)));
    let ambient = Ambient::new(hands.clone(), Arc::new(SeededRng::new(seed)));
    let migrations = [MIGRATIONS, ROWS];
    let opened = Store::open_with_faults(StoreSettings::in_memory(), ambient.clone(), &migrations, faults.clone());
    let store = opened.await.unwrap();
    let call = CancellationToken::new();
    match harm {
        Harm::None => {}
        Harm::Death(after) | Harm::Deaths(after, _) => faults.die_after(after),
        Harm::Cut(commit) => faults.fail_commit_but_keep(commit),
        Harm::Theft(arrival) => world.plan(arrival, Ambush::Theft(store.clone())),
        Harm::Drop(arrival) | Harm::Cancel(arrival) => world.plan(arrival, Ambush::Call(call.clone())),
    }
    let (graph, runtime) = (graph(seed, &world), Runtime::new(store.clone(), ambient));
    let (harmed, unknown, turn) = (0, BTreeSet::new(), 0);
    let supervisor =
        Supervisor { seed, harm, world, graph, store, runtime, faults, hands, call, harmed, unknown, turn };
    supervisor.play().await
}

impl Supervisor {
    fn below(&mut self, bound: u64) -> u64 {
        self.turn += 1;
        self.world.pick(&format!("turn {}", self.turn)) % bound
    }

    async fn play(mut self) -> Played {
        let mut answer = None;
        let log = loop {
            assert!(self.turn < 5_000, "it does not come to an end");
            self.turn += 1;
            match self.step(answer.take()).await {
                Ok(Next::Done(log)) => break log,
                Ok(Next::Again(next)) => answer = next,
                Err(error) => self.harm(Some(&error)).await,
            }
        };
        assert!(self.world.stolen().is_none(), "the thread was taken away, and the run went on");
        let records = self.records().await;
        let checkpoints = self.runtime.history(&scope().scope, &thread(), 10_000).await.unwrap();
        let history = checkpoints.iter().map(|it| format!("{} {:?} {:?}", it.superstep, it.nodes, it.position));
        Played {
            log,
            history: history.collect(),
            records,
            commits: self.faults.commits(),
            harmed: self.harmed,
            unlisted: self.unknown.into_iter().collect(),
            world: self.world,
        }
    }

    async fn step(&mut self, answer: Option<GivenAnswer>) -> Result<Next, StoreError> {
        let found = self.runtime.find(&scope().scope, &thread()).await.map_err(of_store)?;
        // Asked each time: a run whose end was committed and not heard of would otherwise be begun anew.
        if found.is_some_and(|execution| execution.status == Status::Completed) {
            let state = self.runtime.state::<Log>(&scope().scope, &thread()).await.map_err(of_store)?;
            return Ok(Next::Done(state.unwrap()));
        }
        let mut options = RunOptions { answer, ..RunOptions::default() };
        let (mut dropped, place, thread) = (CancellationToken::new(), scope(), thread());
        match self.harm {
            Harm::Drop(_) => dropped = std::mem::take(&mut self.call),
            Harm::Cancel(_) => options.cancel = self.call.clone(),
            Harm::None | Harm::Death(_) | Harm::Deaths(..) | Harm::Cut(_) | Harm::Theft(_) => {}
        }
        let run = self.runtime.run(&self.graph, &place, &thread, Log::default(), options);
        let ran = dropped.run_until_cancelled(run).await;
        if matches!(self.harm, Harm::Drop(_)) {
            self.call = dropped;
        }
        let Some(ran) = ran else {
            self.call = CancellationToken::new();
            self.harm(None).await;
            return Ok(Next::Again(None));
        };
        match ran {
            Ok(Outcome::Cancelled) if self.call.is_cancelled() => {
                self.call = CancellationToken::new();
                self.harm(None).await;
                Ok(Next::Again(None))
            }
            Ok(Outcome::Completed(log)) => Ok(Next::Done(log)),
            Ok(Outcome::Waiting(waits)) => self.answer(waits).await,
            Ok(Outcome::NeedsReconcile(pending)) => self.settle(pending).await,
            Ok(Outcome::Failed { error, .. }) => match of_node(&error) {
                Some(error) => Err(error),
                None if planned(&error) => Ok(Next::Again(None)),
                None => panic!("{error:?}"),
            },
            // The wait was answered by a commit nobody heard of, or by the run before.
            Err(DurableError::AlreadyAnswered { .. }) => Ok(Next::Again(None)),
            Err(error) => Err(of_store(error)),
            other => panic!("{other:?}"),
        }
    }

    /// Answers some of the waits, in an order of the seed's; where only time helps, it passes.
    async fn answer(&mut self, waits: Vec<WaitInfo>) -> Result<Next, StoreError> {
        let mut open: Vec<WaitInfo> = waits.into_iter().filter(|wait| wait.deadline_at.is_none()).collect();
        if open.is_empty() {
            self.hands.0.fetch_add(1_000_000, Ordering::SeqCst);
            return Ok(Next::Again(None));
        }
        for _ in 0..1 + self.below(3) {
            if open.is_empty() {
                break;
            }
            let wait = open.swap_remove(self.below(open.len() as u64) as usize);
            let value = json!(self.world.pick(&wait.place.within()) % 1_000);
            let request = format!("request {}", wait.id);
            // Sometimes in the transaction with which the next run begins.
            if self.below(2) == 0 {
                let (wait, actor) = (wait.id, "somebody".to_owned());
                return Ok(Next::Again(Some(GivenAnswer { wait, value, request_id: request, actor })));
            }
            let scope = scope().scope;
            let given = self.runtime.continue_with(&scope, &wait.id, value, &request, "somebody");
            given.await.map_err(of_store)?;
        }
        Ok(Next::Again(None))
    }

    async fn settle(&mut self, pending: Vec<PendingEffect>) -> Result<Next, StoreError> {
        for effect in pending {
            let id = effect.step.within();
            self.unknown.remove(&id);
            let settlement = match self.world.arrived(&id) {
                Some(arrival) => Settlement::Happened(json!(arrival.value)),
                None => Settlement::DidNotHappen,
            };
            match self.runtime.reconcile(&scope().scope, &effect.step, settlement).await {
                Ok(()) | Err(DurableError::NotPending { .. }) => {}
                Err(error) => return Err(of_store(error)),
            }
        }
        Ok(Next::Again(None))
    }

    /// The store is back; what it knows must not be done again, and what it does not know must be asked about.
    async fn harm(&mut self, error: Option<&StoreError>) {
        self.harmed += 1;
        let fits = match (self.harm, error) {
            (Harm::Death(_) | Harm::Deaths(..), Some(StoreError::Killed { .. }))
            | (Harm::Cut(_), Some(StoreError::OutcomeUnknown { .. }))
            | (Harm::Theft(_), Some(StoreError::LeaseLost { .. }))
            | (Harm::Drop(_) | Harm::Cancel(_), None) => true,
            (_, _) => false,
        };
        let times = if matches!(self.harm, Harm::Deaths(..)) { 2 } else { 1 };
        assert!(fits && self.harmed <= times, "{error:?}");
        self.faults.revive();
        // What a dropped run had handed over for writing has been written after this.
        self.store.write(|_| Ok::<_, StoreError>(())).await.unwrap();
        let records = self.records().await;
        if let Some(stolen) = self.world.stolen() {
            assert_eq!(stolen, records, "somebody who had lost the thread wrote to it");
        }
        let once = self.world.arrivals().into_iter().filter(|arrival| arrival.kind == Kind::Once).map(|it| it.id);
        self.unknown.extend(once.filter(|id| !records.steps.contains(id)));
        self.world.keep(records.steps);
        if let (Harm::Deaths(_, then), 1) = (self.harm, self.harmed) {
            self.faults.die_after(self.faults.commits() + then);
        }
    }

    async fn records(&self) -> Records {
        let read = self.store.read(Records::read);
        read.await.unwrap_or_else(|error: StoreError| panic!("seed {}: {error}", self.seed))
    }
}

enum Next {
    Done(Log),
    /// Run again, perhaps with an answer.
    Again(Option<GivenAnswer>),
}

fn of_store(error: DurableError) -> StoreError {
    let text = format!("{error:?}");
    let (DurableError::Store(error) | DurableError::Lease(LeaseError::Store(error))) = error else { panic!("{text}") };
    error
}

fn of_node(error: &NodeError) -> Option<StoreError> {
    if let NodeError::Store(error) = error {
        return Some(error.clone());
    }
    if let NodeError::Subgraph { source, .. } = error {
        return of_node(source);
    }
    let NodeError::Frame { source } = error else { return None };
    if let DurableError::Store(error) = &**source { Some(error.clone()) } else { None }
}

fn planned(error: &NodeError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.to_string().starts_with("planned") {
            return true;
        }
        cause = error.source();
    }
    false
}

//! What a node's code is given: recorded steps, and access to its surroundings.
//!
//! It owns the numbering of steps and waits within one run of a node; `recording` and `pausing` do the rest. Invariant:
//! an error that would make a replay differ ends the node, whatever its code does with it.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use longhaul_core::{EventDraft, ExecutionId, TaskScope, ThreadId, TimeMs};
use longhaul_store::{Store, StoreError, Tx};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    Effect, NodeError, Resources, StepId,
    open::{Earlier, Recorded},
    pausing::Unanswered,
    records::Place,
    run::{Journal, Run},
    step::STEP_NAME_CHARS_MAX,
};

/// Rows and events that are added to the transaction that records a node's answer.
pub(crate) type AtClose = Box<dyn FnOnce(&mut Tx<'_>) -> Result<(), StoreError> + Send>;

/// The surroundings of one run of a node. Cheap to clone.
#[derive(Clone)]
pub struct NodeContext(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) run: Arc<Run>,
    pub(crate) place: Place,
    pub(crate) attempt: u32,
    /// What earlier runs of this node have recorded.
    pub(crate) earlier: Earlier,
    pub(crate) asked: Asked,
}

/// What this run of the node has asked for so far.
pub(crate) struct Asked {
    steps: AtomicU32,
    pub(crate) replayed: AtomicU64,
    /// Whether a step is being run at the moment.
    busy: AtomicBool,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    /// The first error that the node may not swallow.
    fatal: Option<NodeError>,
    at_close: Vec<AtClose>,
    /// What it waits for, its subgraphs included.
    waits: Vec<Unanswered>,
    /// The last sign of life.
    alive_at: Option<Instant>,
}

/// What a node that has ended leaves behind.
pub(crate) struct Left {
    pub(crate) at_close: Vec<AtClose>,
    pub(crate) waits: Vec<Unanswered>,
    pub(crate) fatal: Option<NodeError>,
}

impl NodeContext {
    pub(crate) fn new(run: Arc<Run>, place: Place, attempt: u32, earlier: Earlier) -> Self {
        let asked = Asked {
            steps: AtomicU32::new(0),
            replayed: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            notes: Mutex::default(),
        };
        Self(Arc::new(Inner { run, place, attempt, earlier, asked }))
    }

    /// The id of the next step, given the name it will have: an idempotency key or git trailer for its work.
    #[must_use]
    pub fn step_id(&self, name: &str) -> StepId {
        self.id(name, self.0.asked.steps.load(Ordering::Relaxed) + 1)
    }

    /// The name of the step or wait that an earlier run of this node recorded next, if it came that far. A node whose next
    /// step depends on something which may change meanwhile, such as settings, goes by this while it is replayed.
    #[must_use]
    pub fn recorded_next(&self) -> Option<&str> {
        let next = self.0.asked.steps.load(Ordering::Relaxed) + 1;
        let Earlier { recorded, pending, .. } = &self.0.earlier;
        recorded.get(&next).map(Recorded::name).or_else(|| pending.get(&next).map(String::as_str))
    }

    /// Adds rows and events to the transaction that records the node's answer, if the node finishes.
    pub fn at_close(&self, commit: impl FnOnce(&mut Tx<'_>) -> Result<(), StoreError> + Send + 'static) {
        if self.0.run.journal.is_none() {
            self.fatal(NodeError::KeepsNothing { what: "at_close" });
            return;
        }
        // What belongs to other crates is an effect: it is not there in a replay.
        if self.0.run.script().is_none() {
            self.notes().at_close.push(Box::new(commit));
        }
    }

    /// Appends an event to the log with the node's answer, if the node finishes. A runtime that keeps nothing has no
    /// log.
    pub fn emit(&self, draft: EventDraft) {
        if self.0.run.journal.is_none() {
            return;
        }
        let run = self.0.run.clone();
        let step = format!("{}{}/{}.{}", self.0.place.ns, self.0.place.node, self.0.place.superstep, self.0.place.task);
        let append: AtClose =
            Box::new(move |tx| tx.append_event(&run.scope, Some(&run.execution), Some(&step), draft).map(drop));
        self.notes().at_close.push(append);
    }

    /// Now; recorded, so that it is the same on replay.
    ///
    /// # Errors
    /// Those of [`Self::step`].
    pub fn now(&self) -> impl Future<Output = Result<TimeMs, NodeError>> + Send {
        let now = self.0.run.ambient.clock.now();
        self.step("now", Effect::Pure, async move { Ok(now) })
    }

    /// 64 random bits; recorded, so that they are the same on replay.
    ///
    /// # Errors
    /// Those of [`Self::step`].
    pub fn random(&self) -> impl Future<Output = Result<u64, NodeError>> + Send {
        let bits = self.0.run.ambient.rng.next_u64();
        self.step("random", Effect::Pure, async move { Ok(bits) })
    }

    /// A sign of life, for a policy with a limit on silence. A recorded step is one, too.
    pub fn heartbeat(&self) {
        self.notes().alive_at = Some(Instant::now());
    }

    /// The execution.
    #[must_use]
    pub fn execution(&self) -> &ExecutionId {
        &self.0.run.execution
    }

    /// On whose behalf it runs.
    #[must_use]
    pub fn scope(&self) -> &TaskScope {
        &self.0.run.scope
    }

    /// The thread.
    #[must_use]
    pub fn thread(&self) -> &ThreadId {
        &self.0.run.thread
    }

    /// The node's name.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.0.place.node
    }

    /// The number of the superstep as which the node runs, from 1.
    #[must_use]
    pub fn superstep(&self) -> u64 {
        self.0.place.superstep
    }

    /// Number of this run of the node among those of the superstep, from 0.
    #[must_use]
    pub fn task(&self) -> u32 {
        self.0.place.task
    }

    /// Number of the attempt within this run, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// The store, for reading. What is read outside a step may differ on replay.
    ///
    /// # Panics
    /// In a runtime that keeps nothing.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.0.run.journal.as_ref().expect("a node that reads the store runs in a runtime with one").store
    }

    /// Cancelled when the run is to end. The driver drops the node then; only work that must be told needs this.
    #[must_use]
    pub fn cancel(&self) -> &CancellationToken {
        &self.0.run.cancel
    }

    /// The live objects of the run.
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.0.run.resources
    }

    /// How many steps of this run of the node returned what an earlier run had recorded.
    #[must_use]
    pub fn replayed_steps(&self) -> u64 {
        self.0.asked.replayed.load(Ordering::Relaxed)
    }

    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.0.run.journal.as_ref()
    }

    /// The last sign of life, if there was one.
    pub(crate) fn alive_at(&self) -> Option<Instant> {
        self.notes().alive_at
    }

    pub(crate) fn add_waits(&self, waits: impl IntoIterator<Item = Unanswered>) {
        self.notes().waits.extend(waits);
    }

    pub(crate) fn add_at_close(&self, commit: AtClose) {
        self.notes().at_close.push(commit);
    }

    /// After the node has ended: what it leaves, and what it may not have swallowed. One that has `answered` must have
    /// come past all that was recorded.
    pub(crate) fn finish(&self, answered: bool) -> Left {
        let mut notes = std::mem::take(&mut *self.notes());
        if answered && notes.fatal.is_none() {
            let rest = self.0.asked.steps.load(Ordering::Relaxed) + 1..;
            let Earlier { recorded, pending, .. } = &self.0.earlier;
            let recorded = recorded.range(rest.clone()).map(|(ordinal, recorded)| (*ordinal, recorded.name()));
            let pending = pending.range(rest).map(|(ordinal, name)| (*ordinal, name.as_str()));
            notes.fatal = recorded.chain(pending).min().map(|(ordinal, recorded)| NodeError::ReplayShort {
                node: self.0.place.node.to_string(),
                superstep: self.0.place.superstep,
                ordinal,
                recorded: recorded.to_owned(),
            });
        }
        Left { at_close: notes.at_close, waits: notes.waits, fatal: notes.fatal }
    }

    pub(crate) fn id(&self, name: &str, ordinal: u32) -> StepId {
        let Place { ns, superstep, task, node } = &self.0.place;
        StepId {
            execution: self.0.run.execution.clone(),
            ns: ns.to_string(),
            superstep: *superstep,
            task: *task,
            node: node.to_string(),
            ordinal,
            name: name.to_owned(),
        }
    }

    /// Takes the next number for a step or wait of this name. The guard is to be told when it has ended.
    pub(crate) fn next_step(&self, name: &str) -> Result<Busy<'_>, NodeError> {
        let asked = &self.0.asked;
        if let Some(fatal) = self.notes().fatal.clone() {
            return Err(fatal);
        }
        if name.is_empty() || name.chars().count() > STEP_NAME_CHARS_MAX {
            let name = name.chars().take(STEP_NAME_CHARS_MAX).collect();
            return Err(self.fatal(NodeError::StepName { name, chars_max: STEP_NAME_CHARS_MAX }));
        }
        if asked.busy.swap(true, Ordering::Relaxed) {
            return Err(self.fatal(NodeError::Overlap { step: Box::new(self.step_id(name)) }));
        }
        let ordinal = asked.steps.fetch_add(1, Ordering::Relaxed) + 1;
        let busy = Busy { context: self, step: Some(self.id(name, ordinal)) };
        match self.0.earlier.pending.get(&ordinal) {
            // What became of one act says nothing about another.
            Some(recorded) if recorded != name => {
                let error = self.replaced(&busy.step(), recorded.clone());
                busy.done();
                Err(self.fatal(error))
            }
            Some(_) | None => Ok(busy),
        }
    }

    /// Keeps the first error that ends this run of the node, whatever its code does with it.
    pub(crate) fn fatal(&self, error: NodeError) -> NodeError {
        self.notes().fatal.get_or_insert(error).clone()
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.asked.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lives while a step is being run.
pub(crate) struct Busy<'a> {
    context: &'a NodeContext,
    /// Taken out when the step has ended.
    step: Option<StepId>,
}

impl Busy<'_> {
    pub(crate) fn step(&self) -> StepId {
        self.step.clone().expect("a step is named until it has ended")
    }

    pub(crate) fn done(mut self) {
        self.step = None;
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.context.0.asked.busy.store(false, Ordering::Relaxed);
        // A node that drops a step half-way could go on differently each time it runs.
        if let Some(step) = self.step.take() {
            self.context.fatal(NodeError::Dropped { step: Box::new(step) });
        }
    }
}

//! What a node's code is given: recorded steps, and access to its surroundings.
//!
//! It owns the numbering and replay of steps within one run of a node. Invariants: a step's work that has been recorded
//! is never polled again; what a node sees of a result is always what was recorded, so that a replay cannot differ.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use longhaul_core::{Ambient, ExecutionId, TaskScope, ThreadId, TimeMs, limits::STEP_RESULT_BYTES_MAX};
use longhaul_store::{Store, StoreError, Tx};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::broadcast, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    Effect, News, NodeError, Progress, Resources, StepError, StepId,
    records::{Pen, RecordedStep},
    step::STEP_NAME_CHARS_MAX,
};

/// Rows and events that another crate adds to the transaction that closes a superstep.
pub(crate) type AtClose = Box<dyn FnOnce(&mut Tx<'_>) -> Result<(), StoreError> + Send>;

/// The surroundings of one run of a node. Cheap to clone.
#[derive(Clone)]
pub struct NodeContext(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) ambient: Ambient,
    pub(crate) pen: Pen,
    pub(crate) thread: ThreadId,
    pub(crate) node: String,
    pub(crate) superstep: u64,
    pub(crate) cancel: CancellationToken,
    pub(crate) resources: Resources,
    pub(crate) progress: broadcast::Sender<Progress>,
    /// What earlier runs of this node have recorded, by the steps' numbers.
    pub(crate) recorded: BTreeMap<u32, RecordedStep>,
    pub(crate) asked: Asked,
}

/// What this run of the node has asked for so far.
#[derive(Default)]
pub(crate) struct Asked {
    steps: AtomicU32,
    replayed: AtomicU64,
    /// The first error that the node may not swallow.
    fatal: Mutex<Option<NodeError>>,
    /// Whether a step is being run at the moment.
    busy: AtomicBool,
    at_close: Mutex<Vec<AtClose>>,
}

impl NodeContext {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// Runs `work` and records its result; when it has been recorded before, `work` is never polled and the recorded
    /// result is returned. Steps are known by their order and name: both must follow from the state and from results
    /// of earlier steps only. So they run one after the other, a limit of time belongs inside `work`, and a failed
    /// step ends the node: what it may do about a failure, it gets as a value from `work`.
    ///
    /// # Errors
    /// [`NodeError::Step`] when `work` fails, [`NodeError::Replay`] when another step was recorded here,
    /// [`NodeError::ResultTooLarge`], [`NodeError::Result`], [`NodeError::Store`]. To be passed on with `?`: a node
    /// that swallows one fails all the same.
    pub fn step<T, F>(&self, name: &str, effect: Effect, work: F) -> impl Future<Output = Result<T, NodeError>> + Send
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Future<Output = Result<T, StepError>> + Send,
    {
        self.step_tx(name, effect, work, |_, _| Ok(()))
    }

    /// Like [`Self::step`]; `commit` adds rows and events to the transaction that records the result.
    ///
    /// # Errors
    /// Those of [`Self::step`], and those of `commit`, as [`NodeError::Store`]; then the step is not recorded either.
    pub fn step_tx<T, F, C>(
        &self,
        name: &str,
        effect: Effect,
        work: F,
        commit: C,
    ) -> impl Future<Output = Result<T, NodeError>> + Send
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Future<Output = Result<T, StepError>> + Send,
        C: FnOnce(&mut Tx<'_>, &T) -> Result<(), StoreError> + Send + 'static,
    {
        // Boxed here, so that a large piece of work is not part of every future around it.
        let work = Box::pin(work);
        async move {
            let step = self.next_step(name)?;
            let busy = Busy { context: self, step: Some(step.clone()) };
            let outcome = self.run_step(step, &effect, work, commit).await;
            busy.done();
            outcome.map_err(|error| self.fatal(error))
        }
    }

    /// The id of the next step, given the name it will have: an idempotency key or git trailer for its work.
    #[must_use]
    pub fn step_id(&self, name: &str) -> StepId {
        self.id(name, self.0.asked.steps.load(Ordering::SeqCst) + 1)
    }

    /// Adds rows and events to the transaction that closes this superstep, if the node finishes.
    pub fn at_close(&self, commit: impl FnOnce(&mut Tx<'_>) -> Result<(), StoreError> + Send + 'static) {
        self.0.asked.at_close.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(commit));
    }

    /// Now; recorded, so that it is the same on replay.
    ///
    /// # Errors
    /// Those of [`Self::step`].
    pub async fn now(&self) -> Result<TimeMs, NodeError> {
        let now = self.0.ambient.clock.now();
        self.step("now", Effect::Pure, async move { Ok(now) }).await
    }

    /// 64 random bits; recorded, so that they are the same on replay.
    ///
    /// # Errors
    /// Those of [`Self::step`].
    pub async fn random(&self) -> Result<u64, NodeError> {
        let bits = self.0.ambient.rng.next_u64();
        self.step("random", Effect::Pure, async move { Ok(bits) }).await
    }

    /// The execution.
    #[must_use]
    pub fn execution(&self) -> &ExecutionId {
        &self.0.pen.execution
    }

    /// On whose behalf it runs.
    #[must_use]
    pub fn scope(&self) -> &TaskScope {
        &self.0.pen.scope
    }

    /// The thread.
    #[must_use]
    pub fn thread(&self) -> &ThreadId {
        &self.0.thread
    }

    /// The number of the superstep as which the node runs, from 1.
    #[must_use]
    pub fn superstep(&self) -> u64 {
        self.0.superstep
    }

    /// The store, for reading. What is read outside a step may differ on replay.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Cancelled when the run is to end. The driver drops the node then; only work that must be told needs this.
    #[must_use]
    pub fn cancel(&self) -> &CancellationToken {
        &self.0.cancel
    }

    /// The live objects of the run.
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.0.resources
    }

    /// How many steps of this run of the node returned what an earlier run had recorded.
    #[must_use]
    pub fn replayed_steps(&self) -> u64 {
        self.0.asked.replayed.load(Ordering::SeqCst)
    }

    pub(crate) fn tell(&self, news: News) {
        let Inner { thread, pen, superstep, node, progress, .. } = &*self.0;
        // An error only means that nobody watches.
        let _ = progress.send(Progress {
            thread: thread.clone(),
            execution: pen.execution.clone(),
            superstep: *superstep,
            node: node.clone(),
            news,
        });
    }

    /// After the node has finished: what it may not have swallowed, and what it adds to the closing transaction.
    pub(crate) fn finish(&self) -> Result<Vec<AtClose>, NodeError> {
        let asked = &self.0.asked;
        if let Some(fatal) = asked.fatal.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Err(fatal);
        }
        let count = asked.steps.load(Ordering::SeqCst);
        if let Some((ordinal, recorded)) = self.0.recorded.range(count + 1..).next() {
            return Err(NodeError::ReplayShort {
                node: self.0.node.clone(),
                superstep: self.0.superstep,
                ordinal: *ordinal,
                recorded: recorded.name.clone(),
            });
        }
        Ok(std::mem::take(&mut *asked.at_close.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn id(&self, name: &str, ordinal: u32) -> StepId {
        StepId {
            execution: self.0.pen.execution.clone(),
            node: self.0.node.clone(),
            superstep: self.0.superstep,
            name: name.to_owned(),
            ordinal,
        }
    }

    fn next_step(&self, name: &str) -> Result<StepId, NodeError> {
        let asked = &self.0.asked;
        if let Some(fatal) = asked.fatal.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Err(fatal);
        }
        if name.is_empty() || name.chars().count() > STEP_NAME_CHARS_MAX {
            let name = name.chars().take(STEP_NAME_CHARS_MAX).collect();
            return Err(self.fatal(NodeError::StepName { name, chars_max: STEP_NAME_CHARS_MAX }));
        }
        if asked.busy.swap(true, Ordering::SeqCst) {
            return Err(self.fatal(NodeError::Overlap { step: self.step_id(name) }));
        }
        Ok(self.id(name, asked.steps.fetch_add(1, Ordering::SeqCst) + 1))
    }

    async fn run_step<T, F, C>(&self, step: StepId, effect: &Effect, work: F, commit: C) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Future<Output = Result<T, StepError>> + Send,
        C: FnOnce(&mut Tx<'_>, &T) -> Result<(), StoreError> + Send + 'static,
    {
        if let Some(recorded) = self.0.recorded.get(&step.ordinal) {
            return self.replay(step, recorded);
        }
        if *effect == Effect::Once {
            let (pen, step) = (self.0.pen.clone(), step.clone());
            self.write(move |tx| pen.insert_intent(tx, &step)).await?;
        }
        self.tell(News::StepStarted { name: step.name.clone() });
        let begun = Instant::now();
        match work.await {
            Ok(value) => {
                let elapsed_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                self.record(step, effect, value, elapsed_ms, commit).await
            }
            Err(error) => {
                self.tell(News::StepFailed { name: step.name.clone() });
                if *effect == Effect::Once && error.nothing_happened {
                    let (pen, step) = (self.0.pen.clone(), step.clone());
                    self.write(move |tx| pen.delete_intent(tx, &step)).await?;
                }
                Err(NodeError::Step { step, source: error.source })
            }
        }
    }

    fn replay<T: DeserializeOwned>(&self, step: StepId, recorded: &RecordedStep) -> Result<T, NodeError> {
        if recorded.name != step.name {
            return Err(NodeError::Replay {
                node: step.node,
                superstep: step.superstep,
                ordinal: step.ordinal,
                recorded: recorded.name.clone(),
                asked: step.name,
            });
        }
        let value = serde_json::from_str(&recorded.result)
            .map_err(|source| NodeError::Result { step: step.clone(), source: Arc::new(source) })?;
        self.0.asked.replayed.fetch_add(1, Ordering::SeqCst);
        self.tell(News::StepReplayed { name: step.name });
        Ok(value)
    }

    async fn record<T, C>(
        &self,
        step: StepId,
        effect: &Effect,
        value: T,
        elapsed_ms: u64,
        commit: C,
    ) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        C: FnOnce(&mut Tx<'_>, &T) -> Result<(), StoreError> + Send + 'static,
    {
        let unfit = |source| NodeError::Result { step: step.clone(), source: Arc::new(source) };
        let result = serde_json::to_string(&value).map_err(unfit)?;
        if result.len() > STEP_RESULT_BYTES_MAX {
            let bytes_max = STEP_RESULT_BYTES_MAX;
            return Err(NodeError::ResultTooLarge { step, bytes: result.len(), bytes_max });
        }
        // What the node gets is read back: it sees the same now as on replay, and what cannot be read is not recorded.
        let seen = serde_json::from_str(&result).map_err(unfit)?;
        let name = step.name.clone();
        let (pen, effect) = (self.0.pen.clone(), effect.clone());
        self.write(move |tx| {
            pen.insert_step(tx, &step, (effect.as_str(), effect.key()), &result, elapsed_ms)?;
            commit(tx, &value)
        })
        .await?;
        self.tell(News::StepRecorded { name, elapsed_ms });
        Ok(seen)
    }

    /// A fenced transaction.
    async fn write(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), NodeError> {
        let pen = self.0.pen.clone();
        let written = self.0.store.write(move |tx| {
            pen.fenced(tx)?;
            work(tx)
        });
        written.await.map_err(NodeError::Store)
    }

    /// Keeps the first error that ends this run of the node, whatever its code does with it.
    fn fatal(&self, error: NodeError) -> NodeError {
        self.0.asked.fatal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error).clone()
    }
}

/// Lives while a step is being run.
struct Busy<'a> {
    context: &'a NodeContext,
    /// Taken out when the step has ended.
    step: Option<StepId>,
}

impl Busy<'_> {
    fn done(mut self) {
        self.step = None;
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.context.0.asked.busy.store(false, Ordering::SeqCst);
        // A node that drops a step half-way could go on differently each time it runs.
        if let Some(step) = self.step.take() {
            self.context.fatal(NodeError::Dropped { step });
        }
    }
}

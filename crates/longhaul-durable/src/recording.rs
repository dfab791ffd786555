//! Recorded steps.
//!
//! It owns the life of one step: intent, work, result. Invariants: a step's work that has been recorded is never polled
//! again; what a node sees of a result is always what was recorded, so that a replay cannot differ.

use std::{
    future::Future,
    sync::{Arc, atomic::Ordering},
};

use longhaul_core::limits::STEP_RESULT_BYTES_MAX;
use longhaul_store::{StoreError, Tx};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;
use tracing::{Instrument, Span};

use crate::{
    Effect, News, NodeContext, NodeError, Probed, StepError, StepId, observe,
    open::Recorded,
    records::{Pen, steps::Declared},
    run::Journal,
};

type NoProbe<T> = std::future::Pending<Result<Probed<T>, StepError>>;
type NoCommit<T> = fn(&mut Tx<'_>, &T) -> Result<(), StoreError>;

impl NodeContext {
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
        self.any_step(name, effect, None::<NoProbe<T>>, work, None::<NoCommit<T>>)
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
        self.any_step(name, effect, None::<NoProbe<T>>, work, Some(commit))
    }

    /// Runs an act that must not happen twice ([`Effect::Once`]) of which one can find out whether it took place.
    /// After a crash in the middle of `work` the next run polls `probe` instead of asking a person: what it found is
    /// recorded, or `work` is tried again.
    ///
    /// # Errors
    /// Those of [`Self::step`]; [`NodeError::NeedsReconcile`] when the probe cannot tell.
    pub fn step_probed<T, P, F>(
        &self,
        name: &str,
        probe: P,
        work: F,
    ) -> impl Future<Output = Result<T, NodeError>> + Send
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        P: Future<Output = Result<Probed<T>, StepError>> + Send,
        F: Future<Output = Result<T, StepError>> + Send,
    {
        self.any_step(name, Effect::Once, Some(probe), work, None::<NoCommit<T>>)
    }

    fn any_step<T, P, F, C>(
        &self,
        name: &str,
        effect: Effect,
        probe: Option<P>,
        work: F,
        commit: Option<C>,
    ) -> impl Future<Output = Result<T, NodeError>> + Send
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        P: Future<Output = Result<Probed<T>, StepError>> + Send,
        F: Future<Output = Result<T, StepError>> + Send,
        C: FnOnce(&mut Tx<'_>, &T) -> Result<(), StoreError> + Send + 'static,
    {
        // Boxed here, so that a large piece of work is not part of every future around it.
        let work = Box::pin(work);
        let probe = probe.map(Box::pin);
        let name = name.to_owned();
        async move {
            let busy = self.next_step(&name)?;
            let step = busy.step();
            let span = match self.0.earlier.recorded.contains_key(&step.ordinal) {
                true => Span::none(),
                false => observe::step_span(self.0.run.owner(), &step, effect.as_str()),
            };
            let outcome = self.run_step(step, &effect, probe, work, commit).instrument(span.clone()).await;
            if let Err(error) = &outcome {
                observe::mark_failed(&span, error);
            }
            busy.done();
            outcome.map_err(|error| self.fatal(error))
        }
    }

    async fn run_step<T, P, F, C>(
        &self,
        step: StepId,
        effect: &Effect,
        probe: Option<P>,
        work: F,
        commit: Option<C>,
    ) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        P: Future<Output = Result<Probed<T>, StepError>> + Send,
        F: Future<Output = Result<T, StepError>> + Send,
        C: FnOnce(&mut Tx<'_>, &T) -> Result<(), StoreError> + Send + 'static,
    {
        if let Some(recorded) = self.0.earlier.recorded.get(&step.ordinal) {
            return self.replay(step, recorded);
        }
        self.is_in_script(&step)?;
        let Some(journal) = self.journal() else {
            return self.run_unrecorded(step, work, commit.is_some()).await;
        };
        let begun = Instant::now();
        let mut known = None;
        if self.0.earlier.pending.contains_key(&step.ordinal) {
            let Some(probe) = probe else { return Err(NodeError::NeedsReconcile { step: Box::new(step) }) };
            known = self.ask(&step, probe).await?;
        } else if *effect == Effect::Once {
            self.intend(journal, &step, probe.is_some()).await?;
        }
        self.tell(|| News::StepStarted { name: step.name.clone() });
        let worked = match known {
            Some(value) => Ok(value),
            None => work.await,
        };
        match worked {
            Ok(value) => {
                let elapsed_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                self.record(journal, step, effect, value, elapsed_ms, commit).await
            }
            Err(error) => {
                self.tell(|| News::StepFailed { name: step.name.clone() });
                if *effect == Effect::Once && error.nothing_happened {
                    let (place, ordinal) = (self.0.place.clone(), step.ordinal);
                    journal.write(move |pen, tx| pen.delete_intent(tx, &place, ordinal)).await?;
                }
                Err(NodeError::Step { step: Box::new(step), source: error.source })
            }
        }
    }

    async fn run_unrecorded<T, F>(&self, step: StepId, work: F, commits: bool) -> Result<T, NodeError>
    where
        F: Future<Output = Result<T, StepError>> + Send,
    {
        if commits {
            return Err(NodeError::KeepsNothing { what: "step_tx" });
        }
        self.tell(|| News::StepStarted { name: step.name.clone() });
        work.await.map_err(|error| NodeError::Step { step: Box::new(step), source: error.source })
    }

    /// Refuses a step that has nothing recorded where nothing outside may be asked.
    pub(crate) fn is_in_script(&self, step: &StepId) -> Result<(), NodeError> {
        self.0.run.script().map_or(Ok(()), |script| Err(script.missing(step)))
    }

    async fn intend(&self, journal: &Journal, step: &StepId, probe: bool) -> Result<(), NodeError> {
        let (place, ordinal, name) = (self.0.place.clone(), step.ordinal, step.name.clone());
        let written = journal.write(move |pen, tx| pen.insert_intent(tx, &place, ordinal, &name, probe));
        written.await.map_err(NodeError::Store)
    }

    /// Asks what became of an act; nothing when it did not take place.
    async fn ask<T, P>(&self, step: &StepId, probe: P) -> Result<Option<T>, NodeError>
    where
        P: Future<Output = Result<Probed<T>, StepError>> + Send,
    {
        match probe.await {
            Ok(Probed::Happened(value)) => Ok(Some(value)),
            Ok(Probed::DidNotHappen) => Ok(None),
            Ok(Probed::Unknown) => Err(NodeError::NeedsReconcile { step: Box::new(step.clone()) }),
            Err(error) => Err(NodeError::Step { step: Box::new(step.clone()), source: error.source }),
        }
    }

    pub(crate) fn replay<T: DeserializeOwned>(&self, step: StepId, recorded: &Recorded) -> Result<T, NodeError> {
        let Recorded::Step(recorded) = recorded else { return Err(self.another(&step, recorded)) };
        if recorded.name != step.name {
            return Err(self.another(&step, &Recorded::Step(recorded.clone())));
        }
        let value = serde_json::from_str(&recorded.result)
            .map_err(|source| NodeError::Result { step: Box::new(step.clone()), source: Arc::new(source) })?;
        self.0.asked.replayed.fetch_add(1, Ordering::Relaxed);
        if let Some(script) = self.0.run.script() {
            script.given(&step);
        }
        self.tell(|| News::StepReplayed { name: step.name });
        Ok(value)
    }

    /// The error for a place where something else was recorded.
    pub(crate) fn another(&self, step: &StepId, recorded: &Recorded) -> NodeError {
        let recorded = match recorded {
            Recorded::Step(step) => step.name.clone(),
            Recorded::Wait(wait) => format!("wait: {}", wait.name),
        };
        self.replaced(step, recorded)
    }

    /// The same where its name is known.
    pub(crate) fn replaced(&self, step: &StepId, recorded: String) -> NodeError {
        NodeError::Replay {
            node: step.node.clone(),
            superstep: step.superstep,
            ordinal: step.ordinal,
            recorded,
            asked: step.name.clone(),
        }
    }

    async fn record<T, C>(
        &self,
        journal: &Journal,
        step: StepId,
        effect: &Effect,
        value: T,
        elapsed_ms: u64,
        commit: Option<C>,
    ) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        C: FnOnce(&mut Tx<'_>, &T) -> Result<(), StoreError> + Send + 'static,
    {
        let unfit = |source| NodeError::Result { step: Box::new(step.clone()), source: Arc::new(source) };
        let result = serde_json::to_string(&value).map_err(unfit)?;
        if result.len() > STEP_RESULT_BYTES_MAX {
            let bytes_max = STEP_RESULT_BYTES_MAX;
            return Err(NodeError::ResultTooLarge { step: Box::new(step), bytes: result.len(), bytes_max });
        }
        // What the node gets is read back: it sees the same now as on replay, and what cannot be read is not recorded.
        let seen = serde_json::from_str(&result).map_err(unfit)?;
        let name = step.name.clone();
        let declared = Declared {
            name: step.name,
            ordinal: step.ordinal,
            effect: effect.as_str(),
            effect_key: effect.key().map(str::to_owned),
        };
        let place = self.0.place.clone();
        let written = journal.write(move |pen: &Pen, tx| {
            pen.insert_step(tx, &place, &declared, &result)?;
            commit.map_or(Ok(()), |commit| commit(tx, &value))
        });
        written.await?;
        self.heartbeat();
        self.tell(|| News::StepRecorded { name, elapsed_ms });
        Ok(seen)
    }

    pub(crate) fn tell(&self, news: impl FnOnce() -> News) {
        self.0.run.tell(&self.0.place, news);
    }
}

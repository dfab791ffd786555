//! Ending an execution, and getting one that cannot go on by itself ready to do so.

use longhaul_core::ThreadId;
use longhaul_durable::{Entry, EntryStatus, ExecutionView, Settlement, StepId};

use crate::{OperateError, Operator};

/// What became of the wish that an execution end.
#[derive(Debug, Clone, PartialEq)]
pub struct Cancelled {
    /// Its thread.
    pub thread: ThreadId,
    /// The execution as it is now; nothing where it had not begun, and only left the queue.
    pub view: Option<ExecutionView>,
    /// What to expect.
    pub next: String,
}

/// What was settled, and how the execution goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Retried {
    /// Its thread.
    pub thread: ThreadId,
    /// The execution as it is now; nothing where it has not begun.
    pub view: Option<ExecutionView>,
    /// The step whose outcome is known now.
    pub settled: Option<StepId>,
    /// It was parked, and is in the queue again.
    pub requeued: bool,
    /// It goes on without more being said.
    pub ready: bool,
    /// How it goes on, or what is in the way.
    pub next: String,
}

impl Operator {
    /// Ends the execution for good; what it recorded stays.
    ///
    /// # Errors
    /// [`OperateError::Unknown`], [`OperateError::Finished`]; those of the runtime.
    pub async fn cancel(&self, target: &str, reason: &str) -> Result<Cancelled, OperateError> {
        let target = match self.entry_named(target).await? {
            Some(Entry { id, thread, execution: None, .. }) => {
                self.runtime.withdraw(&self.scope, &id).await?;
                let next = "it had not begun, and is not in the queue any more".to_owned();
                return Ok(Cancelled { thread, view: None, next });
            }
            Some(Entry { execution: Some(execution), .. }) => execution.to_string(),
            None => target.to_owned(),
        };
        let asked = self.unfinished(&target, "cancel").await?;
        self.runtime.cancel(&self.scope, &asked.execution.thread, &self.actor, reason).await?;
        let view = self.execution(asked.execution.id.as_str()).await?;
        let next = match &view.holder {
            _ if view.execution.status.is_finished() => "what it recorded stays; its waits are closed".to_owned(),
            Some(holder) => format!("{holder} is at work on it, is told, and ends it at once"),
            None => "whoever is at work on it is told, and ends it at once".to_owned(),
        };
        Ok(Cancelled { thread: asked.execution.thread, view: Some(view), next })
    }

    /// Says what became of an act of unknown outcome, if that is asked, and how the execution goes on.
    ///
    /// # Errors
    /// [`OperateError::Unknown`], [`OperateError::Finished`], [`OperateError::SayWhatHappened`],
    /// [`OperateError::NothingToSettle`]; those of the runtime.
    pub async fn retry(&self, target: &str, settlement: Option<Settlement>) -> Result<Retried, OperateError> {
        let entry = self.entry_named(target).await?;
        if let (Some(Entry { id, execution: None, .. }), true) = (&entry, settlement.is_some()) {
            return Err(OperateError::NothingToSettle { id: id.to_string(), step: None });
        }
        let target = match &entry {
            Some(entry @ Entry { execution: None, .. }) => return self.begun_again(entry).await,
            Some(Entry { execution: Some(execution), .. }) => execution.as_str(),
            None => target,
        };
        let view = self.unfinished(target, "retry").await?;
        let named: Option<StepId> = target.parse().ok();
        let mut candidates = view.pending.clone();
        if let Some(step) = &named {
            candidates.retain(|effect| effect.step == *step);
        }
        let Some(settlement) = settlement else {
            // What has a probe finds out by itself.
            candidates.retain(|effect| !effect.probe);
            if !candidates.is_empty() {
                return Err(OperateError::SayWhatHappened { pending: candidates });
            }
            return self.retried(view, None).await;
        };
        match candidates.as_slice() {
            [] => Err(OperateError::NothingToSettle { id: view.execution.id.to_string(), step: named.map(Box::new) }),
            [only] => {
                self.runtime.reconcile(&self.scope, &only.step, settlement).await?;
                let now = self.execution(view.execution.id.as_str()).await?;
                self.retried(now, Some(only.step.clone())).await
            }
            _ => Err(OperateError::SayWhatHappened { pending: candidates }),
        }
    }

    async fn retried(&self, view: ExecutionView, settled: Option<StepId>) -> Result<Retried, OperateError> {
        let thread = view.execution.thread.clone();
        let left = view.pending.iter().filter(|effect| !effect.probe).count();
        let (mut requeued, mut ready) = (false, false);
        let next = if left > 0 {
            format!("{left} more to settle first: longhaul retry {thread}{}", self.flags)
        } else if let Some(wait) = view.waits.first() {
            format!("it waits for {:?}: longhaul approve {}{}", wait.name, wait.id, self.flags)
        } else {
            let entry = self.entry_of(&thread, Some(&view.execution.graph)).await?;
            if let Some(entry) = entry.filter(|entry| entry.status == EntryStatus::Parked) {
                self.runtime.retry(&self.scope, &entry.id).await?;
                requeued = true;
            }
            ready = view.holder.is_none();
            self.how_to_go_on(&view).await?
        };
        Ok(Retried { thread, view: Some(view), settled, requeued, ready, next })
    }

    /// An entry of the queue that never came to be an execution.
    async fn begun_again(&self, entry: &Entry) -> Result<Retried, OperateError> {
        let requeued = entry.status == EntryStatus::Parked;
        if requeued {
            self.runtime.retry(&self.scope, &entry.id).await?;
        }
        let next = format!("a worker that serves the graph {:?} begins it", entry.graph);
        Ok(Retried { thread: entry.thread.clone(), view: None, settled: None, requeued, ready: true, next })
    }

    async fn unfinished(&self, target: &str, what: &'static str) -> Result<ExecutionView, OperateError> {
        let view = self.execution(target).await?;
        if !view.execution.status.is_finished() {
            return Ok(view);
        }
        let newest = self.runtime.find(&self.scope, &view.execution.thread).await?;
        let unfinished = newest.filter(|newest| !newest.status.is_finished()).map(|newest| newest.id.to_string());
        let (id, status) = (view.execution.id.to_string(), view.execution.status);
        Err(OperateError::Finished { id, status, what, unfinished })
    }
}

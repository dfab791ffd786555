//! What all frames and tasks of one run share.
//!
//! It owns the way from them to the store. Invariant: nothing is written for an execution but through
//! [`Journal::write`], which checks the lease in the same transaction.

use longhaul_core::{Ambient, ExecutionId, TaskScope, ThreadId};
use longhaul_store::{Store, StoreError, Tx};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::{
    News, Observed, Progress, Resources, Runtime,
    observe::Owner,
    records::{Pen, Place},
    replay::Script,
};

/// One run of an execution.
pub(crate) struct Run {
    pub(crate) scope: TaskScope,
    pub(crate) execution: ExecutionId,
    pub(crate) thread: ThreadId,
    pub(crate) ambient: Ambient,
    /// What runs it, for what it begins itself.
    pub(crate) runtime: Runtime,
    /// Where it is recorded; nothing in a runtime that keeps nothing.
    pub(crate) journal: Option<Journal>,
    /// Ends the run at once.
    pub(crate) cancel: CancellationToken,
    /// Ends the run at the next boundary of any frame.
    pub(crate) stopping: [CancellationToken; 2],
    pub(crate) resources: Resources,
    pub(crate) progress: broadcast::Sender<Progress>,
    /// Most supersteps of a frame.
    pub(crate) supersteps_max: u64,
}

impl Run {
    /// Whose it is, as its spans say.
    pub(crate) fn owner(&self) -> Owner<'_> {
        Owner { scope: &self.scope, execution: &self.execution }
    }

    /// Whether the run is to end at the next boundary.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.iter().any(CancellationToken::is_cancelled)
    }

    /// What stands in for the outside world, if this is a replay of a case.
    pub(crate) fn script(&self) -> Option<&Script> {
        self.runtime.script.as_deref()
    }

    /// Until the run is to end at the next boundary.
    pub(crate) async fn stopped(&self) {
        let [run, runtime] = &self.stopping;
        tokio::select! {
            () = run.cancelled() => {}
            () = runtime.cancelled() => {}
        }
    }

    /// Tells whoever watches.
    pub(crate) fn tell(&self, place: &Place, news: impl FnOnce() -> News) {
        let observers = &self.runtime.observers;
        if self.progress.receiver_count() == 0 && observers.is_empty() {
            return;
        }
        let news = Progress {
            thread: self.thread.clone(),
            execution: self.execution.clone(),
            ns: place.ns.to_string(),
            superstep: place.superstep,
            task: place.task,
            node: place.node.to_string(),
            news: news(),
        };
        for watching in observers {
            watching.tell(Observed::Progress(news.clone()));
        }
        // An error only means that the last watcher has just gone.
        let _ = self.progress.send(news);
    }
}

/// The store, and the right to write to one execution of it.
#[derive(Clone)]
pub(crate) struct Journal {
    pub(crate) store: Store,
    pub(crate) pen: Pen,
}

impl Journal {
    /// Runs `work` in a fenced transaction.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Pen, &mut Tx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let pen = self.pen.clone();
        let written = self.store.write(move |tx| {
            pen.fenced(tx)?;
            work(&pen, tx)
        });
        written.await
    }
}

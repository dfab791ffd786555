//! Watching runs from outside: observers, and the spans of `tracing`.
//!
//! Invariant: whoever watches changes nothing. An observer has a thread and a bounded queue of its own: it may fail,
//! panic or hang; what it is too slow for is dropped and counted. Spans hold names, numbers and ids, and nothing of
//! states, prompts or answers.

use std::{
    error::Error,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
};

use longhaul_core::{ExecutionId, TaskScope, ThreadId};
use tracing::{Span, field::Empty};

use crate::{DurableError, NodeError, Outcome, Progress, Runtime, StepId, records::Place};

/// Observations that may wait for an observer.
const WAITING_MAX: usize = 1024;

/// Sees what runs do, after it has been recorded.
///
/// ```
/// # use longhaul_core::Ambient;
/// use longhaul_durable::{Observed, Runtime};
///
/// let runtime = Runtime::ephemeral(Ambient::system()).with_observer(|seen: &Observed| {
///     println!("{seen:?}");
///     Ok(())
/// });
/// ```
pub trait Observer: Send + 'static {
    /// Called on the observer's own thread, for one observation after the other.
    ///
    /// # Errors
    /// Whatever it likes: an error is told in the log and has no other consequence.
    fn observe(&mut self, seen: &Observed) -> Result<(), Box<dyn Error + Send + Sync>>;
}

impl<F> Observer for F
where
    F: FnMut(&Observed) -> Result<(), Box<dyn Error + Send + Sync>> + Send + 'static,
{
    fn observe(&mut self, seen: &Observed) -> Result<(), Box<dyn Error + Send + Sync>> {
        self(seen)
    }
}

/// What an observer sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observed {
    /// A run begins, and the store says so.
    Began {
        /// The thread.
        thread: ThreadId,
        /// The execution.
        execution: ExecutionId,
    },
    /// Something happens in a run.
    Progress(Progress),
    /// A run has ended, and the store says so.
    Ended {
        /// The thread.
        thread: ThreadId,
        /// The execution.
        execution: ExecutionId,
        /// How: `completed`, `stopped`, `cancelled`, `waiting`, `needs_reconcile`, `failed`; or `broken_off`, as with a
        /// lost lease.
        outcome: &'static str,
    },
}

/// A runtime's way to one observer. Cheap to clone; the observer's thread ends with the last.
#[derive(Clone)]
pub(crate) struct Watching {
    sender: SyncSender<Observed>,
    dropped: Arc<AtomicU64>,
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watching").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}

impl Watching {
    /// Never waits.
    pub(crate) fn tell(&self, seen: Observed) {
        match self.sender.try_send(seen) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Runtime {
    /// The same runtime with an observer more. It lives in a thread of its own, which ends with the last clone of the
    /// runtime and its runs.
    #[must_use]
    pub fn with_observer(mut self, observer: impl Observer) -> Self {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let watching = Watching { sender, dropped: Arc::default() };
        let named = thread::Builder::new().name("longhaul-observer".to_owned());
        match named.spawn(move || watch(observer, &receiver)) {
            Ok(_) => {}
            // What it would have seen is counted as dropped.
            Err(error) => tracing::warn!(%error, "an observer got no thread"),
        }
        self.observers.push(watching);
        self
    }

    /// How many observations were dropped because an observer was too slow.
    #[must_use]
    pub fn observations_dropped(&self) -> u64 {
        self.observers.iter().map(|watching| watching.dropped.load(Ordering::Relaxed)).sum()
    }
}

fn watch(mut observer: impl Observer, receiver: &Receiver<Observed>) {
    for seen in receiver {
        // Unwind safety: what a panic leaves of an observer is its own business.
        match catch_unwind(AssertUnwindSafe(|| observer.observe(&seen))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "an observer failed"),
            Err(_) => tracing::warn!("an observer panicked"),
        }
    }
}

/// How a run has ended, in a word.
pub(crate) fn outcome<S>(outcome: &Result<Outcome<S>, DurableError>) -> &'static str {
    match outcome {
        Ok(Outcome::Completed(_)) => "completed",
        Ok(Outcome::Stopped(_)) => "stopped",
        Ok(Outcome::Cancelled) => "cancelled",
        Ok(Outcome::Waiting(_)) => "waiting",
        Ok(Outcome::NeedsReconcile(_)) => "needs_reconcile",
        Ok(Outcome::Failed { .. }) => "failed",
        Err(_) => "broken_off",
    }
}

/// Says of a run's span how the run has ended.
pub(crate) fn mark_ended(span: &Span, outcome: &'static str) {
    span.record("longhaul.outcome", outcome);
    if matches!(outcome, "failed" | "broken_off") {
        span.record("otel.status_code", "ERROR");
    }
}

/// Whose a span is: every one says so, for spans are looked at one by one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) scope: &'a TaskScope,
    pub(crate) execution: &'a ExecutionId,
}

/// A span with its owner's ids before its own fields.
macro_rules! owned_span {
    ($level:ident, $name:literal, $owner:expr, $($fields:tt)*) => {
        tracing::$level!(
            $name,
            "longhaul.tenant.id" = $owner.scope.scope.tenant.as_str(),
            "longhaul.user.id" = $owner.scope.scope.user.as_str(),
            "longhaul.session.id" = $owner.scope.session.as_str(),
            "longhaul.task.id" = $owner.scope.task.as_str(),
            "longhaul.trace.id" = $owner.scope.trace.as_str(),
            "longhaul.execution.id" = $owner.execution.as_str(),
            $($fields)*
        )
    };
}

/// The span of a run of an execution. It is made whatever is logged, so that each line of a log that is written during
/// the run, by whichever crate, stands within it and says whose it is.
pub(crate) fn execution_span(owner: Owner<'_>, graph: &str, thread: &ThreadId) -> Span {
    owned_span!(
        error_span,
        "execution",
        owner,
        otel.name = %format_args!("invoke_workflow {graph}"),
        otel.kind = "internal",
        otel.status_code = Empty,
        "gen_ai.operation.name" = "invoke_workflow",
        "gen_ai.workflow.name" = graph,
        "gen_ai.conversation.id" = thread.as_str(),
        "longhaul.outcome" = Empty,
    )
}

/// The span of a superstep of a frame.
pub(crate) fn superstep_span(owner: Owner<'_>, ns: &str, superstep: u64) -> Span {
    owned_span!(
        debug_span,
        "superstep",
        owner,
        otel.name = %format_args!("superstep {superstep}"),
        otel.status_code = Empty,
        "longhaul.superstep" = superstep,
        "longhaul.namespace" = ns,
    )
}

/// The span of one run of a node, its attempts included.
pub(crate) fn task_span(owner: Owner<'_>, place: &Place) -> Span {
    owned_span!(
        debug_span,
        "task",
        owner,
        otel.name = %format_args!("node {}", place.node),
        otel.status_code = Empty,
        "longhaul.node" = &*place.node,
        "longhaul.superstep" = place.superstep,
        "longhaul.task" = place.task,
    )
}

/// The span of a step's work.
pub(crate) fn step_span(owner: Owner<'_>, step: &StepId, effect: &str) -> Span {
    owned_span!(
        debug_span,
        "step",
        owner,
        otel.name = %format_args!("step {}", step.name),
        otel.status_code = Empty,
        "longhaul.step.id" = %step,
        "longhaul.step.effect" = effect,
    )
}

/// Says that what the span stands for failed; why is not said, for it may hold anything.
pub(crate) fn mark_failed(span: &Span, error: &NodeError) {
    if !matches!(error, NodeError::Suspended | NodeError::Stopped) {
        span.record("otel.status_code", "ERROR");
    }
}

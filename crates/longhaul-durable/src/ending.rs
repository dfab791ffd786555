//! The one transaction with which a run ends: what is waited for is noted, the execution's status said, and the thread
//! given back.

use std::error::Error;

use longhaul_core::TimeMs;
use longhaul_store::{StoreError, give_back};

use crate::{
    DurableError, GraphState, NodeError, Outcome, PendingEffect, Status, WaitInfo, WaitKind,
    active::Entered,
    checkpoint,
    frame::{Frame, How, Loaded, LoopEnd, Role},
    pausing::Unanswered,
    records::{Pen, executions, family, waits},
    run::Journal,
};

/// What is to be said of the execution.
struct Word {
    status: Status,
    error: Option<String>,
    kind: &'static str,
}

/// What stands in the store once that is said.
struct Said {
    open: Vec<WaitInfo>,
    pending: Vec<PendingEffect>,
    cancelled: bool,
    /// An answer came meanwhile: nothing was said, go on.
    again: bool,
    /// Only timers are left, the first of which is due then: nothing was said, wait for it.
    due: Option<TimeMs>,
}

/// How a run goes on after its loop has ended.
pub(crate) enum Next<S> {
    /// Not at all.
    Ended(Result<Outcome<S>, DurableError>),
    /// At once.
    Again,
    /// At this moment.
    At(TimeMs),
}

impl<S: GraphState> Frame<S> {
    /// Says how the run ended, unless it has to go on after all.
    pub(crate) async fn end(
        &mut self,
        journal: &Journal,
        place: &Entered,
        end: LoopEnd,
        await_timers: bool,
    ) -> Result<Next<S>, DurableError> {
        let LoopEnd { how, waits } = end;
        let word = match &how {
            How::Complete { recorded: true } => return Ok(Next::Ended(Ok(Outcome::Completed(self.take_state())))),
            How::Complete { recorded: false } => Word::new(Status::Completed, "execution.completed"),
            How::Cancelled if place.is_for_good() => Word::new(Status::Cancelled, "execution.cancelled"),
            How::Stopped | How::Cancelled => Word::new(Status::Stopped, "execution.stopped"),
            How::Suspended => Word::new(Status::Waiting, "execution.waiting"),
            How::Failed { error: NodeError::NeedsReconcile { .. }, .. } => {
                Word::new(Status::Stopped, "execution.stopped")
            }
            How::Exhausted => Word::failed(self.exhausted().to_string()),
            How::Failed { error, .. } => Word::failed(chain(error)),
        };
        let superstep = self.position.superstep;
        let said = journal.write(move |pen, tx| say(pen, tx, &word, waits, superstep, await_timers)).await?;
        if said.again {
            return Ok(Next::Again);
        }
        if let Some(due) = said.due {
            return Ok(Next::At(due));
        }
        if said.cancelled {
            return Ok(Next::Ended(Ok(Outcome::Cancelled)));
        }
        Ok(Next::Ended(Ok(match how {
            How::Complete { .. } => Outcome::Completed(self.take_state()),
            How::Stopped => Outcome::Stopped(self.take_state()),
            How::Cancelled => Outcome::Cancelled,
            How::Suspended => Outcome::Waiting(said.open),
            How::Failed { error: NodeError::NeedsReconcile { .. }, .. } => Outcome::NeedsReconcile(said.pending),
            How::Exhausted => return Ok(Next::Ended(Err(self.exhausted()))),
            How::Failed { node, superstep, error } => Outcome::Failed { node, superstep, error },
        })))
    }

    /// The frame as the store has it now, after whatever is due has ended.
    pub(crate) async fn read_again(self, journal: &Journal) -> Result<Self, DurableError> {
        let (pen, ns) = (journal.pen.clone(), self.ns.clone());
        let read = journal.write(move |_, tx| {
            waits::expire(tx, pen.scope(), pen.execution())?;
            Loaded::read(tx, &pen, &ns, false)
        });
        let Loaded { log, open } = read.await?;
        let missing = || DurableError::NoCheckpoint { execution: self.run.execution.clone(), superstep: 0 };
        let replayed = checkpoint::replay(&self.run.execution, &self.ns, &log, None)?.ok_or_else(missing)?;
        Ok(Self::resumed(self.run, self.graph, self.ns, replayed, open, Role::Root))
    }

    pub(crate) fn exhausted(&self) -> DurableError {
        DurableError::Supersteps { execution: self.run.execution.clone(), supersteps_max: self.run.supersteps_max }
    }

    fn take_state(&mut self) -> S {
        // The frame has ended; usually nobody else holds its state.
        S::clone(&self.state)
    }
}

impl Word {
    fn new(status: Status, kind: &'static str) -> Self {
        Self { status, error: None, kind }
    }

    fn failed(error: String) -> Self {
        Self { status: Status::Failed, error: Some(error), kind: "execution.failed" }
    }
}

fn say(
    pen: &Pen,
    tx: &mut longhaul_store::Tx<'_>,
    word: &Word,
    unanswered: Vec<Unanswered>,
    superstep: u64,
    await_timers: bool,
) -> Result<Said, StoreError> {
    let mut ids = Vec::with_capacity(unanswered.len());
    for unanswered in unanswered {
        ids.push(unanswered.id().clone());
        match unanswered {
            Unanswered::New(wait) => pen.insert_wait(tx, &wait)?,
            Unanswered::Unfit { wait, problem } => waits::reopen(tx, pen.scope(), &wait, &problem)?,
            Unanswered::Known(_) => {}
        }
    }
    // A wish that nobody has noticed yet is fulfilled here.
    let cancelled = !word.status.is_finished() && executions::is_to_be_cancelled(tx, pen)?;
    if cancelled || word.status == Status::Cancelled {
        pen.end_family(tx, Status::Cancelled)?;
    }
    let open = family::open_waits(tx, pen.tenant(), pen.execution())?;
    let mut said = Said { open, pending: Vec::new(), cancelled, again: false, due: None };
    if cancelled {
        pen.set_status(tx, Status::Cancelled, None, "execution.cancelled", superstep)?;
        give_back(tx, pen.token())?;
        return Ok(said);
    }
    let answered = ids.iter().any(|id| !said.open.iter().any(|wait| wait.id == *id));
    if word.status == Status::Waiting && answered {
        said.again = true;
        return Ok(said);
    }
    let only_timers = !said.open.is_empty() && said.open.iter().all(|wait| wait.kind == WaitKind::Timer);
    if word.status == Status::Waiting && await_timers && only_timers {
        said.due = WaitInfo::next_due(&said.open);
        return Ok(said);
    }
    pen.set_status(tx, word.status, word.error.as_deref(), word.kind, superstep)?;
    give_back(tx, pen.token())?;
    said.pending = family::pending(tx, pen.tenant(), pen.execution())?;
    Ok(said)
}

/// An error and what lies beneath it, in one line.
fn chain(error: &NodeError) -> String {
    let mut text = error.to_string();
    let mut source = Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    // A failure must be told: PostgreSQL's texts have no NUL.
    text.chars().take(4000).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect()
}

//! The one transaction with which a run ends: what is waited for is noted, the execution's status said, and the thread
//! given back.

use std::error::Error;

use longhaul_store::{StoreError, give_back};

use crate::{
    DurableError, GraphState, NodeError, Outcome, PendingEffect, Status, WaitInfo,
    active::Entered,
    checkpoint,
    frame::{Frame, How, Loaded, LoopEnd, Role},
    pausing::Unanswered,
    records::{Pen, effects, executions, waits},
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
}

impl<S: GraphState> Frame<S> {
    /// Says how the run ended; nothing when it has to go on after all.
    pub(crate) async fn end(
        &mut self,
        journal: &Journal,
        place: &Entered,
        end: LoopEnd,
    ) -> Result<Option<Result<Outcome<S>, DurableError>>, DurableError> {
        let LoopEnd { how, waits } = end;
        let word = match &how {
            How::Complete { recorded: true } => return Ok(Some(Ok(Outcome::Completed(self.take_state())))),
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
        let said = journal.write(move |pen, tx| say(pen, tx, &word, waits, superstep)).await?;
        if said.again {
            return Ok(None);
        }
        if said.cancelled {
            return Ok(Some(Ok(Outcome::Cancelled)));
        }
        Ok(Some(Ok(match how {
            How::Complete { .. } => Outcome::Completed(self.take_state()),
            How::Stopped => Outcome::Stopped(self.take_state()),
            How::Cancelled => Outcome::Cancelled,
            How::Suspended => Outcome::Waiting(said.open),
            How::Failed { error: NodeError::NeedsReconcile { .. }, .. } => Outcome::NeedsReconcile(said.pending),
            How::Exhausted => return Ok(Some(Err(self.exhausted()))),
            How::Failed { node, superstep, error } => Outcome::Failed { node, superstep, error },
        })))
    }

    /// The frame as the store has it now.
    pub(crate) async fn read_again(self, journal: &Journal) -> Result<Self, DurableError> {
        let (pen, ns) = (journal.pen.clone(), self.ns.clone());
        let Loaded { log, open } = journal.store.read(move |read| Loaded::read(read, &pen, &ns, false)).await?;
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
) -> Result<Said, StoreError> {
    let mut ids = Vec::with_capacity(unanswered.len());
    for unanswered in unanswered {
        ids.push(unanswered.id().clone());
        if let Unanswered::New(wait) = unanswered {
            pen.insert_wait(tx, &wait)?;
        }
    }
    // A wish that nobody has noticed yet is fulfilled here.
    let cancelled = !word.status.is_finished() && executions::is_to_be_cancelled(tx, pen)?;
    if cancelled || word.status == Status::Cancelled {
        pen.cancel_waits(tx)?;
    }
    let open = waits::open(tx, pen.tenant(), pen.execution())?;
    let mut said = Said { open, pending: Vec::new(), cancelled, again: false };
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
    pen.set_status(tx, word.status, word.error.as_deref(), word.kind, superstep)?;
    give_back(tx, pen.token())?;
    said.pending = effects::pending(tx, pen.tenant(), pen.execution())?;
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
    text.chars().take(4000).collect()
}

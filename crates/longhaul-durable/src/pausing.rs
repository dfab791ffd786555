//! Waits inside a node.
//!
//! It owns what a node sees of a wait when it runs and when it runs again. Invariants: a wait has a number among the
//! node's steps, so that it is found again; a node that waits ends, and nothing of it is kept but what it recorded.

use std::{
    future::Future,
    sync::{Arc, atomic::Ordering},
};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Answer, News, NodeContext, NodeError, StepId, Wait, WaitId, WaitInfo, WaitStatus, answer_schema, open::Recorded,
    records::waits::NewWait,
};

/// Something for which a node waits.
#[derive(Debug, Clone)]
pub(crate) enum Unanswered {
    /// Declared in this run.
    New(Box<NewWait>),
    /// Noted before and not answered when this run began; of a child, too.
    Known(WaitId),
    /// Answered with something that the node cannot read: it is to be asked again.
    Unfit { wait: WaitId, problem: String },
}

/// A wait that stands in the store.
pub(crate) struct Opened {
    step: StepId,
    wait: WaitId,
    /// As it was when this run began, if it was there.
    known: Option<Box<WaitInfo>>,
}

impl Opened {
    pub(crate) fn id(&self) -> &WaitId {
        &self.wait
    }
}

impl Unanswered {
    pub(crate) fn id(&self) -> &WaitId {
        match self {
            Self::New(wait) => &wait.id,
            Self::Known(id) | Self::Unfit { wait: id, .. } => id,
        }
    }
}

impl NodeContext {
    /// Waits for an answer from outside. Until there is one the node ends here ([`NodeError::Suspended`], to be passed
    /// on with `?`) and the run ends with [`crate::Outcome::Waiting`]; after
    /// [`crate::Runtime::continue_with`] the next run runs the node again from its top, its recorded steps return, and
    /// the answer is returned here.
    ///
    /// # Errors
    /// [`NodeError::Suspended`]; [`NodeError::AnswerUnfit`] when the answer is no `T`: the wait is open again then;
    /// [`NodeError::WaitSchema`],
    /// [`NodeError::WaitCancelled`], [`NodeError::Replay`] when something else was recorded here.
    pub async fn pause_for<T: DeserializeOwned + Send>(&self, wait: Wait) -> Result<Answer<T>, NodeError> {
        let mut answers = self.pause(vec![wait]).map_err(|error| self.fatal(error))?;
        Ok(answers.pop().expect("one wait has one answer"))
    }

    /// Waits for several answers at once; they are returned in the order of the waits once all are there.
    ///
    /// # Errors
    /// Those of [`Self::pause_for`].
    pub fn pause_for_all<T>(
        &self,
        waits: impl IntoIterator<Item = Wait> + Send,
    ) -> impl Future<Output = Result<Vec<Answer<T>>, NodeError>> + Send
    where
        T: DeserializeOwned + Send,
    {
        let waits: Vec<Wait> = waits.into_iter().collect();
        async move { self.pause(waits).map_err(|error| self.fatal(error)) }
    }

    fn pause<T: DeserializeOwned>(&self, waits: Vec<Wait>) -> Result<Vec<Answer<T>>, NodeError> {
        if self.journal().is_none() {
            return Err(NodeError::KeepsNothing { what: "pause_for" });
        }
        let mut answers = Vec::with_capacity(waits.len());
        let mut missing = Vec::new();
        for wait in waits {
            let busy = self.next_step(&wait.name)?;
            let step = busy.step();
            busy.done();
            match self.0.earlier.recorded.get(&step.ordinal) {
                Some(Recorded::Wait(known)) if known.name == wait.name && known.kind == wait.kind => {
                    match self.answer_of(step, known)? {
                        Some(answer) => answers.push(answer),
                        None => missing.push(Unanswered::Known(known.id.clone())),
                    }
                }
                Some(other) => return Err(self.another(&step, other)),
                None => missing.push(Unanswered::New(Box::new(self.declare::<T>(&step, wait)?))),
            }
        }
        if missing.is_empty() {
            return Ok(answers);
        }
        self.tell(|| News::NodeWaits);
        self.add_waits(missing);
        Err(NodeError::Suspended)
    }

    /// Opens a wait at once, rather than when nothing else can go on; one that is known is found again.
    pub(crate) async fn open_wait<T: DeserializeOwned>(&self, wait: Wait) -> Result<Opened, NodeError> {
        let Some(journal) = self.journal() else { return Err(NodeError::KeepsNothing { what: "pause_for_webhook" }) };
        let busy = self.next_step(&wait.name)?;
        let step = busy.step();
        busy.done();
        match self.0.earlier.recorded.get(&step.ordinal) {
            Some(Recorded::Wait(known)) if known.name == wait.name && known.kind == wait.kind => {
                Ok(Opened { step, wait: known.id.clone(), known: Some(known.clone()) })
            }
            Some(other) => Err(self.another(&step, other)),
            None => {
                let new = self.declare::<T>(&step, wait)?;
                let wait = new.id.clone();
                journal.write(move |pen, tx| pen.insert_wait(tx, &new)).await?;
                Ok(Opened { step, wait, known: None })
            }
        }
    }

    /// The answer to a wait that was opened, or the end of the node's run.
    pub(crate) fn answer_to<T: DeserializeOwned>(&self, opened: Opened) -> Result<Answer<T>, NodeError> {
        let Opened { step, wait, known } = opened;
        if let Some(known) = known
            && let Some(answer) = self.answer_of(step, &known)?
        {
            return Ok(answer);
        }
        self.tell(|| News::NodeWaits);
        self.add_waits([Unanswered::Known(wait)]);
        Err(NodeError::Suspended)
    }

    fn declare<T: DeserializeOwned>(&self, step: &StepId, wait: Wait) -> Result<NewWait, NodeError> {
        let mut wait = wait;
        if let Some(script) = self.0.run.script() {
            script.check_wait(step, wait.kind)?;
            // It ends as it was recorded, and not by the clock.
            wait.deadline = None;
        }
        let unfit = |source| NodeError::WaitSchema { name: wait.name.clone(), source };
        if let Some(schema) = &wait.schema {
            answer_schema::check_schema(schema, "schema").map_err(unfit)?;
        }
        if let Some(default) = &wait.default {
            answer_schema::read::<T>(default, "default").map_err(unfit)?;
            wait.schema
                .as_ref()
                .map_or(Ok(()), |schema| answer_schema::check(schema, default, "default"))
                .map_err(unfit)?;
        }
        let id = WaitId::from_body(&self.0.run.ambient.ids.body());
        Ok(NewWait { id, place: self.0.place.clone(), ordinal: step.ordinal, wait })
    }

    fn answer_of<T: DeserializeOwned>(&self, step: StepId, wait: &WaitInfo) -> Result<Option<Answer<T>>, NodeError> {
        let read = |value: &Option<Value>| match value {
            Some(value) => {
                let read = T::deserialize(value);
                read.map(Some)
                    .map_err(|source| NodeError::Result { step: Box::new(step.clone()), source: Arc::new(source) })
            }
            None => Ok(None),
        };
        let answer = match wait.status {
            WaitStatus::Waiting => return Ok(None),
            WaitStatus::Cancelled => return Err(NodeError::WaitCancelled { wait: wait.id.clone() }),
            WaitStatus::Expired => Answer::Expired { default: read(&wait.value)? },
            WaitStatus::Answered => {
                // An answer is always a value; `null` stands for nothing.
                let value = wait.value.as_ref().unwrap_or(&Value::Null);
                let value = answer_schema::read(value, "answer").map_err(|source| {
                    self.add_waits([Unanswered::Unfit { wait: wait.id.clone(), problem: source.to_string() }]);
                    NodeError::AnswerUnfit { wait: wait.id.clone(), source }
                })?;
                Answer::Given {
                    value,
                    actor: wait.actor.clone().unwrap_or_default(),
                    at: wait.answered_at.unwrap_or(wait.created_at),
                }
            }
        };
        self.0.asked.replayed.fetch_add(1, Ordering::Relaxed);
        Ok(Some(answer))
    }
}

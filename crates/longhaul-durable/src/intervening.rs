//! Interventions: what somebody adds to a running execution without stopping it.
//!
//! It owns their way in and their way to the nodes. Invariants: an intervention ends nothing and answers nothing, least
//! of all an approval: it has no way to name a wait; each consumer is given each of them once, and on replay the same.

use std::{fmt, future::Future, str::FromStr};

use longhaul_core::{EventDraft, ExecutionId, Scope, ThreadId, TimeMs, limits::STEP_RESULT_BYTES_MAX};
use longhaul_store::{StoreError, Tx};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    DurableError, NodeContext, NodeError, Runtime,
    open::Recorded,
    records::{executions, interventions, steps::Declared},
};

/// Largest payload of one intervention, and longest note, in bytes.
pub const INTERVENTION_BYTES_MAX: usize = 64 * 1024;

/// Interventions that one step is given at most; the next step gets the rest.
const BATCH: usize = 100;

/// The name of one intervention: `note_` and letters, digits or hyphens. Nothing that answers a wait takes one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InterventionId(String);

/// A text that is not the id of an intervention.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of an intervention: expected `note_` and 1 to 64 letters, digits or hyphens")]
pub struct InterventionIdError(String);

impl InterventionId {
    /// The printed form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InterventionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for InterventionId {
    type Err = InterventionIdError;
    fn from_str(text: &str) -> Result<Self, InterventionIdError> {
        let fits =
            |body: &str| (1..=64).contains(&body.len()) && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        match text.strip_prefix("note_") {
            Some(body) if fits(body) => Ok(Self(text.to_owned())),
            Some(_) | None => Err(InterventionIdError(text.chars().take(80).collect())),
        }
    }
}

impl TryFrom<String> for InterventionId {
    type Error = InterventionIdError;
    fn try_from(text: String) -> Result<Self, InterventionIdError> {
        text.parse()
    }
}

impl From<InterventionId> for String {
    fn from(id: InterventionId) -> String {
        id.0
    }
}

/// Something added to an execution from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Intervention {
    /// Its id.
    pub id: InterventionId,
    /// The execution.
    pub execution: ExecutionId,
    /// Who added it.
    pub author: String,
    /// What they say about it.
    pub note: String,
    /// What is to be taken into account.
    pub payload: Value,
    /// When.
    pub at: TimeMs,
}

impl Runtime {
    /// Adds something to the thread's unfinished execution, whoever is at work on it: its nodes are given it when they
    /// next ask, with [`NodeContext::interventions`]. Nothing is stopped, woken or answered by it.
    ///
    /// # Errors
    /// [`DurableError::NothingUnfinished`], [`DurableError::InterventionTooLarge`], [`DurableError::Store`].
    pub async fn intervene(
        &self,
        scope: &Scope,
        thread: &ThreadId,
        payload: Value,
        author: &str,
        note: &str,
    ) -> Result<Intervention, DurableError> {
        let (scope, thread) = (scope.clone(), thread.clone());
        let (author, note) = (author.to_owned(), note.to_owned());
        self.store()?.write(move |tx| add(tx, &scope, &thread, payload, author, note)).await
    }

    /// The same in a transaction of the caller's, so that other rows and the intervention are there together or not at
    /// all.
    ///
    /// # Errors
    /// Those of [`Self::intervene`].
    pub fn intervene_in(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        thread: &ThreadId,
        payload: Value,
        author: &str,
        note: &str,
    ) -> Result<Intervention, DurableError> {
        add(tx, scope, thread, payload, author.to_owned(), note.to_owned())
    }

    /// All interventions of the thread's newest execution, oldest first.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn interventions(&self, scope: &Scope, thread: &ThreadId) -> Result<Vec<Intervention>, DurableError> {
        let (scope, thread) = (scope.clone(), thread.clone());
        let read = self.store()?.read(move |read| match executions::newest(read, &scope, &thread)? {
            Some(execution) => interventions::all(read, &execution),
            None => Ok(Vec::new()),
        });
        Ok(read.await.map_err(|error: StoreError| error)?)
    }
}

fn add(
    tx: &mut Tx<'_>,
    scope: &Scope,
    thread: &ThreadId,
    payload: Value,
    author: String,
    note: String,
) -> Result<Intervention, DurableError> {
    let bytes = payload.to_string().len().max(note.len()).max(author.len());
    if bytes > INTERVENTION_BYTES_MAX {
        return Err(DurableError::InterventionTooLarge { bytes, bytes_max: INTERVENTION_BYTES_MAX });
    }
    let newest = executions::newest(tx, scope, thread)?;
    let Some(execution) = newest.filter(|execution| !execution.status.is_finished()) else {
        return Err(DurableError::NothingUnfinished { thread: thread.clone() });
    };
    let id = InterventionId(format!("note_{}", tx.ambient().ids.body()));
    let new = Intervention { id, execution: execution.id.clone(), author, note, payload, at: tx.now() };
    interventions::insert(tx, &execution, &new)?;
    let data = json!({ "intervention": new.id, "author": new.author });
    let draft = EventDraft::business("intervention.added", data);
    tx.append_event(&execution.scope, Some(&execution.id), None, draft)?;
    Ok(new)
}

impl NodeContext {
    /// What has been added to the execution and this node has not been given yet, oldest first: a recorded step, the
    /// same on replay. Each node is a consumer of its own; see [`Self::interventions_for`].
    ///
    /// # Errors
    /// Those of [`Self::step`].
    pub fn interventions(&self) -> impl Future<Output = Result<Vec<Intervention>, NodeError>> + Send {
        let consumer = self.node().to_owned();
        let context = self.clone();
        async move { context.interventions_for(&consumer).await }
    }

    /// The same for a consumer of this name, which several nodes may share: each intervention is given to it once.
    ///
    /// # Errors
    /// Those of [`Self::step`].
    pub fn interventions_for(
        &self,
        consumer: &str,
    ) -> impl Future<Output = Result<Vec<Intervention>, NodeError>> + Send {
        let (context, consumer) = (self.clone(), consumer.to_owned());
        async move {
            let busy = context.next_step("interventions")?;
            let step = busy.step();
            let given = match context.0.earlier.recorded.get(&step.ordinal) {
                Some(recorded @ (Recorded::Step(_) | Recorded::Wait(_))) => context.replay(step, recorded),
                None => match context.is_in_script(&step) {
                    Ok(()) => context.take_interventions(step.ordinal, consumer).await,
                    Err(missing) => Err(missing),
                },
            };
            busy.done();
            given.map_err(|error| context.fatal(error))
        }
    }

    async fn take_interventions(&self, ordinal: u32, consumer: String) -> Result<Vec<Intervention>, NodeError> {
        // A runtime that keeps nothing is given none.
        let Some(journal) = self.journal() else { return Ok(Vec::new()) };
        let place = self.0.place.clone();
        let written = journal.write(move |pen, tx| {
            let mut unseen = pen.unseen(tx, &consumer, BATCH)?;
            let mut bytes = 2;
            let fitting = unseen.iter().take_while(|intervention| {
                bytes += 1 + json!(intervention).to_string().len();
                bytes <= STEP_RESULT_BYTES_MAX
            });
            let fitting = fitting.count();
            unseen.truncate(fitting);
            for intervention in &unseen {
                pen.mark_seen(tx, &consumer, &intervention.id)?;
            }
            let name = "interventions".to_owned();
            let declared = Declared { name, ordinal, effect: "pure", effect_key: None };
            pen.insert_step(tx, &place, &declared, &json!(unseen).to_string())?;
            Ok(unseen)
        });
        Ok(written.await?)
    }
}

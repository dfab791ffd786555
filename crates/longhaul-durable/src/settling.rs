//! The few things that may be done to an execution that is not running: settling an act of unknown outcome, giving up.

use longhaul_core::{EventDraft, Scope, ThreadId};
use longhaul_store::Lease;
use serde_json::{Value, json};

use crate::{
    DurableError, PendingEffect, Runtime, Status, StepId,
    records::{
        Pen, effects,
        steps::{self, Declared},
    },
};

/// What became of an act of unknown outcome.
#[derive(Debug, Clone, PartialEq)]
pub enum Settlement {
    /// It took place; this is the step's result, as its JSON.
    Happened(Value),
    /// It did not take place: the step may run again.
    DidNotHappen,
}

impl Runtime {
    /// The acts of the thread's newest execution of which nobody knows whether they took place.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn pending_effects(&self, scope: &Scope, thread: &ThreadId) -> Result<Vec<PendingEffect>, DurableError> {
        let Some(execution) = self.find(scope, thread).await? else { return Ok(Vec::new()) };
        let tenant = scope.tenant.clone();
        Ok(self.store()?.read(move |read| effects::pending(read, &tenant, &execution.id)).await?)
    }

    /// Says what became of an act of unknown outcome. Takes the thread's lease.
    ///
    /// # Errors
    /// [`DurableError::NotPending`], [`DurableError::NoExecution`], [`DurableError::Lease`], [`DurableError::Store`].
    pub async fn reconcile(&self, scope: &Scope, step: &StepId, settlement: Settlement) -> Result<(), DurableError> {
        let execution = self.execution(scope, &step.execution).await?;
        let lease = Lease::acquire(self.store()?, scope, &execution.thread, self.lease_ttl).await?;
        let pen = Pen::new(execution.scope, execution.id, lease.token().clone());
        let step = step.clone();
        let written = self.store()?.write(move |tx| {
            pen.fenced(tx)?;
            let pending = effects::pending(tx, pen.tenant(), pen.execution())?;
            if !pending.iter().any(|effect| effect.step == step) {
                return Err(DurableError::NotPending { step });
            }
            let outcome = match settlement {
                Settlement::Happened(result) => {
                    let (name, ordinal) = (step.name.clone(), step.ordinal);
                    let declared = Declared { name, ordinal, effect: "once", effect_key: None };
                    pen.insert_step(tx, &steps::place_of(&step), &declared, &result.to_string())?;
                    "happened"
                }
                Settlement::DidNotHappen => {
                    pen.delete_intent(tx, &steps::place_of(&step), step.ordinal)?;
                    "did_not_happen"
                }
            };
            let draft = EventDraft::internal("effect.reconciled", json!({ "outcome": outcome }));
            tx.append_event(pen.scope(), Some(pen.execution()), Some(&step.within()), draft)?;
            Ok(())
        });
        let written = written.await;
        // Also when nothing was settled: other hosts would wait for the lease's end.
        lease.release().await?;
        written
    }

    /// Gives the thread's unfinished execution up, so that the next run starts anew; tells whether there was one.
    ///
    /// # Errors
    /// [`DurableError::Lease`] when somebody is at work on it, [`DurableError::Store`].
    pub async fn abandon(&self, scope: &Scope, thread: &ThreadId) -> Result<bool, DurableError> {
        let lease = Lease::acquire(self.store()?, scope, thread, self.lease_ttl).await?;
        let unfinished = self.find(scope, thread).await?.filter(|execution| !execution.status.is_finished());
        let found = unfinished.is_some();
        let mut written = Ok(());
        if let Some(execution) = unfinished {
            let pen = Pen::new(execution.scope, execution.id, lease.token().clone());
            let writing = self.store()?.write(move |tx| {
                pen.fenced(tx)?;
                pen.end_family(tx, Status::Abandoned)?;
                pen.set_status(tx, Status::Abandoned, None, "execution.abandoned", 0)
            });
            written = writing.await;
        }
        lease.release().await?;
        written?;
        Ok(found)
    }
}

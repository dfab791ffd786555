//! The way in for answers.
//!
//! It owns acceptance: a wait is answered once, by whoever comes first, and every attempt is noted. What the answer is
//! good for is the next run's business.

use longhaul_core::{EventDraft, Scope, ThreadId, TimeMs, limits::STEP_RESULT_BYTES_MAX};
use longhaul_store::{StoreError, Tx};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    AnswerSchemaError, Continued, DurableError, GivenAnswer, Runtime, WaitId, WaitInfo, WaitKind, WaitStatus,
    answer_schema,
    records::{
        executions, family,
        waits::{self, Attempt},
    },
    waking,
};

impl Runtime {
    /// Answers a wait, from any process; [`Runtime::run`] on its thread then goes on. The same request may be repeated:
    /// it is told what became of it. Of several requests one is accepted; what became of the others is noted as well.
    ///
    /// # Errors
    /// [`DurableError::NoWait`], [`DurableError::AlreadyAnswered`], [`DurableError::AnswerRefused`],
    /// [`DurableError::Store`].
    pub async fn continue_with(
        &self,
        scope: &Scope,
        wait: &WaitId,
        value: Value,
        request_id: &str,
        actor: &str,
    ) -> Result<Continued, DurableError> {
        let answer =
            GivenAnswer { wait: wait.clone(), value, request_id: request_id.to_owned(), actor: actor.to_owned() };
        let scope = scope.clone();
        // The attempt is noted also when it is refused.
        self.store()?.write(move |tx| accept(tx, &scope, &answer)).await?
    }

    /// The same in a transaction of the caller's, so that other rows and the answer are there together or not at all.
    /// The inner result is what became of it; that it was tried is noted even if it was refused, as long as the
    /// transaction is kept.
    ///
    /// # Errors
    /// [`DurableError::Store`]; within, those of [`Self::continue_with`].
    pub fn continue_in(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        answer: &GivenAnswer,
    ) -> Result<Result<Continued, DurableError>, DurableError> {
        accept(tx, scope, answer)
    }

    /// Answers the one wait of the thread.
    ///
    /// # Errors
    /// [`DurableError::WhichWait`] with the list when it is not one; those of [`Self::continue_with`].
    pub async fn continue_thread(
        &self,
        scope: &Scope,
        thread: &ThreadId,
        value: Value,
        request_id: &str,
        actor: &str,
    ) -> Result<Continued, DurableError> {
        let (scope, thread) = (scope.clone(), thread.clone());
        let (request_id, actor) = (request_id.to_owned(), actor.to_owned());
        let written = self.store()?.write(move |tx| {
            let Some(execution) = executions::newest(tx, &scope, &thread)? else {
                return Ok(Err(DurableError::WhichWait { thread, waits: Vec::new() }));
            };
            let mut answered = None;
            for member in family::members(tx, &scope.tenant, &execution.id)? {
                answered = answered.or(waits::by_request(tx, &scope.tenant, &member, &request_id)?);
            }
            let mut open = family::open_waits(tx, &scope.tenant, &execution.id)?;
            // Those end by themselves.
            open.retain(|wait| wait.kind != WaitKind::Timer);
            let wait = match (answered, open.len()) {
                (Some(wait), _) => wait.id,
                (None, 1) => open.remove(0).id,
                (None, _) => return Ok(Err(DurableError::WhichWait { thread, waits: open })),
            };
            accept(tx, &scope, &GivenAnswer { wait, value, request_id, actor })
        });
        written.await?
    }

    /// Like [`Self::continue_with`], where it is known of what type an answer must be: one that is no `T` is refused
    /// with the path to the misfit. An answer that gets past the schema all the same is refused when the node reads it:
    /// the wait is open again then.
    ///
    /// # Errors
    /// Those of [`Self::continue_with`].
    pub async fn continue_as<T: DeserializeOwned>(
        &self,
        scope: &Scope,
        wait: &WaitId,
        value: Value,
        request_id: &str,
        actor: &str,
    ) -> Result<Continued, DurableError> {
        let unfit = answer_schema::read::<T>(&value, "answer").err();
        let answer =
            GivenAnswer { wait: wait.clone(), value, request_id: request_id.to_owned(), actor: actor.to_owned() };
        let scope = scope.clone();
        self.store()?.write(move |tx| accept_if(tx, &scope, &answer, unfit)).await?
    }

    /// A wait, open or not.
    ///
    /// # Errors
    /// [`DurableError::NoWait`], [`DurableError::Store`].
    pub async fn wait(&self, scope: &Scope, wait: &WaitId) -> Result<WaitInfo, DurableError> {
        let (scope, id) = (scope.clone(), wait.clone());
        let read = self.store()?.read(move |read| {
            let found = waits::by_id(read, &scope.tenant, &id)?;
            let known = match &found {
                Some(wait) => executions::by_id(read, &scope, &wait.execution)?.is_some(),
                None => false,
            };
            Ok::<_, StoreError>(found.filter(|_| known))
        });
        read.await?.ok_or_else(|| DurableError::NoWait { wait: wait.clone() })
    }
}

/// Accepts an answer or says why not; that it was tried is noted in either case.
pub(crate) fn accept(
    tx: &mut Tx<'_>,
    scope: &Scope,
    answer: &GivenAnswer,
) -> Result<Result<Continued, DurableError>, DurableError> {
    accept_if(tx, scope, answer, None)
}

/// The same for an answer of which something may be wrong already.
fn accept_if(
    tx: &mut Tx<'_>,
    scope: &Scope,
    answer: &GivenAnswer,
    unfit: Option<AnswerSchemaError>,
) -> Result<Result<Continued, DurableError>, DurableError> {
    let (tenant, id) = (&scope.tenant, &answer.wait);
    let missing = || DurableError::NoWait { wait: id.clone() };
    let Some(mut wait) = waits::by_id(tx, tenant, id)? else { return Ok(Err(missing())) };
    let Some(execution) = executions::by_id(tx, scope, &wait.execution)? else { return Ok(Err(missing())) };
    if wait.status == WaitStatus::Waiting && wait.deadline_at.is_some_and(|deadline| deadline <= tx.now()) {
        waits::expire_one(tx, &execution.scope, &wait)?;
        wait = waits::by_id(tx, tenant, id)?.ok_or_else(missing)?;
    }
    if wait.status == WaitStatus::Waiting {
        if let Err(source) = unfit.map_or(Ok(()), Err).and_then(|()| check(&wait, &answer.value)) {
            note(tx, scope, answer, "refused")?;
            return Ok(Err(DurableError::AnswerRefused { wait: id.clone(), source }));
        }
        let accepted = waits::answer(tx, tenant, id, &answer.value, &answer.request_id, &answer.actor)?;
        wait = waits::by_id(tx, tenant, id)?.ok_or_else(missing)?;
        if accepted {
            note(tx, scope, answer, "accepted")?;
            let data = json!({ "wait": id, "name": wait.name, "actor": answer.actor });
            let draft = EventDraft::business("wait.answered", data);
            tx.append_event(&execution.scope, Some(&execution.id), Some(&wait.place.within()), draft)?;
            waking::wake(tx, execution)?;
            return Ok(Ok(Continued::Accepted(wait)));
        }
    }
    let same = wait.request_id.as_deref() == Some(&answer.request_id);
    if same && wait.value.as_ref() == Some(&answer.value) {
        note(tx, scope, answer, "repeated")?;
        return Ok(Ok(Continued::Repeated(wait)));
    }
    note(tx, scope, answer, if same { "contradicts" } else { "late" })?;
    Ok(Err(DurableError::AlreadyAnswered {
        wait: id.clone(),
        status: wait.status,
        at: wait.answered_at.unwrap_or(TimeMs(0)),
        actor: wait.actor,
        request_id: wait.request_id,
    }))
}

fn note(tx: &mut Tx<'_>, scope: &Scope, answer: &GivenAnswer, outcome: &str) -> Result<(), StoreError> {
    let GivenAnswer { wait, value, request_id, actor } = answer;
    waits::note_attempt(tx, &scope.tenant, &Attempt { wait, request_id, actor, value, outcome })
}

fn check(wait: &WaitInfo, value: &Value) -> Result<(), AnswerSchemaError> {
    if wait.kind == WaitKind::Timer {
        let problem = "a timer ends by itself: cancel the execution if it is no longer wanted".to_owned();
        return Err(AnswerSchemaError { path: "answer".to_owned(), problem });
    }
    let bytes = value.to_string().len();
    if bytes > STEP_RESULT_BYTES_MAX {
        let problem = format!("takes {bytes} bytes, at most {STEP_RESULT_BYTES_MAX} are allowed");
        return Err(AnswerSchemaError { path: "answer".to_owned(), problem });
    }
    wait.schema.as_ref().map_or(Ok(()), |schema| answer_schema::check(schema, value, "answer"))
}

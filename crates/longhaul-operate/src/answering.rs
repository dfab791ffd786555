//! Saying yes, no or something else to what waits.
//!
//! It owns what a bare yes means to a wait and the request's name; that a wait is answered once, the runtime ensures.

use longhaul_core::{Digest, EventDraft, ThreadId};
use longhaul_durable::{Continued, DurableError, Happening, WaitId, WaitInfo, WaitKind, WaitStatus};
use longhaul_store::StoreError;
use serde_json::{Value, json};

use crate::{OperateError, Operator};

/// What somebody says to a wait.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Yes.
    Approve,
    /// No.
    Reject,
    /// This.
    Value(Value),
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The wait as it is now.
    pub wait: WaitInfo,
    /// Its execution's thread.
    pub thread: ThreadId,
    /// The same request had been accepted before.
    pub repeated: bool,
    /// What goes on, and how.
    pub next: String,
}

impl Operator {
    /// Answers a wait, named by its id, the beginning of its id, its execution or its thread. The same person's same
    /// answer is the same request however often it is made. The note is kept in the log.
    ///
    /// # Errors
    /// [`OperateError::Unknown`], [`OperateError::WhichWait`], [`OperateError::NothingWaits`],
    /// [`OperateError::NotForPeople`], [`OperateError::NeedsValue`], [`OperateError::AlreadyEnded`]; those of the
    /// runtime.
    pub async fn answer(
        &self,
        target: &str,
        decision: &Decision,
        note: Option<&str>,
    ) -> Result<Answered, OperateError> {
        let wait = self.wait_to_answer(target).await?;
        if wait.kind == WaitKind::Timer {
            return Err(OperateError::NotForPeople { wait: wait.id, kind: wait.kind });
        }
        let value = value_of(&wait, decision, note)?;
        let request = format!("cli:{}:{}", self.actor, Digest::of(value.to_string()));
        let continued = self.runtime.continue_with(&self.scope, &wait.id, value, &request, &self.actor).await;
        let continued = match continued {
            Ok(continued) => continued,
            Err(DurableError::AlreadyAnswered { wait: id, status, actor, at, .. }) => {
                let now = self.runtime.wait(&self.scope, &id).await?;
                let value = now.value.filter(|_| status == WaitStatus::Answered).map(|value| value.to_string());
                return Err(OperateError::AlreadyEnded { wait: id, status, at, actor, value });
            }
            Err(error) => return Err(error.into()),
        };
        let view = self.execution(wait.execution.as_str()).await?;
        let repeated = matches!(continued, Continued::Repeated(_));
        if let (Some(note), false) = (note, repeated) {
            let (scope, within) = (view.execution.scope.clone(), wait.place.within());
            let data = json!({ "wait": wait.id, "note": note, "actor": self.actor });
            let written = self.store.write(move |tx| {
                let draft = EventDraft::internal("wait.noted", data);
                tx.append_event(&scope, Some(&wait.execution), Some(&within), draft).map(drop)
            });
            written.await.map_err(|error: StoreError| error)?;
        }
        let next = self.how_to_go_on(&view).await?;
        Ok(Answered { wait: continued.wait().clone(), thread: view.execution.thread, repeated, next })
    }

    async fn wait_to_answer(&self, target: &str) -> Result<WaitInfo, OperateError> {
        let unknown = || self.unknown(target, "waits, executions, threads");
        if let Ok(id) = target.parse::<WaitId>() {
            match self.runtime.wait(&self.scope, &id).await {
                Err(DurableError::NoWait { .. }) => {}
                found => return Ok(found?),
            }
        }
        if target.starts_with("wait_") {
            let open = self.waits().await?.into_iter().map(|open| open.wait);
            let open = open.filter(|wait| wait.id.as_str().starts_with(target)).collect();
            return one(target, open)?.ok_or_else(unknown);
        }
        let execution = match self.execution(target).await {
            Err(OperateError::Unknown { .. }) => return Err(unknown()),
            found => found?.execution,
        };
        // Those of executions that it began are its own to whoever looks at it.
        let open = self.runtime.waits(&self.scope, &execution.id).await?;
        if let Some(wait) = one(target, open)? {
            return Ok(wait);
        }
        // The same command again: what it answered before is told once more.
        let story = self.runtime.story(&self.scope, &execution.id, 1_000).await?;
        let mine = |wait: &WaitInfo| {
            wait.actor.as_deref() == Some(&self.actor)
                && wait.request_id.as_ref().is_some_and(|request| request.starts_with("cli:"))
        };
        let answered = story.into_iter().filter_map(|moment| {
            if let Happening::Asked { wait } = moment.what { mine(&wait).then_some(*wait) } else { None }
        });
        answered
            .max_by_key(|wait| wait.answered_at)
            .ok_or(OperateError::NothingWaits { thread: execution.thread, status: execution.status })
    }
}

fn one(target: &str, mut open: Vec<WaitInfo>) -> Result<Option<WaitInfo>, OperateError> {
    if open.len() > 1 {
        return Err(OperateError::WhichWait { id: target.to_owned(), waits: open });
    }
    Ok(open.pop())
}

/// What is said to the wait: a bare yes or no is a boolean, or an object with `approved` where the wait's schema names
/// that.
pub(crate) fn value_of(wait: &WaitInfo, decision: &Decision, note: Option<&str>) -> Result<Value, OperateError> {
    let yes = match decision {
        Decision::Value(value) => return Ok(value.clone()),
        Decision::Approve => true,
        Decision::Reject => false,
    };
    let needs = |wanted: String| OperateError::NeedsValue { wait: wait.id.clone(), wanted };
    if wait.kind != WaitKind::Approval && wait.schema.is_none() {
        return Err(needs(format!("what the {} {:?} brings", wait.kind.as_str(), wait.name)));
    }
    let Some(schema) = &wait.schema else { return Ok(yes.into()) };
    let boolean = match (schema.get("type"), schema.get("enum")) {
        (Some(Value::String(name)), _) => name == "boolean",
        (Some(Value::Array(names)), _) => names.iter().any(|name| name == "boolean"),
        (None, Some(Value::Array(choices))) => choices.contains(&yes.into()),
        (_, _) => false,
    };
    if boolean {
        return Ok(yes.into());
    }
    let properties = schema.get("properties");
    if properties.and_then(|all| all.get("approved")).is_none() {
        return Err(needs(schema.to_string()));
    }
    let mut value = json!({ "approved": yes });
    if let Some(note) = note
        && let Some(name) =
            ["note", "reason", "comment"].into_iter().find(|name| properties.is_some_and(|all| all.get(name).is_some()))
    {
        value[name] = note.into();
    }
    Ok(value)
}

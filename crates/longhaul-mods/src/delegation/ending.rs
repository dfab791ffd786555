//! How tasks end: done, failed, declined, cancelled, too late; what the delegator thinks of it afterwards.

use longhaul_network::{Refusal, Reply, Sender, Stage};
use longhaul_store::values;
use serde_json::{Value, json};

use super::{
    Call, NAME,
    acts::WORDS_BYTES_MAX,
    rows::{Status, Task},
};
use crate::{
    acting::{no, seconds},
    social::trust::{self, Ended},
};

/// What is written when a task ends.
struct End<'a> {
    status: Status,
    result: Option<&'a Value>,
    error: Option<&'a str>,
    is_timeout: bool,
}

impl Call<'_, '_> {
    pub(super) fn complete(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let task = match self.own(stage, "complete", &[Status::Working])? {
            Ok(task) => task,
            Err(refused) => return Ok(refused),
        };
        let empty = json!({});
        let result = self.fields.value("result").unwrap_or(&empty);
        let end = End { status: Status::Completed, result: Some(result), error: None, is_timeout: false };
        self.end(stage, &task, &end)?;
        self.count(stage, &task, Ended::Completed)?;
        let said = json!({"task_id": task.id, "assignee_id": task.assignee, "result": result});
        self.tell(stage, "task.notification.completed", &task.delegator, said)?;
        let data = json!({"task_id": task.id, "status": "completed", "completed_at": seconds(stage.now())});
        Ok(Reply::done("completed", Some(data)))
    }

    pub(super) fn fail(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let error = self.fields.optional_text("error", WORDS_BYTES_MAX)?.unwrap_or("no reason was given");
        let task = match self.own(stage, "fail", &[Status::Working])? {
            Ok(task) => task,
            Err(refused) => return Ok(refused),
        };
        self.count(stage, &task, Ended::Failed)?;
        let next = self.reroute(stage, &task, error)?;
        if next.is_none() {
            let end = End { status: Status::Failed, result: None, error: Some(error), is_timeout: false };
            self.end(stage, &task, &end)?;
            let said = json!({"task_id": task.id, "assignee_id": task.assignee, "error": error});
            self.tell(stage, "task.notification.failed", &task.delegator, said)?;
        }
        let data = json!({
            "task_id": task.id, "status": "failed", "completed_at": seconds(stage.now()), "rerouted_to": next,
        });
        Ok(Reply::done("failed", Some(data)))
    }

    pub(super) fn reject(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let reason = self.fields.optional_text("reason", WORDS_BYTES_MAX)?.unwrap_or("no reason was given");
        let task = match self.own(stage, "reject", &[Status::Submitted])? {
            Ok(task) => task,
            Err(refused) => return Ok(refused),
        };
        self.count(stage, &task, Ended::Rejected)?;
        let next = self.reroute(stage, &task, reason)?;
        if next.is_none() {
            let end = End { status: Status::Rejected, result: None, error: Some(reason), is_timeout: false };
            self.end(stage, &task, &end)?;
            let said = json!({"task_id": task.id, "assignee_id": task.assignee, "reason": reason});
            self.tell(stage, "task.notification.rejected", &task.delegator, said)?;
        }
        let data = json!({"task_id": task.id, "status": "rejected", "rerouted_to": next});
        Ok(Reply::done("rejected", Some(data)))
    }

    pub(super) fn cancel(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let task = match self.known(stage)? {
            Ok(task) => task,
            Err(refused) => return Ok(refused),
        };
        if task.delegator != self.actor.id && !self.actor.is_admin {
            return Ok(no("NOT_DELEGATOR", format!("it is {}'s to cancel", task.delegator)));
        }
        let task = match self.stands(task, "cancel", &[Status::Submitted, Status::Working]) {
            Ok(task) => task,
            Err(refused) => return Ok(refused),
        };
        let end = End { status: Status::Canceled, result: None, error: Some("cancelled"), is_timeout: false };
        self.end(stage, &task, &end)?;
        let said = json!({"task_id": task.id, "delegator_id": task.delegator});
        self.tell(stage, "task.notification.canceled", &task.assignee, said)?;
        Ok(Reply::done("cancelled", Some(json!({"task_id": task.id, "status": "canceled"}))))
    }

    /// A deadline has come. Only the mod itself says so.
    pub(super) fn expire(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        if !matches!(&self.event.from, Sender::Mod(name) if name == NAME) {
            return Ok(no("NOT_YOURS", "deadlines come by themselves"));
        }
        let attempt = self.fields.number("attempt", 0, 0..=i64::MAX)?;
        let task = match self.known(stage)? {
            Ok(task) => task,
            Err(refused) => return Ok(refused),
        };
        if !task.status.is_open() || task.attempt != attempt || task.due_at > stage.now() {
            return Ok(Reply::done("nothing was due", None));
        }
        // One that nobody took up is a failure as well: its assignee was asked and did not answer.
        self.count(stage, &task, Ended::TimedOut)?;
        let said = json!({
            "task_id": task.id, "delegator_id": task.delegator, "assignee_id": task.assignee,
            "description": task.description, "attempt": task.attempt,
        });
        self.tell(stage, "task.notification.timeout", &task.assignee, said.clone())?;
        if self.reroute(stage, &task, "it took too long")?.is_none() {
            let end = End { status: Status::Failed, result: None, error: Some("timed out"), is_timeout: true };
            self.end(stage, &task, &end)?;
            self.tell(stage, "task.notification.timeout", &task.delegator, said)?;
        }
        Ok(Reply::done("it was due", None))
    }

    /// The delegator's opinion of a result, once. Without it a result counts as good.
    pub(super) fn rate(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        if self.fields.value("good").is_none() {
            return Err(crate::shape::wrong("good", "is missing: true or false is needed"));
        }
        let good = self.fields.flag("good", true)?;
        let task = match self.known(stage)? {
            Ok(task) => task,
            Err(refused) => return Ok(refused),
        };
        if task.delegator != self.actor.id {
            return Ok(no("NOT_DELEGATOR", "only who gave the task rates its result"));
        }
        let task = match self.stands(task, "rate", &[Status::Completed]) {
            Ok(task) => task,
            Err(refused) => return Ok(refused),
        };
        if task.rating.is_some() {
            return Ok(no("RATED_ALREADY", "you have rated it already"));
        }
        stage.tx().execute(
            "UPDATE delegated_tasks SET rating = ?4 WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3",
            &values![&self.here.tenant, &self.here.network, &task.id, good],
        )?;
        if !good && task.assignee != task.delegator {
            trust::retract(stage.tx(), &self.here, &task.assignee, &task.delegator, &task.areas())?;
        }
        Ok(Reply::done("rated", Some(json!({"task_id": task.id, "good": good}))))
    }

    fn end(&self, stage: &mut Stage<'_, '_>, task: &Task, end: &End<'_>) -> Result<(), Refusal> {
        let now = stage.now();
        stage.tx().execute(
            "UPDATE delegated_tasks SET status = ?4, completed_at = ?5, result = ?6, error = ?7, is_timeout = ?8
             WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3",
            &values![
                &self.here.tenant,
                &self.here.network,
                &task.id,
                end.status.as_str(),
                now,
                end.result,
                end.error,
                end.is_timeout
            ],
        )?;
        Ok(())
    }

    fn count(&self, stage: &mut Stage<'_, '_>, task: &Task, ended: Ended) -> Result<(), Refusal> {
        Ok(trust::record(stage.tx(), &self.here, &task.assignee, &task.delegator, &task.areas(), ended)?)
    }
}

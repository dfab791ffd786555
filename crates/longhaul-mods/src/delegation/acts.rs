//! Giving a task, accepting it, reporting on it.

use longhaul_core::TimeMs;
use longhaul_network::{Address, AgentId, Refusal, RefusalKind, Reply, Sender, Stage};
use longhaul_store::values;
use serde_json::{Map, Value, json};

use super::{
    Call,
    rows::{Routing, Status, Task, timeout},
};
use crate::{
    acting::{no, no_with, seconds},
    shape::{REFERENCE_BYTES_MAX, wrong},
};

pub(super) const WORDS_BYTES_MAX: usize = 64 * 1024;

/// What a payload says of a new task.
pub(super) struct New {
    pub(super) description: String,
    pub(super) payload: Value,
    pub(super) timeout_ms: i64,
}

impl Call<'_, '_> {
    pub(super) fn delegate(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let assignee: AgentId = self.fields.text("assignee_id", REFERENCE_BYTES_MAX)?.parse()?;
        let task = match self.make(stage, self.asked_for()?, &assignee, None)? {
            Ok(task) => task,
            Err(refused) => return Ok(refused),
        };
        let data = json!({
            "task_id": task.id, "status": task.status.as_str(), "created_at": seconds(task.created_at),
            "assignee_id": task.assignee, "due_at": seconds(task.due_at),
        });
        Ok(Reply::done(format!("given to {}", task.assignee), Some(data)))
    }

    pub(super) fn asked_for(&self) -> Result<New, Refusal> {
        let description = self.fields.text("description", WORDS_BYTES_MAX)?.to_owned();
        let payload = Value::Object(self.fields.object("payload")?.cloned().unwrap_or_default());
        let timeout_ms = match self.fields.value("timeout_seconds") {
            None => self.mod_.timeout_ms,
            Some(value) => match value.as_f64().filter(|seconds| *seconds > 0.0 && seconds.is_finite()) {
                #[expect(clippy::cast_possible_truncation, reason = "it saturates, and is cut to the longest")]
                Some(seconds) => ((seconds * 1000.0).ceil() as i64).clamp(1, self.mod_.timeout_max_ms),
                None => return Err(wrong("timeout_seconds", "is no number above 0")),
            },
        };
        Ok(New { description, payload, timeout_ms })
    }

    /// Makes the task and tells its assignee; or says why not.
    pub(super) fn make(
        &self,
        stage: &mut Stage<'_, '_>,
        new: New,
        assignee: &AgentId,
        routing: Option<Routing>,
    ) -> Result<Result<Task, Reply>, Refusal> {
        let (here, now) = (&self.here, stage.now());
        if stage.agent(assignee).is_none() {
            let said = format!("there is no agent {assignee} here: see who is there with discovery.agents.list");
            return Ok(Err(no("AGENT_NOT_FOUND", said)));
        }
        let open: i64 = stage.rows().query_one(
            "SELECT count(*) FROM delegated_tasks WHERE tenant_id = ?1 AND network_id = ?2 AND delegator_id = ?3
                 AND status IN ('submitted', 'working')",
            &values![&here.tenant, &here.network, &self.actor.id],
            |row| row.get(0),
        )?;
        if open >= self.mod_.open_max {
            let said = format!("{open} tasks of yours have not ended: wait for some, or cancel them");
            return Ok(Err(no("TOO_MANY_TASKS", said)));
        }
        let task = Task {
            id: stage.new_id(),
            delegator: self.actor.id.clone(),
            assignee: assignee.to_string(),
            description: new.description,
            payload: new.payload,
            status: Status::Submitted,
            attempt: 1,
            timeout_ms: new.timeout_ms,
            created_at: now,
            due_at: TimeMs(now.0.saturating_add(new.timeout_ms)),
            accepted_at: None,
            completed_at: None,
            result: None,
            error: None,
            is_timeout: false,
            reports: 0,
            routing,
            rating: None,
        };
        stage.tx().execute(
            "INSERT INTO delegated_tasks (tenant_id, network_id, task_id, delegator_id, assignee_id, description,
                 payload, status, attempt, timeout_ms, created_at, due_at, is_timeout, reports, routing)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?10, ?11, 0, 0, ?12)",
            &values![
                &here.tenant,
                &here.network,
                &task.id,
                &task.delegator,
                &task.assignee,
                &task.description,
                &task.payload,
                task.status.as_str(),
                task.timeout_ms,
                task.created_at,
                task.due_at,
                task.routing.as_ref().map(|routing| json!(routing).to_string())
            ],
        )?;
        self.mod_.due_at(task.due_at.0);
        self.tell_assignee(stage, &task)?;
        Ok(Ok(task))
    }

    /// Tells whoever has the task now that they have it.
    pub(super) fn tell_assignee(&self, stage: &mut Stage<'_, '_>, task: &Task) -> Result<(), Refusal> {
        let mut said = json!({
            "task_id": task.id, "delegator_id": task.delegator, "description": task.description,
            "payload": task.payload, "timeout_seconds": timeout(task.timeout_ms), "attempt": task.attempt,
            "due_at": seconds(task.due_at),
        });
        if task.routing.is_some() {
            said["routed_by_capability"] = true.into();
        }
        self.tell(stage, "task.notification.assigned", &task.assignee, said)
    }

    pub(super) fn accept(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let task = match self.own(stage, "accept", &[Status::Submitted])? {
            Ok(task) => task,
            Err(refused) => return Ok(refused),
        };
        let now = stage.now();
        stage.tx().execute(
            "UPDATE delegated_tasks SET status = 'working', accepted_at = ?4
             WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3",
            &values![&self.here.tenant, &self.here.network, &task.id, now],
        )?;
        let said = json!({"task_id": task.id, "assignee_id": task.assignee});
        self.tell(stage, "task.notification.accepted", &task.delegator, said)?;
        Ok(Reply::done("accepted", Some(json!({"task_id": task.id, "status": "working"}))))
    }

    pub(super) fn report(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let progress = self.fields.object("progress")?.cloned().unwrap_or_default();
        let message = match progress.get("message") {
            None | Some(Value::Null) => "",
            Some(Value::String(message)) if message.len() <= WORDS_BYTES_MAX => message.as_str(),
            Some(_) => return Err(wrong("progress.message", "is no text of at most 64 KiB")),
        };
        let task = match self.own(stage, "report on", &[Status::Working])? {
            Ok(task) => task,
            Err(refused) => return Ok(refused),
        };
        let count = task.reports + 1;
        if count > self.mod_.reports_max {
            let said = format!("{} reports are as many as a task may have: end it", task.reports);
            return Ok(no("TOO_MANY_REPORTS", said));
        }
        let now = stage.now();
        stage.tx().execute(
            "INSERT INTO delegated_reports (tenant_id, network_id, task_id, nth, agent_id, reported_at, message, data)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            &values![
                &self.here.tenant,
                &self.here.network,
                &task.id,
                count,
                &self.actor.id,
                now,
                message,
                progress.get("data")
            ],
        )?;
        stage.tx().execute(
            "UPDATE delegated_tasks SET reports = ?4 WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3",
            &values![&self.here.tenant, &self.here.network, &task.id, count],
        )?;
        let said = json!({
            "task_id": task.id, "assignee_id": task.assignee, "progress": progress, "progress_count": count,
        });
        self.tell(stage, "task.notification.progress", &task.delegator, said)?;
        Ok(Reply::done("reported", Some(json!({"task_id": task.id, "progress_count": count}))))
    }

    /// The task that the payload names, if it is the actor's to work on and stands so; else what to answer.
    pub(super) fn own(
        &self,
        stage: &Stage<'_, '_>,
        verb: &str,
        allowed: &[Status],
    ) -> Result<Result<Task, Reply>, Refusal> {
        let task = match self.known(stage)? {
            Ok(task) => task,
            Err(refused) => return Ok(Err(refused)),
        };
        if task.assignee != self.actor.id {
            let said = format!("it is {}'s task: nobody else may {verb} it", task.assignee);
            return Ok(Err(no("NOT_ASSIGNEE", said)));
        }
        Ok(self.stands(task, verb, allowed))
    }

    /// The task that the payload names, if the actor may know of it; else what to answer.
    pub(super) fn known(&self, stage: &Stage<'_, '_>) -> Result<Result<Task, Reply>, Refusal> {
        let id = self.fields.text("task_id", REFERENCE_BYTES_MAX)?;
        let found = Task::find(&stage.rows(), &self.here, id)?.filter(|task| task.concerns(&self.actor));
        // One that is no business of theirs looks like none.
        Ok(found.ok_or_else(|| no("TASK_NOT_FOUND", format!("there is no task {id:?} of yours"))))
    }

    pub(super) fn stands(&self, task: Task, verb: &str, allowed: &[Status]) -> Result<Task, Reply> {
        if allowed.contains(&task.status) {
            return Ok(task);
        }
        let status = task.status.as_str();
        let said = match task.status {
            Status::Submitted => format!("you cannot {verb} it while it is submitted: accept it first"),
            Status::Working => format!("you cannot {verb} it while it is being worked on"),
            Status::Completed | Status::Failed | Status::Canceled | Status::Rejected => {
                format!("you cannot {verb} it any more: it is {status}")
            }
        };
        Err(no_with("WRONG_STATE", said, json!({"status": status})))
    }

    /// A notice to one agent; one who has left hears nothing.
    pub(super) fn tell(&self, stage: &mut Stage<'_, '_>, name: &str, whom: &str, said: Value) -> Result<(), Refusal> {
        let (Ok(agent), Value::Object(payload)) = (whom.parse::<AgentId>(), said) else { return Ok(()) };
        let payload: Map<String, Value> = payload;
        match stage.emit(Sender::Network, name, Address::Agent(agent), payload) {
            Err(refusal) if refusal.kind == RefusalKind::Missing => Ok(()),
            emitted => emitted.map(drop),
        }
    }
}

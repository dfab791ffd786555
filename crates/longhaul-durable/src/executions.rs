//! Looking at executions from a terminal or a page: which there are, where each stands, what has happened in one.
//!
//! It owns reading across the rows of an execution, and changes nothing. Invariant: all that one answer says was true at
//! the same moment.

use std::str::FromStr;

use longhaul_core::{ExecutionId, Scope, SessionId, TaskId, TaskScope, ThreadId, TimeMs, TraceId};
use longhaul_store::{Holder, ReadTx, StoreError, Value, lease_holder, values};

use crate::{
    DurableError, Execution, Form, PendingEffect, Runtime, Status, StepId, WaitId, WaitInfo,
    checkpoint::position_of,
    records::{
        checkpoints::{self, CheckpointRow},
        executions, family, steps, waits,
    },
};

const STATUSES: [Status; 7] = [
    Status::Running,
    Status::Stopped,
    Status::Waiting,
    Status::Failed,
    Status::Completed,
    Status::Cancelled,
    Status::Abandoned,
];

/// A text that is not the status of an execution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no status: expected {}", STATUSES.map(Status::as_str).join(", "))]
pub struct StatusError {
    /// The text.
    text: String,
}

impl FromStr for Status {
    type Err = StatusError;
    fn from_str(text: &str) -> Result<Self, StatusError> {
        let found = STATUSES.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| StatusError { text: text.chars().take(80).collect() })
    }
}

/// Which executions are meant: those for which all that is said holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionFilter {
    /// This one.
    pub id: Option<ExecutionId>,
    /// Those of the thread.
    pub thread: Option<ThreadId>,
    /// Those of the graph of this name.
    pub graph: Option<String>,
    /// Those that are like this.
    pub status: Option<Status>,
    /// Those begun for the task.
    pub task: Option<TaskId>,
    /// Those begun within the session.
    pub session: Option<SessionId>,
    /// Those begun by the request of this trace.
    pub trace: Option<TraceId>,
    /// Those that come after this one in the list: the next page.
    pub before: Option<ExecutionId>,
    /// At most so many, the newest.
    pub limit: u32,
}

impl Default for ExecutionFilter {
    fn default() -> Self {
        let (id, thread, graph, status, task, session, trace) = (None, None, None, None, None, None, None);
        Self { id, thread, graph, status, task, session, trace, before: None, limit: 1_000 }
    }
}

/// An execution and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionView {
    /// The execution.
    pub execution: Execution,
    /// Its last closed superstep; 0 before the first.
    pub superstep: u64,
    /// The nodes of the next superstep, each once.
    pub next: Vec<String>,
    /// Its open waits, and those of executions that it began.
    pub waits: Vec<WaitInfo>,
    /// Its acts of unknown outcome, and those of executions that it began.
    pub pending: Vec<PendingEffect>,
    /// Who is at work on its thread now.
    pub holder: Option<Holder>,
}

/// Something that an execution has recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// When.
    pub at: TimeMs,
    /// What.
    pub what: Happening,
}

/// What an execution has recorded.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// A superstep was closed; 0 is the initial state.
    Checkpoint {
        /// The subgraph; empty for the outermost frame.
        ns: String,
        /// Its number.
        superstep: u64,
        /// The nodes that ran in it, joined by commas.
        nodes: String,
    },
    /// A step's result was recorded.
    Step {
        /// The step.
        step: StepId,
        /// `pure`, `idempotent` or `once`.
        effect: String,
        /// The key that the receiver was given, if it is idempotent.
        key: Option<String>,
    },
    /// An act was about to happen.
    Intent {
        /// The step.
        step: StepId,
    },
    /// An act has happened, or somebody said so.
    Receipt {
        /// The step.
        step: StepId,
    },
    /// A wait was noted.
    Asked {
        /// The wait, as it is now.
        wait: Box<WaitInfo>,
    },
    /// Somebody tried to answer a wait.
    Attempt {
        /// The wait.
        wait: WaitId,
        /// Who.
        actor: String,
        /// Under which name.
        request_id: String,
        /// `accepted`, `repeated`, `late`, `refused` or `contradicts`.
        outcome: String,
    },
}

impl Runtime {
    /// The executions that are meant, the newest first.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn executions(&self, scope: &Scope, filter: ExecutionFilter) -> Result<Vec<ExecutionView>, DurableError> {
        let scope = scope.clone();
        let read = self.store()?.read(move |read| {
            let ids = matching(read, &scope, &filter)?;
            let views = ids.iter().map(|id| view(read, &scope, id)).collect::<Result<Vec<_>, DurableError>>()?;
            Ok::<_, DurableError>(views.into_iter().flatten().collect())
        });
        read.await
    }

    /// The open waits of all executions of the user, the oldest first, each with its execution's scope and thread.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn all_waits(
        &self,
        scope: &Scope,
        limit: u32,
    ) -> Result<Vec<(TaskScope, ThreadId, WaitInfo)>, DurableError> {
        let scope = scope.clone();
        let read = self.store()?.read(move |read| {
            let ids = read.query(
                "SELECT w.wait_id FROM waits w
                 JOIN executions e ON e.tenant_id = w.tenant_id AND e.execution_id = w.execution_id
                 WHERE w.tenant_id = ?1 AND e.user_id = ?2 AND w.status = 'waiting'
                 ORDER BY w.created_at, w.wait_id LIMIT ?3",
                &values![&scope.tenant, &scope.user, limit],
                |row| row.get::<String>(0),
            )?;
            let mut found = Vec::with_capacity(ids.len());
            for id in ids.iter().filter_map(|id| id.parse().ok()) {
                let Some(wait) = waits::by_id(read, &scope.tenant, &id)? else { continue };
                let Some(execution) = executions::by_id(read, &scope, &wait.execution)? else { continue };
                found.push((execution.scope, execution.thread, wait));
            }
            Ok::<_, StoreError>(found)
        });
        Ok(read.await?)
    }

    /// What the execution has recorded, the oldest first: the newest `limit` of each kind.
    ///
    /// # Errors
    /// [`DurableError::NoExecution`], [`DurableError::Store`].
    pub async fn story(&self, scope: &Scope, id: &ExecutionId, limit: u32) -> Result<Vec<Moment>, DurableError> {
        let (scope, id) = (scope.clone(), id.clone());
        let read = self.store()?.read(move |read| {
            if executions::by_id(read, &scope, &id)?.is_none() {
                return Err(DurableError::NoExecution { execution: id });
            }
            let key = values![&scope.tenant, &id, limit];
            let mut story = closed(read, &key)?;
            story.extend(stepped(read, &id, &key)?);
            story.extend(acted(read, &id, &key)?);
            story.extend(asked(read, &scope, &key)?);
            // Of the same moment, what leads to the other comes first.
            story.sort_by_key(|moment| (moment.at, moment.what.order()));
            Ok(story)
        });
        read.await
    }

    /// The recorded result of a step, as its JSON, if it was recorded.
    ///
    /// # Errors
    /// [`DurableError::NoExecution`], [`DurableError::Store`].
    pub async fn step_result(&self, scope: &Scope, step: &StepId) -> Result<Option<String>, DurableError> {
        let (scope, step) = (scope.clone(), step.clone());
        let read = self.store()?.read(move |read| {
            let StepId { execution, ns, superstep, task, ordinal, .. } = &step;
            if executions::by_id(read, &scope, execution)?.is_none() {
                return Err(DurableError::NoExecution { execution: execution.clone() });
            }
            let recorded = steps::of_superstep(read, &scope.tenant, execution, ns, *superstep)?;
            let found = recorded.into_iter().find(|(spot, row)| *spot == (*task, *ordinal) && row.name == step.name);
            Ok(found.map(|(_, row)| row.result))
        });
        read.await
    }
}

impl Happening {
    /// Where it belongs among what happened in the same millisecond: the superstep of the outermost frame, whether it
    /// closes that, the superstep of its own frame, and what leads to what.
    fn order(&self) -> (u64, bool, u64, u8) {
        let outer = |ns: &str, own: u64| match ns.split_once('.') {
            Some((superstep, _)) => superstep.parse().unwrap_or(own),
            None => own,
        };
        let of = |step: &StepId, rank: u8| (outer(&step.ns, step.superstep), false, step.superstep, rank);
        match self {
            Self::Intent { step } => of(step, 0),
            Self::Step { step, .. } => of(step, 1),
            Self::Receipt { step } => of(step, 2),
            Self::Asked { wait } => of(&wait.place, 3),
            Self::Attempt { .. } => (u64::MAX, false, 0, 0),
            Self::Checkpoint { ns, superstep, .. } => (outer(ns, *superstep), ns.is_empty(), *superstep, 4),
        }
    }

    /// The step it is about, if it is about one.
    #[must_use]
    pub fn step(&self) -> Option<&StepId> {
        match self {
            Self::Step { step, .. } | Self::Intent { step } | Self::Receipt { step } => Some(step),
            Self::Asked { wait } => Some(&wait.place),
            Self::Checkpoint { .. } | Self::Attempt { .. } => None,
        }
    }
}

fn matching(read: &ReadTx<'_>, scope: &Scope, filter: &ExecutionFilter) -> Result<Vec<ExecutionId>, StoreError> {
    let mut sql = "SELECT execution_id FROM executions WHERE tenant_id = ?1 AND user_id = ?2".to_owned();
    let mut params = values![&scope.tenant, &scope.user].to_vec();
    let mut only = |column: &str, value: Option<Value>| {
        if let Some(value) = value {
            params.push(value);
            sql.push_str(&format!(" AND {column} = ?{}", params.len()));
        }
    };
    only("execution_id", filter.id.as_ref().map(Value::from));
    only("thread_id", filter.thread.as_ref().map(Value::from));
    only("graph", filter.graph.as_ref().map(Value::from));
    only("status", filter.status.map(|status| Value::from(status.as_str())));
    only("task_id", filter.task.as_ref().map(Value::from));
    only("session_id", filter.session.as_ref().map(Value::from));
    only("trace_id", filter.trace.as_ref().map(Value::from));
    if let Some(before) = &filter.before {
        params.push(before.into());
        sql.push_str(&format!(
            " AND (started_at, execution_id) < (SELECT started_at, execution_id FROM executions
                  WHERE tenant_id = ?1 AND user_id = ?2 AND execution_id = ?{})",
            params.len()
        ));
    }
    sql.push_str(&format!(" ORDER BY started_at DESC, execution_id DESC LIMIT {}", filter.limit));
    read.query(&sql, &params, |row| row.get(0))
}

fn view(read: &ReadTx<'_>, scope: &Scope, id: &ExecutionId) -> Result<Option<ExecutionView>, DurableError> {
    let Some(execution) = executions::by_id(read, scope, id)? else { return Ok(None) };
    let newest = read.query_optional(
        "SELECT superstep, v, frontier, digest FROM checkpoints
         WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = '' ORDER BY superstep DESC LIMIT 1",
        &values![&scope.tenant, id],
        |row| {
            let (form, data) = (Form::Parent, String::new());
            let (superstep, v, digest) = (row.get(0)?, row.get(1)?, row.get(3)?);
            let spot = checkpoints::spot(&scope.tenant, id, "checkpoints.frontier", "", superstep);
            let frontier = spot.open(read, row.get(2)?)?;
            Ok(CheckpointRow { superstep, v, frontier, form, data, digest })
        },
    )?;
    let position = newest.as_ref().and_then(position_of);
    let mut next: Vec<String> = Vec::new();
    for planned in position.iter().flat_map(|position| &position.frontier) {
        if !next.iter().any(|node| **node == *planned.node) {
            next.push(planned.node.to_string());
        }
    }
    Ok(Some(ExecutionView {
        superstep: newest.map_or(0, |row| row.superstep),
        next,
        waits: family::open_waits(read, &scope.tenant, id)?,
        pending: family::pending(read, &scope.tenant, id)?,
        holder: lease_holder(read, scope, &execution.thread)?,
        execution,
    }))
}

fn closed(read: &ReadTx<'_>, key: &[Value]) -> Result<Vec<Moment>, StoreError> {
    read.query(
        "SELECT ns, superstep, nodes, at FROM checkpoints WHERE tenant_id = ?1 AND execution_id = ?2
         ORDER BY at DESC, superstep DESC LIMIT ?3",
        key,
        |row| {
            let what = Happening::Checkpoint { ns: row.get(0)?, superstep: row.get(1)?, nodes: row.get(2)? };
            Ok(Moment { at: row.get(3)?, what })
        },
    )
}

fn stepped(read: &ReadTx<'_>, id: &ExecutionId, key: &[Value]) -> Result<Vec<Moment>, StoreError> {
    read.query(
        "SELECT ns, superstep, task, ordinal, node, name, effect, effect_key, at FROM steps
         WHERE tenant_id = ?1 AND execution_id = ?2 ORDER BY at DESC, ordinal DESC LIMIT ?3",
        key,
        |row| {
            let step = StepId {
                execution: id.clone(),
                ns: row.get(0)?,
                superstep: row.get(1)?,
                task: row.get(2)?,
                ordinal: row.get(3)?,
                node: row.get(4)?,
                name: row.get(5)?,
            };
            Ok(Moment { at: row.get(8)?, what: Happening::Step { step, effect: row.get(6)?, key: row.get(7)? } })
        },
    )
}

fn acted(read: &ReadTx<'_>, id: &ExecutionId, key: &[Value]) -> Result<Vec<Moment>, StoreError> {
    let rows = read.query(
        "SELECT ns, superstep, task, ordinal, node, name, intent_at, receipt_at FROM effects
         WHERE tenant_id = ?1 AND execution_id = ?2 ORDER BY intent_at DESC, ordinal DESC LIMIT ?3",
        key,
        |row| {
            let step = StepId {
                execution: id.clone(),
                ns: row.get(0)?,
                superstep: row.get(1)?,
                task: row.get(2)?,
                ordinal: row.get(3)?,
                node: row.get(4)?,
                name: row.get(5)?,
            };
            Ok((step, row.get::<TimeMs>(6)?, row.get::<Option<TimeMs>>(7)?))
        },
    )?;
    let both = |(step, intent_at, receipt_at): (StepId, TimeMs, Option<TimeMs>)| {
        let receipt = receipt_at.map(|at| Moment { at, what: Happening::Receipt { step: step.clone() } });
        [Some(Moment { at: intent_at, what: Happening::Intent { step } }), receipt]
    };
    Ok(rows.into_iter().flat_map(both).flatten().collect())
}

fn asked(read: &ReadTx<'_>, scope: &Scope, key: &[Value]) -> Result<Vec<Moment>, StoreError> {
    let ids = read.query(
        "SELECT wait_id FROM waits WHERE tenant_id = ?1 AND execution_id = ?2 ORDER BY created_at DESC LIMIT ?3",
        key,
        |row| row.get::<String>(0),
    )?;
    let mut story = Vec::new();
    for id in ids.iter().filter_map(|id| id.parse::<WaitId>().ok()) {
        let attempts = read.query(
            "SELECT actor, request_id, outcome, at FROM answers WHERE tenant_id = ?1 AND wait_id = ?2 ORDER BY at",
            &values![&scope.tenant, id.as_str()],
            |row| {
                let (actor, request_id, outcome) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let what = Happening::Attempt { wait: id.clone(), actor, request_id, outcome };
                Ok(Moment { at: row.get(3)?, what })
            },
        )?;
        if let Some(wait) = waits::by_id(read, &scope.tenant, &id)? {
            story.push(Moment { at: wait.created_at, what: Happening::Asked { wait: Box::new(wait) } });
        }
        story.extend(attempts);
    }
    Ok(story)
}

//! What a person means who names a task: by its id, its thread, its folder, or anything that belongs to one of its
//! executions.
//!
//! It owns that order of looking, and changes nothing.

use std::path::Path;

use longhaul_core::{ExecutionId, SessionId, TaskId, TaskScope, ThreadId, TraceId};
use longhaul_durable::{ExecutionFilter, ExecutionView, Point, StepId, WaitId};
use longhaul_store::{ReadTx, StoreError, tasks, values};

use crate::{OperateError, Operator};

const LOOKED_FOR: &str = "tasks (task_…), threads, executions (exec_…), waits (wait_…) and folders of projects";

/// A task that was named.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// As it was named.
    pub asked: String,
    /// Whose it is: tenant, user, session, task, and the trace of the request that made it.
    pub scope: TaskScope,
    /// The one thread that was meant; nothing when all of the task's are.
    pub thread: Option<ThreadId>,
    /// The row in which a task is described, where somebody wrote one.
    pub row: Option<tasks::Task>,
}

impl Operator {
    /// Finds the task that is meant.
    ///
    /// # Errors
    /// [`OperateError::Unknown`], which says what was looked for; those of the store.
    pub async fn target(&self, asked: &str) -> Result<Target, OperateError> {
        if let Ok(task) = asked.parse::<TaskId>() {
            return self.task(asked, task).await?.ok_or_else(|| self.unknown(asked, LOOKED_FOR));
        }
        if let Some(execution) = self.execution_in(asked).await? {
            let view = self.execution(execution.as_str()).await.map_err(|_| self.unknown(asked, LOOKED_FOR))?;
            return self.of_thread(asked, view).await;
        }
        if let Ok(thread) = asked.parse::<ThreadId>() {
            if let Some(execution) = self.runtime.find(&self.scope, &thread).await? {
                let view = self.execution(execution.id.as_str()).await?;
                return self.of_thread(asked, view).await;
            }
            let (scope, name) = (self.scope.clone(), thread.clone());
            if let Some(row) = self.store.read(move |read| tasks::by_thread(read, &scope, &name)).await? {
                let scope = row.scope.clone();
                return Ok(Target { asked: asked.to_owned(), scope, thread: Some(thread), row: Some(row) });
            }
        }
        let row = self.task_of_folder(asked).await?.ok_or_else(|| self.unknown(asked, LOOKED_FOR))?;
        Ok(Target { asked: asked.to_owned(), scope: row.scope.clone(), thread: None, row: Some(row) })
    }

    /// The executions of what was named: unfinished ones first, then the newest.
    pub(crate) async fn executions_of(&self, target: &Target, limit: u32) -> Result<Vec<ExecutionView>, OperateError> {
        let filter = match &target.thread {
            Some(thread) => ExecutionFilter { thread: Some(thread.clone()), limit, ..ExecutionFilter::default() },
            None => ExecutionFilter { task: Some(target.scope.task.clone()), limit, ..ExecutionFilter::default() },
        };
        let mut found = self.runtime.executions(&self.scope, filter).await?;
        found.sort_by_key(|view| view.execution.status.is_finished());
        Ok(found)
    }

    /// The execution that an id names or belongs to.
    async fn execution_in(&self, asked: &str) -> Result<Option<ExecutionId>, OperateError> {
        if let Ok(step) = asked.parse::<StepId>() {
            return Ok(Some(step.execution));
        }
        if let Ok(point) = asked.parse::<Point>() {
            return Ok(Some(point.execution));
        }
        if let Ok(wait) = asked.parse::<WaitId>() {
            return match self.runtime.wait(&self.scope, &wait).await {
                Err(longhaul_durable::DurableError::NoWait { .. }) => Err(self.unknown(asked, LOOKED_FOR)),
                found => Ok(Some(found?.execution)),
            };
        }
        Ok(asked.parse().ok())
    }

    async fn of_thread(&self, asked: &str, view: ExecutionView) -> Result<Target, OperateError> {
        let (scope, thread) = (view.execution.scope.clone(), view.execution.thread.clone());
        let (owner, task) = (self.scope.clone(), scope.task.clone());
        let row = self.store.read(move |read| tasks::get(read, &owner, &task)).await?;
        Ok(Target { asked: asked.to_owned(), scope, thread: Some(thread), row })
    }

    /// A task of which there is a row, an execution, or an event.
    async fn task(&self, asked: &str, task: TaskId) -> Result<Option<Target>, OperateError> {
        let (owner, wanted) = (self.scope.clone(), task.clone());
        let found = self.store.read(move |read| {
            let row = tasks::get(read, &owner, &wanted)?;
            let scope = match &row {
                Some(row) => Some(row.scope.clone()),
                None => last_seen(
                    read,
                    TaskScope {
                        scope: owner,
                        task: wanted,
                        session: SessionId::from_body("unknown"),
                        trace: TraceId::from_body("unknown"),
                    },
                )?,
            };
            Ok::<_, StoreError>(scope.map(|scope| (scope, row)))
        });
        let found = found.await?;
        Ok(found.map(|(scope, row)| Target { asked: asked.to_owned(), scope, thread: None, row }))
    }

    async fn task_of_folder(&self, asked: &str) -> Result<Option<tasks::Task>, OperateError> {
        let Ok(dir) = Path::new(asked).canonicalize() else { return Ok(None) };
        let Some(dir) = dir.to_str().map(str::to_owned) else { return Ok(None) };
        let scope = self.scope.clone();
        Ok(self.store.read(move |read| tasks::by_dir(read, &scope, &dir)).await?)
    }
}

/// The same task with the session and the trace of its newest event or execution; nothing where there is neither.
fn last_seen(read: &ReadTx<'_>, of: TaskScope) -> Result<Option<TaskScope>, StoreError> {
    let key = values![&of.scope.tenant, &of.scope.user, &of.task];
    for sql in [
        "SELECT session_id, trace_id FROM executions WHERE tenant_id = ?1 AND user_id = ?2 AND task_id = ?3
         ORDER BY started_at DESC LIMIT 1",
        "SELECT session_id, trace_id FROM events WHERE tenant_id = ?1 AND user_id = ?2 AND task_id = ?3
         ORDER BY seq DESC LIMIT 1",
    ] {
        let found = read.query_optional(sql, &key, |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let Some((session, trace)) = found {
            return Ok(Some(TaskScope { session, trace, ..of }));
        }
    }
    Ok(None)
}

//! Whose a task is: tenant, user, conversation, request; who has it now, who has answered for it, who may read of it.
//!
//! Invariant: it is read from rows and changes nothing.

use longhaul_core::{TaskId, TaskScope};
use longhaul_store::{ReadTx, StoreError, values};
use serde::Serialize;

use crate::{Fact, OperateError, Operator, moments::moment, rows, target::Target};

/// Whose a task is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Belonging {
    /// As it was asked for.
    pub asked: String,
    /// Owner of the rows.
    pub tenant: String,
    /// The person.
    pub user: String,
    /// The conversation that asked for it.
    pub session: String,
    /// The task.
    pub task: String,
    /// What joins everything that the request caused.
    pub trace: String,
    /// Title, kind, folder, when it was made, its threads, who has it now, who has answered for it, and how much of
    /// each owner of state belongs to it.
    pub facts: Vec<Fact>,
}

impl Operator {
    /// Whose the task is.
    ///
    /// # Errors
    /// [`OperateError::Unknown`]; those of the store.
    pub async fn belonging(&self, asked: &str) -> Result<Belonging, OperateError> {
        let target = self.target(asked).await?;
        let views = self.executions_of(&target, 1_000).await?;
        let mut facts = described(&target);
        let mut threads: Vec<String> = views.iter().map(|view| view.execution.thread.to_string()).collect();
        threads.extend(target.thread.iter().chain(target.row.as_ref().map(|row| &row.thread)).map(ToString::to_string));
        threads.sort();
        threads.dedup();
        let shown: Vec<String> = threads.iter().take(10).cloned().collect();
        let more = threads.len().saturating_sub(shown.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        facts.push(Fact::new("threads", format!("{}{more}", shown.join(", "))));
        for view in &views {
            if let Some(holder) = &view.holder {
                facts.push(Fact::new("held by", format!("{holder}, since {} UTC", moment(holder.since.0))));
            }
        }
        let (scope, task) = (self.scope.clone(), target.scope.task.clone());
        facts
            .extend(self.store.read(move |read| shares(read, &scope, &task)).await.map_err(|error: StoreError| error)?);
        facts.push(Fact::new("executions", views.len().to_string()));
        let (scope, task) = (self.scope.clone(), target.scope.task.to_string());
        let counted = self.store.read(move |read| {
            let known = rows::components(read)?;
            rows::belongings(read, &scope, &task, &known)
        });
        facts.extend(counted.await.map_err(|error: StoreError| error)?);
        let TaskScope { scope, session, task, trace } = target.scope;
        Ok(Belonging {
            asked: asked.to_owned(),
            tenant: scope.tenant.to_string(),
            user: scope.user.to_string(),
            session: session.to_string(),
            task: task.to_string(),
            trace: trace.to_string(),
            facts,
        })
    }
}

fn described(target: &Target) -> Vec<Fact> {
    let Some(row) = &target.row else { return Vec::new() };
    let mut facts = vec![Fact::new("title", row.title.clone()), Fact::new("kind", row.kind.clone())];
    facts.extend(row.dir.clone().map(|dir| Fact::new("folder", dir)));
    facts.push(Fact::new("made", format!("{} UTC", moment(row.created_at.0))));
    facts
}

/// Who has answered for it, and who may read what was kept of it.
fn shares(read: &ReadTx<'_>, scope: &longhaul_core::Scope, task: &TaskId) -> Result<Vec<Fact>, StoreError> {
    let mut facts = read.query(
        "SELECT DISTINCT w.actor FROM waits w
         JOIN executions e ON e.tenant_id = w.tenant_id AND e.execution_id = w.execution_id
         WHERE e.tenant_id = ?1 AND e.user_id = ?2 AND e.task_id = ?3 AND w.actor IS NOT NULL ORDER BY 1 LIMIT 20",
        &values![&scope.tenant, &scope.user, task],
        |row| Ok(Fact::new("answered by", row.get::<String>(0)?)),
    )?;
    if rows::components(read)?.iter().any(|known| known == "memory") {
        let partition = format!("ws:{}", task.as_str().trim_start_matches("task_").to_ascii_lowercase());
        facts.extend(read.query(
            "SELECT grantee, may_write FROM memory_grants WHERE tenant_id = ?1 AND namespace = ?2
             ORDER BY grantee LIMIT 100",
            &values![&scope.tenant, &partition],
            |row| {
                let may = if row.get::<i64>(1)? > 0 { "read and write" } else { "read" };
                Ok(Fact::new("may see it", format!("{}, {may}", row.get::<String>(0)?)))
            },
        )?);
    }
    Ok(facts)
}

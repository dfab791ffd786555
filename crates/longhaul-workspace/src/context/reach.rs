//! Which tasks a pack may be taken from: one, or the user's own and those granted to them, newest first.
//!
//! Invariant: a task is in reach only if the user may read its records at that moment; each row is checked again.

use longhaul_core::{Scope, TaskId, TimeMs};
use longhaul_memory::Namespace;
use longhaul_store::{ReadTx, Row, Store, StoreError, values};

use super::build::Within;
use crate::access;

/// Most tasks of one pack.
pub(super) const TASKS_MAX: usize = 256;

/// The tasks in reach.
#[derive(Debug, Clone, Default)]
pub(super) struct Reach {
    /// With the partition of their index.
    pub(super) tasks: Vec<(TaskId, Namespace)>,
    /// What was left out.
    pub(super) notes: Vec<String>,
}

impl Reach {
    pub(super) fn has(&self, task: &TaskId) -> bool {
        self.tasks.iter().any(|(known, _)| known == task)
    }
}

pub(super) async fn find(store: &Store, within: &Within) -> Result<Reach, StoreError> {
    if let Some((task, _)) = &within.task {
        return Ok(Reach { tasks: vec![(task.clone(), access::partition_of(task))], notes: Vec::new() });
    }
    let scope = within.scope.clone();
    store.read(move |read| all(read, &scope)).await
}

fn all(read: &ReadTx<'_>, scope: &Scope) -> Result<Reach, StoreError> {
    let task = |row: &Row<'_>| Ok((row.get::<TimeMs>(0)?, row.get::<TaskId>(1)?));
    let most = i64::try_from(TASKS_MAX).unwrap_or(i64::MAX) + 1;
    let mut tasks = read.query(
        "select written_at, task_id from record_tasks where tenant_id = ?1 and user_id = ?2
         order by written_at desc, task_id limit ?3",
        &values![&scope.tenant, &scope.user, most],
        task,
    )?;
    tasks.extend(read.query(
        "select t.written_at, t.task_id from memory_grants g
         join record_tasks t on t.tenant_id = g.tenant_id and t.namespace = g.namespace
         where g.tenant_id = ?1 and g.grantee in (?2, '*') and t.user_id <> ?2
         order by t.written_at desc, t.task_id limit ?3",
        &values![&scope.tenant, &scope.user, most],
        task,
    )?);
    tasks.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    tasks.dedup();
    let mut notes = Vec::new();
    if tasks.len() > TASKS_MAX {
        tasks.truncate(TASKS_MAX);
        notes.push(format!(
            "only the {TASKS_MAX} most recently written tasks were searched; name a task for an older one"
        ));
    }
    let tasks = tasks.into_iter().map(|(_, task)| (access::partition_of(&task), task)).map(|(at, task)| (task, at));
    Ok(Reach { tasks: tasks.collect(), notes })
}

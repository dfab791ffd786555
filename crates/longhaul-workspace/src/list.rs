//! Listing records page by page, and the tasks that have any. By the rows alone, without the index.
//!
//! Invariant: a page ends where the next one begins, whatever is ingested meanwhile.

use longhaul_core::{TaskId, TimeMs, UserId};
use longhaul_store::{ReadTx, Value, values};
use serde::Serialize;

use crate::{
    Kind, Record, TaskWorkspace, UserWorkspace, WorkspaceError, access,
    record::{self, COLUMNS},
};

/// Most records of one page.
pub const PAGE_MAX: u32 = 1_000;

/// Which records of a task are listed. All of these hold of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only of this collection.
    pub collection: Option<String>,
    /// Only of this kind.
    pub kind: Option<Kind>,
    /// Only versions of this name.
    pub name: Option<String>,
    /// Only about this subject.
    pub subject: Option<String>,
    /// Versions that others have superseded as well.
    pub include_superseded: bool,
}

/// Some records of a task, newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Page {
    /// The records.
    pub records: Vec<Record>,
    /// Give this as `before` for the next page; nothing at the end.
    pub next: Option<i64>,
}

/// A task that records were kept for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskRecords {
    /// The task.
    pub task: TaskId,
    /// Whose records they are.
    pub user: UserId,
    /// How many were ever kept.
    pub kept: u64,
    /// When the last was.
    pub written_at: TimeMs,
}

impl TaskWorkspace {
    /// The task's records that pass the filter and are numbered below `before`, newest first, at most `limit` and
    /// [`PAGE_MAX`].
    ///
    /// # Errors
    /// [`WorkspaceError::NoAccess`] where they are somebody else's; those of the store.
    pub async fn list(&self, filter: Filter, before: Option<i64>, limit: u32) -> Result<Page, WorkspaceError> {
        let (owner, memory) = (self.owner().clone(), self.workspace().memory().clone());
        let limit = limit.clamp(1, PAGE_MAX);
        let list = move |read: &ReadTx<'_>| {
            if let Some(row) = access::task_row(read, &owner.scope, &owner.task)?
                && !access::may_see_task(read, &memory, &owner.scope, &owner.task)?
            {
                return Err(WorkspaceError::NoAccess { task: owner.task, owner: row.user });
            }
            let mut params =
                values![&owner.scope.tenant, &owner.task, before.unwrap_or(i64::MAX), read.now(), limit + 1].to_vec();
            let which = conditions(filter, &mut params);
            let sql = format!(
                "select {COLUMNS} from records where tenant_id = ?1 and task_id = ?2 and seq < ?3
                     and (expires_at is null or expires_at > ?4){which}
                 order by seq desc limit ?5"
            );
            let mut records = read.query(&sql, &params, record::record)?;
            let more = records.len() > limit as usize;
            records.truncate(limit as usize);
            let next = records.last().filter(|_| more).map(|last| last.seq);
            Ok(Page { records, next })
        };
        self.workspace().store().read(list).await
    }

    /// The newest version of the task's record of this name.
    ///
    /// # Errors
    /// As [`TaskWorkspace::list`].
    pub async fn newest(&self, name: &str) -> Result<Option<Record>, WorkspaceError> {
        let filter = Filter { name: Some(name.to_owned()), ..Filter::default() };
        Ok(self.list(filter, None, 1).await?.records.pop())
    }
}

fn conditions(filter: Filter, params: &mut Vec<Value>) -> String {
    let mut which = String::new();
    let Filter { collection, kind, name, subject, include_superseded } = filter;
    let texts = [("collection", collection), ("kind", kind.map(String::from)), ("name", name), ("subject", subject)];
    for (column, wanted) in texts {
        if let Some(wanted) = wanted {
            params.push(wanted.into());
            which.push_str(&format!(" and {column} = ?{}", params.len()));
        }
    }
    if !include_superseded {
        which.push_str(" and superseded_by is null");
    }
    which
}

impl UserWorkspace {
    /// The user's tasks that records were kept for, most recently written first, at most `limit`.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn tasks(&self, limit: u32) -> Result<Vec<TaskRecords>, WorkspaceError> {
        let scope = self.scope().clone();
        let tasks = move |read: &ReadTx<'_>| {
            let sql = "select task_id, user_id, last_seq, written_at from record_tasks
                       where tenant_id = ?1 and user_id = ?2 order by written_at desc, task_id limit ?3";
            let found = read.query(sql, &values![&scope.tenant, &scope.user, limit], |row| {
                Ok(TaskRecords { task: row.get(0)?, user: row.get(1)?, kept: row.get(2)?, written_at: row.get(3)? })
            })?;
            Ok(found)
        };
        self.workspace().store().read(tasks).await
    }
}

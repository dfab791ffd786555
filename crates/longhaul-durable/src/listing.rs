//! Looking for waits.

use longhaul_core::{ExecutionId, Scope, ThreadId};
use longhaul_store::{StoreError, Value, values};

use crate::{
    DurableError, Runtime, WaitId, WaitInfo, WaitKind, WaitStatus,
    records::{executions, family, waits},
};

/// Which waits are meant: those for which all that is said holds. Unless stated, the open ones of the user, at most
/// 1,000. A thread stands for its own filter: `runtime.waits(&scope, &thread)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitFilter {
    /// Those of the thread's newest execution and of what that began.
    pub thread: Option<ThreadId>,
    /// Those of this execution and of what it began.
    pub execution: Option<ExecutionId>,
    /// Those of this kind.
    pub kind: Option<WaitKind>,
    /// Those of this name.
    pub name: Option<String>,
    /// Those that are like this; nothing for all.
    pub status: Option<WaitStatus>,
    /// Those that come after this one in the list: the next page.
    pub after: Option<WaitId>,
    /// At most so many.
    pub limit: u32,
}

impl Default for WaitFilter {
    fn default() -> Self {
        let (thread, execution, kind, name, after) = (None, None, None, None, None);
        Self { thread, execution, kind, name, status: Some(WaitStatus::Waiting), after, limit: 1_000 }
    }
}

impl From<&ThreadId> for WaitFilter {
    fn from(thread: &ThreadId) -> Self {
        Self { thread: Some(thread.clone()), ..Self::default() }
    }
}

impl From<&ExecutionId> for WaitFilter {
    fn from(execution: &ExecutionId) -> Self {
        Self { execution: Some(execution.clone()), ..Self::default() }
    }
}

impl Runtime {
    /// The waits that are meant, in the order in which they were noted.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn waits(&self, scope: &Scope, filter: impl Into<WaitFilter>) -> Result<Vec<WaitInfo>, DurableError> {
        let (scope, filter) = (scope.clone(), filter.into());
        let read = self.store()?.read(move |read| {
            let mut condition = "waits.tenant_id = ?1 AND EXISTS (SELECT 1 FROM executions e
                WHERE e.tenant_id = waits.tenant_id AND e.execution_id = waits.execution_id AND e.user_id = ?2)"
                .to_owned();
            let mut params = values![&scope.tenant, &scope.user].to_vec();
            let mut add = |column: &str, allowed: Vec<Value>| {
                let first = params.len() + 1;
                let places: Vec<String> = (first..first + allowed.len()).map(|number| format!("?{number}")).collect();
                condition.push_str(&format!(" AND waits.{column} IN ({})", places.join(", ")));
                params.extend(allowed);
            };
            let of_thread = match &filter.thread {
                Some(thread) => match executions::newest(read, &scope, thread)? {
                    Some(newest) => Some(newest.id),
                    None => return Ok(Vec::new()),
                },
                None => None,
            };
            for execution in filter.execution.into_iter().chain(of_thread) {
                let members = family::members(read, &scope.tenant, &execution)?;
                if members.is_empty() {
                    return Ok(Vec::new());
                }
                add("execution_id", members.iter().map(Value::from).collect());
            }
            if let Some(kind) = filter.kind {
                add("kind", vec![kind.as_str().into()]);
            }
            if let Some(name) = filter.name {
                add("name", vec![name.into()]);
            }
            if let Some(status) = filter.status {
                add("status", vec![status.as_str().into()]);
            }
            if let Some(after) = filter.after {
                params.push(Value::Text(after.to_string()));
                condition.push_str(&format!(
                    " AND ({}) > (SELECT {} FROM waits other WHERE other.tenant_id = ?1 AND other.wait_id = ?{})",
                    order("waits"),
                    order("other"),
                    params.len()
                ));
            }
            condition.push_str(&format!(" ORDER BY {} LIMIT {}", order("waits"), filter.limit));
            waits::select(read, &condition, &params)
        });
        Ok(read.await.map_err(|error: StoreError| error)?)
    }
}

/// In which order waits are listed.
fn order(table: &str) -> String {
    ["created_at", "ns", "superstep", "task", "ordinal", "wait_id"].map(|column| format!("{table}.{column}")).join(", ")
}

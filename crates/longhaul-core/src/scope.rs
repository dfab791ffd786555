//! Whose data it is. Every read and write below the public API takes one of these (invariant 7).

use serde::{Deserialize, Serialize};

use crate::{SessionId, TaskId, TenantId, TraceId, UserId};

/// The tenant and user on whose behalf something is read or written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scope {
    /// Owner of the rows.
    pub tenant: TenantId,
    /// The person within the tenant.
    pub user: UserId,
}

impl Scope {
    /// The scope of a single user on their own machine, who never needs to know that there are tenants.
    #[must_use]
    pub fn single_user() -> Self {
        Self { tenant: TenantId::from_body("default"), user: UserId::from_body("default") }
    }
}

/// A scope narrowed to one task, with the conversation and the request that led there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaskScope {
    /// Tenant and user.
    pub scope: Scope,
    /// The conversation that asked for the task.
    pub session: SessionId,
    /// The task.
    pub task: TaskId,
    /// Joins what one command or request caused.
    pub trace: TraceId,
}

impl TaskScope {
    /// The scope of a single user on their own machine who tells neither conversations nor tasks apart: programs of one
    /// purpose, examples, tests. A service makes a scope for each task and a trace for each request.
    #[must_use]
    pub fn single_user() -> Self {
        Self {
            scope: Scope::single_user(),
            session: SessionId::from_body("default"),
            task: TaskId::from_body("default"),
            trace: TraceId::from_body("default"),
        }
    }
}

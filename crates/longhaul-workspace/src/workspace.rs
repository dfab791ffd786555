//! The handles through which the workspace is used. Each is opened with whose data it is; none of its methods takes a
//! scope.
//!
//! It owns no rows. Invariant: there is no handle without a scope (invariant 7).

use std::{fmt, sync::Arc};

use longhaul_core::{Scope, TaskScope};
use longhaul_memory::Memory;
use longhaul_store::Store;

use crate::RetentionRule;

/// Everything that is kept of tasks, over a store. Cheap to clone.
#[derive(Clone)]
pub struct Workspace {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    memory: Memory,
    rules: Vec<RetentionRule>,
}

impl Workspace {
    /// Over a store that was opened with [`crate::MIGRATIONS`] and those of memory, which has the index of what is kept.
    #[must_use]
    pub fn new(store: Store, memory: Memory) -> Self {
        Self::with_retention(store, memory, Vec::new())
    }

    /// The same, where records expire by these rules unless whoever ingests them says when.
    #[must_use]
    pub fn with_retention(store: Store, memory: Memory, rules: Vec<RetentionRule>) -> Self {
        Self { shared: Arc::new(Shared { store, memory, rules }) }
    }

    /// The workspace of one task.
    #[must_use]
    pub fn task(&self, owner: &TaskScope) -> TaskWorkspace {
        TaskWorkspace { workspace: self.clone(), owner: owner.clone() }
    }

    /// What one user may see, over all tasks.
    #[must_use]
    pub fn user(&self, scope: &Scope) -> UserWorkspace {
        UserWorkspace { workspace: self.clone(), scope: scope.clone() }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.shared.memory
    }

    pub(crate) fn rules(&self) -> &[RetentionRule] {
        &self.shared.rules
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").field("store", &self.shared.store).finish_non_exhaustive()
    }
}

/// The workspace of one task: what is written here belongs to it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TaskWorkspace {
    workspace: Workspace,
    owner: TaskScope,
}

impl TaskWorkspace {
    /// Whose it is.
    #[must_use]
    pub fn owner(&self) -> &TaskScope {
        &self.owner
    }

    /// What the task's user may see, over all tasks.
    #[must_use]
    pub fn user(&self) -> UserWorkspace {
        self.workspace.user(&self.owner.scope)
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        &self.workspace
    }
}

/// What one user may see of the workspace, over all tasks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct UserWorkspace {
    workspace: Workspace,
    scope: Scope,
}

impl UserWorkspace {
    /// Whose it is.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        &self.workspace
    }
}

//! What every handler reaches: the store, the owners of the rows, the keys and the limits. Cheap to clone.

use std::{collections::BTreeSet, fmt, net::IpAddr, sync::Arc};

use longhaul_core::{Ambient, TaskId, TaskScope};
use longhaul_durable::Runtime;
use longhaul_memory::Memory;
use longhaul_store::{Store, StoreError, tasks};
use longhaul_workspace::{
    Workspace,
    context::{Contexts, Profiles},
};

use crate::{Caller, Limits, Problem, doors::Doors, keys::KeyRing, rate::Buckets};

/// What a gateway is made of.
pub struct Parts {
    /// The store that all of it stands in, opened with [`crate::MIGRATIONS`] too.
    pub store: Store,
    /// Executions, waits, the queue.
    pub runtime: Runtime,
    /// Long-term memory.
    pub memory: Memory,
    /// Names of the graphs that callers may start, because workers serve them.
    pub graphs: BTreeSet<String>,
}

/// The state behind all routes.
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

struct Inner {
    parts: Parts,
    keys: KeyRing,
    limits: Limits,
    /// Requests, by the prefix of their key.
    requests: Buckets<String>,
    /// Keys that are none, by the address they came from.
    strangers: Buckets<IpAddr>,
    doors: Doors,
    workspace: Workspace,
    contexts: Contexts,
}

impl Gateway {
    /// A gateway over these parts.
    #[must_use]
    pub fn new(parts: Parts, limits: Limits) -> Self {
        let keys = KeyRing::new(parts.store.clone(), limits.key_trust_max);
        let requests = Buckets::new(limits.requests_per_second, limits.requests_burst);
        let strangers = Buckets::new(limits.strangers_per_second, limits.strangers_per_second.saturating_mul(10));
        let workspace = Workspace::new(parts.store.clone(), parts.memory.clone());
        let contexts = Contexts::new(workspace.clone(), Profiles::default());
        let doors = Doors::new(&parts.store, limits.doors.clone());
        Self(Arc::new(Inner { parts, keys, limits, requests, strangers, doors, workspace, contexts }))
    }

    /// Who may come in.
    #[must_use]
    pub fn keys(&self) -> &KeyRing {
        &self.0.keys
    }

    /// The bounds.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// What the doors share that stay open.
    pub(crate) fn doors(&self) -> &Doors {
        &self.0.doors
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.parts.store
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.0.parts.runtime
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.0.parts.memory
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        &self.0.workspace
    }

    pub(crate) fn contexts(&self) -> &Contexts {
        &self.0.contexts
    }

    /// The graphs that may be started.
    pub(crate) fn graphs(&self) -> &BTreeSet<String> {
        &self.0.parts.graphs
    }

    pub(crate) fn requests(&self) -> &Buckets<String> {
        &self.0.requests
    }

    pub(crate) fn strangers(&self) -> &Buckets<IpAddr> {
        &self.0.strangers
    }

    pub(crate) fn ambient(&self) -> &Ambient {
        self.store().ambient()
    }

    /// The caller's task of this id.
    ///
    /// # Errors
    /// 404 when the caller has no such task.
    pub(crate) async fn task(&self, caller: &Caller, task: &TaskId) -> Result<tasks::Task, Problem> {
        let (scope, id) = (caller.scope().clone(), task.clone());
        let found = self.store().read(move |read| tasks::get(read, &scope, &id)).await;
        found.map_err(|error: StoreError| error)?.ok_or_else(|| Problem::missing("task", task.as_str()))
    }

    /// The scope with which handles of the task are opened.
    ///
    /// # Errors
    /// Those of [`Self::task`].
    pub(crate) async fn task_scope(&self, caller: &Caller, task: &TaskId) -> Result<TaskScope, Problem> {
        Ok(TaskScope { trace: caller.trace().clone(), ..self.task(caller, task).await?.scope })
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("store", self.store()).finish_non_exhaustive()
    }
}

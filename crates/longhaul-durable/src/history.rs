//! Looking back: the executions of a thread, their checkpoints, and the state at any of them, also inside subgraphs.
//!
//! Nothing here changes anything.

use std::{fmt, num::ParseIntError, str::FromStr};

use futures::future::{BoxFuture, FutureExt};
use longhaul_core::{Digest, ExecutionId, Scope, TenantId, ThreadId, TimeMs};
use longhaul_store::{ReadTx, Row, StoreError, Value, values};

use crate::{
    DurableError, Execution, Form, GraphState, Runtime,
    checkpoint::{self, Replayed},
    machine::Position,
    records::{
        checkpoints::{self, CheckpointRow},
        executions, whole,
    },
};

/// A moment of an execution: after a superstep of the outermost graph or of a subgraph. As text `exec_01@12`, and
/// `exec_01/7.0.review>@2` inside a subgraph.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Point {
    /// The execution.
    pub execution: ExecutionId,
    /// The frame: empty for the outermost; for a subgraph the superstep, the task and the node that it runs in, each
    /// level ended by `>`.
    pub ns: String,
    /// The superstep of the frame; 0 is its beginning.
    pub superstep: u64,
}

impl Point {
    /// A moment of the outermost graph.
    #[must_use]
    pub fn new(execution: &ExecutionId, superstep: u64) -> Self {
        Self { execution: execution.clone(), ns: String::new(), superstep }
    }

    /// The frames around this one's, outermost first, each with the last superstep that was closed when the task was
    /// begun which leads here; this one's own comes last. Nothing when the namespace is none.
    pub(crate) fn path(&self) -> Option<Vec<(String, u64)>> {
        let mut path = Vec::new();
        let mut ns = String::new();
        for level in self.ns.split_inclusive('>') {
            let (superstep, _) = level.strip_suffix('>')?.split_once('.')?;
            path.push((ns.clone(), superstep.parse::<u64>().ok()?.checked_sub(1)?));
            ns.push_str(level);
        }
        path.push((ns, self.superstep));
        Some(path)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { execution, ns, superstep } = self;
        if ns.is_empty() { write!(f, "{execution}@{superstep}") } else { write!(f, "{execution}/{ns}@{superstep}") }
    }
}

/// A text that names no moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no moment of an execution: it looks like `exec_01@12`, or `exec_01/7.0.review>@2`")]
pub struct PointError {
    /// The text.
    pub text: String,
}

impl FromStr for Point {
    type Err = PointError;

    fn from_str(text: &str) -> Result<Self, PointError> {
        let wrong = || PointError { text: text.chars().take(200).collect() };
        let (place, superstep) = text.rsplit_once('@').ok_or_else(wrong)?;
        let (execution, ns) = place.split_once('/').unwrap_or((place, ""));
        let point = Self {
            execution: execution.parse().map_err(|_| wrong())?,
            ns: ns.to_owned(),
            superstep: superstep.parse().map_err(|_: ParseIntError| wrong())?,
        };
        point.path().map(|_| ()).ok_or_else(wrong)?;
        Ok(point)
    }
}

/// A moment of an execution to which one can return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The execution.
    pub execution: ExecutionId,
    /// The frame; empty for the outermost. See [`Point::ns`].
    pub ns: String,
    /// Its number; 0 is the initial state.
    pub superstep: u64,
    /// The nodes that ran in it, each once.
    pub nodes: Vec<String>,
    /// Where the frame stood after it.
    pub position: Position,
    /// What is stored of it: tells an edit from a superstep that ran.
    pub form: Form,
    /// Digest of this checkpoint and all before it.
    pub digest: Digest,
    /// When it was committed.
    pub at: TimeMs,
}

impl Checkpoint {
    /// Where it is.
    #[must_use]
    pub fn point(&self) -> Point {
        Point { execution: self.execution.clone(), ns: self.ns.clone(), superstep: self.superstep }
    }
}

const COLUMNS: &str =
    "c.execution_id, c.ns, c.superstep, c.nodes, c.v, c.frontier, c.digest, c.at, c.form, c.tenant_id";

struct Listed {
    execution: ExecutionId,
    ns: String,
    nodes: Vec<String>,
    row: CheckpointRow,
    at: TimeMs,
}

fn listed(read: &ReadTx<'_>, row: &Row<'_>) -> Result<Listed, StoreError> {
    let (tenant, execution, ns): (TenantId, ExecutionId, String) = (row.get(9)?, row.get(0)?, row.get(1)?);
    let superstep = row.get(2)?;
    let spot = checkpoints::spot(&tenant, &execution, "checkpoints.frontier", &ns, superstep);
    let stored = CheckpointRow {
        superstep,
        v: row.get(4)?,
        frontier: spot.open(read, row.get(5)?)?,
        form: Form::of_column(row, 8)?,
        data: String::new(),
        digest: row.get(6)?,
    };
    let nodes = row.text(3)?.split(',').map(str::to_owned).collect();
    Ok(Listed { execution, ns, nodes, row: stored, at: row.get(7)? })
}

impl TryFrom<Listed> for Checkpoint {
    type Error = DurableError;

    fn try_from(listed: Listed) -> Result<Self, DurableError> {
        let Listed { execution, ns, nodes, row, at } = listed;
        let superstep = row.superstep;
        match (checkpoint::position_of(&row), checkpoint::digest_of(&row)) {
            (Some(position), Some(digest)) => {
                Ok(Self { execution, ns, superstep, nodes, position, form: row.form, digest, at })
            }
            (_, _) => Err(DurableError::Damaged { execution, ns, superstep }),
        }
    }
}

impl Runtime {
    /// The newest execution of the thread, finished or not.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn find(&self, scope: &Scope, thread: &ThreadId) -> Result<Option<Execution>, DurableError> {
        let (scope, thread) = (scope.clone(), thread.clone());
        Ok(self.store()?.read(move |read| executions::newest(read, &scope, &thread)).await?)
    }

    /// All executions of the thread, its branches among them, newest first.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn branches(&self, scope: &Scope, thread: &ThreadId) -> Result<Vec<Execution>, DurableError> {
        let (scope, thread) = (scope.clone(), thread.clone());
        Ok(self.store()?.read(move |read| executions::of_thread(read, &scope, &thread)).await?)
    }

    /// The state of the thread's newest execution after its last closed superstep.
    ///
    /// # Errors
    /// [`DurableError::Diverged`], [`DurableError::Damaged`], [`DurableError::Store`].
    pub async fn state<S: GraphState>(&self, scope: &Scope, thread: &ThreadId) -> Result<Option<S>, DurableError> {
        match self.find(scope, thread).await? {
            Some(execution) => Ok(Some(self.load(scope, &execution.id, None).await?.state)),
            None => Ok(None),
        }
    }

    /// The state after this superstep; 0 is the initial one.
    ///
    /// # Errors
    /// [`DurableError::NoExecution`], [`DurableError::NoCheckpoint`], [`DurableError::Diverged`],
    /// [`DurableError::Damaged`], [`DurableError::Store`].
    pub async fn state_at<S: GraphState>(
        &self,
        scope: &Scope,
        execution: &ExecutionId,
        superstep: u64,
    ) -> Result<S, DurableError> {
        Ok(self.load(scope, execution, Some(superstep)).await?.state)
    }

    /// Like [`Self::state_at`], also inside a subgraph, whose state `S` then is.
    ///
    /// # Errors
    /// Those of [`Self::state_at`].
    pub async fn state_inside<S: GraphState>(&self, scope: &Scope, point: &Point) -> Result<S, DurableError> {
        Ok(self.load_inside(scope, point).await?.state)
    }

    /// The checkpoints of all executions of the thread, newest first, at most `limit`.
    ///
    /// # Errors
    /// [`DurableError::Damaged`], [`DurableError::Store`].
    pub async fn history(&self, scope: &Scope, thread: &ThreadId, limit: u32) -> Result<Vec<Checkpoint>, DurableError> {
        let sql = format!(
            "SELECT {COLUMNS}
             FROM executions e JOIN checkpoints c ON c.tenant_id = e.tenant_id AND c.execution_id = e.execution_id
             WHERE e.tenant_id = ?1 AND e.user_id = ?2 AND e.thread_id = ?3 AND c.ns = ''
             ORDER BY e.started_at DESC, e.execution_id DESC, c.superstep DESC LIMIT ?4"
        );
        self.checkpoints(sql, values![&scope.tenant, &scope.user, thread, limit].into()).await
    }

    /// The next page of [`Self::history`]: what comes after this checkpoint of the outermost graph there.
    ///
    /// # Errors
    /// Those of [`Self::history`].
    pub async fn history_before(
        &self,
        scope: &Scope,
        thread: &ThreadId,
        before: &Point,
        limit: u32,
    ) -> Result<Vec<Checkpoint>, DurableError> {
        let sql = format!(
            "SELECT {COLUMNS}
             FROM executions p JOIN executions e ON e.tenant_id = p.tenant_id AND e.user_id = p.user_id
                 AND e.thread_id = p.thread_id AND (e.started_at < p.started_at
                     OR (e.started_at = p.started_at AND e.execution_id <= p.execution_id))
             JOIN checkpoints c ON c.tenant_id = e.tenant_id AND c.execution_id = e.execution_id
             WHERE p.tenant_id = ?1 AND p.user_id = ?2 AND p.thread_id = ?3 AND p.execution_id = ?5 AND c.ns = ''
                 AND (e.execution_id <> p.execution_id OR c.superstep < ?6)
             ORDER BY e.started_at DESC, e.execution_id DESC, c.superstep DESC LIMIT ?4"
        );
        let key = values![&scope.tenant, &scope.user, thread, limit, &before.execution, before.superstep];
        self.checkpoints(sql, key.into()).await
    }

    /// The checkpoints of one frame of an execution, newest first, at most `limit`; with `before`, only those of
    /// earlier supersteps. See [`Point::ns`].
    ///
    /// # Errors
    /// Those of [`Self::history`].
    pub async fn history_inside(
        &self,
        scope: &Scope,
        execution: &ExecutionId,
        ns: &str,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<Checkpoint>, DurableError> {
        let sql = format!(
            "SELECT {COLUMNS}
             FROM executions e JOIN checkpoints c ON c.tenant_id = e.tenant_id AND c.execution_id = e.execution_id
             WHERE e.tenant_id = ?1 AND e.user_id = ?2 AND e.execution_id = ?3 AND c.ns = ?4 AND c.superstep < ?5
             ORDER BY c.superstep DESC LIMIT ?6"
        );
        let before = before.unwrap_or(u64::MAX);
        self.checkpoints(sql, values![&scope.tenant, &scope.user, execution, ns, before, limit].into()).await
    }

    /// The namespaces of all frames of an execution that recorded something, in order; the outermost is empty.
    ///
    /// # Errors
    /// [`DurableError::NoExecution`], [`DurableError::Store`].
    pub async fn namespaces(&self, scope: &Scope, execution: &ExecutionId) -> Result<Vec<String>, DurableError> {
        let Execution { id, .. } = self.execution(scope, execution).await?;
        let tenant = scope.tenant.clone();
        Ok(self.store()?.read(move |read| whole::namespaces(read, &tenant, &id, "%")).await?)
    }

    async fn checkpoints(&self, sql: String, key: Vec<Value>) -> Result<Vec<Checkpoint>, DurableError> {
        let read = self.store()?.read(move |read| read.query(&sql, &key, |row| listed(read, row)));
        let rows: Vec<Listed> = read.await.map_err(|error: StoreError| error)?;
        rows.into_iter().map(Checkpoint::try_from).collect()
    }

    pub(crate) async fn execution(&self, scope: &Scope, id: &ExecutionId) -> Result<Execution, DurableError> {
        let (reader, wanted) = (scope.clone(), id.clone());
        let found = self.store()?.read(move |read| executions::by_id(read, &reader, &wanted)).await?;
        found.ok_or_else(|| DurableError::NoExecution { execution: id.clone() })
    }

    /// The execution as it was after this superstep, or after the last one.
    pub(crate) async fn load<S: GraphState>(
        &self,
        scope: &Scope,
        execution: &ExecutionId,
        superstep: Option<u64>,
    ) -> Result<Replayed<S>, DurableError> {
        self.load_frame(scope, execution, "", superstep, None).await
    }

    /// A frame as it was at this point. One that shares the state of the frame around it is begun with that.
    pub(crate) fn load_inside<'a, S: GraphState>(
        &'a self,
        scope: &'a Scope,
        point: &'a Point,
    ) -> BoxFuture<'a, Result<Replayed<S>, DurableError>> {
        async move {
            let Point { execution, ns, superstep } = point;
            let missing = || DurableError::NoCheckpoint { execution: execution.clone(), superstep: *superstep };
            let path = point.path().ok_or_else(missing)?;
            let first = self.history_inside(scope, execution, ns, Some(1), 1).await?;
            let mut parent = None;
            if let [.., (around, before), _] = &path[..]
                && first.iter().any(|first| first.form == Form::Parent)
            {
                let around = Point { execution: execution.clone(), ns: around.clone(), superstep: *before };
                parent = Some(self.load_inside::<S>(scope, &around).await?.state);
            }
            self.load_frame(scope, execution, ns, Some(*superstep), parent).await
        }
        .boxed()
    }

    async fn load_frame<S: GraphState>(
        &self,
        scope: &Scope,
        execution: &ExecutionId,
        ns: &str,
        superstep: Option<u64>,
        parent: Option<S>,
    ) -> Result<Replayed<S>, DurableError> {
        let (reader, id, frame) = (scope.clone(), execution.clone(), ns.to_owned());
        let log = self.store()?.read(move |read: &ReadTx<'_>| {
            if executions::by_id(read, &reader, &id)?.is_none() {
                return Err(DurableError::NoExecution { execution: id });
            }
            Ok(checkpoints::log(read, &reader.tenant, &id, &frame, superstep.unwrap_or(u64::MAX), false)?)
        });
        let log = log.await?;
        let missing = |superstep| DurableError::NoCheckpoint { execution: execution.clone(), superstep };
        if let Some(asked) = superstep
            && log.rows.last().is_none_or(|last| last.superstep != asked)
        {
            return Err(missing(asked));
        }
        checkpoint::replay(execution, ns, &log, parent)?.ok_or_else(|| missing(superstep.unwrap_or(0)))
    }
}

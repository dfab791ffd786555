//! What would stand in the way of a run, before it is begun.
//!
//! Invariant: looking changes nothing; everything is read in one snapshot of the store.

use std::fmt;

use longhaul_core::{Digest, ExecutionId, Scope, ThreadId};
use longhaul_store::{ReadTx, StoreError};

use crate::{
    DurableError, Execution, Graph, GraphState, Misfit, MissingResource, PendingEffect, Point, Resources, Runtime,
    WaitInfo,
    checkpoint::{self, Replayed},
    fit,
    graph::Takes,
    machine::Position,
    records::{
        checkpoints::{self, Log},
        executions, family, whole,
    },
};

/// What was found on a thread. See [`Runtime::inspect`].
#[derive(Debug, Clone)]
pub struct Inspection {
    /// The thread's newest execution.
    pub execution: Execution,
    /// Where it stands, as far as that can be read.
    pub position: Option<Position>,
    /// What stands in the way of a run, or is not as it should be.
    pub problems: Vec<Problem>,
    /// What it waits for.
    pub waits: Vec<WaitInfo>,
}

impl Inspection {
    /// Nothing was found but perhaps open waits.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Something that stands in the way, or is not as it should be.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    /// The run was not given a live object that a node needs.
    MissingResource(MissingResource),
    /// The execution is another graph's, and there is neither a migration for it nor a word that it is compatible.
    GraphChanged {
        /// Fingerprint of the graph that began it.
        recorded: Digest,
        /// Version of its state.
        state_version: u32,
    },
    /// Something of it has no place in the graph.
    Misfit(Misfit),
    /// Nobody knows whether this act took place.
    HalfDone(PendingEffect),
    /// A checkpoint, or the snapshot at it, is not what was written; or one before it is missing.
    Damaged(Point),
    /// The state at this moment cannot be read by the graph's type.
    Unreadable(Point),
    /// Applying the recorded updates does not give the state that was written down at this moment: a reducer has
    /// changed.
    ReducerChanged(Point),
    /// The state refers to a blob that is not there, or is not what its name says.
    LostBlob(Digest),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingResource(MissingResource { node, resource }) => {
                write!(f, "{node} needs {resource}, which the run is not given: add it to its resources")
            }
            Self::GraphChanged { recorded, state_version } => write!(
                f,
                "it was begun by a graph with the fingerprint {recorded} and state {state_version}: add a migration \
                 from it, or `compatible_with`"
            ),
            Self::Misfit(misfit) => write!(f, "{misfit}"),
            Self::HalfDone(effect) => {
                write!(f, "nobody knows whether {} took place: say what happened, with reconcile", effect.step)
            }
            Self::Damaged(point) => {
                write!(f, "the checkpoint {point} is damaged: restore a backup, or fork an earlier one")
            }
            Self::Unreadable(point) => {
                write!(
                    f,
                    "the state at {point} is not of the graph's type: add a migration, or read it by its old type"
                )
            }
            Self::ReducerChanged(point) => write!(
                f,
                "the recorded updates do not give the state that was written down at {point}: a reducer has changed; \
                 finish it with the release that began it"
            ),
            Self::LostBlob(digest) => write!(f, "the blob {digest} is lost: restore it from a backup"),
        }
    }
}

impl Runtime {
    /// Looks at the thread's newest execution as a run with these resources would find it: whether the graph and what
    /// was recorded fit, whether anything is damaged or lost, what is half done, what it waits for. Replays the whole
    /// history of the outermost graph. Changes nothing. Nothing on a thread without executions.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn inspect<S: GraphState>(
        &self,
        graph: &Graph<S>,
        scope: &Scope,
        thread: &ThreadId,
        resources: &Resources,
    ) -> Result<Option<Inspection>, DurableError> {
        let store = self.store()?;
        let (of, name, by) = (scope.clone(), thread.clone(), graph.clone());
        let read = store.read(move |read| {
            let Some(execution) = executions::newest(read, &of, &name)? else { return Ok(None) };
            look(read, &by, execution).map(Some)
        });
        let found: Option<(Inspection, Option<S>)> = read.await.map_err(|error: StoreError| error)?;
        let Some((mut inspection, state)) = found else { return Ok(None) };
        let missing = graph.missing_resources(resources).into_iter().map(Problem::MissingResource);
        inspection.problems.extend(missing);
        for digest in state.iter().flat_map(|state| graph.blobs(state)) {
            if store.blobs().get(scope, &digest).await.is_err() {
                inspection.problems.push(Problem::LostBlob(digest));
            }
        }
        Ok(Some(inspection))
    }
}

fn look<S: GraphState>(
    read: &ReadTx<'_>,
    graph: &Graph<S>,
    execution: Execution,
) -> Result<(Inspection, Option<S>), StoreError> {
    let (tenant, id) = (execution.scope.scope.tenant.clone(), execution.id.clone());
    let mut problems = Vec::new();
    let log = checkpoints::log(read, &tenant, &id, "", u64::MAX, true)?;
    let position = log.rows.last().and_then(checkpoint::position_of);
    let takes = graph.takes(&execution.fingerprint, execution.state_version);
    let is_foreign = matches!(takes, Takes::Foreign);
    if is_foreign {
        let Execution { fingerprint: recorded, state_version, .. } = execution;
        problems.push(Problem::GraphChanged { recorded, state_version });
        problems.extend(fit::of_fields(graph.shape(), &log).into_iter().map(Problem::Misfit));
    }
    if let Some(position) = position.as_ref().filter(|_| !execution.status.is_finished()) {
        let misfits = match takes {
            // What a migration makes of the position is known when it has been carried out.
            Takes::Migrated(_) => Vec::new(),
            Takes::Own | Takes::Compatible | Takes::Foreign => {
                fit::of_execution(read, &tenant, &id, graph.shape(), position)?
            }
        };
        problems.extend(misfits.into_iter().map(Problem::Misfit));
    }
    for ns in whole::namespaces(read, &tenant, &id, "%.%")? {
        let log = checkpoints::log(read, &tenant, &id, &ns, u64::MAX, true)?;
        if let Err(superstep) = checkpoint::check_log(&id, &ns, &log) {
            problems.push(Problem::Damaged(Point { execution: id.clone(), ns, superstep }));
        }
    }
    let newest = checkpoints::log(read, &tenant, &id, "", u64::MAX, false)?;
    let state = match takes {
        Takes::Migrated(migration) => {
            if let Err(error) = (migration.read)(&id, &newest) {
                problems.push(problem_of(&id, &newest, &error));
            }
            None
        }
        Takes::Own | Takes::Compatible | Takes::Foreign => {
            replayed::<S>(read, &execution, &log, &newest, &mut problems)?
        }
    };
    problems.extend(family::pending(read, &tenant, &id)?.into_iter().map(Problem::HalfDone));
    let waits = family::open_waits(read, &tenant, &id)?;
    Ok((Inspection { execution, position, problems, waits }, state))
}

/// The newest state; and whether all ways to it give the same.
fn replayed<S: GraphState>(
    read: &ReadTx<'_>,
    execution: &Execution,
    log: &Log,
    newest: &Log,
    problems: &mut Vec<Problem>,
) -> Result<Option<S>, StoreError> {
    let id = &execution.id;
    let whole = checkpoint::replay::<S>(id, "", log, None);
    if let Err(error) = &whole {
        problems.push(problem_of(id, log, error));
    }
    let Some(snapshot) = &newest.snapshot else {
        return Ok(whole.ok().flatten().map(|replayed| replayed.state));
    };
    let short = match checkpoint::replay::<S>(id, "", newest, None) {
        Ok(short) => short.map(|replayed| replayed.state),
        Err(error) => {
            let problem = problem_of(id, newest, &error);
            if !problems.contains(&problem) {
                problems.push(problem);
            }
            None
        }
    };
    let tenant = &execution.scope.scope.tenant;
    let until = checkpoints::log(read, tenant, id, "", snapshot.superstep, true)?;
    if let Ok(Some(Replayed { state, .. })) = checkpoint::replay::<S>(id, "", &until, None) {
        let written: Option<serde_json::Value> = serde_json::from_str(&snapshot.state).ok();
        if serde_json::to_value(state).ok() != written {
            problems.push(Problem::ReducerChanged(Point::new(id, snapshot.superstep)));
        }
    }
    Ok(short)
}

fn problem_of(id: &ExecutionId, log: &Log, error: &DurableError) -> Problem {
    let last = log.rows.last().map_or(0, |row| row.superstep);
    if let DurableError::Damaged { ns, superstep, .. } = error {
        return Problem::Damaged(Point { execution: id.clone(), ns: ns.clone(), superstep: *superstep });
    }
    if let DurableError::Diverged { superstep, .. } = error {
        return Problem::Unreadable(Point::new(id, *superstep));
    }
    Problem::Unreadable(Point::new(id, last))
}

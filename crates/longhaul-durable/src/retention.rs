//! Forgetting: old checkpoints of executions, and finished executions.
//!
//! Invariants: the newest checkpoint of an execution stays, and everything that an unfinished one needs to go on; what
//! is left of a history begins with a whole state, and its digests still hold.

use std::time::Duration;

use longhaul_core::{Scope, ThreadId, TimeMs};
use longhaul_store::{Lease, LeaseError, StoreError, Tx, values};

use crate::{
    DurableError, Execution, Graph, GraphState, Runtime, Status,
    checkpoint::{self, Replayed},
    editing,
    records::{V, checkpoints, executions, whole},
};

/// What may be forgotten. Nothing, unless something is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retention {
    /// So many checkpoints of each execution stay, counted from the newest.
    pub keep_last: Option<u64>,
    /// Checkpoints older than this go.
    pub max_age: Option<Duration>,
    /// Finished executions that ended longer ago than this go altogether, except each thread's newest.
    pub finished_max_age: Option<Duration>,
    /// Only on these threads; on all if nothing is said.
    pub threads: Option<Vec<ThreadId>>,
    /// Only executions that are so; all if nothing is said.
    pub statuses: Option<Vec<Status>>,
}

impl Retention {
    fn is_about(&self, execution: &Execution) -> bool {
        self.threads.as_ref().is_none_or(|threads| threads.contains(&execution.thread))
            && self.statuses.as_ref().is_none_or(|statuses| statuses.contains(&execution.status))
    }
}

/// What was forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Executions removed altogether.
    pub executions: u64,
    /// Checkpoints of the outermost graph removed from executions that stay.
    pub checkpoints: u64,
    /// Executions left alone because somebody is at work on their thread, and removing them was due.
    pub busy: u64,
}

impl Runtime {
    /// Forgets what this retention allows, of the user's executions of this graph. May be called while they run. With
    /// a checkpoint goes what led to it: recorded steps, results of tasks, receipts, answered waits, and the
    /// checkpoints of subgraphs. Acts of unknown outcome and open waits stay.
    ///
    /// # Errors
    /// [`DurableError::Damaged`] and [`DurableError::Diverged`] for an execution whose state cannot be rebuilt: it
    /// stays as it is; [`DurableError::Store`].
    pub async fn prune<S: GraphState>(
        &self,
        graph: &Graph<S>,
        scope: &Scope,
        retention: &Retention,
    ) -> Result<Pruned, DurableError> {
        let (of, name) = (scope.clone(), graph.shape().name.clone());
        let all = self.store()?.read(move |read| executions::of_graph(read, &of, &name)).await?;
        let mut pruned = Pruned::default();
        for execution in all.into_iter().filter(|execution| retention.is_about(execution)) {
            if self.is_outlived(scope, &execution, retention).await? {
                match self.remove(execution).await {
                    Ok(()) => pruned.executions += 1,
                    Err(DurableError::Lease(LeaseError::Held { .. })) => pruned.busy += 1,
                    Err(error) => return Err(error),
                }
            } else {
                pruned.checkpoints += self.shorten::<S>(scope, execution, retention).await?;
            }
        }
        Ok(pruned)
    }

    fn since(&self, age: Duration) -> TimeMs {
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        TimeMs(self.ambient.clock.now().0.saturating_sub(age))
    }

    async fn is_outlived(
        &self,
        scope: &Scope,
        execution: &Execution,
        retention: &Retention,
    ) -> Result<bool, DurableError> {
        let Some((age, closed_at)) = retention.finished_max_age.zip(execution.closed_at) else { return Ok(false) };
        if closed_at >= self.since(age) {
            return Ok(false);
        }
        let newest = self.find(scope, &execution.thread).await?;
        Ok(newest.is_some_and(|newest| newest.id != execution.id))
    }

    async fn remove(&self, execution: Execution) -> Result<(), DurableError> {
        let lease = Lease::acquire(self.store()?, &execution.scope.scope, &execution.thread, self.lease_ttl).await?;
        let token = lease.token().clone();
        let written = self.store()?.write(move |tx| {
            tx.check_lease(&token)?;
            editing::delete_one(tx, &execution)
        });
        let written = written.await;
        lease.release().await?;
        written
    }

    /// Cuts the front of a history off; tells how many checkpoints went.
    async fn shorten<S: GraphState>(
        &self,
        scope: &Scope,
        execution: Execution,
        retention: &Retention,
    ) -> Result<u64, DurableError> {
        let (tenant, id, keep_last) = (scope.tenant.clone(), execution.id.clone(), retention.keep_last);
        let since = retention.max_age.map(|age| self.since(age));
        let read = self.store()?.read(move |read| {
            let Some((first, last)) = whole::extent(read, &tenant, &id)? else { return Ok(None) };
            let by_count = keep_last.map_or(first, |keep| last.saturating_sub(keep.max(1) - 1));
            let by_age = match since {
                Some(since) => whole::first_since(read, &tenant, &id, since)?.unwrap_or(last),
                None => first,
            };
            Ok(Some(by_count.max(by_age).min(last)).filter(|cut| *cut > first))
        });
        let cut: Option<u64> = read.await.map_err(|error: StoreError| error)?;
        let Some(cut) = cut else { return Ok(0) };
        let replayed: Replayed<S> = match self.load(scope, &execution.id, Some(cut)).await {
            // Somebody else has been quicker.
            Err(DurableError::NoCheckpoint { .. }) => return Ok(0),
            replayed => replayed?,
        };
        let written = self.store()?.write(move |tx| shorten_in(tx, &execution, cut, &replayed));
        written.await
    }
}

fn shorten_in<S: GraphState>(
    tx: &mut Tx<'_>,
    execution: &Execution,
    cut: u64,
    replayed: &Replayed<S>,
) -> Result<u64, DurableError> {
    let (tenant, id) = (&execution.scope.scope.tenant, &execution.id);
    let log = checkpoints::log(tx, tenant, id, "", cut, false)?;
    let row = log.rows.last().filter(|row| row.superstep == cut);
    let Some(row) = row.filter(|row| checkpoint::digest_of(row) == Some(replayed.chain)) else { return Ok(0) };
    let state = serde_json::to_string(&replayed.state).map_err(std::sync::Arc::new)?;
    let digest = checkpoint::snapshot_digest(&replayed.chain, &row.frontier, &state);
    let state = checkpoints::spot(tenant, id, "snapshots.state", "", cut).seal(tx, state)?;
    tx.execute(
        "INSERT INTO snapshots (tenant_id, execution_id, ns, superstep, v, state, digest)
         VALUES (?1, ?2, '', ?3, ?4, ?5, ?6) ON CONFLICT (tenant_id, execution_id, ns, superstep) DO NOTHING",
        &values![tenant, id, cut, V, state, &digest.as_bytes()[..]],
    )?;
    Ok(whole::delete_before(tx, tenant, id, cut)?)
}

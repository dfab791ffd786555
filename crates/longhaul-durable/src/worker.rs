//! A worker: takes executions from the queue and runs them.
//!
//! It owns the loop, how many run at once, sleeping and waking, taking over from the dead, and the orderly end.
//! Invariants: what it has taken it runs to an end that is recorded, or gives back; while there is nothing to do it
//! asks the store nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use longhaul_core::{ExecutionId, TenantId};
use longhaul_store::{LeaseToken, Notices, Store, StoreError, Tx};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    DurableError, EntryId, Graph, GraphState, QUEUED, RunOptions, Runtime,
    beginning::{Begun, Plan},
    queue::{
        self, Entry, Held,
        claim::{self, Began, Claim, Claimed, Claimer, Ended, Look, Served},
    },
};

/// How often to look whether others that have something in hand are still alive. Where nobody has, nothing is looked at.
const TAKE_OVER_EVERY: Duration = Duration::from_secs(1);

/// Longest sleep until something becomes ready, so that a clock that jumps forward is noticed.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// How long to leave a store alone that has failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Runs what is in the queue. Several workers, in one process or many, share a store.
///
/// ```no_run
/// # use longhaul_durable::{Graph, GraphState, Runtime, Worker};
/// # use tokio_util::sync::CancellationToken;
/// # async fn work<A: GraphState, B: GraphState>(runtime: Runtime, research: Graph<A>, write: Graph<B>) {
/// let shutdown = CancellationToken::new(); // cancelled when the process is asked to end
/// let worked = Worker::new(runtime).serve(research).serve(write).concurrency(8).run(shutdown).await;
/// # }
/// ```
pub struct Worker {
    runtime: Runtime,
    served: BTreeMap<String, Arc<dyn Served>>,
    concurrency: usize,
    tenant_max: u32,
    grace: Duration,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let graphs: Vec<_> = self.served.keys().collect();
        f.debug_struct("Worker")
            .field("graphs", &graphs)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// What a worker has done by its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Worked {
    /// Entries it took.
    pub claimed: u64,
    /// Of these, from workers that had died.
    pub taken_over: u64,
    /// Runs that completed their execution.
    pub completed: u64,
    /// Runs that ended because something has to be waited for.
    pub waiting: u64,
    /// Runs that failed, or that could not go on without a person.
    pub failed: u64,
    /// Runs that ended because somebody cancelled the execution.
    pub cancelled: u64,
    /// Runs that gave their execution back, at the worker's end.
    pub given_back: u64,
    /// How often the queue was looked at.
    pub looks: u64,
}

impl Worker {
    /// A worker that serves nothing yet, and runs one execution at a time.
    #[must_use]
    pub fn new(runtime: Runtime) -> Self {
        Self { runtime, served: BTreeMap::new(), concurrency: 1, tenant_max: u32::MAX, grace: Duration::from_secs(30) }
    }

    /// Runs executions of this graph, known by its name.
    #[must_use]
    pub fn serve<S: GraphState>(self, graph: Graph<S>) -> Self {
        self.serve_with(graph, RunOptions::default())
    }

    /// The same with options for each run. When a run ends is the worker's business: `cancel`, `stop`, `stop_when` and
    /// `answer` are not looked at.
    #[must_use]
    pub fn serve_with<S: GraphState>(mut self, graph: Graph<S>, options: RunOptions<S>) -> Self {
        self.served.insert(graph.shape().name.clone(), Arc::new(Service { graph, options }));
        self
    }

    /// Most executions at work at once in this worker.
    #[must_use]
    pub fn concurrency(mut self, executions_max: usize) -> Self {
        self.concurrency = executions_max.max(1);
        self
    }

    /// Most executions of one tenant at work at once, in all workers together. Without it a tenant may have all there
    /// is as long as nobody else wants any; turns are taken in either case.
    #[must_use]
    pub fn tenant_max(mut self, executions_max: u32) -> Self {
        self.tenant_max = executions_max.max(1);
        self
    }

    /// How long runs may take at the worker's end to finish the supersteps they are in; 30 s unless stated. After that
    /// their nodes are dropped; what they recorded stays.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Works until `shutdown` is cancelled or the runtime is drained; then takes nothing more, lets supersteps end, and
    /// gives back what is not finished. Dropping the future is like a crash: others take over what it had in hand.
    ///
    /// # Errors
    /// [`DurableError::KeepsNothing`]. A store that fails is told of in the log and tried again.
    pub async fn run(self, shutdown: CancellationToken) -> Result<Worked, DurableError> {
        let store = self.runtime.store()?.clone();
        let claimer = Claimer {
            worker: format!("{}/{}", std::process::id(), self.runtime.ambient.ids.body()),
            graphs: self.served.keys().cloned().collect(),
            served: self.served.into_values().collect(),
            tenant_max: self.tenant_max,
            lease_ttl: self.runtime.lease_ttl,
            runtime: self.runtime.clone(),
            beginning: Mutex::default(),
        };
        let crew = Crew {
            claimer: Arc::new(claimer),
            notices: store.listen(QUEUED),
            store,
            running: JoinSet::new(),
            in_hand: BTreeMap::new(),
            concurrency: self.concurrency,
            worked: Worked::default(),
            told_unserved: Vec::new(),
            cancel: CancellationToken::new(),
            // Runs hear of the end at once, before the loop around them does.
            stop: shutdown.child_token(),
        };
        let deadlines = self.runtime.deadlines()?;
        let watching = tokio::spawn(watch_deadlines(deadlines));
        // However this ends, deadlines are no longer watched on its behalf.
        let _watching = AbortOnDrop(watching);
        crew.work(&shutdown, self.grace).await
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn watch_deadlines(mut deadlines: crate::Deadlines) {
    loop {
        if let Err(error) = deadlines.next().await {
            tracing::warn!(%error, "cannot look for deadlines");
            sleep(AFTER_FAILURE).await;
        }
    }
}

/// A graph with its options.
struct Service<S: GraphState> {
    graph: Graph<S>,
    options: RunOptions<S>,
}

impl<S: GraphState> Served for Service<S> {
    fn begin(
        self: Arc<Self>,
        runtime: &Runtime,
        tx: &mut Tx<'_>,
        token: &LeaseToken,
        entry: &Entry,
        held: Held,
    ) -> Result<Began, DurableError> {
        let plan = Plan::queued(runtime, &self.graph, entry, queue::initial(tx, entry)?, held);
        let id = ExecutionId::from_body(&tx.ambient().ids.body());
        let begun = match plan.begin_in(tx, token, id)? {
            begun @ Begun::Running { .. } => begun,
            Begun::Cancelled | Begun::Finished(_) => return Ok(Began::Ended),
            Begun::NeedsReconcile(pending) => return Ok(Began::NeedsReconcile(pending)),
            Begun::Refused(error) => return Err(*error),
        };
        let Begun::Running { pen, .. } = &begun else { return Ok(Began::Ended) };
        let execution = pen.execution().clone();
        let go: claim::Go = Box::new(move |runtime, lease, cancel, stop| {
            Box::pin(async move {
                let store = runtime.store()?.clone();
                let options = RunOptions { cancel, stop, stop_when: None, answer: None, ..self.options.clone() };
                runtime.go_on(&store, &self.graph, lease, begun, options).await.map(Ended::from)
            })
        });
        Ok(Began::Running { execution, go })
    }
}

/// A run that has ended.
struct Landed {
    tenant: TenantId,
    held: Held,
    ended: Result<Ended, DurableError>,
}

/// A worker at work.
struct Crew {
    claimer: Arc<Claimer>,
    store: Store,
    notices: Notices,
    running: JoinSet<Landed>,
    /// What runs, by the tasks that run it.
    in_hand: BTreeMap<tokio::task::Id, EntryId>,
    concurrency: usize,
    worked: Worked,
    told_unserved: Vec<String>,
    cancel: CancellationToken,
    stop: CancellationToken,
}

impl Crew {
    async fn work(mut self, shutdown: &CancellationToken, grace: Duration) -> Result<Worked, DurableError> {
        let draining = self.claimer.runtime.active.stopping().clone();
        // Whether something may be ready: then it is taken without looking first.
        let mut hot = true;
        loop {
            if shutdown.is_cancelled() || draining.is_cancelled() {
                break;
            }
            let mut wakes_at = None;
            if self.running.len() < self.concurrency {
                match self.fill(hot).await {
                    Ok(None) => {
                        hot = true;
                        continue;
                    }
                    Ok(Some(at)) => wakes_at = Some(at),
                    Err(error) => {
                        tracing::warn!(%error, "cannot take work from the queue");
                        wakes_at = Some(Instant::now() + AFTER_FAILURE);
                    }
                }
            }
            hot = false;
            let room = wakes_at.is_some();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = draining.cancelled() => break,
                Some(joined) = self.running.join_next_with_id() => {
                    self.land(joined).await;
                    hot = true;
                }
                _ = self.notices.next(), if room => {}
                () = sleep_until(wakes_at.unwrap_or_else(Instant::now)), if room => {}
            }
        }
        self.drain(grace).await;
        Ok(self.worked)
    }

    /// Takes one entry and runs it; where there is none, tells when to look again.
    async fn fill(&mut self, hot: bool) -> Result<Option<Instant>, DurableError> {
        if hot && self.take_next().await? {
            return Ok(None);
        }
        let look = self.look().await?;
        if look.ready && self.take_next().await? {
            return Ok(None);
        }
        // Somebody else was faster, whom this look does not show: it is looked again soon.
        let missed = look.ready;
        let mut wakes_at = Instant::now() + LOOK_EVERY;
        if let Some(next_at) = look.next_at {
            let left = next_at.0.saturating_sub(self.store.ambient().clock.now().0);
            wakes_at = wakes_at.min(Instant::now() + Duration::from_millis(u64::try_from(left).unwrap_or(0)));
        } else {
            // Nothing will be ready by the passing of time alone.
            wakes_at += Duration::from_secs(86_400);
        }
        let in_hand: Vec<EntryId> = self.in_hand.values().cloned().collect();
        let others: Vec<&Entry> = look.claimed.iter().filter(|entry| !in_hand.contains(&entry.id)).collect();
        for entry in &others {
            match self.claimer.take_over(&self.store, entry).await? {
                Claim::Taken(claimed) => {
                    self.worked.taken_over += 1;
                    self.begin(*claimed);
                    return Ok(None);
                }
                Claim::Settled => return Ok(None),
                Claim::Nothing => {}
            }
        }
        if missed || !others.is_empty() {
            wakes_at = wakes_at.min(Instant::now() + TAKE_OVER_EVERY);
        }
        Ok(Some(wakes_at))
    }

    async fn look(&mut self) -> Result<Look, DurableError> {
        self.worked.looks += 1;
        let claimer = self.claimer.clone();
        let look = self.store.read(move |read| claimer.look(read)).await.map_err(|error: StoreError| error)?;
        for graph in &look.unserved {
            if !self.told_unserved.contains(graph) {
                tracing::warn!(%graph, "the queue holds executions of a graph that this worker does not serve");
                self.told_unserved.push(graph.clone());
            }
        }
        Ok(look)
    }

    /// Takes the next entry, if there is one; tells whether there was.
    async fn take_next(&mut self) -> Result<bool, DurableError> {
        match self.claimer.next(&self.store).await? {
            Claim::Taken(claimed) => self.begin(*claimed),
            Claim::Settled => {}
            Claim::Nothing => return Ok(false),
        }
        Ok(true)
    }

    fn begin(&mut self, claimed: Claimed) {
        self.worked.claimed += 1;
        let Claimed { tenant, held, lease, go } = claimed;
        let id = held.id.clone();
        let running = go(self.claimer.runtime.clone(), lease, self.cancel.child_token(), self.stop.child_token());
        let task = self.running.spawn(async move { Landed { tenant, held, ended: running.await } });
        self.in_hand.insert(task.id(), id);
    }

    /// Notes what the run itself has not recorded.
    async fn land(&mut self, joined: Result<(tokio::task::Id, Landed), tokio::task::JoinError>) {
        let Landed { tenant, held, ended } = match joined {
            Ok((task, landed)) => {
                self.in_hand.remove(&task);
                landed
            }
            Err(error) => {
                // It is found again as the entry of somebody who has died.
                self.in_hand.remove(&error.id());
                tracing::error!(%error, "a run panicked; this is a defect, please report it");
                return;
            }
        };
        let counted = match &ended {
            Ok(Ended::Completed) => &mut self.worked.completed,
            Ok(Ended::Waiting) => &mut self.worked.waiting,
            Ok(Ended::Stopped) | Err(DurableError::Draining) => &mut self.worked.given_back,
            Ok(Ended::Cancelled) if self.cancel.is_cancelled() => &mut self.worked.given_back,
            Ok(Ended::Cancelled) => &mut self.worked.cancelled,
            Ok(Ended::Failed | Ended::NeedsReconcile(_)) | Err(_) => &mut self.worked.failed,
        };
        *counted += 1;
        let worker = self.claimer.worker.clone();
        let noted = match ended {
            Ok(Ended::NeedsReconcile(pending)) => {
                let why = claim::unknown(&pending);
                self.store.write(move |tx| queue::park(tx, &tenant, &held.id, &why)).await
            }
            Ok(Ended::Completed | Ended::Waiting | Ended::Stopped | Ended::Cancelled | Ended::Failed) => Ok(()),
            Err(error) => {
                let why = (!matches!(error, DurableError::Draining)).then(|| claim::chain(&error));
                if let Some(why) = &why {
                    tracing::warn!(entry = %held.id, %why, "a run could not go on");
                }
                self.store.write(move |tx| queue::note_failure(tx, &tenant, &held, &worker, why.as_deref())).await
            }
        };
        if let Err(error) = noted {
            // The entry stays in its worker's name, and is found as one of somebody who has died.
            tracing::warn!(%error, "cannot note what became of a run");
        }
    }

    async fn drain(&mut self, grace: Duration) {
        self.stop.cancel();
        let deadline = Instant::now() + grace;
        loop {
            tokio::select! {
                biased;
                joined = self.running.join_next_with_id() => match joined {
                    Some(joined) => self.land(joined).await,
                    None => return,
                },
                () = sleep_until(deadline), if !self.cancel.is_cancelled() => self.cancel.cancel(),
            }
        }
    }
}

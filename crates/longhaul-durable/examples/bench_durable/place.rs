//! Where a measurement keeps its executions, and the runtime it runs them with.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::bail;
use longhaul_core::{Ambient, Scope, TaskScope, ThreadId};
use longhaul_durable::{Graph, GraphState, Outcome, RunOptions, Runtime};
use longhaul_store::{Store, StoreSettings};
use tempfile::TempDir;

/// What records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing.
    None,
    /// A store in memory: the same rows, digests and transactions as on the disk.
    Memory,
    /// SQLite in a folder, WAL and `synchronous=FULL`.
    Sqlite,
}

impl FromStr for Mode {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> anyhow::Result<Self> {
        Ok(match text {
            "none" => Self::None,
            "memory" => Self::Memory,
            "sqlite" => Self::Sqlite,
            _ => bail!("{text}: none, memory or sqlite"),
        })
    }
}

/// A runtime, and the new folder of its store if it has one.
pub(crate) struct Bench {
    pub(crate) runtime: Runtime,
    /// None where nothing is recorded.
    pub(crate) store: Option<Store>,
    dir: Option<TempDir>,
    next: AtomicU64,
}

impl Bench {
    pub(crate) async fn open(mode: Mode) -> anyhow::Result<Self> {
        let ambient = Ambient::system();
        let dir = if mode == Mode::Sqlite { Some(tempfile::tempdir()?) } else { None };
        let store = match (mode, &dir) {
            (Mode::None, _) => None,
            (Mode::Memory | Mode::Sqlite, None) => Some(open(StoreSettings::in_memory()).await?),
            (Mode::Memory | Mode::Sqlite, Some(dir)) => Some(open(StoreSettings::new(dir.path())).await?),
        };
        let runtime = match store.clone() {
            Some(store) => Runtime::new(store, ambient),
            None => Runtime::ephemeral(ambient),
        };
        Ok(Self { runtime, store, dir, next: AtomicU64::new(1) })
    }

    /// The database file, where there is one.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        Some(file(self.dir.as_ref()?.path()))
    }

    /// A thread that nothing has run on yet.
    pub(crate) fn new_thread(&self) -> anyhow::Result<ThreadId> {
        thread(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Runs the graph to its end on a new thread.
    pub(crate) async fn complete<S: GraphState>(&self, graph: &Graph<S>, initial: S) -> anyhow::Result<S> {
        self.complete_on(&self.new_thread()?, graph, initial).await
    }

    /// Runs the graph to its end on this thread.
    pub(crate) async fn complete_on<S: GraphState>(
        &self,
        thread: &ThreadId,
        graph: &Graph<S>,
        initial: S,
    ) -> anyhow::Result<S> {
        completed(self.runtime.run(graph, &scope()?, thread, initial, options()).await?)
    }
}

/// The state of a complete execution.
pub(crate) fn completed<S>(outcome: Outcome<S>) -> anyhow::Result<S> {
    match outcome {
        Outcome::Completed(state) => Ok(state),
        Outcome::Failed { node, error, .. } => Err(anyhow::Error::new(error).context(format!("{node} failed"))),
        Outcome::Stopped(_) | Outcome::Cancelled | Outcome::Waiting(_) | Outcome::NeedsReconcile(_) => {
            bail!("the execution is not complete")
        }
    }
}

pub(crate) async fn open(settings: StoreSettings) -> anyhow::Result<Store> {
    Ok(Store::open(settings, Ambient::system(), &[longhaul_durable::MIGRATIONS]).await?)
}

/// The database of a store in this folder.
pub(crate) fn file(dir: &Path) -> PathBuf {
    dir.join("longhaul.db")
}

/// No measurement here is about the limit of supersteps.
pub(crate) fn options<S>() -> RunOptions<S> {
    RunOptions { supersteps_max: 10_000_000, ..RunOptions::default() }
}

pub(crate) fn scope() -> anyhow::Result<TaskScope> {
    Ok(TaskScope {
        scope: Scope::single_user(),
        session: "sess_bench".parse()?,
        task: "task_bench".parse()?,
        trace: "trace_bench".parse()?,
    })
}

pub(crate) fn thread(number: u64) -> anyhow::Result<ThreadId> {
    Ok(format!("bench_{number}").parse()?)
}

/// No node here computes for long, so one thread is enough, and the quickest: nobody has to be woken.
pub(crate) fn on_one_thread<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

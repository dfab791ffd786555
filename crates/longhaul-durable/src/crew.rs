//! The tasks of a superstep that are in flight.
//!
//! It owns where they run. Tasks of the outermost frame are tasks of the tokio runtime, so that they use all
//! processors. Those of a subgraph run inside the task around it: when that is dropped, because it took too long or is
//! tried again, nothing of it can still be at work. Invariant: dropping a crew ends its tasks; those of a subgraph at
//! once, the others at their next breath, when the lease of the next run already refuses what they would write.

use std::future::Future;

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::task::{JoinError, JoinSet};

pub(crate) enum Crew<T> {
    Spawned(JoinSet<T>),
    Here(FuturesUnordered<BoxFuture<'static, T>>),
}

impl<T: Send + 'static> Crew<T> {
    pub(crate) fn new(spawned: bool) -> Self {
        if spawned { Self::Spawned(JoinSet::new()) } else { Self::Here(FuturesUnordered::new()) }
    }

    pub(crate) fn begin(&mut self, task: impl Future<Output = T> + Send + 'static) {
        match self {
            Self::Spawned(set) => drop(set.spawn(task)),
            Self::Here(set) => set.push(task.boxed()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Spawned(set) => set.len(),
            Self::Here(set) => set.len(),
        }
    }

    /// The next that ends; nothing when none is left.
    pub(crate) async fn next(&mut self) -> Option<Result<T, JoinError>> {
        match self {
            Self::Spawned(set) => set.join_next().await,
            Self::Here(set) => set.next().await.map(Ok),
        }
    }

    /// One that has ended already.
    pub(crate) fn ended(&mut self) -> Option<Result<T, JoinError>> {
        match self {
            Self::Spawned(set) => set.try_join_next(),
            Self::Here(set) => set.next().now_or_never().flatten().map(Ok),
        }
    }

    /// Ends all, and returns when none is at work any more.
    pub(crate) async fn stop(self) {
        match self {
            Self::Spawned(mut set) => set.shutdown().await,
            Self::Here(set) => drop(set),
        }
    }
}

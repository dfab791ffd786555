//! Live views of an execution for those who develop it.
//!
//! They are derived from what has been recorded, follow the runs of this runtime only, and may lag or miss something;
//! whoever needs all of it reads the history. No user interface is sent any of it.

use std::collections::VecDeque;

use longhaul_core::{Event, ExecutionId, Scope, ThreadId};
use longhaul_store::{ReadTx, StoreError};
use serde_json::Value;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{DurableError, Graph, GraphState, News, Progress, Runtime, records::checkpoints};

/// Which views are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DevViews {
    /// The whole state after each superstep of the graph itself.
    pub values: bool,
    /// The updates that made it.
    pub updates: bool,
    /// What nodes emitted, business or internal.
    pub custom: bool,
    /// Everything else that happens: nodes and steps as they begin and end, also inside subgraphs.
    pub debug: bool,
}

/// Something for developers to see.
#[derive(Debug, Clone, PartialEq)]
pub enum DevView {
    /// The state after a superstep.
    Values {
        /// The execution.
        execution: ExecutionId,
        /// The superstep.
        superstep: u64,
        /// The state, as its JSON.
        state: Value,
    },
    /// What the tasks of a superstep answered.
    Updates {
        /// The execution.
        execution: ExecutionId,
        /// The superstep.
        superstep: u64,
        /// For each task, in their order, the array of its updates.
        updates: Value,
    },
    /// What a node emitted.
    Custom(Box<Event>),
    /// What happens.
    Debug(Progress),
    /// This reader was too slow: so many pieces of news are missing.
    Missed(u64),
}

impl Runtime {
    /// Views of what happens on a thread of the user from now on, in runs of this runtime and its clones. It has no
    /// end.
    ///
    /// # Errors
    /// [`DurableError::KeepsNothing`].
    pub fn dev_views<S: GraphState>(
        &self,
        _graph: &Graph<S>,
        scope: &Scope,
        thread: &ThreadId,
        wanted: DevViews,
    ) -> Result<DevStream<S>, DurableError> {
        Ok(DevStream {
            progress: self.progress(),
            events: self.store()?.subscribe(),
            runtime: self.clone(),
            scope: scope.clone(),
            thread: thread.clone(),
            wanted,
            ready: VecDeque::new(),
            last: None,
            executions: Vec::new(),
            state: std::marker::PhantomData,
        })
    }
}

/// See [`Runtime::dev_views`].
#[derive(Debug)]
pub struct DevStream<S> {
    runtime: Runtime,
    scope: Scope,
    thread: ThreadId,
    wanted: DevViews,
    progress: broadcast::Receiver<Progress>,
    events: broadcast::Receiver<Event>,
    ready: VecDeque<DevView>,
    /// The last superstep that was told of: a superstep has news for each of its tasks.
    last: Option<(ExecutionId, u64)>,
    /// Seen so far, for what nodes emit.
    executions: Vec<ExecutionId>,
    state: std::marker::PhantomData<fn() -> S>,
}

impl<S: GraphState> DevStream<S> {
    /// The next view; nothing when the runtime has been dropped everywhere else.
    ///
    /// # Errors
    /// Those of reading what was recorded.
    pub async fn next(&mut self) -> Result<Option<DevView>, DurableError> {
        loop {
            if let Some(view) = self.ready.pop_front() {
                return Ok(Some(view));
            }
            tokio::select! {
                biased;
                news = self.progress.recv() => match news {
                    Ok(news) if news.thread == self.thread => self.take(news).await?,
                    Ok(_) => {}
                    Err(RecvError::Lagged(missed)) => return Ok(Some(DevView::Missed(missed))),
                    Err(RecvError::Closed) => return Ok(None),
                },
                event = self.events.recv(), if self.wanted.custom => match event {
                    Ok(event) if self.is_custom(&event) => return Ok(Some(DevView::Custom(Box::new(event)))),
                    Ok(_) => {}
                    Err(RecvError::Lagged(missed)) => return Ok(Some(DevView::Missed(missed))),
                    Err(RecvError::Closed) => return Ok(None),
                },
            }
        }
    }

    fn is_custom(&self, event: &Event) -> bool {
        let of_thread = event.execution.as_ref().is_some_and(|execution| self.executions.contains(execution));
        of_thread && !super::event::is_ours(&event.kind)
    }

    async fn take(&mut self, news: Progress) -> Result<(), DurableError> {
        let (execution, superstep) = (news.execution.clone(), news.superstep);
        if !self.executions.contains(&execution) {
            self.executions.push(execution.clone());
        }
        let closed = news.news == News::NodeFinished && news.ns.is_empty();
        if self.wanted.debug {
            self.ready.push_back(DevView::Debug(news));
        }
        if !closed || self.last.as_ref() == Some(&(execution.clone(), superstep)) {
            return Ok(());
        }
        self.last = Some((execution.clone(), superstep));
        if self.wanted.updates {
            let (scope, id) = (self.scope.clone(), execution.clone());
            let reading = self.runtime.store()?.read(move |read: &ReadTx<'_>| {
                let log = checkpoints::log(read, &scope.tenant, &id, "", superstep, false)?;
                Ok::<_, StoreError>(log.rows.into_iter().next_back().filter(|row| row.superstep == superstep))
            });
            if let Some(row) = reading.await? {
                let updates = serde_json::from_str(&row.data).map_err(std::sync::Arc::new)?;
                self.ready.push_back(DevView::Updates { execution: execution.clone(), superstep, updates });
            }
        }
        if self.wanted.values {
            match self.runtime.load::<S>(&self.scope, &execution, Some(superstep)).await {
                Ok(replayed) => {
                    let state = serde_json::to_value(&replayed.state).map_err(std::sync::Arc::new)?;
                    self.ready.push_back(DevView::Values { execution, superstep, state });
                }
                // It has been pruned meanwhile.
                Err(DurableError::NoCheckpoint { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

//! One run of one node, by the rules of its policy.
//!
//! It owns attempts, limits of time and the cache, and turns what the node answers into what is stored. It writes
//! nothing but through the node's context; closing the superstep is the frame's.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use longhaul_core::Digest;
use tokio::time::Instant;
use tracing::Instrument;

use crate::{
    Graph, GraphState, News, NodeContext, NodeError,
    context::{AtClose, Left},
    flow::{Answer, Input, Route},
    limits, observe,
    open::{Earlier, Open},
    pausing::Unanswered,
    policy::{Cache, CacheKey},
    records::{
        Place,
        cache::{self, Cached},
        tasks::DoneTask,
    },
    run::Run,
};

/// A task to be run.
pub(crate) struct Task<S: GraphState> {
    pub(crate) run: Arc<Run>,
    pub(crate) graph: Graph<S>,
    pub(crate) place: Place,
    pub(crate) state: Arc<S>,
    pub(crate) input: Option<Input>,
    pub(crate) earlier: Earlier,
    /// Whether the updates are needed as JSON.
    pub(crate) as_json: bool,
}

/// What a task came to.
pub(crate) struct TaskEnd<U> {
    pub(crate) result: Result<Done<U>, NodeError>,
    /// What it waits for, if it is suspended.
    pub(crate) waits: Vec<Unanswered>,
}

/// A finished task.
pub(crate) struct Done<U> {
    /// As they are read back.
    pub(crate) updates: Vec<U>,
    /// The updates as a JSON array; empty where nothing is kept.
    pub(crate) json: String,
    pub(crate) route: Route,
    pub(crate) attempt: u32,
    pub(crate) at_close: Vec<AtClose>,
}

impl<U> Done<U> {
    /// As the row of a task.
    pub(crate) fn to_row(&self) -> Result<DoneTask, serde_json::Error> {
        let route = if self.route.is_empty() { None } else { Some(serde_json::to_string(&self.route)?) };
        Ok(DoneTask { attempt: self.attempt, updates: self.json.clone(), route })
    }
}

/// A task that an earlier run recorded.
pub(crate) fn recorded<S: GraphState>(node: &str, done: DoneTask) -> Result<Done<S::Update>, NodeError> {
    let unfit = |source| NodeError::Update { node: node.to_owned(), source: Arc::new(source) };
    Ok(Done {
        updates: serde_json::from_str(&done.updates).map_err(unfit)?,
        route: done.route.as_deref().map_or(Ok(Route::default()), serde_json::from_str).map_err(unfit)?,
        json: done.updates,
        attempt: done.attempt,
        at_close: Vec::new(),
    })
}

impl<S: GraphState> Task<S> {
    /// Runs the node until it has finished, waits, or fails for good.
    pub(crate) async fn run(self) -> TaskEnd<S::Update> {
        let span = observe::task_span(self.run.owner(), &self.place);
        let end = self.run_by_policy().instrument(span.clone()).await;
        if let Err(error) = &end.result {
            observe::mark_failed(&span, error);
        }
        end
    }

    async fn run_by_policy(mut self) -> TaskEnd<S::Update> {
        let policy = self.graph.policy(&self.place.node).clone();
        let cache_key = match &policy.cache {
            Some(cache) => match self.cached(cache).await {
                Ok((_, Some(done))) => return TaskEnd { result: Ok(done), waits: Vec::new() },
                Ok((key, None)) => Some((key, cache.ttl)),
                Err(error) => return TaskEnd { result: Err(error), waits: Vec::new() },
            },
            None => None,
        };
        let mut attempt = 1;
        loop {
            let end = self.attempt(attempt, policy.timeout, policy.idle_timeout).await;
            let error = match end {
                TaskEnd { result: Ok(mut done), waits } => {
                    if let Some((key, ttl)) = cache_key {
                        self.keep_cached(&mut done, key, ttl);
                    }
                    return TaskEnd { result: Ok(done), waits };
                }
                TaskEnd { result: Err(error), waits } if !waits.is_empty() => {
                    return TaskEnd { result: Err(error), waits };
                }
                TaskEnd { result: Err(error), .. } => error,
            };
            let again = policy.retry.as_ref().and_then(|retry| retry.after(attempt, &error, &*self.run.ambient.rng));
            let Some(mut wait) = again else { return TaskEnd { result: Err(error), waits: Vec::new() } };
            if self.run.script().is_some() {
                // In a replay nothing recovers meanwhile.
                wait = Duration::ZERO;
            }
            let wait_ms = millis(wait);
            self.run.tell(&self.place, || News::NodeRetried { attempt, wait_ms });
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // A pause may be long; the next run tries again.
                () = self.run.stopped() => return TaskEnd { result: Err(NodeError::Stopped), waits: Vec::new() },
            }
            attempt += 1;
            self.earlier = match self.read_again().await {
                Ok(earlier) => earlier,
                Err(error) => return TaskEnd { result: Err(error), waits: Vec::new() },
            };
        }
    }

    /// What the attempt before has recorded.
    async fn read_again(&self) -> Result<Earlier, NodeError> {
        let Some(journal) = &self.run.journal else { return Ok(Earlier::default()) };
        let (pen, place) = (journal.pen.clone(), self.place.clone());
        let task = place.task;
        let mut open = journal.store.read(move |read| Open::read(read, &pen, &place.ns, place.superstep)).await?;
        let mut earlier = open.take(task);
        if let Some(script) = self.run.script() {
            script.fill(&self.run.execution, &self.place, &mut earlier);
        }
        Ok(earlier)
    }

    async fn attempt(&mut self, attempt: u32, timeout: Option<Duration>, idle: Option<Duration>) -> TaskEnd<S::Update> {
        let earlier = std::mem::take(&mut self.earlier);
        let context = NodeContext::new(self.run.clone(), self.place.clone(), attempt, earlier);
        context.tell(|| News::NodeStarted);
        let answer = match (timeout, idle) {
            (None, None) => self.call(&context).await,
            (timeout, idle) => self.call_in_time(&context, timeout, idle).await,
        };
        let Left { at_close, waits, fatal } = context.finish(answer.is_ok());
        let result = match (answer, fatal) {
            // A panic tells more than the dropped step that it leaves behind, and a limit of time more than the step
            // that it cut; after those, what the node may not swallow.
            (Err(error @ (NodeError::Panicked { .. } | NodeError::TimedOut { .. })), _)
            | (_, Some(error))
            | (Err(error), None) => Err(error),
            (Ok(answer), None) => self.seal(answer, attempt, at_close),
        };
        TaskEnd { result, waits }
    }

    async fn call(&self, context: &NodeContext) -> Result<Answer<S::Update>, NodeError> {
        // Unwind safety: the node's hold on state and context is dropped with it.
        let call = AssertUnwindSafe(async {
            match self.graph.run(&self.place.node, context.clone(), self.state.clone(), self.input.clone()) {
                Some(work) => work.await,
                // A checked graph leads only to its own nodes, and its fingerprint to no other graph's.
                None => Err(NodeError::Panicked { message: format!("there is no node {}", self.place.node) }),
            }
        });
        call.catch_unwind().await.unwrap_or_else(|panic| Err(NodeError::Panicked { message: words_of(&*panic) }))
    }

    async fn call_in_time(
        &self,
        context: &NodeContext,
        timeout: Option<Duration>,
        idle: Option<Duration>,
    ) -> Result<Answer<S::Update>, NodeError> {
        let begun = Instant::now();
        // A moment beyond what a clock can tell never comes.
        let late = async {
            match timeout.and_then(|timeout| begun.checked_add(timeout)) {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let silent = async {
            let Some(idle) = idle else { return std::future::pending().await };
            loop {
                let Some(due) = context.alive_at().unwrap_or(begun).checked_add(idle) else {
                    return std::future::pending().await;
                };
                if due <= Instant::now() {
                    return;
                }
                tokio::time::sleep_until(due).await;
            }
        };
        let timed_out = |limit: Option<Duration>, idle| NodeError::TimedOut {
            node: self.place.node.to_string(),
            limit_ms: limit.map_or(0, millis),
            idle,
        };
        tokio::select! {
            biased;
            answer = self.call(context) => answer,
            () = late => Err(timed_out(timeout, false)),
            () = silent => Err(timed_out(idle, true)),
        }
    }

    /// Turns an answer into what is stored, and reads it back.
    fn seal(
        &self,
        answer: Answer<S::Update>,
        attempt: u32,
        at_close: Vec<AtClose>,
    ) -> Result<Done<S::Update>, NodeError> {
        let Answer { updates, route } = answer;
        if !self.as_json {
            return Ok(Done { updates, json: String::new(), route, attempt, at_close });
        }
        let node = || self.place.node.to_string();
        let unfit = |source| NodeError::Update { node: node(), source: Arc::new(source) };
        let mut bytes = 0;
        for update in &updates {
            bytes += limits::check_update::<S>(update).map_err(|source| NodeError::Limit { node: node(), source })?;
        }
        limits::check_written(bytes).map_err(|source| NodeError::Limit { node: node(), source })?;
        let json = serde_json::to_string(&updates).map_err(unfit)?;
        let updates = serde_json::from_str(&json).map_err(unfit)?;
        Ok(Done { updates, json, route, attempt, at_close })
    }

    async fn cached(&self, cache: &Cache) -> Result<([u8; 32], Option<Done<S::Update>>), NodeError> {
        let Some(journal) = &self.run.journal else {
            return Err(NodeError::KeepsNothing { what: "a policy with a cache" });
        };
        let unfit = |source| NodeError::Update { node: self.place.node.to_string(), source: Arc::new(source) };
        let state = match cache.key {
            CacheKey::State => serde_json::to_string(&*self.state).map_err(unfit)?,
            CacheKey::Input => String::new(),
        };
        let input = self.input.as_ref().map_or("", Input::json);
        let graph = self.graph.fingerprint();
        let key = *Digest::of_parts([
            b"cache 2".as_slice(),
            &graph.as_bytes()[..],
            self.place.node.as_bytes(),
            input.as_bytes(),
            state.as_bytes(),
        ])
        .as_bytes();
        if let Some(updates) = self.run.script().and_then(|script| script.cached(&self.run.execution, &self.place)) {
            let done = recorded::<S>(&self.place.node, DoneTask { attempt: 1, updates, route: None })?;
            return Ok((key, Some(done)));
        }
        let pen = journal.pen.clone();
        let found = journal.store.read(move |read| cache::find(read, pen.tenant(), &key)).await?;
        let done = found
            .map(|Cached { updates, route }| recorded::<S>(&self.place.node, DoneTask { attempt: 1, updates, route }));
        Ok((key, done.transpose()?))
    }

    /// Adds the answer to the cache in the transaction that records it.
    fn keep_cached(&self, done: &mut Done<S::Update>, key: [u8; 32], ttl: Duration) {
        // An answer that cannot be written as JSON is refused when it is recorded.
        let (Some(journal), Ok(DoneTask { updates, route, .. })) = (&self.run.journal, done.to_row()) else { return };
        let pen = journal.pen.clone();
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        done.at_close.push(Box::new(move |tx| cache::keep(tx, pen.tenant(), &key, &Cached { updates, route }, ttl_ms)));
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

//! One superstep of a frame: its tasks are run, recorded as they finish, and closed together.
//!
//! It owns what happens between two checkpoints. Invariants: a task that was recorded is never run again; one that
//! finished is recorded even if another of its superstep fails; the rows that tasks add are in the same transaction as
//! the tasks' answers.

use std::{collections::BTreeMap, sync::Arc};

use longhaul_core::Digest;
use longhaul_store::StoreError;
use tokio::task::JoinError;
use tracing::Instrument;

use crate::{
    DurableError, Form, GraphState, NodeError, checkpoint,
    context::AtClose,
    crew::Crew,
    flow::Planned,
    frame::{Frame, How, LoopEnd, Role},
    limits,
    machine::{self, Finished, Position},
    open::Earlier,
    pausing::Unanswered,
    records::{
        Place,
        checkpoints::{self, NewCheckpoint, Snapshot},
    },
    state::Conflicts,
    task::{self, Done, Task, TaskEnd},
};

/// Tasks of one superstep that are in flight at once; the others wait for a place.
const TASKS_MAX: usize = 1024;

/// A superstep of several tasks on its way.
struct Flight<U> {
    /// What has finished, by the tasks' numbers.
    done: BTreeMap<u32, Done<U>>,
    /// Which of it has a row; the others have none yet.
    in_rows: usize,
    /// Finished since the last write.
    fresh: Vec<u32>,
    failed: Option<(u32, NodeError)>,
    waits: Vec<Unanswered>,
}

/// A superstep that may be closed.
struct Closing {
    checkpoint: Option<NewCheckpoint>,
    snapshot: Option<Snapshot>,
    position: Position,
    chain: Digest,
}

impl<S: GraphState> Frame<S> {
    /// Runs and closes the superstep; gives the end of the loop where it cannot be closed.
    pub(crate) async fn superstep(&mut self, superstep: u64) -> Result<Option<LoopEnd>, DurableError> {
        match self.position.frontier.len() {
            1 if self.open.done.is_empty() => self.one_task(superstep).await,
            _ => Box::pin(self.several_tasks(superstep)).await,
        }
    }

    /// The node runs here, without a task of the runtime of its own.
    async fn one_task(&mut self, superstep: u64) -> Result<Option<LoopEnd>, DurableError> {
        let task = self.task(superstep, 0);
        let node = task.place.node.clone();
        let cancel = &self.run.cancel;
        // The node goes first: what has been finished is kept, also when the run is cancelled meanwhile.
        let end = tokio::select! {
            biased;
            end = task.run() => end,
            () = cancel.cancelled() => return Ok(Some(How::Cancelled.into())),
        };
        let TaskEnd { result, waits } = end;
        match result {
            Ok(done) => self.close(superstep, vec![done], false).await,
            Err(error) => Ok(Some(ended(&node, superstep, error, waits))),
        }
    }

    fn task(&mut self, superstep: u64, task: u32) -> Task<S> {
        let Planned { node, input } = self.position.frontier[task as usize].clone();
        let resumed = self.open.is_of(superstep);
        let place = Place { ns: self.ns.clone(), superstep, task, node };
        let mut earlier = if resumed { self.open.take(task) } else { Earlier::default() };
        if let Some(script) = self.run.script() {
            script.fill(&self.run.execution, &place, &mut earlier);
        }
        Task {
            run: self.run.clone(),
            graph: self.graph.clone(),
            place,
            state: self.state.clone(),
            input,
            earlier,
            as_json: self.run.journal.is_some() || self.keeps_updates(),
        }
    }

    async fn several_tasks(&mut self, superstep: u64) -> Result<Option<LoopEnd>, DurableError> {
        let mut flight =
            Flight { done: BTreeMap::new(), in_rows: 0, fresh: Vec::new(), failed: None, waits: Vec::new() };
        for (task, done) in std::mem::take(&mut self.open.done) {
            let Some(planned) = self.position.frontier.get(task as usize) else { continue };
            match task::recorded::<S>(&planned.node, done) {
                Ok(done) => drop(flight.done.insert(task, done)),
                Err(error) => return Ok(Some(ended(&planned.node.clone(), superstep, error, Vec::new()))),
            }
        }
        flight.in_rows = flight.done.len();
        let tasks = u32::try_from(self.position.frontier.len()).unwrap_or(u32::MAX);
        let mut waiting: Vec<u32> = (0..tasks).rev().filter(|task| !flight.done.contains_key(task)).collect();
        let mut running = Crew::new(matches!(self.role, Role::Root));
        let cancel = self.run.cancel.clone();
        loop {
            while running.len() < TASKS_MAX
                && let Some(number) = waiting.pop()
            {
                let task = self.task(superstep, number);
                running.begin(async move { (number, task.run().await) }.in_current_span());
            }
            let joined = tokio::select! {
                biased;
                joined = running.next() => joined,
                () = cancel.cancelled() => {
                    running.stop().await;
                    self.record_fresh(superstep, &mut flight).await?;
                    return Ok(Some(How::Cancelled.into()));
                }
            };
            let Some(joined) = joined else { break };
            flight.land(joined);
            // What finishes at the same time is recorded together.
            loop {
                tokio::task::yield_now().await;
                let before = running.len();
                while let Some(joined) = running.ended() {
                    flight.land(joined);
                }
                if running.len() == before {
                    break;
                }
            }
            if running.len() > 0 || !waiting.is_empty() {
                self.record_fresh(superstep, &mut flight).await?;
            }
        }
        let Flight { done, in_rows, failed, waits, .. } = &mut flight;
        if let Some((task, error)) = failed.take() {
            let waits = std::mem::take(waits);
            self.record_fresh(superstep, &mut flight).await?;
            let node = self.position.frontier[task as usize].node.clone();
            return Ok(Some(ended(&node, superstep, error, waits)));
        }
        let (done, in_rows) = (std::mem::take(done), *in_rows > 0);
        if in_rows {
            return self.close_rows(superstep, done, &flight.fresh).await;
        }
        self.close(superstep, done.into_values().collect(), false).await
    }

    /// Writes the rows of tasks that have finished since the last time.
    async fn record_fresh(&mut self, superstep: u64, flight: &mut Flight<S::Update>) -> Result<(), DurableError> {
        let Some(journal) = &self.run.journal else { return Ok(()) };
        if flight.fresh.is_empty() {
            return Ok(());
        }
        let mut rows = Vec::with_capacity(flight.fresh.len());
        let mut at_close = Vec::new();
        for number in flight.fresh.drain(..) {
            let Some(done) = flight.done.get_mut(&number) else { continue };
            at_close.append(&mut done.at_close);
            rows.push((self.place(superstep, number), done.to_row().map_err(Arc::new)?));
        }
        flight.in_rows += rows.len();
        let written = journal.write(move |pen, tx| {
            at_close.into_iter().try_for_each(|add| add(tx))?;
            rows.iter().try_for_each(|(place, row)| pen.insert_task(tx, place, row))
        });
        Ok(written.await?)
    }

    fn place(&self, superstep: u64, task: u32) -> Place {
        Place { ns: self.ns.clone(), superstep, task, node: self.position.frontier[task as usize].node.clone() }
    }

    /// Closes a superstep some of whose tasks have rows: the others get theirs with the close.
    async fn close_rows(
        &mut self,
        superstep: u64,
        mut done: BTreeMap<u32, Done<S::Update>>,
        fresh: &[u32],
    ) -> Result<Option<LoopEnd>, DurableError> {
        let mut rows = Vec::with_capacity(fresh.len());
        for number in fresh {
            let Some(done) = done.get(number) else { continue };
            rows.push((self.place(superstep, *number), done.to_row().map_err(Arc::new)?));
        }
        if let Some(journal) = &self.run.journal
            && let Some(first) = fresh.first().and_then(|number| done.get_mut(number))
        {
            let pen = journal.pen.clone();
            first
                .at_close
                .push(Box::new(move |tx| rows.iter().try_for_each(|(place, row)| pen.insert_task(tx, place, row))));
        }
        self.close(superstep, done.into_values().collect(), true).await
    }

    /// Applies the tasks' updates in their order and commits the superstep.
    async fn close(
        &mut self,
        superstep: u64,
        mut done: Vec<Done<S::Update>>,
        in_rows: bool,
    ) -> Result<Option<LoopEnd>, DurableError> {
        let at_close: Vec<AtClose> = done.iter_mut().flat_map(|done| std::mem::take(&mut done.at_close)).collect();
        let Closing { checkpoint, snapshot, position, chain } = match self.reduce(superstep, done, in_rows) {
            Ok(closing) => closing,
            Err((task, error)) => {
                let node = self.position.frontier[task as usize].node.clone();
                return Ok(Some(ended(&node, superstep, error, Vec::new())));
            }
        };
        if let Some(checkpoint) = checkpoint {
            self.commit(checkpoint, snapshot, at_close, position.frontier.is_empty()).await?;
        }
        for planned in &self.position.frontier {
            let place = Place { ns: self.ns.clone(), superstep, task: 0, node: planned.node.clone() };
            self.run.tell(&place, || crate::News::NodeFinished);
        }
        self.position = position;
        self.chain = chain;
        Ok(None)
    }

    /// What the superstep makes of state and position, and the row for it. An error names the task it is about.
    fn reduce(
        &mut self,
        superstep: u64,
        done: Vec<Done<S::Update>>,
        in_rows: bool,
    ) -> Result<Closing, (u32, NodeError)> {
        let kept = self.run.journal.is_some();
        let mut data = String::new();
        if kept || self.keeps_updates() {
            data.reserve(2 + done.iter().map(|done| done.json.len() + 1).sum::<usize>());
            for done in &done {
                data.push(if data.is_empty() { '[' } else { ',' });
                data.push_str(&done.json);
            }
            data.push(']');
        }
        let mut routes = Vec::with_capacity(done.len());
        let mut conflicts = Conflicts::default();
        let state = Arc::make_mut(&mut self.state);
        for (task, done) in (0_u32..).zip(done) {
            let touched = done.updates.iter().fold(0, |touched, update| touched | S::touched(update));
            if touched != 0 {
                let node = &self.position.frontier[task as usize].node;
                conflicts
                    .add::<S>(task, node, touched)
                    .map_err(|source| (task, NodeError::Conflict { superstep, source }))?;
            }
            done.updates.into_iter().for_each(|update| state.apply(update));
            routes.push(done.route);
        }
        let first = self.position.frontier[0].node.clone();
        limits::check_close::<S>(state).map_err(|source| (0, NodeError::Limit { node: first.to_string(), source }))?;
        let mut finished = Vec::with_capacity(routes.len());
        for (task, route) in (0_u32..).zip(&routes) {
            let node = &self.position.frontier[task as usize].node;
            let routes = self.graph.routes(node, route, state).map_err(|error| (task, error.into()))?;
            finished.push(Finished { task, routes });
        }
        let position =
            machine::close(self.graph.shape(), &self.position, &finished).map_err(|error| (0, error.into()))?;
        if self.keeps_updates() {
            self.keep_updates(&data);
        }
        if !kept {
            return Ok(Closing { checkpoint: None, snapshot: None, position, chain: self.chain });
        }
        let unfit = |source| (0, NodeError::Update { node: first.to_string(), source: Arc::new(source) });
        let frontier = serde_json::to_string(&position).map_err(unfit)?;
        let form = if in_rows { Form::Tasks } else { Form::Delta };
        let chain = checkpoint::chain_next(&self.chain, form, &data, &frontier);
        let due = self.weight.add(data.len()) && !position.frontier.is_empty();
        let snapshot = match due {
            true => Some(self.weight.snapshot(superstep, &*self.state, &chain, &frontier).map_err(unfit)?),
            false => None,
        };
        let nodes = self.nodes();
        let data = if in_rows { String::new() } else { data };
        let checkpoint = NewCheckpoint { superstep, nodes, frontier, form, data, chain: *chain.as_bytes() };
        Ok(Closing { checkpoint: Some(checkpoint), snapshot, position, chain })
    }

    /// The nodes of the frontier, each once.
    fn nodes(&self) -> String {
        let mut nodes = String::new();
        let mut last: Vec<&str> = Vec::new();
        for planned in &self.position.frontier {
            if !last.contains(&&*planned.node) {
                last.push(&planned.node);
                if !nodes.is_empty() {
                    nodes.push(',');
                }
                nodes.push_str(&planned.node);
            }
        }
        nodes
    }

    async fn commit(
        &mut self,
        checkpoint: NewCheckpoint,
        snapshot: Option<Snapshot>,
        at_close: Vec<AtClose>,
        complete: bool,
    ) -> Result<(), DurableError> {
        let Some(journal) = self.run.journal.clone() else { return Ok(()) };
        let ns = self.ns.clone();
        let (superstep, chain) = (checkpoint.superstep, checkpoint.chain);
        let mut before = None;
        let root = match &mut self.role {
            Role::Root => true,
            Role::Inner { first, last, .. } => {
                before = first.take();
                if complete {
                    // Recorded with the task around it: one transaction less, and nothing is lost if that never comes.
                    last.extend(at_close);
                    let pen = journal.pen.clone();
                    last.push(Box::new(move |tx| {
                        before.map_or(Ok(()), |first| pen.insert_checkpoint(tx, &ns, first))?;
                        pen.insert_checkpoint(tx, &ns, checkpoint)
                    }));
                    return Ok(());
                }
                false
            }
        };
        let written = journal.write(move |pen, tx| {
            at_close.into_iter().try_for_each(|add| add(tx))?;
            before.map_or(Ok(()), |first| pen.insert_checkpoint(tx, &ns, first))?;
            pen.insert_checkpoint(tx, &ns, checkpoint)?;
            snapshot.map_or(Ok(()), |snapshot| pen.insert_snapshot(tx, &ns, snapshot))?;
            if complete && root { pen.complete(tx, superstep) } else { Ok(()) }
        });
        match written.await {
            Err(error @ StoreError::OutcomeUnknown { .. }) => {
                // Either everything is there or nothing: the row's own digest tells.
                let (pen, ns) = (journal.pen.clone(), self.ns.clone());
                let found = journal.store.read(move |read| checkpoints::digest_at(read, &pen, &ns, superstep)).await?;
                if found.as_deref() == Some(&chain[..]) { Ok(()) } else { Err(error.into()) }
            }
            written => Ok(written?),
        }
    }

    fn keeps_updates(&self) -> bool {
        matches!(&self.role, Role::Inner { kept: Some(_), .. })
    }

    fn keep_updates(&mut self, data: &str) {
        if let Role::Inner { kept: Some(kept), .. } = &mut self.role {
            kept.push(data.to_owned());
        }
    }
}

impl<U> Flight<U> {
    fn land(&mut self, joined: Result<(u32, TaskEnd<U>), JoinError>) {
        // Tasks catch the panics of their nodes and are not cancelled while they are waited for.
        let (task, TaskEnd { result, waits }) = match joined {
            Ok(joined) => joined,
            Err(error) => {
                self.failed.get_or_insert((0, NodeError::Panicked { message: error.to_string() }));
                return;
            }
        };
        self.waits.extend(waits);
        match result {
            Ok(done) => {
                self.done.insert(task, done);
                self.fresh.push(task);
            }
            Err(error) => {
                if self.failed.as_ref().is_none_or(|(_, known)| severity(&error) > severity(known)) {
                    self.failed = Some((task, error));
                }
            }
        }
    }
}

/// What stands in the way of more is told first.
fn severity(error: &NodeError) -> u8 {
    if matches!(error, NodeError::Store(_)) {
        4
    } else if matches!(error, NodeError::NeedsReconcile { .. }) {
        3
    } else if matches!(error, NodeError::Suspended) {
        0
    } else if matches!(error, NodeError::Stopped) {
        1
    } else {
        2
    }
}

/// The end of a loop whose superstep has a task that did not finish.
fn ended(node: &str, superstep: u64, error: NodeError, waits: Vec<Unanswered>) -> LoopEnd {
    let how = if matches!(error, NodeError::Suspended) {
        How::Suspended
    } else if matches!(error, NodeError::Stopped) {
        How::Stopped
    } else {
        How::Failed { node: node.to_owned(), superstep, error }
    };
    LoopEnd { how, waits }
}

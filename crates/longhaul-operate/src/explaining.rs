//! What an id is: whose it is, what happened in order, where it stands, what happens next.
//!
//! It owns putting that together for every kind of id. Invariant: it changes nothing.

use longhaul_core::{ExecutionId, TaskScope, ThreadId, TraceId};
use longhaul_durable::{EntryId, ExecutionFilter, ExecutionView, Happening, Point, StepId, WaitId, WaitInfo};
use serde::Serialize;

use crate::{
    ChainLink, OperateError, Operator,
    chain::{self, Focus},
    moments::moment,
    queued::standing,
    rows,
};

/// Moments of an execution that a chain is made from.
const MOMENTS_MAX: u32 = 1_000;

pub(crate) const LOOKED_FOR: &str = "executions (exec_…), their steps (exec_…/node/1/name#1) and checkpoints (exec_…@1), waits (wait_…), \
                          notes (note_…), queue entries (entry_…), tasks (task_…), sessions (sess_…), \
                          messages (msg_…), traces (trace_…), events (evt_…), records (rec_…), \
                          milestones (milestone_…), memories (mem_…), verdicts (verdict_…), tenants, users and threads";

/// Something that is known about an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// What it tells: `thread`.
    pub name: String,
    /// The value.
    pub value: String,
}

impl Fact {
    pub(super) fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// When, in milliseconds since the epoch.
    pub at: i64,
    /// `event`, `checkpoint`, `step`, `effect`, `wait`, `answer` or `execution`.
    pub kind: &'static str,
    /// What.
    pub what: String,
    /// The step in which it happened, if it did in one.
    pub step: Option<String>,
    /// What to ask for to know more.
    pub id: Option<String>,
}

/// What an id is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The id.
    pub id: String,
    /// What kind of thing it names.
    pub kind: &'static str,
    /// Whose it is and what it consists of.
    pub facts: Vec<Fact>,
    /// What happened, the oldest first.
    pub story: Vec<Line>,
    /// What of the story was left out, the oldest.
    pub omitted: usize,
    /// From what was seen to what it rests on: event, steps, checkpoint, evidence. Empty for what belongs to no
    /// execution.
    pub chain: Vec<ChainLink>,
    /// Where it stands, where it resumes, what may run again and what may not.
    pub now: Vec<String>,
    /// What belongs to it as evidence.
    pub evidence: Vec<Fact>,
}

impl Explanation {
    pub(super) fn new(id: &str, kind: &'static str) -> Self {
        let (facts, story, now, evidence) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { id: id.to_owned(), kind, facts, story, omitted: 0, chain: Vec::new(), now, evidence }
    }

    pub(super) fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.facts.push(Fact::new(name, value));
    }

    pub(super) fn owner(&mut self, scope: &TaskScope, thread: &ThreadId) {
        self.fact("belongs to", format!("{}, {}", scope.scope.tenant, scope.scope.user));
        self.fact("asked in", format!("{}, {}, {}", scope.session, scope.task, scope.trace));
        self.fact("thread", thread.to_string());
    }

    fn keep(mut self, most: usize) -> Self {
        self.omitted = self.story.len().saturating_sub(most);
        self.story.drain(..self.omitted);
        self
    }
}

impl Operator {
    /// Explains an id of any kind, or a thread; of what happened, the newest `most` lines.
    ///
    /// # Errors
    /// [`OperateError::Unknown`], which says what was looked for; those of the store.
    pub async fn explain(&self, id: &str, most: usize) -> Result<Explanation, OperateError> {
        let unknown = |error: OperateError| {
            if matches!(error, OperateError::Unknown { .. }) { self.unknown(id, LOOKED_FOR) } else { error }
        };
        let explained = if let Ok(step) = id.parse::<StepId>() {
            self.explain_step(&step, most).await.map_err(unknown)?
        } else if let Ok(point) = id.parse::<Point>() {
            self.explain_point(&point, most).await.map_err(unknown)?
        } else if let Ok(wait) = id.parse::<WaitId>() {
            self.explain_wait(&wait).await.map_err(unknown)?
        } else if id.parse::<ExecutionId>().is_ok() {
            let view = self.execution(id).await.map_err(unknown)?;
            self.explain_execution(Explanation::new(id, "execution"), &view, most).await?
        } else if let Ok(trace) = id.parse::<TraceId>() {
            self.explain_trace(&trace, most).await.map_err(unknown)?
        } else if let Ok(entry) = id.parse::<EntryId>() {
            self.explain_entry(&entry).await?.ok_or_else(|| self.unknown(id, LOOKED_FOR))?
        } else if id == self.scope.tenant.as_str() || id == self.scope.user.as_str() {
            self.explain_owner(id).await?
        } else if let Some(kind) = rows::KINDS.iter().find(|kind| id.starts_with(kind.prefix)) {
            match self.explain_row(id, kind, most).await? {
                Some(explained) => explained,
                None => return Err(self.unknown(id, LOOKED_FOR)),
            }
        } else {
            self.explain_thread(id, most).await.map_err(unknown)?
        };
        Ok(explained.keep(most))
    }

    async fn explain_execution(
        &self,
        mut told: Explanation,
        view: &ExecutionView,
        most: usize,
    ) -> Result<Explanation, OperateError> {
        let execution = &view.execution;
        let fingerprint = execution.fingerprint.to_string();
        if told.kind != "execution" {
            told.fact("execution", execution.id.to_string());
        }
        told.owner(&execution.scope, &execution.thread);
        let shape: String = fingerprint.trim_start_matches("sha256:").chars().take(8).collect();
        told.fact("graph", format!("{} {} (shape {shape})", execution.graph, execution.graph_version));
        let answered = execution.status == longhaul_durable::Status::Waiting && view.waits.is_empty();
        let answered = if answered { ", and answered" } else { "" };
        told.fact("status", format!("{}{answered}", execution.status.as_str()));
        if let Some(entry) = self.entry_of(&execution.thread, Some(&execution.graph)).await?
            && entry.execution.as_ref() == Some(&execution.id)
        {
            told.fact("queue", format!("{}, {}", entry.id, standing(&entry)));
        }
        if let Some(error) = &execution.error {
            told.fact("error", error.clone());
        }
        told.fact("begun", format!("{} UTC", moment(execution.started_at.0)));
        let (changed, closed) = (execution.updated_at.0, execution.closed_at);
        told.fact(
            if closed.is_some() { "ended" } else { "changed" },
            format!("{} UTC", moment(closed.map_or(changed, |at| at.0))),
        );
        if let Some(from) = &execution.forked_from {
            told.fact("forked from", from.clone());
        }
        if let Some(parent) = &execution.parent_step {
            told.fact("begun by", parent.clone());
        }
        if let Some(holder) = &view.holder {
            told.fact("at work", holder.to_string());
        }
        let limit = u32::try_from(most).unwrap_or(u32::MAX).saturating_add(1);
        let moments = self.runtime.story(&self.scope, &execution.id, limit).await?;
        told.now = self.prospects(view, &moments).await?;
        told.chain = self.chain(view, &moments, Focus::default()).await?;
        told.story = self.told(&execution.id, &moments, limit).await?;
        told.evidence = self.evidence(execution.id.as_str()).await?;
        Ok(told)
    }

    async fn explain_thread(&self, id: &str, most: usize) -> Result<Explanation, OperateError> {
        let view = self.execution(id).await?;
        let filter = ExecutionFilter { thread: id.parse().ok(), limit: 100, ..ExecutionFilter::default() };
        let all = self.runtime.executions(&self.scope, filter).await?;
        let mut told = Explanation::new(id, "thread");
        for other in all.iter().filter(|other| other.execution.id != view.execution.id) {
            let Explanation { facts, .. } = &mut told;
            facts.push(Fact::new("before", format!("{}, {}", other.execution.id, other.execution.status.as_str())));
        }
        self.explain_execution(told, &view, most).await
    }

    async fn explain_step(&self, step: &StepId, most: usize) -> Result<Explanation, OperateError> {
        let view = self.execution(step.execution.as_str()).await?;
        let moments = self.runtime.story(&self.scope, &step.execution, u32::MAX).await?;
        let id = step.to_string();
        let mine: Vec<_> = moments.iter().filter(|moment| moment.what.step() == Some(step)).cloned().collect();
        let result = self.runtime.step_result(&self.scope, step).await?;
        let has_failed = chain::failed(&view).as_ref() == Some(step);
        if mine.is_empty() && result.is_none() && !has_failed {
            return Err(self.unknown(&id, LOOKED_FOR));
        }
        let mut told = Explanation::new(&id, "step");
        told.owner(&view.execution.scope, &view.execution.thread);
        told.fact("graph", format!("{} {}", view.execution.graph, view.execution.graph_version));
        let inside = if step.ns.is_empty() { String::new() } else { format!(" inside {}", step.ns) };
        told.fact("where", format!("step {} of {}, superstep {}{inside}", step.ordinal, step.node, step.superstep));
        let mut once = false;
        for moment in &mine {
            if let Happening::Step { effect, key, .. } = &moment.what {
                once = effect == "once";
                told.fact("effect", effect.clone());
                if let Some(key) = key {
                    told.fact("key", key.clone());
                }
            }
        }
        if let Some(result) = &result {
            told.fact("result", result.clone());
        }
        if let Some(error) = view.execution.error.as_ref().filter(|_| has_failed) {
            told.fact("error", error.clone());
        }
        told.story = self.told(&step.execution, &mine, u32::try_from(most).unwrap_or(u32::MAX)).await?;
        let within = step.within();
        told.story.retain(|line| line.kind != "event" || line.step.as_deref() == Some(&within));
        let pending = view.pending.iter().find(|effect| effect.step == *step);
        told.now.push(match (&result, pending) {
            (Some(_), _) if once => "happened, and does not happen again: its result is kept".to_owned(),
            (Some(_), _) => "recorded: when its node runs again, this result is returned and nothing is run".to_owned(),
            (None, Some(effect)) if effect.probe => "may have happened: its probe finds out when its node runs again".to_owned(),
            (None, Some(_)) => format!(
                "may have happened, and is not run again before somebody says so: longhaul retry '{id}' --happened JSON | --did-not-happen{}",
                self.flags
            ),
            (None, None) if mine.iter().any(|moment| matches!(moment.what, Happening::Asked { .. })) => {
                "a wait: `longhaul explain` of its wait_… says more".to_owned()
            }
            (None, None) if has_failed => "failed, and recorded nothing: it runs again when its node does".to_owned(),
            (None, None) => "not recorded: it runs when its node does".to_owned(),
        });
        told.chain = self.chain(&view, &moments, Focus { step: Some(step.clone()), ..Focus::default() }).await?;
        told.evidence = self.evidence(&id).await?;
        Ok(told)
    }

    /// The tenant or the user as whom the store is looked at; others are nobody's business.
    async fn explain_owner(&self, id: &str) -> Result<Explanation, OperateError> {
        let is_tenant = id == self.scope.tenant.as_str();
        let mut told = Explanation::new(id, if is_tenant { "tenant" } else { "user" });
        if !is_tenant {
            told.fact("of", self.scope.tenant.to_string());
        }
        let scope = self.scope.clone();
        let counted = self.store.read(move |read| rows::of_owner(read, &scope)).await;
        told.facts.extend(counted.map_err(|error: longhaul_store::StoreError| error)?);
        Ok(told)
    }

    /// The chain of the newest execution that is meant.
    async fn newest_chain(&self, filter: ExecutionFilter) -> Result<Vec<ChainLink>, OperateError> {
        let found = self.runtime.executions(&self.scope, ExecutionFilter { limit: 1, ..filter }).await?;
        let Some(view) = found.into_iter().next() else { return Ok(Vec::new()) };
        let moments = self.runtime.story(&self.scope, &view.execution.id, MOMENTS_MAX).await?;
        self.chain(&view, &moments, Focus::default()).await
    }

    /// The chain around a row that was written in an execution.
    async fn chain_around(&self, id: &str, kind: &'static rows::Kind) -> Result<Vec<ChainLink>, OperateError> {
        let (scope, wanted) = (self.scope.clone(), id.to_owned());
        let place = self.store.read(move |read| rows::place_of(read, &scope, kind, &wanted)).await?;
        let Some((execution, within)) = place else { return Ok(Vec::new()) };
        let view = match self.execution(execution.as_str()).await {
            Err(OperateError::Unknown { .. }) => return Ok(Vec::new()),
            found => found?,
        };
        let moments = self.runtime.story(&self.scope, &execution, MOMENTS_MAX).await?;
        let step = within.and_then(|within| format!("{execution}/{within}").parse::<StepId>().ok());
        let event = (kind.prefix == "evt_").then(|| id.to_owned());
        let focus = Focus { event, step, about: vec![id.to_owned()], ..Focus::default() };
        self.chain(&view, &moments, focus).await
    }

    async fn explain_wait(&self, id: &WaitId) -> Result<Explanation, OperateError> {
        let wait = match self.runtime.wait(&self.scope, id).await {
            Err(longhaul_durable::DurableError::NoWait { .. }) => return Err(self.unknown(id.as_str(), LOOKED_FOR)),
            found => found?,
        };
        let view = self.execution(wait.execution.as_str()).await?;
        let mut told = Explanation::new(id.as_str(), "wait");
        told.owner(&view.execution.scope, &view.execution.thread);
        told.fact("execution", wait.execution.to_string());
        describe(&mut told, &wait);
        let moments = self.runtime.story(&self.scope, &wait.execution, 1_000).await?;
        let about = |what: &Happening| match what {
            Happening::Asked { wait } => wait.id == *id,
            Happening::Attempt { wait, .. } => wait == id,
            Happening::Checkpoint { .. }
            | Happening::Step { .. }
            | Happening::Intent { .. }
            | Happening::Receipt { .. } => false,
        };
        let mine: Vec<_> = moments.iter().filter(|moment| about(&moment.what)).cloned().collect();
        told.story = self.told(&wait.execution, &mine, 1_000).await?;
        let within = wait.place.within();
        told.story.retain(|line| line.kind != "event" || line.step.as_deref() == Some(&within));
        told.now.push(if wait.status == longhaul_durable::WaitStatus::Waiting {
            format!("open: longhaul approve {id}{0} or longhaul reject {id}{0}", self.flags)
        } else if view.execution.status.is_finished() {
            format!("its execution is {}", view.execution.status.as_str())
        } else {
            format!("to go on: {}", self.how_to_go_on(&view).await?)
        });
        told.chain = self.chain(&view, &moments, chain::of_wait(&wait)).await?;
        told.evidence = self.evidence(id.as_str()).await?;
        Ok(told)
    }

    async fn explain_trace(&self, trace: &TraceId, most: usize) -> Result<Explanation, OperateError> {
        let limit = u32::try_from(most).unwrap_or(u32::MAX).saturating_add(1);
        let filter = ExecutionFilter { trace: Some(trace.clone()), limit: 100, ..ExecutionFilter::default() };
        let mut told = Explanation::new(trace.as_str(), "trace");
        self.add_executions(&mut told, filter.clone()).await?;
        self.add_events(&mut told, "trace_id", limit).await?;
        told.chain = self.newest_chain(filter).await?;
        if told.story.is_empty() {
            return Err(self.unknown(trace.as_str(), LOOKED_FOR));
        }
        Ok(told)
    }

    /// What is one row of a crate's table, with what happened around it.
    async fn explain_row(
        &self,
        id: &str,
        kind: &'static rows::Kind,
        most: usize,
    ) -> Result<Option<Explanation>, OperateError> {
        let limit = u32::try_from(most).unwrap_or(u32::MAX).saturating_add(1);
        let known = self.store.read(rows::components).await?;
        let mut told = Explanation::new(id, kind.name);
        told.fact("belongs to", format!("{}, {}", self.scope.tenant, self.scope.user));
        let (scope, wanted) = (self.scope.clone(), id.to_owned());
        let found = if known.iter().any(|known| known == kind.component) {
            self.store.read(move |read| rows::find(read, &scope, kind, &wanted)).await?
        } else {
            None
        };
        let exists = found.is_some();
        told.facts.extend(found.into_iter().flat_map(|found| found.facts));
        match kind.prefix {
            "task_" => {
                let filter = ExecutionFilter { task: id.parse().ok(), limit: 100, ..ExecutionFilter::default() };
                self.add_executions(&mut told, filter.clone()).await?;
                told.chain = self.newest_chain(filter).await?;
                self.add_events(&mut told, "task_id", limit).await?;
                let (scope, task) = (self.scope.clone(), id.to_owned());
                told.evidence = self.store.read(move |read| rows::belongings(read, &scope, &task, &known)).await?;
            }
            "sess_" => {
                let filter = ExecutionFilter { session: id.parse().ok(), limit: 100, ..ExecutionFilter::default() };
                self.add_executions(&mut told, filter.clone()).await?;
                told.chain = self.newest_chain(filter).await?;
                self.add_events(&mut told, "session_id", limit).await?;
                let (scope, session) = (self.scope.clone(), id.to_owned());
                told.facts.extend(self.store.read(move |read| rows::tasks_of(read, &scope, &session)).await?);
            }
            _ => {
                told.evidence = self.evidence(id).await?;
                if exists {
                    told.chain = self.chain_around(id, kind).await?;
                }
            }
        }
        // A program of one purpose has executions and events of a task without a row for it.
        Ok((exists || !told.story.is_empty()).then_some(told))
    }

    async fn add_executions(&self, told: &mut Explanation, filter: ExecutionFilter) -> Result<(), OperateError> {
        for view in self.runtime.executions(&self.scope, filter).await? {
            let execution = &view.execution;
            let what = format!("{} of {} begins, now {}", execution.graph, execution.thread, execution.status.as_str());
            let (at, id) = (execution.started_at.0, Some(execution.id.to_string()));
            told.story.push(Line { at, kind: "execution", what, step: None, id });
            if !execution.status.is_finished() {
                told.now.push(format!(
                    "{} is {}: longhaul explain {0}{}",
                    execution.id,
                    execution.status.as_str(),
                    self.flags
                ));
            }
        }
        Ok(())
    }

    async fn add_events(&self, told: &mut Explanation, column: &'static str, limit: u32) -> Result<(), OperateError> {
        let (scope, id) = (self.scope.clone(), told.id.clone());
        let events = self.store.read(move |read| rows::events(read, &scope, column, &id, limit)).await?;
        told.story.extend(events);
        told.story.sort_by_key(|line| line.at);
        Ok(())
    }

    pub(crate) async fn evidence(&self, id: &str) -> Result<Vec<Fact>, OperateError> {
        let (scope, id) = (self.scope.clone(), id.to_owned());
        let read = self.store.read(move |read| {
            if rows::components(read)?.iter().any(|known| known == "workspace") {
                rows::links(read, &scope, &id)
            } else {
                Ok(Vec::new())
            }
        });
        read.await.map_err(|error: longhaul_store::StoreError| error.into())
    }
}

fn describe(told: &mut Explanation, wait: &WaitInfo) {
    told.fact("where", wait.place.within());
    told.fact("asks", format!("{} {:?}", wait.kind.as_str(), wait.name));
    if !wait.payload.is_null() {
        told.fact("shows", wait.payload.to_string());
    }
    if let Some(schema) = &wait.schema {
        told.fact("wants", schema.to_string());
    }
    told.fact("since", format!("{} UTC", moment(wait.created_at.0)));
    if let Some(at) = wait.deadline_at {
        told.fact("until", format!("{} UTC", moment(at.0)));
    }
    told.fact("status", wait.status.as_str());
    if let Some(value) = &wait.value {
        told.fact("answer", value.to_string());
    }
    if let (Some(actor), Some(at)) = (&wait.actor, wait.answered_at) {
        told.fact("answered", format!("by {actor} at {} UTC", moment(at.0)));
    }
    if let Some(request) = &wait.request_id {
        told.fact("request", request.clone());
    }
}

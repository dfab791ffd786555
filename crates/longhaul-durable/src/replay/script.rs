//! What stands in for the outside world while a case is replayed.
//!
//! It owns what a node is given at each place and where a run ends because the recording does. Invariant: it only looks
//! results up; whatever is not in the case ends the node that asks for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use longhaul_core::{Clock, ExecutionId, TimeMs};
use serde_json::Value;

use super::{
    case::{Case, CaseExecution, CaseStep},
    place,
};
use crate::{
    NodeError, Status, StepId, WaitKind,
    open::{Earlier, Recorded},
    records::{Place, steps::RecordedStep},
};

/// The results of a case, ready to be looked up.
#[derive(Debug)]
pub(crate) struct Script {
    members: BTreeMap<ExecutionId, Member>,
    root: ExecutionId,
    clock: Arc<RecordedClock>,
    notes: Mutex<Notes>,
}

/// What the replay has noticed.
#[derive(Debug, Default, Clone)]
pub(super) struct Notes {
    /// Steps and waits that the case does not have, where it should.
    pub(super) unrecorded: Vec<StepId>,
    /// The recording ended inside a run of a node.
    pub(super) ended: bool,
    /// The step that failed when it was recorded was asked for again.
    pub(super) failed: bool,
    /// A frame wanted to go on behind what the case has.
    pub(super) stopped: Option<(ExecutionId, String, u64)>,
    /// Results that were given.
    pub(super) stubbed: BTreeSet<StepId>,
    /// Edits that have been made again.
    edits_made: BTreeSet<u64>,
}

/// One execution of the case.
#[derive(Debug, Default)]
struct Member {
    /// By namespace, superstep and task, then by the step's number.
    steps: BTreeMap<(String, u64, u32), BTreeMap<u32, Stub>>,
    children: BTreeSet<StepId>,
    waits: BTreeMap<(String, u64, u32, u32), (WaitKind, String)>,
    updates: BTreeMap<(String, u64), Value>,
    /// The last closed superstep of each frame.
    last: BTreeMap<String, u64>,
    /// The last superstep of the outermost graph that may be run.
    run_max: u64,
    /// Whether it was unfinished: behind its last superstep not everything need be in the case.
    unfinished: bool,
    error: Option<String>,
    edits: BTreeSet<u64>,
}

#[derive(Debug, Clone)]
struct Stub {
    name: String,
    result: String,
}

/// A failure as it was recorded.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct RecordedFailure(String);

/// The clock of the recording: it stands where the recording was last looked at.
#[derive(Debug)]
pub(super) struct RecordedClock(AtomicI64);

impl RecordedClock {
    pub(super) fn set(&self, at: TimeMs) {
        self.0.store(at.0, Ordering::SeqCst);
    }
}

impl Clock for RecordedClock {
    fn now(&self) -> TimeMs {
        TimeMs(self.0.load(Ordering::SeqCst))
    }
}

impl Script {
    pub(super) fn new(case: &Case) -> Self {
        let clock = Arc::new(RecordedClock(AtomicI64::new(case.root().started_at.0)));
        let members = case.executions.iter().map(|execution| (execution.id.clone(), Member::new(case, execution)));
        Self { members: members.collect(), root: case.root().id.clone(), clock, notes: Mutex::default() }
    }

    /// The id that the execution of this replay has, if it is not a child.
    pub(crate) fn root(&self) -> &ExecutionId {
        &self.root
    }

    pub(super) fn clock(&self) -> Arc<RecordedClock> {
        self.clock.clone()
    }

    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a frame must not begin this superstep: the recording has nothing of it, or an edit of it.
    pub(crate) fn stops_before(&self, execution: &ExecutionId, ns: &str, superstep: u64) -> bool {
        let stops = self.members.get(execution).is_none_or(|member| {
            if ns.is_empty() {
                let edit = member.edits.contains(&superstep) && !self.notes().edits_made.contains(&superstep);
                return edit || superstep > member.run_max;
            }
            let open = member.is_open(place::outermost(ns, superstep));
            let last = member.last.get(ns).copied().unwrap_or(0);
            superstep > if open { last + 1 } else { last }
        });
        if stops {
            self.notes().stopped = Some((execution.clone(), ns.to_owned(), superstep));
        }
        stops
    }

    /// The edit at which the outermost graph stopped, if it was one.
    pub(super) fn edit_due(&self) -> Option<u64> {
        let mut notes = self.notes();
        let (execution, ns, superstep) = notes.stopped.clone()?;
        let member = self.members.get(&execution)?;
        let due = ns.is_empty() && execution == self.root && member.edits.contains(&superstep);
        if due && notes.edits_made.insert(superstep) {
            notes.stopped = None;
            return Some(superstep);
        }
        None
    }

    /// Adds what the steps of a run of a node were given to what the node finds.
    pub(crate) fn fill(&self, execution: &ExecutionId, place: &Place, earlier: &mut Earlier) {
        let Some(member) = self.members.get(execution) else { return };
        let Some(steps) = member.steps.get(&(place.ns.to_string(), place.superstep, place.task)) else { return };
        for (ordinal, Stub { name, result }) in steps {
            let recorded = RecordedStep { name: name.clone(), result: result.clone() };
            earlier.recorded.entry(*ordinal).or_insert(Recorded::Step(recorded));
        }
    }

    /// Notes that a step was given its result.
    pub(crate) fn given(&self, step: &StepId) {
        self.notes().stubbed.insert(step.clone());
    }

    /// Why a step that the case does not have cannot be run.
    pub(crate) fn missing(&self, step: &StepId) -> NodeError {
        let Some(member) = self.members.get(&step.execution) else { return self.unrecorded(step) };
        let key = (step.ns.clone(), step.superstep, step.task, step.ordinal);
        if let Some((_, name)) = member.waits.get(&key) {
            return NodeError::Replay {
                node: step.node.clone(),
                superstep: step.superstep,
                ordinal: step.ordinal,
                recorded: format!("wait: {name}"),
                asked: step.name.clone(),
            };
        }
        let failed = format!("step {step} failed");
        if let Some((_, cause)) = member.error.as_deref().and_then(|error| error.split_once(&failed)) {
            self.notes().failed = true;
            let cause = cause.strip_prefix(": ").unwrap_or(cause).to_owned();
            return NodeError::Step { step: Box::new(step.clone()), source: Arc::new(RecordedFailure(cause)) };
        }
        if member.is_open(place::outermost(&step.ns, step.superstep)) {
            self.notes().ended = true;
            return NodeError::RecordingEnds { step: Box::new(step.clone()) };
        }
        self.unrecorded(step)
    }

    fn unrecorded(&self, step: &StepId) -> NodeError {
        self.notes().unrecorded.push(step.clone());
        NodeError::Unrecorded { step: Box::new(step.clone()) }
    }

    /// Whether the case has a child at this step.
    pub(crate) fn has_child(&self, step: &StepId, child: &ExecutionId) -> bool {
        let member = self.members.get(&step.execution);
        self.members.contains_key(child) || member.is_some_and(|member| member.children.contains(step))
    }

    /// Whether the case has this wait.
    ///
    /// # Errors
    /// Why it cannot be waited for.
    pub(crate) fn check_wait(&self, step: &StepId, kind: WaitKind) -> Result<(), NodeError> {
        let key = (step.ns.clone(), step.superstep, step.task, step.ordinal);
        let found = self.members.get(&step.execution).and_then(|member| member.waits.get(&key));
        match found {
            Some((recorded, name)) if *recorded == kind && *name == step.name => Ok(()),
            Some(_) | None => Err(self.missing(step)),
        }
    }

    /// The updates of a run of a node of which nothing else was recorded: one that was answered from the cache.
    pub(crate) fn cached(&self, execution: &ExecutionId, place: &Place) -> Option<String> {
        let member = self.members.get(execution)?;
        let ns = place.ns.to_string();
        if member.steps.contains_key(&(ns.clone(), place.superstep, place.task)) {
            return None;
        }
        let updates = member.updates.get(&(ns, place.superstep))?;
        updates.get(place.task as usize).map(Value::to_string)
    }
}

impl Member {
    /// Whether a superstep of the outermost graph was not closed, so that not all of it need be in the case.
    fn is_open(&self, superstep: u64) -> bool {
        self.unfinished && superstep > self.last.get("").copied().unwrap_or(0)
    }

    fn new(case: &Case, execution: &CaseExecution) -> Self {
        let mut member = Self {
            unfinished: !execution.end.is(Status::Completed),
            error: execution.end.error.clone(),
            ..Self::default()
        };
        for row in &execution.checkpoints {
            let last = member.last.entry(row.ns.clone()).or_default();
            *last = (*last).max(row.superstep);
            member.updates.insert((row.ns.clone(), row.superstep), row.updates.clone());
            if row.edited && row.ns.is_empty() {
                member.edits.insert(row.superstep);
            }
        }
        let mut recorded = 0;
        for CaseStep { step, effect, result } in &execution.steps {
            recorded = recorded.max(place::outermost(&step.ns, step.superstep));
            if effect == "child" {
                member.children.insert(step.clone());
                continue;
            }
            let stub = Stub { name: step.name.clone(), result: result.get().to_owned() };
            let key = (step.ns.clone(), step.superstep, step.task);
            member.steps.entry(key).or_default().insert(step.ordinal, stub);
        }
        for wait in &execution.waits {
            let place = &wait.place;
            recorded = recorded.max(place::outermost(&place.ns, place.superstep));
            let key = (place.ns.clone(), place.superstep, place.task, place.ordinal);
            member.waits.insert(key, (wait.kind, place.name.clone()));
        }
        for child in case.executions.iter().filter_map(|child| child.parent_step.as_ref()) {
            if child.execution == execution.id {
                recorded = recorded.max(place::outermost(&child.ns, child.superstep));
            }
        }
        for ns in member.last.keys().filter(|ns| !ns.is_empty()) {
            recorded = recorded.max(place::outermost(ns, 0));
        }
        let last = execution.last_superstep();
        // A run that failed is to fail again; one that was cut short goes as far as something is known of it.
        member.run_max = match recorded > last || execution.end.is(Status::Failed) {
            true => last + 1,
            false => last,
        };
        member
    }
}

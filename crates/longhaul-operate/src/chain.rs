//! One ordered chain from what was seen to what it rests on: event → step → checkpoint → evidence.
//!
//! It owns which rows stand in it for whatever was asked about. Invariant: each id in it is explained by
//! [`crate::Operator::explain`] or shown by [`crate::Operator::show`].

use std::collections::BTreeSet;

use longhaul_core::{ExecutionId, Scope, TimeMs};
use longhaul_durable::{ExecutionView, Happening, Moment, Point, Recorded, Status, StepId, WaitInfo, recorded_values};
use longhaul_store::{ReadTx, StoreError};
use serde::Serialize;

use crate::{OperateError, Operator, refs, rows};

/// Steps that a chain shows at most: the last ones.
const STEPS_MAX: usize = 5;

/// Pieces of evidence that a chain shows at most.
const EVIDENCE_MAX: usize = 50;

/// One link of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainLink {
    /// `event`, `step`, `checkpoint` or `evidence`, in this order.
    pub kind: &'static str,
    /// What to ask for to know more; nothing where nothing was recorded, which `what` then says.
    pub id: Option<String>,
    /// When, in milliseconds since the epoch.
    pub at: Option<i64>,
    /// What it is.
    pub what: String,
}

/// The place in an execution from which a chain is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Focus {
    /// This event, rather than the newest that fits.
    pub(crate) event: Option<String>,
    /// This step.
    pub(crate) step: Option<StepId>,
    /// This wait.
    pub(crate) wait: Option<String>,
    /// This checkpoint.
    pub(crate) point: Option<Point>,
    /// More ids whose links are evidence.
    pub(crate) about: Vec<String>,
}

/// Everything that a chain is made of, read in one go.
struct Found {
    event: Option<rows::Told>,
    refs: Vec<(String, refs::Mentioned)>,
    linked: Vec<rows::LinkRow>,
    own: Vec<rows::RecordRow>,
}

impl Operator {
    /// The chain of an execution, seen from a place in it.
    pub(crate) async fn chain(
        &self,
        view: &ExecutionView,
        moments: &[Moment],
        focus: Focus,
    ) -> Result<Vec<ChainLink>, OperateError> {
        let execution = &view.execution;
        let steps = steps(view, moments, &focus);
        let point = point(view, &focus);
        let mut about: Vec<String> = focus.about.clone();
        about.extend(focus.event.iter().chain(&focus.wait).cloned());
        about.extend(steps.iter().map(|(step, _)| step.to_string()));
        about.push(point.to_string());
        about.push(execution.id.to_string());
        let whole = focus.step.is_none() && focus.wait.is_none() && focus.point.is_none() && focus.event.is_none();
        // The state is what all checkpoints up to that one have added.
        let until = if whole { u64::MAX } else { outer(&point.ns, point.superstep) };
        let wanted = wanted(view, &focus);
        let (scope, id) = (self.scope.clone(), execution.id.clone());
        let found = self.store.read(move |read| gather(read, &scope, &id, &wanted, &about, until)).await?;
        let mut chain = Vec::new();
        if let Some(event) = &found.event {
            chain.push(ChainLink {
                kind: "event",
                id: Some(event.id.clone()),
                at: Some(event.at),
                what: event.what.clone(),
            });
        }
        for (step, what) in &steps {
            let at = moments.iter().rev().find(|moment| moment.what.step() == Some(step)).map(|moment| moment.at.0);
            chain.push(ChainLink { kind: "step", id: Some(step.to_string()), at, what: what.clone() });
        }
        if steps.is_empty() {
            let what = format!("{} recorded no step", nodes(view));
            chain.push(ChainLink { kind: "step", id: None, at: None, what });
        }
        chain.push(checkpoint(view, moments, &point));
        chain.extend(evidence(found));
        Ok(chain)
    }
}

fn nodes(view: &ExecutionView) -> String {
    if view.next.is_empty() { "its last superstep".to_owned() } else { view.next.join(", ") }
}

/// The steps from which it was seen: what was asked for, else those of the open superstep, else the last ones.
fn steps(view: &ExecutionView, moments: &[Moment], focus: &Focus) -> Vec<(StepId, String)> {
    if let Some(step) = &focus.step {
        let has_failed = failed(view).as_ref() == Some(step);
        return vec![(step.clone(), if has_failed { nothing_of(step) } else { said(moments, step) })];
    }
    let all = moments.iter().filter_map(|moment| moment.what.step());
    let of = |superstep: u64| -> Vec<StepId> {
        let within = format!("{superstep}.");
        let mut seen = BTreeSet::new();
        let fits = |step: &&StepId| (step.ns.is_empty() && step.superstep == superstep) || step.ns.starts_with(&within);
        all.clone().filter(fits).filter(|step| seen.insert((*step).clone())).cloned().collect()
    };
    let found = match &focus.point {
        Some(point) if point.ns.is_empty() => of(point.superstep),
        Some(point) => {
            all.clone().filter(|step| step.ns == point.ns && step.superstep == point.superstep).cloned().collect()
        }
        None => {
            let open = of(view.superstep + 1);
            if open.is_empty() && (view.execution.status.is_finished() || focus.event.is_some()) {
                of(view.superstep)
            } else {
                open
            }
        }
    };
    let skipped = found.len().saturating_sub(STEPS_MAX);
    let mut steps: Vec<_> = found.into_iter().skip(skipped).map(|step| (step.clone(), said(moments, &step))).collect();
    // The one that failed recorded nothing: the error names it.
    let is_now = focus.point.as_ref().is_none_or(|point| point.superstep > view.superstep);
    if let Some(failed) = failed(view).filter(|_| is_now)
        && !steps.iter().any(|(step, _)| *step == failed)
    {
        let what = nothing_of(&failed);
        steps.push((failed, what));
    }
    steps
}

fn nothing_of(failed: &StepId) -> String {
    format!("{}: failed, and recorded nothing", failed.within())
}

/// The step that the error of a failed execution names.
pub(crate) fn failed(view: &ExecutionView) -> Option<StepId> {
    let error = view.execution.error.as_ref().filter(|_| view.execution.status == Status::Failed)?;
    let prefix = format!("{}/", view.execution.id);
    let from = &error[error.find(&prefix)?..];
    // The name may have any characters, so that it ends with the first number of which an id can be made.
    let numbers = from.match_indices('#').map(|(at, _)| {
        let digits = from[at + 1..].find(|char: char| !char.is_ascii_digit());
        digits.map_or(from.len(), |digits| at + 1 + digits)
    });
    numbers.take(8).find_map(|end| from[..end].parse().ok())
}

/// What became of a step, in words.
fn said(moments: &[Moment], step: &StepId) -> String {
    let (mut begun, mut done, mut asked) = (false, None, None);
    for moment in moments.iter().filter(|moment| moment.what.step() == Some(step)) {
        match &moment.what {
            Happening::Intent { .. } => begun = true,
            Happening::Step { effect, .. } => done = Some(effect.clone()),
            Happening::Asked { wait } => asked = Some(wait.status.as_str()),
            Happening::Checkpoint { .. } | Happening::Receipt { .. } | Happening::Attempt { .. } => {}
        }
    }
    match (done, asked, begun) {
        (Some(effect), _, _) => format!("{} ({effect}): recorded", step.within()),
        (None, Some(status), _) => format!("{}: a wait, {status}", step.within()),
        (None, None, true) => format!("{}: begun, and its outcome is not known", step.within()),
        (None, None, false) => format!("{}: not recorded", step.within()),
    }
}

/// The superstep of the outermost frame in which a superstep of this frame lies.
fn outer(ns: &str, superstep: u64) -> u64 {
    ns.split_once('.').and_then(|(first, _)| first.parse().ok()).unwrap_or(superstep)
}

/// The checkpoint on which it rests.
fn point(view: &ExecutionView, focus: &Focus) -> Point {
    let id = &view.execution.id;
    if let Some(point) = &focus.point {
        return point.clone();
    }
    match &focus.step {
        Some(step) if outer(&step.ns, step.superstep) <= view.superstep => {
            Point::new(id, outer(&step.ns, step.superstep))
        }
        Some(_) | None => Point::new(id, view.superstep),
    }
}

fn checkpoint(view: &ExecutionView, moments: &[Moment], point: &Point) -> ChainLink {
    let closed = moments.iter().find_map(|moment| match &moment.what {
        Happening::Checkpoint { ns, superstep, nodes } if *ns == point.ns && *superstep == point.superstep => {
            Some((moment.at, nodes.clone()))
        }
        Happening::Checkpoint { .. }
        | Happening::Step { .. }
        | Happening::Intent { .. }
        | Happening::Receipt { .. }
        | Happening::Asked { .. }
        | Happening::Attempt { .. } => None,
    });
    let after = match &closed {
        _ if point.superstep == 0 => "the initial state".to_owned(),
        Some((_, nodes)) => format!("the state after {nodes}"),
        None => format!("the state after superstep {}", point.superstep),
    };
    let resumes = point.ns.is_empty() && point.superstep == view.superstep && !view.execution.status.is_finished();
    let what = if resumes { format!("{after}, from which it resumes with {}", nodes(view)) } else { after };
    ChainLink { kind: "checkpoint", id: Some(point.to_string()), at: closed.map(|(at, _): (TimeMs, _)| at.0), what }
}

/// Which event is looked for.
enum Wanted {
    This(String),
    OfStep(String),
    OfWait(String),
    Kinds(&'static [&'static str]),
}

fn wanted(view: &ExecutionView, focus: &Focus) -> Wanted {
    if let Some(event) = &focus.event {
        return Wanted::This(event.clone());
    }
    if let Some(wait) = &focus.wait {
        return Wanted::OfWait(wait.clone());
    }
    if let Some(step) = &focus.step {
        return Wanted::OfStep(step.within());
    }
    Wanted::Kinds(match view.execution.status {
        Status::Failed => &["execution.failed"],
        Status::Waiting => &["wait.opened", "execution.waiting"],
        Status::Completed => &["execution.completed"],
        Status::Cancelled => &["execution.cancelled"],
        Status::Abandoned => &["execution.abandoned"],
        Status::Stopped => &["execution.stopped"],
        Status::Running => &["execution.resumed", "execution.started"],
    })
}

fn gather(
    read: &ReadTx<'_>,
    scope: &Scope,
    execution: &ExecutionId,
    wanted: &Wanted,
    about: &[String],
    until: u64,
) -> Result<Found, StoreError> {
    let of = |condition: &str, value: &str| rows::newest_event(read, scope, execution.as_str(), condition, value);
    let found = match wanted {
        Wanted::This(event) => of("event_id = ?4", event)?,
        Wanted::OfWait(wait) => of("kind LIKE 'wait.%' AND data LIKE ?4", &format!("%{wait}%"))?,
        Wanted::OfStep(step) => of("step = ?4", step)?,
        Wanted::Kinds(kinds) => {
            let mut found = None;
            for kind in *kinds {
                found = match found {
                    None => of("kind = ?4", kind)?,
                    some => some,
                };
            }
            found
        }
    };
    let event = match found {
        Some(event) => Some(event),
        None => of("kind LIKE ?4", "%")?,
    };
    let mut mentioned = Vec::new();
    recorded_values(read, Some((&scope.tenant, execution)), refs::MARK, |recorded: Recorded| {
        let point = recorded.id.parse::<Point>().ok();
        let is_before = until == u64::MAX || point.is_some_and(|point| outer(&point.ns, point.superstep) <= until);
        if is_before || about.contains(&recorded.id) {
            mentioned.extend(refs::in_value(&recorded.value).into_iter().map(|found| (recorded.id.clone(), found)));
        }
        Ok(())
    })?;
    let mut linked = Vec::new();
    let mut ids: Vec<String> = about.to_vec();
    ids.extend(event.iter().map(|event| event.id.clone()));
    ids.extend(mentioned.iter().map(|(_, found)| found.id.clone()));
    let known = rows::components(read)?;
    let (mut own, workspace) = (Vec::new(), known.iter().any(|known| known == "workspace"));
    if workspace {
        let mut seen = BTreeSet::new();
        for id in ids.iter().filter(|id| seen.insert((*id).clone())).take(EVIDENCE_MAX * 2) {
            linked.extend(rows::links_of(read, scope, id)?);
        }
        if until == u64::MAX {
            own = rows::records_of_execution(read, scope, execution.as_str(), EVIDENCE_MAX)?;
        }
    }
    Ok(Found { event, refs: mentioned, linked, own })
}

/// Each piece of evidence once, with all that makes it one: what values refer to, what is linked, what the execution
/// recorded.
fn evidence(found: Found) -> Vec<ChainLink> {
    let mut links: Vec<ChainLink> = Vec::new();
    let mut add = |id: String, at: Option<i64>, what: String| {
        if let Some(known) = links.iter_mut().find(|link| link.id.as_ref() == Some(&id)) {
            known.at = known.at.or(at);
            if !known.what.contains(&what) {
                known.what.push_str("; ");
                known.what.push_str(&what);
            }
        } else if links.len() < EVIDENCE_MAX {
            links.push(ChainLink { kind: "evidence", id: Some(id), at, what });
        }
    };
    for record in found.own {
        add(record.id, Some(record.at), format!("{} ({})", record.summary, record.kind));
    }
    for (place, mentioned) in found.refs {
        add(mentioned.id, None, format!("{place} refers to it at {}", mentioned.path));
    }
    for link in found.linked {
        let note = link.note.as_ref().map_or_else(String::new, |note| format!(" ({note})"));
        let what = format!("{} {} {}{note}", link.source, link.relation, link.target);
        let other = if link.asked == link.source { link.target } else { link.source };
        add(other, Some(link.at), what);
    }
    links
}

/// The step that a wait is.
pub(crate) fn of_wait(wait: &WaitInfo) -> Focus {
    Focus { wait: Some(wait.id.to_string()), step: Some(wait.place.clone()), ..Focus::default() }
}

//! Places in a case: how they are named, and which comes first.
//!
//! Runs of nodes that stand side by side have no order among them; what one of them does has.

use super::case::{Case, CaseCheckpoint, CaseExecution};
use crate::StepId;

/// Where something is, so that what must come first is smaller: superstep and task of each level, outermost first. The
/// closing of a superstep comes after all its tasks.
pub(super) type Key = Vec<(u64, u64)>;

const CLOSING: u64 = u64::MAX;

/// The levels of a namespace: `7.0.review>` is task 0 of superstep 7.
fn levels(ns: &str) -> Key {
    let level = |level: &str| {
        let (superstep, rest) = level.split_once('.')?;
        let (task, _) = rest.split_once('.')?;
        Some((superstep.parse().ok()?, task.parse().ok()?))
    };
    ns.split_inclusive('>').filter_map(level).collect()
}

/// The superstep of the outermost graph in which something at this namespace and superstep is.
pub(super) fn outermost(ns: &str, superstep: u64) -> u64 {
    levels(ns).first().map_or(superstep, |(first, _)| *first)
}

/// The place of a task.
pub(super) fn of_task(case: &Case, execution: &CaseExecution, ns: &str, superstep: u64, task: u32) -> Key {
    let mut key = before(case, execution);
    key.extend(levels(ns));
    key.push((superstep, u64::from(task)));
    key
}

/// The place of a step.
pub(super) fn of_step(case: &Case, step: &StepId) -> Key {
    match case.executions.iter().find(|execution| execution.id == step.execution) {
        Some(execution) => of_task(case, execution, &step.ns, step.superstep, step.task),
        None => vec![(step.superstep, u64::from(step.task))],
    }
}

/// The place where a superstep is closed.
pub(super) fn of_closing(case: &Case, execution: &CaseExecution, ns: &str, superstep: u64) -> Key {
    let mut key = before(case, execution);
    key.extend(levels(ns));
    key.push((superstep, CLOSING));
    key
}

/// Behind everything.
pub(super) fn end() -> Key {
    vec![(CLOSING, CLOSING)]
}

/// The place of the step that began an execution.
fn before(case: &Case, execution: &CaseExecution) -> Key {
    let Some(step) = &execution.parent_step else { return Key::new() };
    // Of a child that was recorded by itself the parent is not in the case.
    match case.executions.iter().find(|parent| parent.id == step.execution && parent.id != execution.id) {
        Some(parent) => of_task(case, parent, &step.ns, step.superstep, step.task),
        None => Key::new(),
    }
}

/// What an event's `at` names: a step, or a node's run as `node/superstep.task`.
pub(super) fn of_event(case: &Case, execution: &CaseExecution, at: Option<&str>) -> Option<Key> {
    let at = at?;
    if let Ok(step) = format!("{}/{at}", execution.id).parse::<StepId>() {
        return Some(of_step(case, &step));
    }
    let (path, number) = at.rsplit_once('/')?;
    let (superstep, task) = number.split_once('.')?;
    let ns = path.rfind('>').map_or("", |end| &path[..=end]);
    Some(of_task(case, execution, ns, superstep.parse().ok()?, task.parse().ok()?))
}

/// A checkpoint in words: `exec_1, superstep 3 (draft)`.
pub(super) fn of_row(execution: &CaseExecution, row: &CaseCheckpoint) -> String {
    let inside = if row.ns.is_empty() { String::new() } else { format!(" inside {}", row.ns) };
    let nodes = match row.superstep {
        0 => "its beginning".to_owned(),
        _ => format!("nodes {}", row.nodes),
    };
    format!("{}{inside}, superstep {} ({nodes})", execution.id, row.superstep)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_read_by_level() {
        assert_eq!(levels("7.0.review>12.3.look>"), [(7, 0), (12, 3)]);
        assert_eq!(levels(""), []);
        assert_eq!(outermost("7.0.review>12.3.look>", 4), 7);
        assert_eq!(outermost("", 4), 4);
    }
}

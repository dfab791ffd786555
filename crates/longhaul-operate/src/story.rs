//! What happened in an execution, in the order in which it happened: events, checkpoints, steps, acts, answers.

use longhaul_core::ExecutionId;
use longhaul_durable::{Happening, Moment, Point, WaitStatus};

use crate::{OperateError, Operator, explaining::Line, rows};

impl Operator {
    /// The moments of an execution, and the lines of its events, one after the other.
    pub(super) async fn told(
        &self,
        execution: &ExecutionId,
        moments: &[Moment],
        limit: u32,
    ) -> Result<Vec<Line>, OperateError> {
        let (scope, id) = (self.scope.clone(), execution.to_string());
        let mut lines = self.store.read(move |read| rows::events(read, &scope, "execution_id", &id, limit)).await?;
        // What has a line of its own below.
        lines.retain(|line| !["wait.opened", "wait.answered"].iter().any(|kind| line.what.starts_with(kind)));
        lines.extend(moments.iter().map(|moment| line(execution, moment)));
        // Stable. Of the same moment: a run begins, then does its work, then says how that ended.
        let begins =
            |line: &Line| ["execution.started", "execution.resumed"].iter().any(|kind| line.what.starts_with(kind));
        lines.sort_by_key(|line| match line.kind {
            "event" if begins(line) => (line.at, 0),
            "event" => (line.at, 2),
            _ => (line.at, 1),
        });
        Ok(lines)
    }
}

fn line(execution: &ExecutionId, moment: &Moment) -> Line {
    let (kind, what, id) = match &moment.what {
        Happening::Checkpoint { ns, superstep: 0, .. } if ns.is_empty() => {
            ("checkpoint", "0: the initial state".to_owned(), Some(Point::new(execution, 0).to_string()))
        }
        Happening::Checkpoint { ns, superstep, nodes } => {
            let point = Point { execution: execution.clone(), ns: ns.clone(), superstep: *superstep };
            ("checkpoint", format!("{ns}{superstep}: {nodes}"), Some(point.to_string()))
        }
        Happening::Step { step, effect, key } => {
            let key = key.as_ref().map_or_else(String::new, |key| format!(", key {key}"));
            ("step", format!("{} ({effect}{key})", step.within()), Some(step.to_string()))
        }
        Happening::Intent { step } => {
            ("effect", format!("{} is about to happen", step.within()), Some(step.to_string()))
        }
        Happening::Receipt { step } => ("effect", format!("{} has happened", step.within()), Some(step.to_string())),
        Happening::Asked { wait } => {
            let now = match wait.status {
                WaitStatus::Waiting => "still open",
                WaitStatus::Answered => "answered since",
                WaitStatus::Expired => "expired since",
                WaitStatus::Cancelled => "cancelled since",
            };
            ("wait", format!("{} {:?}, {now}", wait.kind.as_str(), wait.name), Some(wait.id.to_string()))
        }
        Happening::Attempt { wait, actor, outcome, .. } => {
            ("answer", format!("of {actor}: {outcome}"), Some(wait.to_string()))
        }
    };
    Line { at: moment.at.0, kind, what, step: None, id }
}

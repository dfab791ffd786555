//! What an execution does next, in words: where it goes on, what is run again and what is not, what to type.

use longhaul_durable::{EntryStatus, ExecutionView, Happening, Moment, Status};
use longhaul_store::tasks;

use crate::{OperateError, Operator, operator::quoted};

impl Operator {
    /// Who goes on with it, and what a person can type for that.
    pub(super) async fn how_to_go_on(&self, view: &ExecutionView) -> Result<String, OperateError> {
        if let Some(holder) = &view.holder {
            return Ok(format!("{holder} is at work on it and goes on"));
        }
        let (thread, graph) = (&view.execution.thread, &view.execution.graph);
        if let Some(entry) = self.entry_of(thread, Some(graph)).await? {
            return Ok(match entry.status {
                EntryStatus::Parked => format!("longhaul retry {thread}{} puts it back into the queue", self.flags),
                EntryStatus::Queued | EntryStatus::Waiting | EntryStatus::Claimed | EntryStatus::Done => {
                    format!("a worker that serves the graph {graph:?} goes on with it")
                }
            });
        }
        let (scope, task) = (self.scope.clone(), view.execution.scope.task.clone());
        let task = self.store.read(move |read| tasks::get(read, &scope, &task)).await?;
        Ok(match task.filter(|task| task.kind == "harness").and_then(|task| task.dir) {
            Some(dir) => format!("longhaul run --dir {}", quoted(&dir)),
            None => format!("run the program of the graph {graph:?} again"),
        })
    }

    /// Where it stands, where it resumes, what may run again and what may not.
    pub(super) async fn prospects(&self, view: &ExecutionView, story: &[Moment]) -> Result<Vec<String>, OperateError> {
        let ExecutionView { execution, superstep, next, waits, pending, holder } = view;
        let mut lines = Vec::new();
        match execution.status {
            Status::Completed | Status::Cancelled | Status::Abandoned => {
                lines.push(format!("{}: nothing of it runs again", execution.status.as_str()));
                return Ok(lines);
            }
            Status::Running if holder.is_none() => {
                lines.push("its process ended without a word; nothing recorded is lost".to_owned());
            }
            Status::Running | Status::Stopped | Status::Waiting | Status::Failed => {}
        }
        if let Some(request) = &execution.cancel {
            lines.push(format!("{} asked for its end: {}", request.by, request.reason));
        }
        let open = superstep + 1;
        lines.push(format!("resumes at superstep {open}: {}", next.join(", ")));
        let within = format!("{open}.");
        let recorded = story.iter().filter(|moment| match &moment.what {
            Happening::Step { step, .. } => {
                (step.ns.is_empty() && step.superstep == open) || step.ns.starts_with(&within)
            }
            Happening::Checkpoint { .. }
            | Happening::Intent { .. }
            | Happening::Receipt { .. }
            | Happening::Asked { .. }
            | Happening::Attempt { .. } => false,
        });
        lines.push(match recorded.count() {
            0 => "runs again: its nodes, from their top; none of their steps is recorded yet".to_owned(),
            1 => "runs again: its nodes, from their top; not again: 1 recorded step, whose result is kept".to_owned(),
            many => {
                format!(
                    "runs again: its nodes, from their top; not again: {many} recorded steps, whose results are kept"
                )
            }
        });
        for effect in pending {
            lines.push(if effect.probe {
                format!("{} was begun and not heard of again: its probe finds out", effect.step)
            } else {
                format!("{} may have happened: not run again before somebody says so", effect.step)
            });
        }
        for effect in pending.iter().filter(|effect| !effect.probe) {
            lines.push(format!(
                "say: longhaul retry '{}' --happened JSON | --did-not-happen{}",
                effect.step, self.flags
            ));
        }
        for wait in waits {
            lines.push(format!("waits for {:?}: longhaul approve {}{}", wait.name, wait.id, self.flags));
        }
        if pending.iter().all(|effect| effect.probe) && waits.is_empty() {
            lines.push(format!("to go on: {}", self.how_to_go_on(view).await?));
        }
        Ok(lines)
    }
}

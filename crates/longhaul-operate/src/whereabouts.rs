//! Where a task is: what it does or waits for, who has it, where it resumes, what would run again and what not.
//!
//! Invariant: it is read from rows and changes nothing; every id in it can be given to [`crate::Operator::explain`].

use longhaul_durable::{ExecutionView, PendingEffect, Point, Status, StepId, WaitInfo, WaitKind};
use longhaul_store::{ReadTx, StoreError, values};
use serde::Serialize;

use crate::{Decision, Line, OperateError, Operator, answering::value_of, moments::moment, rows};

/// Executions that are told of.
const EXECUTIONS_MAX: u32 = 20;

/// Where a task is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Whereabouts {
    /// The task.
    pub task: String,
    /// As it was asked for.
    pub asked: String,
    /// What a person calls it, where somebody said so.
    pub title: Option<String>,
    /// In a few words: `waiting for "publish this post?"`.
    pub phase: String,
    /// Its executions, unfinished ones first; of finished ones only the newest, and only where none is unfinished.
    pub executions: Vec<Standing>,
    /// Executions that are finished and not shown.
    pub finished: usize,
    /// The last milestone that was reached.
    pub milestone: Option<Reached>,
    /// The last thing that happened to it.
    pub last: Option<Line>,
}

/// Where one execution is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    /// The execution.
    pub execution: String,
    /// Its thread.
    pub thread: String,
    /// Its graph.
    pub graph: String,
    /// `running`, `waiting`, `failed` ….
    pub status: &'static str,
    /// Why its last run failed, if it did.
    pub error: Option<String>,
    /// The last closed superstep.
    pub superstep: u64,
    /// The checkpoint it resumes from; nothing when it is finished.
    pub resumes_from: Option<String>,
    /// The nodes that run next.
    pub next: Vec<String>,
    /// What it waits for.
    pub waits: Vec<Asked>,
    /// The nodes that would run again from their top.
    pub runs_again: Vec<String>,
    /// The ids of steps of the open superstep whose results are kept and which do not run again.
    pub not_again: Vec<String>,
    /// Acts that may have happened: somebody has to say.
    pub unknown: Vec<Unknown>,
    /// Who has it now.
    pub holder: Option<String>,
    /// What to do for it to go on.
    pub to_go_on: Option<String>,
}

/// An open wait.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Asked {
    /// The wait.
    pub wait: String,
    /// `approval`, `webhook`, `event`, `timer`.
    pub kind: &'static str,
    /// What is asked.
    pub name: String,
    /// What is shown with it.
    pub shows: Option<serde_json::Value>,
    /// Since when.
    pub since: String,
    /// Until when, if it has an end.
    pub until: Option<String>,
    /// How to answer.
    pub answer: Vec<String>,
}

/// An act of unknown outcome.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unknown {
    /// The step.
    pub step: String,
    /// How it is settled.
    pub settle: String,
}

/// A milestone that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reached {
    /// The milestone.
    pub milestone: String,
    /// Its name.
    pub name: String,
    /// The version of that name.
    pub version: u64,
    /// When, in milliseconds since the epoch.
    pub at: i64,
    /// The checkpoint that it points to, if it was reached in an execution.
    pub checkpoint: Option<String>,
    /// What was noted.
    pub note: String,
}

impl Operator {
    /// Where the task is.
    ///
    /// # Errors
    /// [`OperateError::Unknown`]; those of the store.
    pub async fn whereabouts(&self, asked: &str) -> Result<Whereabouts, OperateError> {
        let target = self.target(asked).await?;
        let views = self.executions_of(&target, 1_000).await?;
        let (open, closed): (Vec<_>, Vec<_>) = views.iter().partition(|view| !view.execution.status.is_finished());
        let shown = if open.is_empty() { closed.iter().take(1).copied().collect() } else { open };
        let mut executions = Vec::new();
        for view in shown.iter().take(EXECUTIONS_MAX as usize) {
            executions.push(self.standing(view).await?);
        }
        let finished = closed.len() - shown.iter().filter(|view| view.execution.status.is_finished()).count();
        let (scope, task, thread) = (self.scope.clone(), target.scope.task.clone(), target.thread.clone());
        let newest = shown.first().map(|view| view.execution.id.clone());
        let (milestone, last) = self
            .store
            .read(move |read| {
                let milestone = rows::last_milestone(read, &scope, &task)?;
                let last = match (thread, newest) {
                    (Some(_), Some(execution)) => {
                        rows::events(read, &scope, "execution_id", execution.as_str(), 1)?.pop()
                    }
                    (_, _) => rows::events(read, &scope, "task_id", task.as_str(), 1)?.pop(),
                };
                Ok::<_, StoreError>((milestone, last))
            })
            .await?;
        Ok(Whereabouts {
            task: target.scope.task.to_string(),
            asked: asked.to_owned(),
            title: target.row.map(|row| row.title),
            phase: shown.first().map_or_else(|| "nothing of it has been run".to_owned(), |view| phase(view)),
            executions,
            finished,
            milestone,
            last,
        })
    }

    async fn standing(&self, view: &ExecutionView) -> Result<Standing, OperateError> {
        let ExecutionView { execution, superstep, next, waits, pending, holder } = view;
        let over = execution.status.is_finished();
        let open = superstep + 1;
        let (tenant, id) = (self.scope.tenant.clone(), execution.id.clone());
        let recorded = self.store.read(move |read| recorded(read, tenant.as_str(), id.as_str(), open)).await?;
        let (done, steps) = recorded;
        let not_again = steps.into_iter().map(|within| format!("{}/{within}", execution.id));
        let waiting_only = !waits.is_empty() || pending.iter().any(|effect| !effect.probe);
        let to_go_on = if over || waiting_only { None } else { Some(self.how_to_go_on(view).await?) };
        Ok(Standing {
            execution: execution.id.to_string(),
            thread: execution.thread.to_string(),
            graph: format!("{} {}", execution.graph, execution.graph_version),
            status: execution.status.as_str(),
            error: execution.error.clone(),
            superstep: *superstep,
            resumes_from: (!over).then(|| Point::new(&execution.id, *superstep).to_string()),
            next: if over { Vec::new() } else { next.clone() },
            waits: waits.iter().map(|wait| self.asked(wait)).collect(),
            runs_again: if over {
                Vec::new()
            } else {
                next.iter().filter(|node| !done.contains(node)).cloned().collect()
            },
            not_again: if over { Vec::new() } else { not_again.collect() },
            unknown: pending.iter().map(|effect| self.unknown_act(effect)).collect(),
            holder: holder.as_ref().map(ToString::to_string),
            to_go_on,
        })
    }

    fn asked(&self, wait: &WaitInfo) -> Asked {
        let WaitInfo { id, kind, name, payload, deadline_at, created_at, .. } = wait;
        let flags = &self.flags;
        let value = format!("longhaul approve {id} --value JSON{flags}");
        let bare = value_of(wait, &Decision::Approve, None).is_ok();
        let answer = match kind {
            WaitKind::Timer => vec!["by itself".to_owned()],
            WaitKind::Approval | WaitKind::Webhook | WaitKind::Event if bare => {
                vec![format!("longhaul approve {id}{flags}"), format!("longhaul reject {id}{flags}")]
            }
            WaitKind::Approval => vec![value],
            WaitKind::Webhook => vec!["the request to its address".to_owned(), value],
            WaitKind::Event => vec![format!("the event {name:?}"), value],
        };
        Asked {
            wait: id.to_string(),
            kind: kind.as_str(),
            name: name.clone(),
            shows: (!payload.is_null()).then(|| payload.clone()),
            since: format!("{} UTC", moment(created_at.0)),
            until: deadline_at.map(|at| format!("{} UTC", moment(at.0))),
            answer,
        }
    }

    fn unknown_act(&self, effect: &PendingEffect) -> Unknown {
        let settle = if effect.probe {
            "its probe finds out when its node runs again".to_owned()
        } else {
            format!("longhaul retry '{}' --happened JSON | --did-not-happen{}", effect.step, self.flags)
        };
        Unknown { step: effect.step.to_string(), settle }
    }
}

/// In a few words.
fn phase(view: &ExecutionView) -> String {
    let ExecutionView { execution, next, waits, holder, .. } = view;
    let nodes = next.join(", ");
    match execution.status {
        Status::Completed | Status::Cancelled | Status::Abandoned => execution.status.as_str().to_owned(),
        Status::Waiting if waits.is_empty() => format!("answered, and about to go on with {nodes}"),
        Status::Waiting => {
            let names: Vec<String> = waits.iter().map(|wait| format!("{:?}", wait.name)).collect();
            format!("waiting in {nodes} for {}", names.join(", "))
        }
        Status::Failed => format!("failed in {nodes}"),
        Status::Running if holder.is_some() => format!("at work on {nodes}"),
        Status::Running => format!("broken off in {nodes}: its process ended without a word"),
        Status::Stopped => format!("stopped before {nodes}"),
    }
}

/// Of the open superstep: the nodes whose results are there, and the steps, oldest first.
fn recorded(
    read: &ReadTx<'_>,
    tenant: &str,
    execution: &str,
    open: u64,
) -> Result<(Vec<String>, Vec<String>), StoreError> {
    let done = read.query(
        "SELECT node FROM tasks_done WHERE tenant_id = ?1 AND execution_id = ?2 AND ns = '' AND superstep = ?3",
        &values![tenant, execution, open],
        |row| row.get(0),
    )?;
    let steps = read.query(
        "SELECT ns, superstep, task, ordinal, node, name FROM steps
         WHERE tenant_id = ?1 AND execution_id = ?2 AND ((ns = '' AND superstep = ?3) OR ns LIKE ?4)
         ORDER BY at, ns, superstep, task, ordinal LIMIT 100",
        &values![tenant, execution, open, format!("{open}.%")],
        |row| {
            let step = StepId {
                execution: longhaul_core::ExecutionId::from_body("x"),
                ns: row.get(0)?,
                superstep: row.get(1)?,
                task: row.get(2)?,
                ordinal: row.get(3)?,
                node: row.get(4)?,
                name: row.get(5)?,
            };
            Ok(step.within())
        },
    )?;
    Ok((done, steps))
}

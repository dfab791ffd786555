//! Running a case again.
//!
//! It owns the loop around the runs: answers come as they were recorded, edits where they were made, and what it came
//! to is recorded like the case was. Invariant: its store is in memory and gone with it.

use std::sync::Arc;

use longhaul_core::{Ambient, SeededRng};
use longhaul_store::{Lease, Migrations, Store, StoreError, StoreSettings};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    case::{Case, CaseError, CaseWait, canonical},
    compare::{self, Difference},
    criteria::{self, Checked},
    record,
    script::Script,
};
use crate::{
    DurableError, Execution, Form, Graph, GraphState, MIGRATIONS, Outcome, Resources, RunOptions, Runtime, Status,
    StepId, WaitInfo, WaitStatus,
    beginning::new_execution,
    checkpoint,
    records::{Pen, checkpoints::NewCheckpoint, executions, waits},
};

/// Runs of one replay: an answer each, and a few more.
const RUNS_MAX: usize = 100_000;

/// What a replay came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// The first difference, if there is one.
    pub difference: Option<Difference>,
    /// What the acceptance criteria came to, of the replay.
    pub checked: Vec<Checked>,
    /// The state that it ended with.
    pub final_state: Option<Value>,
    /// How much was compared.
    pub counts: Counts,
    /// What else is to be known: a graph of another shape, a recording that ends early.
    pub notes: Vec<String>,
}

impl Replayed {
    /// Whether it is as it was recorded, and what must hold does.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.difference.is_none() && self.checked.iter().all(|checked| checked.holds)
    }
}

/// How much of a case was compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Checkpoints of all frames.
    pub checkpoints: usize,
    /// Steps that were given their recorded results.
    pub steps: usize,
    /// Answers that were given as recorded.
    pub answers: usize,
    /// Events that were made again and compared.
    pub events: usize,
    /// Events that came with recorded results and were not compared.
    pub events_given: usize,
}

/// Why a case could not be replayed at all.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The case itself.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// The program has no such graph.
    #[error("the case is of the graph {graph:?}, and this program has {}: add it to the replayer", if .known.is_empty() { "none".to_owned() } else { .known.join(", ") })]
    NoGraph {
        /// The graph's name.
        graph: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The state that the case begins with is not one of the graph's.
    #[error(
        "the state that the case begins with is none of the graph {graph:?} now: record it again, or give new fields a default"
    )]
    Begins {
        /// The graph.
        graph: String,
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// The runtime refused.
    #[error("the case cannot be run")]
    Run(#[source] DurableError),
    /// It never came to an end.
    #[error("the replay did not come to an end after {RUNS_MAX} runs: this is a defect, please report it")]
    Endless,
    /// The other program went away or said what nobody can read.
    #[error("standard input or output failed")]
    Io(#[from] std::io::Error),
    /// What was asked cannot be read.
    #[error("this is no request of the evaluation protocol: use the longhaul of the same release")]
    Protocol(#[source] serde_json::Error),
}

impl From<DurableError> for ReplayError {
    fn from(error: DurableError) -> Self {
        Self::Run(error)
    }
}

impl From<StoreError> for ReplayError {
    fn from(error: StoreError) -> Self {
        Self::Run(error.into())
    }
}

/// A replay on its way.
struct Player<'a, S: GraphState> {
    case: &'a Case,
    graph: &'a Graph<S>,
    resources: Resources,
    runtime: Runtime,
    script: Arc<Script>,
    answers: usize,
}

/// Replays a case with this graph.
pub(super) async fn play<S: GraphState>(
    case: &Case,
    graph: &Graph<S>,
    resources: Resources,
    migrations: &[Migrations],
) -> Result<Replayed, ReplayError> {
    let script = Arc::new(Script::new(case));
    let ambient = Ambient::new(script.clock(), Arc::new(SeededRng::new(0)));
    let mut sets = vec![MIGRATIONS];
    sets.extend(migrations.iter().filter(|set| set.component != MIGRATIONS.component));
    let store = Store::open(StoreSettings::in_memory(), ambient.clone(), &sets).await?;
    let mut runtime = Runtime::new(store.clone(), ambient);
    runtime.script = Some(script.clone());
    let mut player = Player { case, graph, resources, runtime, script, answers: 0 };
    let (outcome, refused) = player.run().await?;
    player.end_as_recorded().await?;
    let root = case.root();
    let mut found = record::read_case(&store, &case.scope.scope, &root.id).await?;
    let state: Option<S> = player.runtime.state(&case.scope.scope, &root.thread).await?;
    found.final_state = state.and_then(|state| serde_json::to_value(state).ok());
    Ok(player.judge(found, &outcome, refused))
}

type Ended<S> = (Outcome<S>, Option<(StepId, String)>);

impl<S: GraphState> Player<'_, S> {
    /// Runs until there is no more to be given; an answer that is refused now ends it, too.
    async fn run(&mut self) -> Result<Ended<S>, ReplayError> {
        let root = self.case.root();
        let begins = |source| ReplayError::Begins { graph: root.graph.clone(), source };
        let initial: S = serde_json::from_str(root.begins.state.get()).map_err(begins)?;
        if root.begins.superstep > 0 {
            self.seed(initial.clone()).await?;
        }
        for _ in 0..RUNS_MAX {
            let options = RunOptions { resources: self.resources.clone(), ..RunOptions::default() };
            let running = self.runtime.run(self.graph, &self.case.scope, &root.thread, initial.clone(), options);
            let outcome = Box::pin(running).await?;
            match &outcome {
                Outcome::Waiting(open) => match self.next_answer(open) {
                    Some((open, recorded)) => {
                        if let Err(refused) = self.answer(&open, &recorded).await? {
                            return Ok((outcome, Some(refused)));
                        }
                    }
                    None => return Ok((outcome, None)),
                },
                Outcome::Stopped(_) | Outcome::Completed(_) => {
                    if !self.edit(matches!(outcome, Outcome::Completed(_))).await? {
                        return Ok((outcome, None));
                    }
                }
                Outcome::Cancelled | Outcome::NeedsReconcile(_) | Outcome::Failed { .. } => return Ok((outcome, None)),
            }
        }
        Err(ReplayError::Endless)
    }

    /// Writes the execution as it stood where the case begins: it was forked or migrated there.
    async fn seed(&self, initial: S) -> Result<(), ReplayError> {
        let root = self.case.root();
        let data = serde_json::to_string(&initial).map_err(|source| CaseError::Form { source })?;
        let frontier = root.begins.position.to_string();
        let chain = checkpoint::chain_start(&root.id, "");
        let chain = checkpoint::chain_next(&chain, Form::Full, &data, &frontier);
        let nodes = root.checkpoints.first().map_or_else(|| "fork".to_owned(), |row| row.nodes.clone());
        let row = NewCheckpoint {
            superstep: root.begins.superstep,
            nodes,
            frontier,
            form: Form::Full,
            data,
            chain: *chain.as_bytes(),
        };
        let (id, scope, thread) = (root.id.clone(), self.case.scope.clone(), root.thread.clone());
        let execution =
            Execution { status: Status::Stopped, ..new_execution(self.graph, id, &scope, &thread, root.started_at) };
        let store = self.runtime.store()?;
        let lease = Lease::acquire(store, &scope.scope, &thread, self.runtime.lease_ttl).await;
        let lease = lease.map_err(DurableError::Lease)?;
        let pen = Pen::new(scope, execution.id.clone(), lease.token().clone());
        store
            .write(move |tx| {
                pen.fenced(tx)?;
                executions::insert(tx, &execution)?;
                pen.insert_checkpoint(tx, "", row)
            })
            .await?;
        Ok(lease.release().await?)
    }

    /// Which open wait was ended first, and how; nothing when none of them was.
    fn next_answer(&self, open: &[WaitInfo]) -> Option<(WaitInfo, CaseWait)> {
        let recorded = |open: &WaitInfo| {
            let of = self.case.executions.iter().find(|execution| execution.id == open.execution)?;
            let wait = of.waits.iter().find(|wait| wait.place == open.place)?;
            matches!(wait.status, WaitStatus::Answered | WaitStatus::Expired).then(|| wait.clone())
        };
        let ended = open.iter().filter_map(|open| Some((open.clone(), recorded(open)?)));
        ended.min_by_key(|(_, recorded)| recorded.ended_at)
    }

    async fn answer(
        &mut self,
        open: &WaitInfo,
        recorded: &CaseWait,
    ) -> Result<Result<(), (StepId, String)>, ReplayError> {
        if let Some(at) = recorded.ended_at {
            self.script.clock().set(at);
        }
        self.answers += 1;
        let scope = &self.case.scope;
        if recorded.status == WaitStatus::Expired {
            let (scope, wait) = (scope.clone(), open.clone());
            self.runtime.store()?.write(move |tx| waits::expire_one(tx, &scope, &wait)).await?;
            return Ok(Ok(()));
        }
        let value = recorded.value.clone().unwrap_or(Value::Null);
        let request = format!("replay:{}", self.answers);
        let actor = recorded.actor.as_deref().unwrap_or_default();
        match self.runtime.continue_with(&scope.scope, &open.id, value, &request, actor).await {
            Ok(_) => Ok(Ok(())),
            Err(DurableError::AnswerRefused { source, .. }) => {
                Ok(Err((open.place.clone(), format!("it is refused now: {source}"))))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the edit again at which the run has stopped; tells whether there was one.
    async fn edit(&self, completed: bool) -> Result<bool, ReplayError> {
        let root = self.case.root();
        if completed {
            let found = record::read_case(self.runtime.store()?, &self.case.scope.scope, &root.id).await?;
            let next = found.root().last_superstep() + 1;
            if !self.script.stops_before(&root.id, "", next) {
                return Ok(false);
            }
        }
        let Some(superstep) = self.script.edit_due() else { return Ok(false) };
        let Some(row) = root.checkpoints.iter().find(|row| row.ns.is_empty() && row.superstep == superstep) else {
            return Ok(false);
        };
        let form = |source| CaseError::Form { source };
        let updates = checkpoint::read_updates::<S>(&row.updates.to_string()).map_err(form)?;
        let as_node = (row.nodes != "edited").then_some(row.nodes.as_str());
        for update in updates {
            let (scope, thread) = (&self.case.scope.scope, &root.thread);
            self.runtime.update_state(self.graph, scope, thread, update, as_node, "replay").await?;
        }
        Ok(true)
    }

    /// Somebody ended the execution: so it is done here.
    async fn end_as_recorded(&self) -> Result<(), ReplayError> {
        let root = self.case.root();
        let (scope, thread) = (&self.case.scope.scope, &root.thread);
        if root.end.is(Status::Cancelled) {
            self.runtime.cancel(scope, thread, "replay", "it was cancelled when it was recorded").await?;
        } else if root.end.is(Status::Abandoned) {
            self.runtime.abandon(scope, thread).await?;
        }
        Ok(())
    }

    fn judge(&self, found: Case, outcome: &Outcome<S>, refused: Option<(StepId, String)>) -> Replayed {
        let case = self.case;
        let recorded = self.script.notes().clone();
        let mut difference = compare::first(case, &found, &recorded, outcome, refused);
        if let (None, Some(before), Some(after)) = (&difference, &case.final_state, &found.final_state)
            && canonical(before) != canonical(after)
        {
            difference = Some(compare::of_states(case, before, after));
        }
        let mut notes = Vec::new();
        let root = case.root();
        if *self.graph.fingerprint() != root.fingerprint {
            notes.push(format!(
                "the graph {} has another shape than when it was recorded ({} then, {} now)",
                root.graph,
                root.fingerprint.hex().split_at(8).0,
                self.graph.fingerprint().hex().split_at(8).0
            ));
        }
        if recorded.ended {
            notes.push("the recording ends inside a run of a node: what came after that is not known".to_owned());
        }
        // Criteria are about the whole: what came with recorded results is part of it.
        let mut whole = found.clone();
        if difference.is_none() {
            whole.events.clone_from(&case.events);
            for (execution, recorded) in whole.executions.iter_mut().zip(&case.executions) {
                execution.steps.clone_from(&recorded.steps);
            }
            // One that was cut short ends as it was recorded.
            whole.executions[0].end.clone_from(&root.end);
        }
        let counts = Counts {
            checkpoints: found.executions.iter().map(|execution| execution.checkpoints.len()).sum(),
            steps: recorded.stubbed.len(),
            answers: self.answers,
            events: compare::compared(case),
            events_given: case.events.len() - compare::compared(case),
        };
        let checked = criteria::check(&case.accept, &whole);
        Replayed { difference, checked, final_state: found.final_state, counts, notes }
    }
}

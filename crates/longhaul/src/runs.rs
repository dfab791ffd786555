//! `init` and `run`: the harness's graph on a project's thread, until it is done, stopped or interrupted.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use longhaul_core::TaskScope;
use longhaul_durable::{Outcome, RunOptions, Status as ExecutionStatus, StopWhen};
use longhaul_harness::{
    ExternalAgent, Harness, HarnessState, Phase, Profile,
    features::{self, Feature, pick},
    graph,
    history::{self, SessionEntry, SessionOutcome},
    people::{self, OrderKind, People},
    planning::examine,
    project::{self, NewProject, Project},
    spending::{self, Money, RunBudget, Spent},
};
use longhaul_model::Retry;
use longhaul_store::StoreError;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{Longhaul, LonghaulError, Until, agents, connect::Connected, folder, settings::ModelSpec, until::Patience};

/// How often a run looks whether a person wants it to stop.
const LISTENS_EVERY: Duration = Duration::from_millis(500);

/// What `init` is asked.
#[derive(Debug, Clone)]
pub struct InitRequest {
    /// What to build, in the user's words.
    pub request: String,
    /// The folder to build it in: new or empty, or a repository to be taken over.
    pub dir: PathBuf,
    /// What kind of work it is.
    pub profile: Profile,
    /// Whether the folder is somebody's repository, on top of which is planned.
    pub adopt: bool,
    /// A git remote that takes every commit, through which another machine can go on.
    pub remote: Option<String>,
}

impl InitRequest {
    /// An application in a new folder.
    #[must_use]
    pub fn new(request: impl Into<String>, dir: impl Into<PathBuf>) -> Self {
        Self { request: request.into(), dir: dir.into(), profile: Profile::Software, adopt: false, remote: None }
    }
}

/// How far a run may go. What the settings limit for the project holds beside it.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunLimits {
    /// Most coding sessions; the one that was interrupted counts.
    pub sessions: Option<u32>,
    /// Most tokens, sent and received.
    pub tokens: Option<u64>,
    /// Most money, in the currency of the prices.
    pub money: Option<Money>,
    /// When it ends by itself; with it, failures of the model's service are waited out.
    pub until: Option<Until>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Every feature passes.
    Done,
    /// The plan is locked (the end of `init`).
    Planned,
    /// The limit of sessions is reached.
    Limit,
    /// A limit of the budget is reached: tokens, money, time, or sessions of the project.
    Budget,
    /// What is left is parked, or waits for something parked.
    Stuck,
    /// A person has to answer something first.
    Waiting,
    /// A person paused it.
    Paused,
    /// A person has the folder.
    TakenOver,
    /// It was cancelled.
    Interrupted,
}

/// What a run came to.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    /// The project's folder.
    pub dir: PathBuf,
    /// Why it ended.
    pub ending: Ending,
    /// Features that pass.
    pub passing: usize,
    /// Features in all.
    pub total: usize,
    /// Features put aside.
    pub parked: usize,
    /// Features whose checks somebody has to decide about.
    pub proposals: usize,
    /// Coding sessions so far.
    pub sessions: usize,
    /// Tokens sent so far.
    pub prompt_tokens: u64,
    /// Tokens received so far.
    pub answer_tokens: u64,
    /// What was used of the budget, requests whose answer was never recorded counted whole.
    pub spent: Spent,
    /// The limit that is reached, when it ended because of one.
    pub limit: Option<String>,
}

/// The rows of a project.
pub(crate) struct Rows {
    pub(crate) features: Vec<Feature>,
    pub(crate) sessions: Vec<SessionEntry>,
}

impl Rows {
    pub(crate) fn planned(&self) -> bool {
        self.sessions.iter().any(|entry| entry.outcome == SessionOutcome::Planned)
    }

    /// Coding sessions that have ended.
    fn coded(&self) -> u32 {
        u32::try_from(self.sessions.iter().filter(|entry| entry.number > 0).count()).unwrap_or(u32::MAX)
    }

    /// Where a new execution begins.
    fn state(&self) -> HarnessState {
        let sessions = self.sessions.iter().map(|entry| entry.number).max().unwrap_or(0);
        let phase = if !self.planned() {
            Phase::Planning
        } else if self.features.iter().all(|f| f.standing.passes) {
            Phase::FinalCheck
        } else {
            Phase::Coding
        };
        HarnessState { phase, sittings: 0, sessions }
    }
}

impl Longhaul {
    /// Plans a project in a new folder. Asked again for a folder whose planning was interrupted, it goes on there.
    ///
    /// # Errors
    /// When the folder cannot take a project, or a component is missing or fails.
    pub async fn init(&self, asked: InitRequest, cancel: CancellationToken) -> Result<RunReport, LonghaulError> {
        if asked.request.trim().is_empty() {
            return Err(LonghaulError::EmptyRequest);
        }
        let begun = self.project_at(&folder::absolute(&asked.dir)?).await?.filter(|begun| begun.dir.exists());
        if let Some(project) = &begun {
            let rows = self.rows(project).await?;
            if rows.planned() {
                return Err(LonghaulError::AlreadyPlanned { dir: asked.dir, features: rows.features.len() });
            }
            if project.request != asked.request.trim() {
                return Err(LonghaulError::OtherRequest { dir: asked.dir, request: project.request.clone() });
            }
        } else if asked.adopt {
            examine(&folder::absolute(&asked.dir)?).await?;
        } else {
            folder::check_new(&asked.dir)?;
        }
        let stored = begun.as_ref().map(|p| (p.model.as_str(), p.base_url.as_deref()));
        self.check_machine().await?;
        let (connected, spec) = self.connect(stored).await?;
        let embedder = self.embedder()?;
        let project = match begun {
            Some(project) => self.with_model(project, &spec).await?,
            None => self.register(&asked, &spec).await?,
        };
        if let Some(remote) = &asked.remote {
            self.set_remote(&project, remote).await?;
        }
        self.take_over(&project).await?;
        let (project, agent) = self.with_agent(project, &connected).await?;
        let harness = self.harness_with(connected.model.clone(), Some(embedder), agent);
        self.begin_spending(&harness, &project, RunLimits::default()).await?;
        let spending = harness.spending.clone();
        let stop: StopWhen<HarnessState> =
            Arc::new(move |state: &HarnessState| state.phase != Phase::Planning || spending.stops().is_some());
        let teller = self.teller(&project).await;
        let ended = self.drive(&project, &harness, stop, cancel).await;
        stop_server(connected).await;
        self.tell_end(&project, &ended, teller).await;
        ended
    }

    /// Takes note of what was spent before this run, and refuses one that could not pay for anything.
    async fn begin_spending(
        &self,
        harness: &Harness,
        project: &Project,
        limits: RunLimits,
    ) -> Result<Option<String>, LonghaulError> {
        let until = limits.until.and_then(Until::moment);
        let budget = RunBudget { tokens_max: limits.tokens, money_max: limits.money, until };
        harness.spending.begin(&project.owner, budget).await?;
        let agent = harness.agent.iter().map(|agent| agent.settings.name());
        for model in std::iter::once(harness.model.info().name.clone()).chain(agent) {
            if let Some(model) = harness.spending.lacks_price(&model) {
                return Err(LonghaulError::NoPrice { model });
            }
        }
        Ok(harness.spending.stops())
    }

    async fn register(&self, asked: &InitRequest, spec: &ModelSpec) -> Result<Project, LonghaulError> {
        let adopted = if asked.adopt { Some(examine(&folder::absolute(&asked.dir)?).await?.commit) } else { None };
        let new = NewProject {
            dir: if asked.adopt { folder::absolute(&asked.dir)? } else { folder::make_new(&asked.dir)? },
            request: asked.request.trim().to_owned(),
            model: spec.to_string(),
            base_url: self.settings.chosen_address(spec),
            profile: asked.profile,
            adopted,
        };
        let (scope, trace) = (self.scope.clone(), self.trace.clone());
        let mut project = self.store.write::<_, StoreError>(move |tx| project::create(tx, &scope, new)).await?;
        project.owner.trace = trace;
        Ok(project)
    }

    /// Until a plan is locked, the project's model is the one that was named last: a wrong name or address is mended by
    /// naming the right one.
    async fn with_model(&self, mut project: Project, spec: &ModelSpec) -> Result<Project, LonghaulError> {
        let begun_with = project.clone();
        project.model = spec.to_string();
        if let Some(address) = self.settings.chosen_address(spec) {
            project.base_url = Some(address);
        }
        if project != begun_with {
            let named = project.clone();
            self.store.write::<_, StoreError>(move |tx| named.save(tx)).await?;
        }
        Ok(project)
    }

    /// The project with the agent that was named last, and how that is worked with. Nothing of an agent is looked for until
    /// somebody names one.
    async fn with_agent(
        &self,
        mut project: Project,
        connected: &Connected,
    ) -> Result<(Project, Option<ExternalAgent>), LonghaulError> {
        let named = self.settings.harness.agent.spec.clone();
        if named.is_some() && named != project.agent {
            project.agent = named;
            let saved = project.clone();
            self.store.write::<_, StoreError>(move |tx| saved.save(tx)).await?;
        }
        let Some(spec) = project.agent.as_deref().filter(|spec| *spec != "own") else { return Ok((project, None)) };
        let agent = agents::external(spec, &self.settings, connected.served.clone(), &project.dir)?;
        Ok((project, Some(agent)))
    }

    /// Goes on with a project until it is done, or a limit is reached. Planning that was interrupted is finished first.
    ///
    /// # Errors
    /// When there is no project, another process works on it, or a component is missing or fails.
    pub async fn run(
        &self,
        dir: &Path,
        limits: RunLimits,
        cancel: CancellationToken,
    ) -> Result<RunReport, LonghaulError> {
        let project = self.project_to_work_on(dir).await?;
        let teller = self.teller(&project).await;
        let ended = self.run_project(project.clone(), limits, cancel).await;
        self.tell_end(&project, &ended, teller).await;
        ended
    }

    async fn run_project(
        &self,
        project: Project,
        limits: RunLimits,
        cancel: CancellationToken,
    ) -> Result<RunReport, LonghaulError> {
        // Where nothing can be done, nothing is started: no application, no browser, no request.
        if let Some(report) = self.nothing_to_do(&project).await? {
            return Ok(report);
        }
        let owner = project.owner.clone();
        let standing = self.store.read::<_, StoreError>(move |read| people::orders(read, &owner)).await?;
        if standing.iter().any(|order| order.kind == OrderKind::Pause) {
            let rows = self.rows(&project).await?;
            return self.run_report(&project, Ending::Paused, &rows).await;
        }
        self.check_machine().await?;
        let (connected, spec) = self.connect(Some((&project.model, project.base_url.as_deref()))).await?;
        let embedder = self.embedder()?;
        self.take_over(&project).await?;
        let planned = self.rows(&project).await?.planned();
        let project = if planned { project } else { self.with_model(project, &spec).await? };
        let (project, agent) = self.with_agent(project, &connected).await?;
        let harness = self.harness_with(connected.model.clone(), Some(embedder), agent);
        let rows = self.rows(&project).await?;
        if let Some(limit) = self.begin_spending(&harness, &project, limits).await? {
            stop_server(connected).await;
            let report = self.run_report(&project, Ending::Budget, &rows).await?;
            return Ok(RunReport { limit: Some(limit), ..report });
        }
        let most = limits.sessions.unwrap_or(u32::try_from(harness.settings.sessions_max).unwrap_or(u32::MAX));
        let of_project = self.settings.budget.sessions_max.map_or(u32::MAX, |max| max.saturating_sub(rows.coded()));
        let last = rows.state().sessions.saturating_add(most.min(of_project));
        let spending = harness.spending.clone();
        let stop: StopWhen<HarnessState> = Arc::new(move |state: &HarnessState| match state.phase {
            Phase::Planning => spending.stops().is_some(),
            Phase::Coding => state.sessions >= last || spending.stops().is_some(),
            Phase::FinalCheck | Phase::Done | Phase::Stuck => false,
        });
        let mut patience = Patience::default();
        let ended = loop {
            let ended = self.drive(&project, &harness, stop.clone(), cancel.clone()).await;
            let done = self.rows(&project).await?.sessions.len();
            if done > rows.sessions.len() {
                patience.renew();
            }
            let Err(error) = &ended else { break ended };
            let Some(wait) = patience.wait(error, limits.until, self.ambient.clock.now()) else { break ended };
            let waited_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            // Nobody may be looking.
            let _ = self.retries.send(Retry { status: None, code: "run_waits".to_owned(), waited_ms });
            if cancel.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                break ended;
            }
        };
        stop_server(connected).await;
        ended
    }

    /// The report of a run that need not begin: what is left is parked, or the project has had all its sessions.
    async fn nothing_to_do(&self, project: &Project) -> Result<Option<RunReport>, LonghaulError> {
        let rows = self.rows(project).await?;
        if !rows.planned() || rows.features.iter().all(|f| f.standing.passes) {
            return Ok(None);
        }
        let max = self.settings.budget.sessions_max.filter(|max| rows.coded() >= *max);
        if let Some(max) = max {
            let report = self.run_report(project, Ending::Budget, &rows).await?;
            return Ok(Some(RunReport { limit: Some(format!("the project's {max} sessions are used")), ..report }));
        }
        if pick(&rows.features).is_some() {
            return Ok(None);
        }
        // In the middle of a session there may still be something to close.
        let known = self.runtime.find(&self.scope, &project.thread).await?;
        if known.is_some_and(|known| known.status != ExecutionStatus::Completed) {
            return Ok(None);
        }
        self.run_report(project, Ending::Stuck, &rows).await.map(Some)
    }

    async fn drive(
        &self,
        project: &Project,
        harness: &Arc<Harness>,
        stop: StopWhen<HarnessState>,
        cancel: CancellationToken,
    ) -> Result<RunReport, LonghaulError> {
        let graph = graph(harness)?;
        let initial = self.rows(project).await?.state();
        let asked_to_end = cancel.clone();
        let (cancel, people) = (cancel.child_token(), harness.people.clone());
        people.orders(&project.owner).await?;
        let listening = people.clone();
        let stop: StopWhen<HarnessState> = Arc::new(move |state| stop(state) || listening.has_taken_over());
        let ears = tokio::spawn(listen(people.clone(), project.owner.clone(), cancel.clone()));
        let options = RunOptions { cancel, stop_when: Some(stop), ..RunOptions::default() };
        // Memories get their vectors while the application boots and the browser works, not when they are asked for.
        let stop_indexing = CancellationToken::new();
        let indexing = tokio::spawn(harness.memory.indexer().run(stop_indexing.clone().cancelled_owned()));
        let outcome = self.runtime.run(&graph, &project.owner, &project.thread, initial, options).await;
        ears.abort();
        stop_indexing.cancel();
        harness.browser.close().await;
        if let Err(error) = indexing.await {
            tracing::warn!(%error, "the indexer of memories failed");
        }
        if let Err(error) = harness.memory.index_pending().await {
            tracing::warn!(%error, "some memories are found by keyword only until the next run");
        }
        let limit = harness.spending.stops();
        let orders = people.orders(&project.owner).await?;
        let stands = |kind: OrderKind| orders.iter().any(|order| order.kind == kind);
        let ending = match outcome? {
            Outcome::Completed(state) if state.phase == Phase::Done => Ending::Done,
            Outcome::Completed(_) => Ending::Stuck,
            Outcome::Stopped(_) if stands(OrderKind::TakeOver) => Ending::TakenOver,
            Outcome::Stopped(_) if limit.is_some() => Ending::Budget,
            Outcome::Stopped(state) if state.sessions == 0 => Ending::Planned,
            Outcome::Stopped(_) => Ending::Limit,
            Outcome::Waiting(_) => Ending::Waiting,
            Outcome::Cancelled if asked_to_end.is_cancelled() => Ending::Interrupted,
            Outcome::Cancelled if stands(OrderKind::Pause) => Ending::Paused,
            Outcome::Cancelled if stands(OrderKind::TakeOver) => Ending::TakenOver,
            Outcome::Cancelled => Ending::Interrupted,
            Outcome::NeedsReconcile(pending) => return Err(LonghaulError::Unreconciled { count: pending.len() }),
            Outcome::Failed { error, .. } => return Err(LonghaulError::stopped(project.dir.clone(), error)),
        };
        let rows = self.rows(project).await?;
        if ending == Ending::Stuck && !rows.planned() {
            return Err(LonghaulError::NoPlan { dir: project.dir.clone() });
        }
        let report = self.run_report(project, ending, &rows).await?;
        let of_project = self.settings.budget.sessions_max.filter(|max| rows.coded() >= *max);
        Ok(match (ending, limit, of_project) {
            (Ending::Budget, limit, _) => RunReport { limit, ..report },
            (Ending::Limit, _, Some(max)) => {
                let limit = Some(format!("the project's {max} sessions are used"));
                RunReport { ending: Ending::Budget, limit, ..report }
            }
            _ => report,
        })
    }

    async fn run_report(&self, project: &Project, ending: Ending, rows: &Rows) -> Result<RunReport, LonghaulError> {
        let owner = project.owner.clone();
        let spent = self.store.read::<_, StoreError>(move |read| spending::spent(read, &owner)).await?;
        Ok(report(project, ending, rows, spent))
    }

    pub(crate) async fn rows(&self, project: &Project) -> Result<Rows, LonghaulError> {
        let owner = project.owner.clone();
        let read = self.store.read::<_, StoreError>(move |read| {
            Ok(Rows { features: features::all(read, &owner)?, sessions: history::all(read, &owner)? })
        });
        Ok(read.await?)
    }
}

/// Ends the run when somebody pauses it, and lets it know when somebody wants the folder.
async fn listen(people: People, owner: TaskScope, cancel: CancellationToken) {
    let mut looks = tokio::time::interval(LISTENS_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        match people.orders(&owner).await {
            Ok(orders) if orders.iter().any(|order| order.kind == OrderKind::Pause) => {
                cancel.cancel();
                return;
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "nobody listens to people for a moment"),
        }
    }
}

async fn stop_server(connected: Connected) {
    for server in connected.servers {
        server.stop().await;
    }
}

fn report(project: &Project, ending: Ending, rows: &Rows, spent: Spent) -> RunReport {
    let count = |of: fn(&Feature) -> bool| rows.features.iter().filter(|f| of(f)).count();
    RunReport {
        dir: project.dir.clone(),
        ending,
        passing: count(|f| f.standing.passes),
        total: rows.features.len(),
        parked: count(|f| f.standing.parked),
        proposals: count(|f| f.proposal.is_some()),
        sessions: rows.sessions.iter().filter(|entry| entry.number > 0).count(),
        prompt_tokens: rows.sessions.iter().map(|entry| entry.prompt_tokens).sum(),
        answer_tokens: rows.sessions.iter().map(|entry| entry.answer_tokens).sum(),
        spent,
        limit: None,
    }
}

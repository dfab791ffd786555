//! Questions about a project that change nothing: where it stands, its features, what happened.

use std::path::{Path, PathBuf};

use longhaul_core::{Event, Visibility};
use longhaul_harness::{
    features::{Feature, pick},
    history::SessionEntry,
    project::Project,
    spending::{self, Spent},
    verification::{self, StoredVerdict},
};
use longhaul_store::{StoreError, events, lease_holder};
use serde::Serialize;

use crate::{Longhaul, LonghaulError};

/// Events read at a time.
const PAGE: u32 = 500;

/// Where a project stands.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Its folder.
    pub dir: PathBuf,
    /// Its task id.
    pub task: String,
    /// The request.
    pub request: String,
    /// The model it was begun with.
    pub model: String,
    /// `planning`, `coding`, `done` or `stuck`.
    pub phase: &'static str,
    /// Features that pass.
    pub passing: usize,
    /// Features in all.
    pub total: usize,
    /// Ids of features put aside.
    pub parked: Vec<String>,
    /// Why, for each of them.
    pub parked_because: Vec<ParkedView>,
    /// Ids of features that used to pass.
    pub broken: Vec<String>,
    /// Proposals to change a check that wait for a decision.
    pub proposals: Vec<String>,
    /// What the next session takes up.
    pub next: Option<String>,
    /// Coding sessions so far.
    pub sessions: usize,
    /// What the newest session said.
    pub last_summary: Option<String>,
    /// Tokens sent so far.
    pub prompt_tokens: u64,
    /// Tokens received so far.
    pub answer_tokens: u64,
    /// What it has used of its budget, and the requests that were never settled.
    pub spent: Spent,
    /// Each limit of the budget with what is used of it: `12,000 of 100,000 tokens`.
    pub budget: Vec<String>,
    /// Process that works on it now.
    pub running: Option<u32>,
}

/// Why a feature was put aside.
#[derive(Debug, Clone, Serialize)]
pub struct ParkedView {
    /// Its id.
    pub feature: String,
    /// What is suspected, in a sentence.
    pub suspected: Option<String>,
    /// The record with the whole diagnosis; `longhaul show` prints it.
    pub diagnosis: Option<String>,
}

/// A feature as listed.
#[derive(Debug, Clone, Serialize)]
pub struct FeatureView {
    /// Its id.
    pub id: String,
    /// Its category.
    pub category: String,
    /// One sentence.
    pub description: String,
    /// The verification sentences.
    pub steps: Vec<String>,
    /// Whether the last verdict was a pass.
    pub passes: bool,
    /// Whether it was put aside.
    pub parked: bool,
    /// Why it does not pass any more.
    pub broken: Option<String>,
    /// The commit with which it passes.
    pub commit: Option<String>,
    /// Sessions that failed on it.
    pub attempts: u32,
    /// What is suspected to keep it from passing, when it was put aside.
    pub suspected: Option<String>,
    /// The record with the whole diagnosis.
    pub diagnosis: Option<String>,
    /// From 1 (first) to 5 (last).
    pub priority: u8,
    /// Features that must pass first.
    pub depends_on: Vec<String>,
    /// The proposal to change its checks that waits for a decision.
    pub proposal: Option<String>,
}

/// Everything a report shows of a project.
#[derive(Debug, Clone)]
pub struct Details {
    /// The project.
    pub project: Project,
    /// Its features, in order of priority.
    pub features: Vec<Feature>,
    /// Its sessions, oldest first.
    pub sessions: Vec<SessionEntry>,
    /// Its verdicts, oldest first.
    pub verdicts: Vec<StoredVerdict>,
    /// Its business events, oldest first.
    pub events: Vec<Event>,
}

impl Longhaul {
    /// Where the project stands.
    ///
    /// # Errors
    /// When there is no project in the folder or the store cannot be read.
    pub async fn status(&self, dir: &Path) -> Result<Status, LonghaulError> {
        let project = self.project(dir).await?;
        let rows = self.rows(&project).await?;
        let (scope, thread) = (self.scope.clone(), project.thread.clone());
        let owner = project.owner.clone();
        let read = self.store.read::<_, StoreError>(move |read| {
            Ok((lease_holder(read, &scope, &thread)?, spending::spent(read, &owner)?))
        });
        let (holder, spent) = read.await?;
        let of = |wanted: fn(&Feature) -> bool| -> Vec<String> {
            rows.features.iter().filter(|f| wanted(f)).map(|f| f.id().to_string()).collect()
        };
        let next = pick(&rows.features);
        let passing = of(|f| f.standing.passes).len();
        let phase = if !rows.planned() {
            "planning"
        } else if passing == rows.features.len() {
            "done"
        } else if next.is_none() {
            "stuck"
        } else {
            "coding"
        };
        Ok(Status {
            dir: project.dir,
            task: project.owner.task.to_string(),
            request: project.request,
            model: project.model,
            phase,
            passing,
            total: rows.features.len(),
            parked: of(|f| f.standing.parked),
            broken: of(|f| f.standing.broken.is_some()),
            proposals: rows.features.iter().filter_map(|f| f.proposal.clone()).collect(),
            next: next.map(|f| format!("{} {}", f.id(), f.definition.description)),
            sessions: rows.sessions.iter().filter(|entry| entry.number > 0).count(),
            last_summary: rows.sessions.last().map(|entry| entry.summary.clone()),
            prompt_tokens: rows.sessions.iter().map(|entry| entry.prompt_tokens).sum(),
            answer_tokens: rows.sessions.iter().map(|entry| entry.answer_tokens).sum(),
            parked_because: rows.features.iter().filter(|f| f.standing.parked).map(parked).collect(),
            budget: self.settings.budget.used(&spent, rows.sessions.iter().filter(|entry| entry.number > 0).count()),
            spent,
            running: holder.map(|holder| holder.pid),
        })
    }

    /// The features, in order of priority.
    ///
    /// # Errors
    /// When there is no project in the folder or the store cannot be read.
    pub async fn features(&self, dir: &Path) -> Result<Vec<FeatureView>, LonghaulError> {
        let project = self.project(dir).await?;
        let rows = self.rows(&project).await?;
        Ok(rows.features.into_iter().map(view).collect())
    }

    /// The business events of the project, oldest first; at most the newest `most`.
    ///
    /// # Errors
    /// When there is no project in the folder or the store cannot be read.
    pub async fn log(&self, dir: &Path, most: usize) -> Result<Vec<Event>, LonghaulError> {
        let project = self.project(dir).await?;
        let mut all = self.business_events(&project).await?;
        Ok(all.split_off(all.len().saturating_sub(most)))
    }

    /// Everything a report shows.
    ///
    /// # Errors
    /// When there is no project in the folder or the store cannot be read.
    pub async fn details(&self, dir: &Path) -> Result<Details, LonghaulError> {
        let project = self.project(dir).await?;
        let rows = self.rows(&project).await?;
        let owner = project.owner.clone();
        let verdicts = self.store.read::<_, StoreError>(move |read| verification::all(read, &owner)).await?;
        let events = self.business_events(&project).await?;
        Ok(Details { project, features: rows.features, sessions: rows.sessions, verdicts, events })
    }

    async fn business_events(&self, project: &Project) -> Result<Vec<Event>, LonghaulError> {
        let mut all = Vec::new();
        let mut after = 0;
        loop {
            let (scope, task) = (self.scope.clone(), project.owner.task.clone());
            let page =
                self.store.read::<_, StoreError>(move |read| events(read, &scope, Some(&task), after, PAGE)).await?;
            let Some(last) = page.last() else { return Ok(all) };
            after = last.seq;
            all.extend(page.into_iter().filter(|event| event.visibility == Visibility::Business));
        }
    }
}

pub(crate) fn view(feature: Feature) -> FeatureView {
    let Feature { definition, standing, proposal } = feature;
    FeatureView {
        id: definition.id.to_string(),
        category: definition.category,
        description: definition.description,
        steps: definition.steps,
        passes: standing.passes,
        parked: standing.parked,
        broken: standing.broken,
        commit: standing.commit,
        attempts: standing.attempts,
        priority: definition.priority,
        depends_on: definition.depends_on.iter().map(ToString::to_string).collect(),
        proposal,
        suspected: standing.suspected,
        diagnosis: standing.diagnosis,
    }
}

fn parked(feature: &Feature) -> ParkedView {
    let standing = &feature.standing;
    ParkedView {
        feature: feature.id().to_string(),
        suspected: standing.suspected.clone(),
        diagnosis: standing.diagnosis.clone(),
    }
}

//! `verify`: verdicts on demand, for people and for CI, over a project of the store or over any folder with a list.
//!
//! Invariant: only a project of the store has its verdicts recorded, and of any other folder nothing is changed.

mod evidence;
mod folder;
mod junit;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use longhaul_core::FeatureId;
use longhaul_harness::{
    OnDemand, VerifyError,
    features::Feature,
    verification::{RecordedVerdict, Refusal},
    verify_on_demand,
};
use longhaul_model::{ChatModel, ChatRequest, ChatResponse, ModelError, ModelInfo, OnDelta};
use longhaul_store::Lease;
use serde::Serialize;

pub use folder::verify;
pub use junit::junit;

use crate::{Longhaul, LonghaulError};

const LEASE: Duration = Duration::from_secs(30);

/// What is to be verified, and what is to be kept of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyRequest {
    /// The folder.
    pub dir: PathBuf,
    /// The features; all of them when empty.
    pub features: Vec<FeatureId>,
    /// Only those that the list says pass.
    pub only_passing: bool,
    /// Flows at a time, from 1.
    pub jobs: usize,
    /// A folder for pictures, logs and a page that shows them.
    pub evidence: Option<PathBuf>,
    /// A sequence of pictures of each flow beside them.
    pub film: bool,
    /// The pictures of `visual` checks are accepted as they are now.
    pub accept_pictures: bool,
}

impl VerifyRequest {
    /// Everything in this folder, one flow after the other, nothing kept.
    #[must_use]
    pub fn of(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            features: Vec::new(),
            only_passing: false,
            jobs: 1,
            evidence: None,
            film: false,
            accept_pictures: false,
        }
    }

    fn on_demand(&self, features: Vec<FeatureId>) -> OnDemand {
        OnDemand {
            features,
            jobs: self.jobs,
            documented: self.evidence.is_some(),
            film: self.film,
            accept_pictures: self.accept_pictures,
        }
    }
}

/// One verdict, as shown.
#[derive(Debug, Clone, Serialize)]
pub struct VerdictView {
    /// The feature.
    pub feature: String,
    /// Its category.
    pub category: String,
    /// What it is.
    pub description: String,
    /// Whether every sentence was fulfilled.
    pub passed: bool,
    /// Whether nobody wrote checks for it, so that nothing was verified. It did not pass.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unchecked: bool,
    /// What was not fulfilled.
    pub refusal: Option<Refusal>,
    /// How long it took, with the start of the application.
    pub elapsed_ms: u64,
    /// What was kept of it, as paths below the evidence folder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
}

impl VerdictView {
    fn of(feature: &Feature, verdict: &RecordedVerdict) -> Self {
        Self {
            feature: feature.id().to_string(),
            category: feature.definition.category.clone(),
            description: feature.definition.description.clone(),
            passed: verdict.passed(),
            unchecked: false,
            refusal: verdict.refusal().cloned(),
            elapsed_ms: verdict.elapsed_ms(),
            evidence: Vec::new(),
        }
    }

    /// What was not fulfilled, in one line; empty for a pass.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.refusal {
            None if self.unchecked => "it has no checks, so nothing was verified".to_owned(),
            None => String::new(),
            Some(refusal) if refusal.step == 0 => refusal.reason.clone(),
            Some(refusal) => format!("step {} \"{}\": {}", refusal.step, refusal.sentence, refusal.reason),
        }
    }
}

impl Longhaul {
    /// Verifies features of a project against its folder as it is, telling each verdict as it comes.
    ///
    /// # Errors
    /// When there is no such project or feature, another process works on the project, or browser or sandbox are missing.
    pub async fn verify(
        &self,
        request: &VerifyRequest,
        mut tell: impl FnMut(&VerdictView),
    ) -> Result<Vec<VerdictView>, LonghaulError> {
        let project = self.project_to_work_on(&request.dir).await?;
        let rows = self.rows(&project).await?;
        if !rows.planned() {
            return Err(LonghaulError::NotPlanned { dir: request.dir.clone() });
        }
        let passing = rows.features.iter().filter(|f| f.standing.passes).map(|f| f.id().clone());
        let Some(features) = chosen(request, passing) else { return Ok(Vec::new()) };
        self.check_machine().await?;
        let lease = Lease::acquire(&self.store, &self.scope, &project.thread, LEASE).await?;
        let harness = self.harness(Arc::new(NoModel::default()), None);
        let mut views = Vec::new();
        let outcome = verify_on_demand(&harness, &project, &request.on_demand(features), |feature, verdict| {
            let view = VerdictView::of(feature, verdict);
            tell(&view);
            views.push(view);
        })
        .await;
        harness.browser.close().await;
        let released = lease.release().await;
        let verdicts = outcome?;
        released?;
        if let Some(place) = &request.evidence {
            evidence::export(&harness.workspace.task(&project.owner), place, &verdicts, &mut views).await?;
        }
        Ok(views)
    }
}

/// The features to verify, given those that the list says pass; nothing when there is none of them.
fn chosen(request: &VerifyRequest, passing: impl Iterator<Item = FeatureId>) -> Option<Vec<FeatureId>> {
    if !request.only_passing {
        return Some(request.features.clone());
    }
    let wanted = |id: &FeatureId| request.features.is_empty() || request.features.contains(id);
    let kept: Vec<FeatureId> = passing.filter(wanted).collect();
    (!kept.is_empty()).then_some(kept)
}

/// Refuses an id that the list does not have.
fn known(request: &VerifyRequest, listed: &[FeatureId]) -> Result<(), LonghaulError> {
    let Some(id) = request.features.iter().find(|id| !listed.contains(id)) else { return Ok(()) };
    let known: Vec<&str> = listed.iter().take(20).map(FeatureId::as_str).collect();
    Err(VerifyError::NoSuchFeature { id: id.clone(), known: known.join(", ") }.into())
}

/// Verification asks no model; this one refuses to be asked.
struct NoModel(ModelInfo);

impl Default for NoModel {
    fn default() -> Self {
        Self(ModelInfo { name: "none".to_owned(), provider: "none".to_owned(), window_tokens: 0 })
    }
}

#[async_trait]
impl ChatModel for NoModel {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    async fn chat(&self, _request: &ChatRequest, _on_delta: OnDelta<'_>) -> Result<ChatResponse, ModelError> {
        let reason = "verification asks no model".to_owned();
        Err(ModelError::Settings { field: "model", reason })
    }
}

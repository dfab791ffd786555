//! `verify`: verdicts on demand, for people and for CI.

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use longhaul_core::FeatureId;
use longhaul_harness::{verification::Refusal, verify_on_demand};
use longhaul_model::{ChatModel, ChatRequest, ChatResponse, ModelError, ModelInfo, OnDelta};
use longhaul_store::Lease;
use serde::Serialize;

use crate::{Longhaul, LonghaulError};

const LEASE: Duration = Duration::from_secs(30);

/// One verdict, as shown.
#[derive(Debug, Clone, Serialize)]
pub struct VerdictView {
    /// The feature.
    pub feature: String,
    /// What it is.
    pub description: String,
    /// Whether every sentence was fulfilled.
    pub passed: bool,
    /// What was not.
    pub refusal: Option<Refusal>,
    /// How long it took.
    pub elapsed_ms: u64,
}

impl Longhaul {
    /// Verifies one feature or all of them against the folder as it is, telling each verdict as it comes.
    ///
    /// # Errors
    /// When there is no such project or feature, another process works on the project, or browser or sandbox are missing.
    pub async fn verify(
        &self,
        dir: &Path,
        feature: Option<&FeatureId>,
        mut tell: impl FnMut(&VerdictView),
    ) -> Result<Vec<VerdictView>, LonghaulError> {
        let project = self.project_to_work_on(dir).await?;
        if !self.rows(&project).await?.planned() {
            return Err(LonghaulError::NotPlanned { dir: dir.to_owned() });
        }
        self.check_machine().await?;
        let lease = Lease::acquire(&self.store, &self.scope, &project.thread, LEASE).await?;
        let harness = self.harness(Arc::new(NoModel::default()), None);
        let mut views = Vec::new();
        let outcome = verify_on_demand(&harness, &project, feature, |feature, verdict| {
            let view = VerdictView {
                feature: feature.id().to_string(),
                description: feature.definition.description.clone(),
                passed: verdict.passed(),
                refusal: verdict.refusal().cloned(),
                elapsed_ms: verdict.elapsed_ms(),
            };
            tell(&view);
            views.push(view);
        })
        .await;
        harness.browser.close().await;
        let released = lease.release().await;
        outcome?;
        released?;
        Ok(views)
    }
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

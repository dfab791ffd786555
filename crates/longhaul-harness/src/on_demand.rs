//! `longhaul verify`: verifies features of a project outside a run, against the folder as it is.
//!
//! The verdict is recorded. It decides where the feature stands only when the folder is exactly the last commit: a
//! verdict over uncommitted work is news for whoever asked, not progress.

use std::sync::Arc;

use longhaul_core::FeatureId;
use longhaul_durable::StepError;
use longhaul_store::StoreError;

use crate::{
    application::Launch,
    environment::Harness,
    error::HarnessError,
    features::{self, Feature},
    git::{Git, GitError},
    history,
    project::Project,
    projections::{ProjectionError, Projections},
    verification::{self, Occasion, RecordedVerdict, Subject},
    work_tree::WorkTree,
};

/// Why a verification on demand could not be made.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// No such feature.
    #[error("there is no feature {id}; this project has {known}")]
    NoSuchFeature {
        /// The id asked for.
        id: FeatureId,
        /// The ids there are, shortened.
        known: String,
    },
    /// git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sandbox cannot be built.
    #[error(transparent)]
    Sandbox(#[from] longhaul_tools::sandbox::SandboxError),
    /// A folder cannot be made.
    #[error(transparent)]
    Folder(#[from] HarnessError),
    /// The files that show where features stand cannot be written.
    #[error(transparent)]
    Files(#[from] ProjectionError),
    /// The browser or the evidence failed: nothing was decided.
    #[error("the verification could not be carried out; `longhaul doctor` examines browser and sandbox")]
    Undecided(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// Verifies one feature, or all of them in order, telling each verdict as it comes. The caller holds the project's lease.
///
/// # Errors
/// When the feature is unknown or the verification cannot be carried out.
pub async fn verify_on_demand(
    harness: &Harness,
    project: &Project,
    wanted: Option<&FeatureId>,
    mut on_verdict: impl FnMut(&Feature, &RecordedVerdict),
) -> Result<Vec<RecordedVerdict>, VerifyError> {
    let owner = project.owner.clone();
    let all = harness.store.read(move |read| features::all(read, &owner)).await?;
    let chosen: Vec<&Feature> = all.iter().filter(|f| wanted.is_none_or(|id| f.id() == id)).collect();
    if let (Some(id), true) = (wanted, chosen.is_empty()) {
        let known: Vec<&str> = all.iter().take(20).map(|f| f.id().as_str()).collect();
        return Err(VerifyError::NoSuchFeature { id: id.clone(), known: known.join(", ") });
    }
    let place = harness.task_dir(&project.owner.task);
    let git = Git::of_project(&project.dir);
    let tree = WorkTree::open(&project.dir, &place.join("snapshots.git")).await?.snapshot().await?;
    let clean = git.patch_since_tip().await?.is_empty();
    let head = if clean { git.head().await?.map(|commit| commit.id) } else { None };
    let sandbox = harness.open_sandbox(project.dir.clone(), place.join("run"))?;
    sandbox.prepare_project()?;
    let launch = Launch { sandbox, port: harness.settings.app_port, boot_timeout: harness.settings.boot_timeout };
    let mut verdicts = Vec::new();
    for feature in chosen {
        let subject = Subject { project, feature, tree: tree.as_str(), occasion: Occasion::OnDemand };
        let verdict = verification::verify(harness, &launch, subject).await.map_err(undecided)?;
        let (owner, before, kept, bound) =
            (project.owner.clone(), feature.standing.clone(), verdict.clone(), head.clone());
        harness
            .store
            .write::<_, StoreError>(move |tx| {
                kept.commit(tx, &owner, 0, bound.as_deref())?;
                if bound.is_some() {
                    features::record_verdict(tx, &owner, &kept, &before, bound.as_deref())?;
                }
                Ok(())
            })
            .await?;
        on_verdict(feature, &verdict);
        verdicts.push(verdict);
    }
    show_standings(harness, project).await?;
    Ok(verdicts)
}

/// Writes the guarded files anew: a verdict may have changed where a feature stands.
async fn show_standings(harness: &Harness, project: &Project) -> Result<(), VerifyError> {
    let owner = project.owner.clone();
    let (features, sessions) = harness
        .store
        .read::<_, StoreError>(move |read| Ok((features::all(read, &owner)?, history::all(read, &owner)?)))
        .await?;
    Ok(Projections::render(project, &features, &sessions).write(&project.dir)?)
}

fn undecided(error: StepError) -> VerifyError {
    VerifyError::Undecided(error.into_source())
}

//! `longhaul verify`: verifies features of a project outside a run, against the folder as it is.
//!
//! The verdict is recorded. It decides where the feature stands only when the folder is exactly the last commit: a
//! verdict over uncommitted work is news for whoever asked, not progress.

use std::{io, path::PathBuf, pin::pin, sync::Arc};

use futures::{StreamExt as _, stream};
use longhaul_core::FeatureId;
use longhaul_durable::StepError;
use longhaul_store::StoreError;
use longhaul_tools::sandbox::Sandbox;

use crate::{
    application::Launch,
    bisect,
    environment::Harness,
    error::HarnessError,
    features::{self, Feature},
    git::{Git, GitError},
    history,
    project::Project,
    projections::{ProjectionError, Projections},
    standalone::Copies,
    verification::{self, Occasion, RecordedVerdict, Subject, Wishes},
    work_tree::WorkTree,
};

/// Most flows at a time.
pub const JOBS_MAX: usize = 16;

/// What is to be verified on demand, and how. Plain data; start from [`OnDemand::default`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnDemand {
    /// The features; all of them when empty.
    pub features: Vec<FeatureId>,
    /// Flows at a time; 1 to [`JOBS_MAX`].
    pub jobs: usize,
    /// A picture of every sentence, not only of the end.
    pub documented: bool,
    /// A sequence of pictures of each flow.
    pub film: bool,
    /// The pictures of `visual` checks are accepted as they are now: a person says so.
    pub accept_pictures: bool,
}

impl OnDemand {
    pub(crate) fn wishes(&self) -> Wishes {
        Wishes { documented: self.documented, film: self.film, accept_pictures: self.accept_pictures }
    }
}

impl Default for OnDemand {
    fn default() -> Self {
        Self { features: Vec::new(), jobs: 1, documented: false, film: false, accept_pictures: false }
    }
}

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

/// Verifies features of a project in order, telling each verdict as it comes. The caller holds the project's lease.
///
/// # Errors
/// When a feature is unknown or the verification cannot be carried out.
pub async fn verify_on_demand(
    harness: &Harness,
    project: &Project,
    wanted: &OnDemand,
    mut on_verdict: impl FnMut(&Feature, &RecordedVerdict),
) -> Result<Vec<RecordedVerdict>, VerifyError> {
    let chosen = choose(harness, project, &wanted.features).await?;
    let place = harness.task_dir(&project.owner.task);
    let git = Git::of_project(&project.dir);
    let submodules = git.submodules().await?;
    let git = git.keeping(&submodules);
    let tree = WorkTree::open(&project.dir, &place.join("snapshots.git"), &submodules).await?.snapshot().await?;
    let clean = git.patch_since_tip().await?.is_empty();
    let head = if clean { git.head().await?.map(|commit| commit.id) } else { None };
    let sandbox = harness.open_sandbox(project.dir.clone(), place.join("run"), &submodules)?;
    sandbox.prepare_project()?;
    let launch = Launch { sandbox, port: harness.settings.app_port, boot_timeout: harness.settings.boot_timeout };
    let searching = head.is_some().then(tokio::sync::Mutex::default);
    let flows = Flows { harness, project, tree: tree.as_str(), places: Places::Folder(launch), wanted, searching };
    let mut verdicts = Vec::new();
    let mut decided = pin!(flows.carry_out(&chosen));
    while let Some(decision) = decided.next().await {
        let (feature, verdict) = decision?;
        keep(harness, project, feature, &verdict, head.as_deref()).await?;
        on_verdict(feature, &verdict);
        verdicts.push(verdict);
    }
    show_standings(harness, project).await?;
    Ok(verdicts)
}

/// The features asked for, in the order of the list.
pub(crate) async fn choose(
    harness: &Harness,
    project: &Project,
    wanted: &[FeatureId],
) -> Result<Vec<Feature>, VerifyError> {
    let owner = project.owner.clone();
    let all = harness.store.read(move |read| features::all(read, &owner)).await?;
    if let Some(id) = wanted.iter().find(|id| !all.iter().any(|f| f.id() == *id)) {
        let known: Vec<&str> = all.iter().take(20).map(|f| f.id().as_str()).collect();
        return Err(VerifyError::NoSuchFeature { id: id.clone(), known: known.join(", ") });
    }
    Ok(all.into_iter().filter(|f| wanted.is_empty() || wanted.contains(f.id())).collect())
}

/// Where the applications of flows run.
pub(crate) enum Places {
    /// All of them in the project's own folder.
    Folder(Launch),
    /// Each in a copy that no other flow sees.
    Copies(Arc<Copies>),
}

/// Flows side by side, in one browser, each with a profile, an application and data of its own.
pub(crate) struct Flows<'a> {
    pub(crate) harness: &'a Harness,
    pub(crate) project: &'a Project,
    pub(crate) tree: &'a str,
    pub(crate) places: Places,
    pub(crate) wanted: &'a OnDemand,
    /// Held while a commit is searched for, which has one checkout; nothing is searched for without it.
    pub(crate) searching: Option<tokio::sync::Mutex<()>>,
}

impl Flows<'_> {
    /// Verdicts in the order of the features.
    pub(crate) fn carry_out<'f>(
        &'f self,
        features: &'f [Feature],
    ) -> impl stream::Stream<Item = Result<(&'f Feature, RecordedVerdict), VerifyError>> {
        let jobs = self.wanted.jobs.clamp(1, JOBS_MAX);
        let flows = features.iter().enumerate().map(move |(number, feature)| async move {
            let mut verdict = self.one(number, feature).await?;
            // Here and not where verdicts are taken: flows under way must not stand still meanwhile.
            if let (false, Some(searching)) = (verdict.passed(), &self.searching) {
                let _one_at_a_time = searching.lock().await;
                Box::pin(bisect::blame(self.harness, self.project, feature, &mut verdict)).await;
            }
            Ok((feature, verdict))
        });
        stream::iter(flows).buffered(jobs)
    }

    async fn one(&self, number: usize, feature: &Feature) -> Result<RecordedVerdict, VerifyError> {
        let subject = Subject {
            project: self.project,
            feature,
            tree: self.tree,
            occasion: Occasion::OnDemand,
            wishes: self.wanted.wishes(),
        };
        match &self.places {
            Places::Folder(launch) => verification::verify(self.harness, launch, subject).await.map_err(undecided),
            Places::Copies(copies) => {
                let (copy, sandbox) = self.prepare(number, copies).await?;
                let (port, boot_timeout) = (self.harness.settings.app_port, self.harness.settings.boot_timeout);
                let launch = Launch { sandbox, port, boot_timeout };
                let verdict = verification::verify(self.harness, &launch, subject).await;
                copies.give(copy);
                verdict.map_err(undecided)
            }
        }
    }
}

impl Flows<'_> {
    /// A copy of the folder and a sandbox around it. Copying takes its time, in which the other flows must go on.
    async fn prepare(&self, number: usize, copies: &Arc<Copies>) -> Result<(PathBuf, Sandbox), VerifyError> {
        let unusable = |source| HarnessError::Folder { path: self.project.dir.clone(), source };
        let pool = copies.clone();
        let taken = tokio::task::spawn_blocking(move || pool.take(number)).await;
        let copy = taken.map_err(io::Error::other).and_then(|taken| taken).map_err(unusable)?;
        let run = self.harness.task_dir(&self.project.owner.task).join(format!("run-{number}"));
        let sandbox = self.harness.open_sandbox(copy.clone(), run, &[])?;
        let prepared = sandbox.clone();
        let handed = tokio::task::spawn_blocking(move || prepared.prepare_project()).await;
        handed.map_err(|error| unusable(io::Error::other(error)))??;
        Ok((copy, sandbox))
    }
}

/// Keeps a verdict; one that is bound to a commit decides where its feature stands.
async fn keep(
    harness: &Harness,
    project: &Project,
    feature: &Feature,
    verdict: &RecordedVerdict,
    head: Option<&str>,
) -> Result<(), VerifyError> {
    let (owner, before, kept) = (project.owner.clone(), feature.standing.clone(), verdict.clone());
    let bound = head.map(str::to_owned);
    let written = harness
        .store
        .write::<_, StoreError>(move |tx| {
            kept.commit(tx, &owner, 0, bound.as_deref())?;
            if bound.is_some() {
                features::record_verdict(tx, &owner, &kept, &before, bound.as_deref())?;
            }
            Ok(())
        })
        .await;
    Ok(written?)
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

pub(crate) fn undecided(error: StepError) -> VerifyError {
    VerifyError::Undecided(error.into_source())
}

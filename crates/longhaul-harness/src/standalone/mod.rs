//! Verifying a folder that no store knows: a project from elsewhere, a checkout in CI. Its list is read, its application
//! is tried out in copies of the folder, and the verdicts are told to whoever asked. It owns no rows: the harness it is
//! given has a store that is thrown away.
//!
//! Invariant: the folder is read and never written, and no verdict is kept beside what the caller keeps.

mod copy;
mod list;

use std::{fs, path::Path, pin::pin, sync::Arc};

use futures::StreamExt as _;
use longhaul_core::Scope;
use longhaul_store::StoreError;

pub(crate) use copy::{Copies, copy_folder};
pub use list::{ListError, Listed, has_list, read_list};

use crate::{
    application::{FlowApp, Launch, NoFlow},
    environment::Harness,
    error::HarnessError,
    features::{self, Feature},
    on_demand::{Flows, OnDemand, Places, VerifyError, choose, undecided},
    project::{self, NewProject, Project},
    verification::{self, Occasion, RecordedVerdict, Subject},
};

const BOOT_SCRIPT: &str = "init.sh";

/// Verifies features of this list in copies of `dir`, in order, telling each verdict as it comes. `harness` has a store
/// of its own that nobody needs afterwards; evidence is there until then.
///
/// # Errors
/// When a feature is unknown or the verification cannot be carried out.
pub async fn verify_folder(
    harness: &Harness,
    scope: &Scope,
    dir: &Path,
    list: &[Listed],
    wanted: &OnDemand,
    mut on_verdict: impl FnMut(&Project, &Feature, &RecordedVerdict),
) -> Result<Vec<RecordedVerdict>, VerifyError> {
    let base = harness.work_dir.join("original");
    copied(dir, &base)?;
    let project = register(harness, scope, &base, list).await?;
    let chosen = choose(harness, &project, &wanted.features).await?;
    let (tree, mut verdicts) = (String::new(), Vec::new());
    // What the first start builds is built once; and an application that cannot start is not waited for again and again.
    let starts = chosen.iter().any(|feature| feature.definition.checks.iter().any(|check| check.action.needs_app()));
    let never = if starts { first_start(harness, &project).await? } else { None };
    if let Some(why) = never {
        for feature in &chosen {
            let subject = subject(&project, feature, &tree, wanted);
            let verdict = verification::never_started(harness, &subject, &why);
            on_verdict(&project, feature, &verdict);
            verdicts.push(verdict);
        }
        return Ok(verdicts);
    }
    let copies = Copies::of(&base, &harness.work_dir).map_err(|source| unusable(&base, source))?;
    let flows = Flows {
        harness,
        project: &project,
        tree: &tree,
        places: Places::Copies(Arc::new(copies)),
        wanted,
        searching: None,
    };
    let mut decided = pin!(flows.carry_out(&chosen));
    while let Some(decision) = decided.next().await {
        let (feature, verdict) = decision?;
        // The rows of its evidence: whoever is told may read it.
        let (owner, kept) = (project.owner.clone(), verdict.clone());
        harness.store.write::<_, StoreError>(move |tx| kept.commit(tx, &owner, 0, None)).await?;
        on_verdict(&project, feature, &verdict);
        verdicts.push(verdict);
    }
    Ok(verdicts)
}

fn unusable(path: &Path, source: std::io::Error) -> HarnessError {
    HarnessError::Folder { path: path.to_owned(), source }
}

fn copied(dir: &Path, base: &Path) -> Result<(), HarnessError> {
    fs::create_dir_all(base).map_err(|source| unusable(base, source))?;
    copy_folder(dir, base).map_err(|source| unusable(dir, source))
}

fn subject<'a>(project: &'a Project, feature: &'a Feature, tree: &'a str, wanted: &OnDemand) -> Subject<'a> {
    Subject { project, feature, tree, occasion: Occasion::OnDemand, wishes: wanted.wishes() }
}

/// Makes the list a project of the store that is thrown away.
async fn register(harness: &Harness, scope: &Scope, base: &Path, list: &[Listed]) -> Result<Project, VerifyError> {
    let new = NewProject {
        dir: base.to_owned(),
        request: "a feature list from elsewhere".to_owned(),
        model: "none".to_owned(),
        base_url: None,
        profile: crate::Profile::Software,
        adopted: None,
    };
    let (scope, definitions) = (scope.clone(), list.iter().filter(|l| l.has_checks()).map(|l| l.definition.clone()));
    let definitions: Vec<_> = definitions.collect();
    let made = harness
        .store
        .write::<_, StoreError>(move |tx| {
            let project = project::create(tx, &scope, new)?;
            features::lock(tx, &project.owner, 0, &definitions)?;
            Ok(project)
        })
        .await;
    Ok(made?)
}

/// Starts the application once, on data that is thrown away; tells why it does not start. A folder without the script
/// has no application.
async fn first_start(harness: &Harness, project: &Project) -> Result<Option<String>, VerifyError> {
    if !project.dir.join(BOOT_SCRIPT).exists() {
        return Ok(None);
    }
    let place = harness.task_dir(&project.owner.task);
    let scratch = place.join("flows");
    fs::create_dir_all(&scratch).map_err(|source| unusable(&scratch, source))?;
    let sandbox = harness.open_sandbox(project.dir.clone(), place.join("run"), &[])?;
    sandbox.prepare_project()?;
    let launch = Launch { sandbox, port: harness.settings.app_port, boot_timeout: harness.settings.boot_timeout };
    match FlowApp::start(launch, &scratch).await {
        Ok(app) => {
            app.stop().await;
            Ok(None)
        }
        Err(NoFlow::App(why)) => Ok(Some(why)),
        Err(NoFlow::Here(error)) => Err(undecided(error)),
    }
}

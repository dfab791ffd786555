//! A folder's own list, verified with a home that is made for it and gone afterwards: nothing has to be set up before,
//! and nothing is left behind.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use longhaul_harness::standalone::{Listed, has_list, read_list, verify_folder};

use super::{NoModel, VerdictView, VerifyRequest, chosen, evidence, known};
use crate::{Longhaul, LonghaulError, Program, folder::absolute, settings::Settings};

/// Verifies a folder: as the store's project if the home knows it, else by its own `feature_list.json`. Each verdict is
/// told as it comes.
///
/// # Errors
/// When the folder has neither, the list cannot be verified as it stands, or browser or sandbox are missing.
pub async fn verify(
    settings: Settings,
    program: Program,
    request: &VerifyRequest,
    tell: impl FnMut(&VerdictView),
) -> Result<Vec<VerdictView>, LonghaulError> {
    let listed = has_list(&request.dir);
    // A machine that only verifies needs no home.
    if listed && !settings.home.join("longhaul.db").exists() {
        return by_list(settings, program, request, tell).await;
    }
    let longhaul = Longhaul::open(settings.clone(), program.clone()).await?;
    match longhaul.project(&request.dir).await {
        Err(
            LonghaulError::NotAProject { .. } | LonghaulError::OtherHome { .. } | LonghaulError::FolderIsCopy { .. },
        ) if listed => by_list(settings, program, request, tell).await,
        _ => longhaul.verify(request, tell).await,
    }
}

/// Verifies what the folder's own list says.
async fn by_list(
    settings: Settings,
    program: Program,
    request: &VerifyRequest,
    mut tell: impl FnMut(&VerdictView),
) -> Result<Vec<VerdictView>, LonghaulError> {
    let dir = absolute(&request.dir)?;
    let list = read_list(&dir)?;
    let ids: Vec<_> = list.iter().map(|listed| listed.definition.id.clone()).collect();
    known(request, &ids)?;
    let passing = list.iter().filter(|listed| listed.passes).map(|listed| listed.definition.id.clone());
    let Some(features) = chosen(request, passing) else { return Ok(Vec::new()) };
    let (checked, unchecked): (Vec<&Listed>, Vec<&Listed>) = list
        .iter()
        .filter(|l| features.is_empty() || features.contains(&l.definition.id))
        .partition(|listed| listed.has_checks());
    let mut views = Vec::new();
    if !checked.is_empty() {
        let features = checked.iter().map(|listed| listed.definition.id.clone()).collect();
        views = in_a_home(settings, program, (&dir, &list), &request.on_demand(features), request, &mut tell).await?;
    }
    for listed in unchecked {
        let view = without_checks(listed);
        tell(&view);
        views.push(view);
    }
    // In the order of the list, as everywhere.
    views.sort_by_key(|view| ids.iter().position(|id| id.as_str() == view.feature));
    if let Some(place) = &request.evidence {
        evidence::write_report(place, &views)?;
    }
    Ok(views)
}

async fn in_a_home(
    settings: Settings,
    program: Program,
    (dir, list): (&Path, &[Listed]),
    wanted: &longhaul_harness::OnDemand,
    request: &VerifyRequest,
    tell: &mut dyn FnMut(&VerdictView),
) -> Result<Vec<VerdictView>, LonghaulError> {
    let failed = |source| LonghaulError::Folder { dir: std::env::temp_dir(), source };
    let home = tempfile::Builder::new().prefix("longhaul-verify-").tempdir().map_err(failed)?;
    // The user of the sandbox has to get to the copies in it.
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).map_err(failed)?;
    let longhaul = Longhaul::open(throw_away(settings, home.path()), program).await?;
    longhaul.check_machine().await?;
    let harness = longhaul.harness(Arc::new(NoModel::default()), None);
    let (mut views, mut owner) = (Vec::new(), None);
    let outcome = verify_folder(&harness, &longhaul.scope, dir, list, wanted, |project, feature, verdict| {
        let view = VerdictView::of(feature, verdict);
        tell(&view);
        views.push(view);
        owner = Some(project.owner.clone());
    })
    .await;
    harness.browser.close().await;
    let verdicts = outcome?;
    if let (Some(place), Some(owner)) = (&request.evidence, owner) {
        evidence::export(&harness.workspace.task(&owner), place, &verdicts, &mut views).await?;
    }
    Ok(views)
}

/// The same settings with nothing of the user's own to write to.
fn throw_away(settings: Settings, home: &Path) -> Settings {
    let mut settings = Settings { home: home.join("home"), blobs: None, ..settings };
    settings.memory.uri = None;
    settings.memory.cold = None;
    settings
}

fn without_checks(listed: &Listed) -> VerdictView {
    VerdictView {
        feature: listed.definition.id.to_string(),
        category: listed.definition.category.clone(),
        description: listed.definition.description.clone(),
        passed: false,
        unchecked: true,
        refusal: None,
        elapsed_ms: 0,
        evidence: Vec::new(),
    }
}

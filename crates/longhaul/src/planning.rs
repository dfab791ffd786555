//! What a person does with a plan: features come, go, are split; proposals to change a check are decided. The rows change
//! at once; the files in the folder too, unless a run is at work, whose next session writes them.

use std::{path::Path, time::Duration};

use longhaul_harness::{
    planning::{self, Change, Changed, Recorded, publish},
    project::Project,
    proposals::{self, Proposal},
};
use longhaul_store::{Lease, LeaseError, StoreError};

use crate::{Longhaul, LonghaulError};

const LEASE: Duration = Duration::from_secs(30);

/// Where a change of the plan can be seen already.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// In the folder, with this commit; none when the files were as they are.
    Committed(Option<String>),
    /// In the store; the run that is at work writes the files with its next session.
    WithNextSession,
}

impl Longhaul {
    /// Changes the plan, for a reason that is kept.
    ///
    /// # Errors
    /// When there is no project, its plan is not locked yet, or the change makes no sense.
    pub async fn change_plan(
        &self,
        dir: &Path,
        change: Change,
        reason: &str,
    ) -> Result<(Changed, Shown), LonghaulError> {
        let project = self.planned_project(dir).await?;
        let subject = match &change {
            Change::Add(_) => "features added".to_owned(),
            Change::Split { feature, .. } => format!("{feature} split"),
            Change::Retire { feature } => format!("{feature} retired"),
        };
        let (owner, by, why) = (project.owner.clone(), self.scope.user.to_string(), reason.to_owned());
        let changed = self.store.write(move |tx| planning::apply(tx, &owner, &by, &why, change)).await?;
        let shown = self.show_plan(&project, &format!("chore: {subject}\n\n{}", reason.trim())).await?;
        Ok((changed, shown))
    }

    /// The audit trail of the plan, oldest first.
    ///
    /// # Errors
    /// When there is no project or the store cannot be read.
    pub async fn plan_changes(&self, dir: &Path) -> Result<Vec<Recorded>, LonghaulError> {
        let owner = self.project(dir).await?.owner;
        Ok(self.store.read::<_, StoreError>(move |read| planning::recorded(read, &owner)).await?)
    }

    /// Proposals to change how features are verified, oldest first.
    ///
    /// # Errors
    /// When there is no project or the store cannot be read.
    pub async fn proposals(&self, dir: &Path) -> Result<Vec<Proposal>, LonghaulError> {
        let owner = self.project(dir).await?.owner;
        Ok(self.store.read::<_, StoreError>(move |read| proposals::all(read, &owner)).await?)
    }

    /// Decides on a proposal.
    ///
    /// # Errors
    /// When there is no such proposal, it is decided, or what it would change has changed.
    pub async fn decide_proposal(
        &self,
        dir: &Path,
        id: &str,
        approve: bool,
        note: &str,
    ) -> Result<(Proposal, Shown), LonghaulError> {
        let project = self.planned_project(dir).await?;
        let (owner, by) = (project.owner.clone(), self.scope.user.to_string());
        let (wanted, said) = (id.to_owned(), note.to_owned());
        let decide = self.store.write(move |tx| proposals::decide(tx, &owner, &wanted, approve, (&by, &said)));
        let proposal = decide.await?;
        let message = format!("chore: checks of {} changed by {id}\n\n{}", proposal.feature, note.trim());
        let shown = if approve { self.show_plan(&project, &message).await? } else { Shown::Committed(None) };
        Ok((proposal, shown))
    }

    async fn planned_project(&self, dir: &Path) -> Result<Project, LonghaulError> {
        let project = self.project_to_work_on(dir).await?;
        if !self.rows(&project).await?.planned() {
            return Err(LonghaulError::NotPlanned { dir: dir.to_owned() });
        }
        Ok(project)
    }

    async fn show_plan(&self, project: &Project, message: &str) -> Result<Shown, LonghaulError> {
        let lease = match Lease::acquire(&self.store, &self.scope, &project.thread, LEASE).await {
            Ok(lease) => lease,
            Err(LeaseError::Held { .. }) => return Ok(Shown::WithNextSession),
            Err(error) => return Err(error.into()),
        };
        let published = publish(&self.store, project, message).await;
        lease.release().await?;
        Ok(Shown::Committed(published.map_err(LonghaulError::Publish)?.map(|commit| commit.id)))
    }
}

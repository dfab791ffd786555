//! People who work along with a run: a word for its agent, a pause, the folder for themselves, and back again.
//!
//! It owns what a person asks for; a run listens to it (`people` of the harness). Invariant: what a person changed is
//! committed as theirs and verified before anything is built on it; nobody's word makes a feature pass.

use std::{path::Path, time::Duration};

use longhaul_harness::{
    Git, Projections,
    people::{self, Order, OrderKind},
};
use longhaul_store::{Lease, StoreError};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{Ending, Longhaul, LonghaulError, RunLimits};

/// How often somebody who waits for the folder looks whether the run has let it go.
const LOOK: Duration = Duration::from_millis(500);
const LEASE: Duration = Duration::from_secs(30);

/// What became of a project that goes on.
#[derive(Debug, Clone, Serialize)]
pub struct Resumed {
    /// The orders that were lifted.
    pub lifted: Vec<Order>,
    /// The commit with what a person changed, if they left something uncommitted.
    pub commit: Option<String>,
}

impl Resumed {
    /// Whether a person had the folder, so that what passes is to be verified again.
    #[must_use]
    pub fn was_taken_over(&self) -> bool {
        self.lifted.iter().any(|order| order.kind == OrderKind::TakeOver)
    }
}

impl Longhaul {
    /// Leaves a word for the project's agent, which hears it before its next answer; without a session under way, in the
    /// next one. Gives the word's number, `None` when too many wait already.
    ///
    /// # Errors
    /// When there is no project in the folder, or the store cannot be written.
    pub async fn steer(&self, dir: &Path, by: &str, text: &str) -> Result<Option<u64>, LonghaulError> {
        let project = self.project(dir).await?;
        let (owner, by, text) = (project.owner, by.to_owned(), text.trim().to_owned());
        Ok(self.store.write::<_, StoreError>(move |tx| people::steer(tx, &owner, &by, &text)).await?)
    }

    /// Stops the project's run at its next step and keeps others from beginning, until [`Self::resume`].
    ///
    /// # Errors
    /// As [`Self::steer`].
    pub async fn pause(&self, dir: &Path, by: &str, reason: &str) -> Result<(), LonghaulError> {
        self.order(dir, OrderKind::Pause, by, reason).await
    }

    /// Gives the folder to a person: a session under way ends in order, its unfinished work is kept as a patch and the
    /// folder is left as the last commit has it. Returns when nothing of ours touches it any more.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn take_folder(
        &self,
        dir: &Path,
        by: &str,
        reason: &str,
        cancel: CancellationToken,
    ) -> Result<Ending, LonghaulError> {
        self.order(dir, OrderKind::TakeOver, by, reason).await?;
        let mut looks = tokio::time::interval(LOOK);
        loop {
            looks.tick().await;
            if cancel.is_cancelled() {
                return Ok(Ending::Interrupted);
            }
            match self.run(dir, RunLimits::default(), cancel.clone()).await {
                Ok(report) => return Ok(report.ending),
                // The run that has it hears of the order between two answers of its model.
                Err(LonghaulError::Busy(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Lifts what stopped a project. What a person changed in the meantime becomes a commit of theirs, with the guarded
    /// files as the store has them; [`Self::verify`] then says what still passes. It starts no run.
    ///
    /// # Errors
    /// When there is no project, another process works on it, or git fails; then the orders stand as they did.
    pub async fn resume(&self, dir: &Path, by: &str) -> Result<Resumed, LonghaulError> {
        let project = self.project_to_work_on(dir).await?;
        let owner = project.owner.clone();
        let standing = self.store.read::<_, StoreError>(move |read| people::orders(read, &owner)).await?;
        let taken = standing.iter().find(|order| order.kind == OrderKind::TakeOver);
        let mut commit = None;
        if let Some(taken) = taken {
            let lease = Lease::acquire(&self.store, &self.scope, &project.thread, LEASE).await?;
            let rows = self.rows(&project).await?;
            Projections::render(&project, &rows.features, &rows.sessions).write(&project.dir)?;
            let message = if taken.reason.is_empty() { "changes by hand" } else { taken.reason.as_str() };
            let made = Git::of_project(&project.dir).commit_by(&taken.given_by, message).await;
            lease.release().await?;
            commit = made?.map(|made| made.id);
        }
        let (owner, by) = (project.owner.clone(), by.to_owned());
        let lifted = self.store.write::<_, StoreError>(move |tx| people::lift(tx, &owner, &by)).await?;
        Ok(Resumed { lifted, commit })
    }

    async fn order(&self, dir: &Path, kind: OrderKind, by: &str, reason: &str) -> Result<(), LonghaulError> {
        let project = self.project(dir).await?;
        let (owner, by, reason) = (project.owner, by.to_owned(), reason.trim().to_owned());
        self.store.write::<_, StoreError>(move |tx| people::order(tx, &owner, kind, &by, &reason)).await?;
        Ok(())
    }
}

//! The user's own command, told of what happens in a project (`notices` of the harness): when it is told, and of which end.
//!
//! Invariant: nothing here fails a run; without a command nothing is started and nothing written.

use longhaul_harness::{
    notices::{Ended, Hook, HookLimits, Teller},
    project::Project,
};
use longhaul_store::StoreError;

use crate::{Ending, Longhaul, LonghaulError, RunReport, settings::Settings};

impl Longhaul {
    /// Begins to tell the user of the project's events, if they want to be told.
    pub(crate) async fn teller(&self, project: &Project) -> Option<Teller> {
        if self.settings.notify.is_empty() {
            return None;
        }
        let hook = Hook {
            command: self.settings.notify.clone(),
            dir: self.settings.home.clone(),
            hidden: Settings::secret_variables(),
            limits: HookLimits::default(),
        };
        let begun = Teller::begin(self.store.clone(), project.owner.clone(), project.dir.clone(), hook).await;
        begun.inspect_err(|error| tracing::warn!(%error, "nobody is told of this run's events")).ok()
    }

    /// Writes down how a run ended, and tells what is not told yet.
    pub(crate) async fn tell_end(
        &self,
        project: &Project,
        ended: &Result<RunReport, LonghaulError>,
        teller: Option<Teller>,
    ) {
        let Some(teller) = teller else { return };
        if let Some(ended) = self.end_of(project, ended).await {
            let owner = project.owner.clone();
            let written = self
                .store
                .write::<_, StoreError>(move |tx| tx.append_event(&owner, None, None, ended.event()).map(drop))
                .await;
            if let Err(error) = written {
                tracing::warn!(%error, "nobody is told how the run ended");
            }
        }
        teller.end().await;
    }

    async fn end_of(&self, project: &Project, ended: &Result<RunReport, LonghaulError>) -> Option<Ended> {
        match ended {
            Ok(report) => Some(Ended {
                ending: ending_name(report.ending).to_owned(),
                limit: report.limit.clone(),
                passing: report.passing,
                total: report.total,
                parked: report.parked,
            }),
            // Whoever has the project tells of it.
            Err(LonghaulError::Busy(_)) => None,
            Err(_) => {
                let rows = self.rows(project).await.ok()?;
                let count = |of: fn(&crate::Feature) -> bool| rows.features.iter().filter(|f| of(f)).count();
                Some(Ended {
                    ending: "failed".to_owned(),
                    limit: None,
                    passing: count(|f| f.standing.passes),
                    total: rows.features.len(),
                    parked: count(|f| f.standing.parked),
                })
            }
        }
    }
}

fn ending_name(ending: Ending) -> &'static str {
    match ending {
        Ending::Done => "done",
        Ending::Planned => "planned",
        Ending::Limit => "limit",
        Ending::Budget => "budget",
        Ending::Stuck => "stuck",
        Ending::Waiting => "waiting",
        Ending::Paused => "paused",
        Ending::TakenOver => "taken_over",
        Ending::Interrupted => "interrupted",
    }
}

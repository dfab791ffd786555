//! Taking a parked feature up again: a person's word, recorded with its reason. It never makes a feature pass.

use std::path::Path;

use longhaul_core::{EventDraft, FeatureId};
use longhaul_harness::{Projections, features};
use longhaul_store::{StoreError, lease_holder};
use serde_json::json;

use crate::{FeatureView, Longhaul, LonghaulError, queries::view};

impl Longhaul {
    /// Takes a feature up again that was put aside: the next session that is free for it works on it, with all its
    /// attempts.
    ///
    /// # Errors
    /// [`LonghaulError::NotParked`]; when there is no project in the folder, or the store or the folder cannot be written.
    pub async fn unpark(&self, dir: &Path, feature: &FeatureId, reason: &str) -> Result<FeatureView, LonghaulError> {
        let project = self.project(dir).await?;
        let (owner, id, reason) = (project.owner.clone(), feature.clone(), reason.trim().to_owned());
        let (scope, thread) = (self.scope.clone(), project.thread.clone());
        let write = self.store.write::<_, StoreError>(move |tx| {
            let unparked = features::unpark(tx, &owner, &id, &reason)?;
            if unparked.is_some() {
                let draft = EventDraft::business("feature.unparked", json!({"feature": id, "reason": reason}));
                tx.append_event(&owner, None, None, draft)?;
            }
            Ok((unparked.is_some(), lease_holder(tx, &scope, &thread)?.is_some()))
        });
        let (unparked, running) = write.await?;
        let rows = self.rows(&project).await?;
        let found = rows.features.iter().find(|f| f.id() == feature).cloned();
        let why = if found.is_some() { "is not parked" } else { "is no feature of this project" };
        let Some(found) = found.filter(|_| unparked) else {
            return Err(LonghaulError::NotParked { feature: feature.to_string(), why, dir: project.dir });
        };
        // A run renders the files itself; where none is, what the store says is shown at once.
        if !running && project.dir.is_dir() {
            Projections::render(&project, &rows.features, &rows.sessions).write(&project.dir)?;
        }
        Ok(view(found))
    }
}

//! Changes that somebody left in the folder without committing them: kept as a record, then cleared away, so that a
//! session and the final check look at nothing but what is committed.
//!
//! Invariant: nothing is lost. Keeping and clearing are two steps; a crash between them leaves the record.

use longhaul_core::EventDraft;
use longhaul_durable::{NodeError, StepError};
use longhaul_workspace::{Ingest, Kind, StagedRecord};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{sitting::Sitting, work_tree::TreeId};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) undone: Vec<(String, String)>,
    /// Record that keeps changes which somebody left in the folder without committing them.
    set_aside: Option<String>,
    #[serde(skip)]
    staged: Option<StagedRecord>,
}

/// Keeps changes that were left in the folder as a record, before a later step clears them away: two steps, so that a
/// crash between keeping and clearing loses nothing.
pub(crate) async fn set_aside(s: &Sitting<'_>) -> Result<Found, NodeError> {
    let look = async {
        let undone = s.restore_guarded()?.into_iter().map(|u| (u.path, u.how)).collect();
        let stray = s.git.patch_since_tip().await?;
        if stray.is_empty() {
            return Ok(Found { undone, set_aside: None, staged: None });
        }
        let summary = "changes found in the folder that nobody had committed";
        let source = "harness, set aside so that work starts from the last commit";
        let patch = Ingest {
            media_type: "text/x-diff".to_owned(),
            ..Ingest::new(Kind::Artifact, "unfinished", summary, source, stray)
        };
        let record = s.harness.workspace.task(&s.owner()).stage(patch).await?;
        Ok(Found { undone, set_aside: Some(record.reference().id.to_string()), staged: Some(record) })
    };
    let events = |found: &Found| {
        let kept = found.set_aside.iter();
        kept.map(|record| EventDraft::business("changes.set_aside", json!({"record": record}))).collect()
    };
    s.record_with("set_aside", look, events, |tx, found| {
        Ok(found.staged.iter().try_for_each(|record| record.commit(tx))?)
    })
    .await
}

/// Makes the folder the last commit with the guarded files as the store has them; gives its tree.
pub(crate) async fn clear(s: &Sitting<'_>) -> Result<TreeId, StepError> {
    s.git.reset_to_tip().await?;
    s.restore_guarded()?;
    s.hand_to_sandbox()?;
    s.work_tree.forget().await;
    s.snapshot().await
}

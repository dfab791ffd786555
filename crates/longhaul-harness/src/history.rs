//! Work sessions as they are remembered: one entry each, the source of `progress.json` and of the next session's
//! orientation.

use longhaul_core::{FeatureId, TaskScope, TimeMs};
use longhaul_store::{ReadTx, StoreError, Tx, values};
use serde::{Deserialize, Serialize};

const SCHEMA: i64 = 1;

/// What a work session was for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "mode")]
pub enum Purpose {
    /// Plan the features.
    Initialize,
    /// Build a feature that has never passed.
    Build {
        /// Which one.
        feature: FeatureId,
    },
    /// Mend a feature that used to pass.
    Repair {
        /// Which one.
        feature: FeatureId,
    },
}

impl Purpose {
    /// The feature worked on, in a coding session.
    #[must_use]
    pub fn feature(&self) -> Option<&FeatureId> {
        match self {
            Self::Initialize => None,
            Self::Build { feature } | Self::Repair { feature } => Some(feature),
        }
    }
}

/// How a work session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionOutcome {
    /// The plan is locked.
    Planned,
    /// The verifier accepted the feature; it is committed.
    Verified,
    /// Not finished: nothing advanced, the folder is back at the last commit.
    HandedOver,
}

/// One work session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEntry {
    /// 0 for the initializer, then 1, 2, …
    pub number: u32,
    /// What it was for.
    pub purpose: Purpose,
    /// How it ended.
    pub outcome: SessionOutcome,
    /// What was done, or what the next session should know.
    pub summary: String,
    /// The commit it made.
    pub commit: Option<String>,
    /// Record that keeps unfinished work as a patch.
    pub unfinished: Option<String>,
    /// Claims of success that the verifier refused.
    pub refused_claims: u32,
    /// Answers of the model.
    pub turns: u32,
    /// Tokens sent.
    pub prompt_tokens: u64,
    /// Tokens received.
    pub answer_tokens: u64,
    /// When it began.
    pub started_at: TimeMs,
    /// When it ended.
    pub ended_at: TimeMs,
}

/// Keeps a session's entry.
///
/// # Errors
/// When the store cannot be written, or the session has an entry already.
pub(crate) fn append(tx: &mut Tx<'_>, owner: &TaskScope, entry: &SessionEntry) -> Result<(), StoreError> {
    let json = serde_json::to_string(entry).map_err(StoreError::record("work session", entry.number))?;
    tx.execute(
        "insert into work_sessions (tenant_id, task_id, number, entry, schema) values (?1, ?2, ?3, ?4, ?5)",
        &values![&owner.scope.tenant, &owner.task, entry.number, json, SCHEMA],
    )?;
    Ok(())
}

/// All sessions of the task, oldest first.
///
/// # Errors
/// When the store cannot be read, or an entry is not what was written.
pub fn all(read: &ReadTx<'_>, owner: &TaskScope) -> Result<Vec<SessionEntry>, StoreError> {
    read.query(
        "select number, entry from work_sessions where tenant_id = ?1 and task_id = ?2 order by number",
        &values![&owner.scope.tenant, &owner.task],
        |row| serde_json::from_str(row.text(1)?).map_err(StoreError::record("work session", row.get::<u32>(0)?)),
    )
}

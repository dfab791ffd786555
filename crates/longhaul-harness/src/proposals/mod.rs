//! Proposals to change how a feature is verified. An agent may propose, with a reason; a person decides, or a reviewer model
//! that sees the request, the old, the new and the reason, and nothing of the session that proposes.
//!
//! Invariant: a proposal changes nothing. Only [`decide`] does, in one transaction with its entry in the audit trail; a
//! feature whose checks were changed does not pass until a verdict over the new ones says so.

mod review;
mod tool;

use longhaul_core::{Digest, EventDraft, FeatureId, TaskScope, TimeMs};
use longhaul_store::{ReadTx, StoreError, Tx, values};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    checks::Check,
    features::{self, Definition},
    planning::record_change,
};

const SCHEMA: i64 = 1;
const NOTE_CHARS_MAX: usize = 2_000;

/// What proves a feature: its sentences, and the same as checks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The sentences.
    pub steps: Vec<String>,
    /// The checks.
    pub checks: Vec<Check>,
    /// The digest of both.
    pub hash: Digest,
}

impl Proof {
    fn of(feature: &Definition) -> Self {
        Self { steps: feature.steps.clone(), checks: feature.checks.clone(), hash: feature.checks_hash }
    }
}

/// What has become of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalState {
    /// Somebody has to decide.
    Pending,
    /// The checks were changed.
    Approved,
    /// They were not.
    Rejected,
}

impl ProposalState {
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
        }
    }
}

/// A proposal as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// `P1`, `P2`, …, within the project.
    pub id: String,
    /// The feature.
    pub feature: FeatureId,
    /// What the feature is, in one sentence.
    pub description: String,
    /// The session that proposes.
    pub session: u32,
    /// What has become of it.
    pub state: ProposalState,
    /// Why, in the agent's words.
    pub reason: String,
    /// What holds while it waits.
    pub before: Proof,
    /// What would hold.
    pub after: Proof,
    /// When it was made.
    pub at: TimeMs,
    /// Who decided, with what was said to it.
    pub decided: Option<Decided>,
}

/// Who decided, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// A person's id, or the reviewer with its model.
    pub by: String,
    /// What was said to it.
    pub note: String,
    /// When.
    pub at: TimeMs,
}

/// Why a proposal was not decided.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// No such proposal.
    #[error("there is no proposal {id}; `longhaul features proposals` lists them")]
    NoSuchProposal {
        /// The id.
        id: String,
    },
    /// It has been decided.
    #[error("{id} was {state} already by {by}")]
    Decided {
        /// The proposal.
        id: String,
        /// What was decided.
        state: &'static str,
        /// By whom.
        by: String,
    },
    /// What it would change is not there any more.
    #[error("{feature} has other checks than those {id} would change, or is no longer planned; reject it")]
    Stale {
        /// The proposal.
        id: String,
        /// The feature.
        feature: FeatureId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// All proposals of a project, oldest first.
///
/// # Errors
/// When the store cannot be read.
pub fn all(read: &ReadTx<'_>, owner: &TaskScope) -> Result<Vec<Proposal>, StoreError> {
    read.query(
        "select proposal_id, proposal from check_proposals where tenant_id = ?1 and task_id = ?2
         order by at, proposal_id",
        &values![&owner.scope.tenant, &owner.task],
        |row| {
            let id: String = row.get(0)?;
            serde_json::from_str(row.text(1)?).map_err(StoreError::record("proposal", id))
        },
    )
}

/// Files a proposal.
fn file(tx: &mut Tx<'_>, owner: &TaskScope, proposal: &Proposal) -> Result<(), StoreError> {
    let json = serde_json::to_string(proposal).map_err(StoreError::record("proposal", &proposal.id))?;
    tx.execute(
        "insert into check_proposals (tenant_id, task_id, proposal_id, feature_id, session, state, proposal, at, schema)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        &values![
            &owner.scope.tenant,
            &owner.task,
            &proposal.id,
            &proposal.feature,
            proposal.session,
            proposal.state.name(),
            json,
            proposal.at,
            SCHEMA,
        ],
    )?;
    Ok(())
}

/// Decides on a proposal; an approved one changes the feature's sentences and checks.
///
/// # Errors
/// When there is nothing to decide, or what it would change has changed: then nothing is written.
pub fn decide(
    tx: &mut Tx<'_>,
    owner: &TaskScope,
    id: &str,
    approve: bool,
    (by, note): (&str, &str),
) -> Result<Proposal, DecideError> {
    let found = all(tx, owner)?.into_iter().find(|proposal| proposal.id == id);
    let Some(mut proposal) = found else { return Err(DecideError::NoSuchProposal { id: id.to_owned() }) };
    if let Some(decided) = &proposal.decided {
        let (state, by) = (proposal.state.name(), decided.by.clone());
        return Err(DecideError::Decided { id: id.to_owned(), state, by });
    }
    let note: String = note.trim().chars().take(NOTE_CHARS_MAX).collect();
    let change = if approve {
        let feature = features::all(tx, owner)?.into_iter().find(|f| *f.id() == proposal.feature);
        let feature = feature.filter(|f| f.definition.checks_hash == proposal.before.hash);
        let Some(feature) = feature else {
            return Err(DecideError::Stale { id: id.to_owned(), feature: proposal.feature });
        };
        let Proof { steps, checks, hash } = proposal.after.clone();
        let changed = Definition { steps, checks, checks_hash: hash, ..feature.definition };
        features::relock(tx, owner, &changed)?;
        "checks_changed"
    } else {
        "change_rejected"
    };
    proposal.state = if approve { ProposalState::Approved } else { ProposalState::Rejected };
    proposal.decided = Some(Decided { by: by.to_owned(), note: note.clone(), at: tx.now() });
    let json = serde_json::to_string(&proposal).map_err(StoreError::record("proposal", id))?;
    let now = tx.now();
    tx.execute(
        "update check_proposals set state = ?4, proposal = ?5, decided_at = ?6
         where tenant_id = ?1 and task_id = ?2 and proposal_id = ?3",
        &values![&owner.scope.tenant, &owner.task, id, proposal.state.name(), json, now],
    )?;
    let detail = json!({
        "proposal": id, "proposed_in_session": proposal.session, "proposed_because": proposal.reason,
        "before": proposal.before, "after": proposal.after,
    });
    record_change(tx, owner, &proposal.feature, change, (by, &note), &detail)?;
    let data = json!({
        "proposal": id, "feature": proposal.feature, "decision": proposal.state, "by": by, "note": note,
    });
    tx.append_event(owner, None, None, EventDraft::business("check.decided", data))?;
    Ok(proposal)
}

//! The tool `propose_check_change`, as a session's host carries it out. Whether the proposal is well formed is part of the
//! recorded step: a session that is replayed after somebody has decided goes the way it went.

use longhaul_agent::ToolTurn;
use longhaul_core::{EventDraft, FeatureId};
use longhaul_durable::{NodeError, StepError};
use longhaul_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Proof, Proposal, ProposalState, all, file, review};
use crate::{
    host::{Host, told},
    planning::{Reviewer, parse_definition},
    sitting::Sitting,
};

/// Proposals of one session.
const SESSION_MAX: usize = 3;
/// Fewest characters of a reason: a word is none.
const REASON_CHARS_MIN: usize = 15;
const REASON_CHARS_MAX: usize = 2_000;

/// What became of a call.
#[derive(Debug, Serialize, Deserialize)]
enum Outcome {
    Refused { why: String },
    Filed { proposal: Box<Proposal>, by_model: bool },
}

impl Host<'_> {
    pub(crate) async fn propose_check_change(&self, arguments: &Value) -> Result<ToolTurn, NodeError> {
        let s = self.sitting;
        let work = async {
            match consider(s, arguments).await? {
                Ok(proposal) => {
                    let by_model = s.harness.settings.planning.reviewer == Reviewer::Model;
                    Ok(Outcome::Filed { proposal: Box::new(proposal), by_model })
                }
                Err(why) => Ok(Outcome::Refused { why }),
            }
        };
        let owner = s.owner();
        let outcome = s
            .record_with("tool:propose_check_change", work, events, move |tx, outcome| match outcome {
                Outcome::Filed { proposal, .. } => file(tx, &owner, proposal),
                Outcome::Refused { .. } => Ok(()),
            })
            .await?;
        let (proposal, by_model) = match outcome {
            Outcome::Refused { why } => return Ok(told(format!("REFUSED: {why}"))),
            Outcome::Filed { proposal, by_model } => (proposal, by_model),
        };
        let decided = if by_model { review::decide_by_model(s, &proposal).await? } else { None };
        let (id, feature) = (&proposal.id, &proposal.feature);
        let Some(review::Decision { approve, note }) = decided else {
            return Ok(told(format!(
                "{id} is filed: a person decides whether the checks of {feature} change. Until then the old ones hold. Go \
                 on with what they ask, or call `hand_over` and say what you wait for"
            )));
        };
        s.refresh().await?;
        Ok(told(if approve {
            format!(
                "{id} is APPROVED ({note}): {feature} is now verified by the checks you proposed, and does not pass \
                     before a verdict over them"
            )
        } else {
            format!("{id} is REJECTED ({note}): the checks of {feature} stay as they are")
        }))
    }
}

/// Holds a proposal against the plan and the rules of checks; a text says why it is none.
async fn consider(s: &Sitting<'_>, arguments: &Value) -> Result<Result<Proposal, String>, StepError> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::trim).unwrap_or_default();
    let id = text("feature");
    let owner = s.owner();
    let (features, earlier) = s
        .harness
        .store
        .read::<_, StoreError>(move |read| Ok((crate::features::all(read, &owner)?, all(read, &owner)?)))
        .await
        .map_err(StepError::from)?;
    let wanted: Option<FeatureId> = id.parse().ok();
    let Some(feature) = features.into_iter().find(|f| Some(f.id()) == wanted.as_ref()) else {
        return Ok(Err(format!("feature: there is no feature {id:?} in the plan")));
    };
    let reason = text("reason");
    if reason.chars().count() < REASON_CHARS_MIN {
        return Ok(Err(
            "reason: say in a sentence what is wrong with the checks and why the new ones are right".to_owned()
        ));
    }
    if let Some(waiting) = &feature.proposal {
        return Ok(Err(format!("feature: {waiting} waits for a decision already")));
    }
    if earlier.iter().filter(|p| p.session == s.session).count() >= SESSION_MAX {
        return Ok(Err(format!("{SESSION_MAX} proposals were made in this session; build what the checks ask")));
    }
    let changed = match parse_definition(arguments, &feature.definition) {
        Ok(changed) => changed,
        Err(mistake) => {
            let more: String = mistake.more.iter().map(|other| format!("\n{other}")).collect();
            return Ok(Err(format!("{mistake}{more}")));
        }
    };
    if changed.checks_hash == feature.definition.checks_hash {
        return Ok(Err("checks: these are the sentences and checks that hold already".to_owned()));
    }
    if earlier.iter().any(|p| p.state == ProposalState::Rejected && p.after.hash == changed.checks_hash) {
        return Ok(Err("checks: the same change was rejected before".to_owned()));
    }
    Ok(Ok(Proposal {
        id: format!("P{}", earlier.len() + 1),
        feature: feature.id().clone(),
        description: feature.definition.description.clone(),
        session: s.session,
        state: ProposalState::Pending,
        reason: reason.chars().take(REASON_CHARS_MAX).collect(),
        before: Proof::of(&feature.definition),
        after: Proof::of(&changed),
        at: s.harness.ambient.clock.now(),
        decided: None,
    }))
}

fn events(outcome: &Outcome) -> Vec<EventDraft> {
    match outcome {
        Outcome::Filed { proposal: p, by_model } => {
            let decides = if *by_model { "reviewer" } else { "person" };
            let data = json!({"proposal": p.id, "feature": p.feature, "reason": p.reason, "decides": decides});
            vec![EventDraft::business("check.proposed", data)]
        }
        Outcome::Refused { why } => {
            let data = json!({"tool": "propose_check_change", "summary": why, "is_error": true, "ms": 0});
            vec![EventDraft::business("tool.called", data)]
        }
    }
}

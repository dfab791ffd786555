//! Verifies passing features again, a sample in each session and all of them before the project counts as done.
//!
//! Each verdict is one recorded step, in the order of the features, however many flows are carried out at a time.
//! Invariant: no feature counts as broken by a flow that others ran beside.

use std::collections::BTreeMap;

use longhaul_core::{EventDraft, FeatureId};
use longhaul_durable::{NodeError, StepError};
use serde_json::json;
use tokio::sync::Mutex;

use crate::{
    bisect,
    claim::{verify_now, verify_side_by_side},
    features::{self, Feature},
    on_demand::JOBS_MAX,
    sitting::Sitting,
    verification::{Occasion, RecordedVerdict},
};

/// Verifies these features; each verdict decides where its feature stands. Returns the ids, with the reason of a failure.
pub(crate) async fn check(
    s: &Sitting<'_>,
    ids: &[FeatureId],
    occasion: Occasion,
) -> Result<Vec<(String, Option<String>)>, NodeError> {
    let mut outcomes = Vec::with_capacity(ids.len());
    let ahead = Ahead::new(s, occasion);
    for (number, id) in ids.iter().enumerate() {
        let rows = s.rows().await?;
        let Some(feature) = rows.find(id).cloned() else { continue };
        let (owner, session, before) = (s.owner(), s.session, feature.standing.clone());
        let head = s.git.head().await.ok().flatten().map(|commit| commit.id);
        let (bound, untold) = (head.clone(), s.untold_events());
        let verdict: RecordedVerdict = s
            .record_with(
                "verify_again",
                ahead.verdict(&feature, ids.get(number..).unwrap_or_default()),
                move |verdict: &RecordedVerdict| {
                    let mut events = untold();
                    events.extend(events_of(verdict, head.as_deref()));
                    events
                },
                move |tx, verdict| {
                    verdict.commit(tx, &owner, session, bound.as_deref())?;
                    features::record_verdict(tx, &owner, verdict, &before, None).map(drop)
                },
            )
            .await?;
        outcomes.push((id.to_string(), (!verdict.passed()).then(|| verdict.reason_and_culprit())));
    }
    s.refresh().await?;
    Ok(outcomes)
}

/// Verdicts reached side by side whose steps have not come yet. They are reached within the step of the first of them, so
/// that a run which goes on after a kill verifies only what has no recorded step.
struct Ahead<'s, 'a> {
    s: &'s Sitting<'a>,
    occasion: Occasion,
    flows: usize,
    /// By feature; `None` for one that failed beside others and is to be verified alone.
    reached: Mutex<BTreeMap<FeatureId, Option<RecordedVerdict>>>,
}

impl<'s, 'a> Ahead<'s, 'a> {
    fn new(s: &'s Sitting<'a>, occasion: Occasion) -> Self {
        let flows = match occasion {
            Occasion::FinalCheck => s.harness.settings.final_check_flows.clamp(1, JOBS_MAX),
            Occasion::Claim | Occasion::Regression | Occasion::OnDemand => 1,
        };
        Self { s, occasion, flows, reached: Mutex::default() }
    }

    /// The verdict on this feature, the first of those to come.
    async fn verdict(&self, feature: &Feature, to_come: &[FeatureId]) -> Result<RecordedVerdict, StepError> {
        let mut reached = self.reached.lock().await;
        if self.flows > 1 && !reached.contains_key(feature.id()) {
            *reached = self.side_by_side(to_come).await?;
        }
        // Its checks may have been changed since by a person.
        let passed = reached.remove(feature.id()).flatten();
        match passed.filter(|verdict| *verdict.checks_hash() == feature.definition.checks_hash) {
            Some(verdict) => Ok(verdict),
            None => verify_again(self.s, feature, self.occasion).await,
        }
    }

    async fn side_by_side(&self, ids: &[FeatureId]) -> Result<BTreeMap<FeatureId, Option<RecordedVerdict>>, StepError> {
        let rows = self.s.rows().await?;
        let features: Vec<Feature> = ids.iter().take(self.flows).filter_map(|id| rows.find(id).cloned()).collect();
        if features.len() < 2 {
            return Ok(BTreeMap::new());
        }
        let verdicts = verify_side_by_side(self.s, &features, self.occasion).await?;
        let reached = |verdict: RecordedVerdict| (verdict.feature().clone(), verdict.passed().then_some(verdict));
        Ok(verdicts.into_iter().map(reached).collect())
    }
}

/// Verifies, and looks for the commit that broke what fails: one step, so that a recording holds both or neither.
async fn verify_again(s: &Sitting<'_>, feature: &Feature, occasion: Occasion) -> Result<RecordedVerdict, StepError> {
    let mut verdict = verify_now(s, feature, occasion).await?;
    // The search takes many times what a flow does, and its future is as large.
    Box::pin(bisect::blame(s.harness, &s.project(), feature, &mut verdict)).await;
    Ok(verdict)
}

fn events_of(verdict: &RecordedVerdict, head: Option<&str>) -> Vec<EventDraft> {
    let (feature, reason) = (verdict.feature(), verdict.reason());
    let checked = json!({
        "feature": feature, "passed": verdict.passed(), "reason": reason, "ms": verdict.elapsed_ms(),
    });
    let mut events = vec![EventDraft::business("regression.checked", checked)];
    if !verdict.passed() {
        // The commit that broke it, if that is known, else the one with which it was found.
        let culprit = verdict.broken_by();
        let commit = culprit.filter(|culprit| culprit.candidates == 1).map_or(head, |culprit| Some(&culprit.commit.id));
        let broken = json!({
            "feature": feature, "reason": reason, "commit": commit, "found_with": head, "broken_by": culprit,
        });
        events.push(EventDraft::business("feature.broken", broken));
    }
    events
}

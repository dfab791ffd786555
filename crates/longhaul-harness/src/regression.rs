//! Verifies passing features again, a sample in each session and all of them before the project counts as done.

use longhaul_core::{EventDraft, FeatureId};
use longhaul_durable::{NodeError, StepError};
use serde_json::json;

use crate::{
    bisect,
    claim::verify_now,
    features::{self, Feature},
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
    for id in ids {
        let rows = s.rows().await?;
        let Some(feature) = rows.find(id).cloned() else { continue };
        let (owner, session, before) = (s.owner(), s.session, feature.standing.clone());
        let head = s.git.head().await.ok().flatten().map(|commit| commit.id);
        let (bound, untold) = (head.clone(), s.untold_events());
        let verdict: RecordedVerdict = s
            .record_with(
                "verify_again",
                verify_again(s, &feature, occasion),
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

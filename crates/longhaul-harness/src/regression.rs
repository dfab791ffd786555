//! Verifies passing features again, a sample in each session and all of them before the project counts as done.

use longhaul_core::{EventDraft, FeatureId};
use longhaul_durable::NodeError;
use serde_json::json;

use crate::{
    claim::verify_now,
    features,
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
        let Some(feature) = rows.features.into_iter().find(|f| f.id() == id) else { continue };
        let (owner, session, before) = (s.owner(), s.session, feature.standing.clone());
        let head = s.git.head().await.ok().flatten().map(|commit| commit.id);
        let (bound, untold) = (head.clone(), s.untold_events());
        let verdict: RecordedVerdict = s
            .record_with(
                "verify_again",
                verify_now(s, &feature, occasion),
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
        outcomes.push((id.to_string(), (!verdict.passed()).then(|| verdict.reason())));
    }
    s.refresh().await?;
    Ok(outcomes)
}

fn events_of(verdict: &RecordedVerdict, head: Option<&str>) -> Vec<EventDraft> {
    let (feature, reason) = (verdict.feature(), verdict.reason());
    let checked = json!({
        "feature": feature, "passed": verdict.passed(), "reason": reason, "ms": verdict.elapsed_ms(),
    });
    let mut events = vec![EventDraft::business("regression.checked", checked)];
    if !verdict.passed() {
        let broken = json!({"feature": feature, "reason": reason, "commit": head});
        events.push(EventDraft::business("feature.broken", broken));
    }
    events
}

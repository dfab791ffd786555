//! The last word: every feature is verified once more before the project counts as done.

use longhaul_core::EventDraft;
use longhaul_durable::{NodeContext, NodeError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    coding::history_mended,
    environment::Harness,
    features::Feature,
    host::tamper_event,
    project::Project,
    regression,
    sitting::Sitting,
    state::{HarnessState, HarnessUpdate, Phase},
    stray::{clear, set_aside},
    verification::Occasion,
    work_tree::TreeId,
};

#[derive(Debug, Serialize, Deserialize)]
struct Begun {
    tree: TreeId,
    features: Vec<longhaul_core::FeatureId>,
    #[serde(default)]
    undone: Vec<(String, String)>,
}

/// Verifies everything; what fails goes back to be repaired.
pub(crate) async fn final_check(
    harness: &Harness,
    ctx: &NodeContext,
    project: Project,
    state: &HarnessState,
) -> Result<HarnessUpdate, NodeError> {
    let s = Sitting::open(harness, ctx, project, state.sessions).await?;
    let rows = s.rows().await?;
    let features: Vec<_> = rows.features.iter().map(|f| f.id().clone()).collect();
    let mut undone = set_aside(&s).await?.undone;
    let last_commit = rows.sessions.iter().rev().find_map(|entry| entry.commit.clone());
    let begin = async {
        if let Some(commit) = &last_commit {
            undone.extend(history_mended(&s, commit).await?.map(|how| (".git".to_owned(), how.to_owned())));
        }
        Ok(Begun { tree: clear(&s).await?, features, undone })
    };
    let begun = s
        .record("begin", begin, |b: &Begun| {
            let mut events: Vec<EventDraft> = b.undone.iter().map(|(path, how)| tamper_event(path, how)).collect();
            events.push(EventDraft::business("final_check.started", json!({"features": b.features.len()})));
            events
        })
        .await?;
    s.left(begun.tree);
    let outcomes = regression::check(&s, &begun.features, Occasion::FinalCheck).await?;
    s.close().await;
    let broken = outcomes.iter().any(|(_, failure)| failure.is_some());
    // People may have added features meanwhile.
    let open = s.rows().await?.features.iter().any(|f| !f.standing.passes);
    if broken || open {
        return Ok(HarnessUpdate { phase: Phase::Coding, session: false, grew: false });
    }
    finish(&s).await?;
    Ok(HarnessUpdate { phase: Phase::Done, session: false, grew: false })
}

async fn finish(s: &Sitting<'_>) -> Result<(), NodeError> {
    let rows = s.rows().await?;
    let tokens = |of: fn(&crate::history::SessionEntry) -> u64| rows.sessions.iter().map(of).sum::<u64>();
    let count = |of: fn(&Feature) -> bool| rows.features.iter().filter(|f| of(f)).count();
    let started = rows.sessions.first().map_or(0, |first| first.started_at.0);
    let data = json!({
        "passing": count(|f| f.standing.passes),
        "total": rows.features.len(),
        "parked": count(|f| f.standing.parked),
        "sessions": rows.sessions.len().saturating_sub(1),
        "prompt_tokens": tokens(|e| e.prompt_tokens),
        "answer_tokens": tokens(|e| e.answer_tokens),
        "ms": s.harness.ambient.clock.now().0.saturating_sub(started),
    });
    let untold = s.untold_events();
    let events = move |(): &()| {
        let mut events = untold();
        events.push(EventDraft::business("run.finished", data));
        events
    };
    s.record("finished", async { Ok(()) }, events).await
}

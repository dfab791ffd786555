//! The initializer's session: from the request to a locked plan and the first commit (H2).

use longhaul_agent::{Ending, converse_with};
use longhaul_core::EventDraft;
use longhaul_durable::{NodeContext, NodeError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    claim::Claims,
    closing::{Closing, SessionResult, close},
    coding::{limits, opening, specs},
    environment::Harness,
    features::Feature,
    history::Purpose,
    host::Host,
    means::means,
    planning::{Wanted, batch_hint, digest, survey},
    project::Project,
    prompts::{self, PlanSoFar},
    sitting::Sitting,
    state::{HarnessState, HarnessUpdate, Phase},
    work_tree::TreeId,
};

/// Sittings of the initializer that add nothing before it is given up.
const SITTINGS_MAX: u32 = 3;
const WHY_CHARS_MAX: usize = 2_000;
/// The plan so far takes at most this part of the window.
const PLAN_PART: u64 = 8;
const CHARS_PER_TOKEN: u64 = 3;

#[derive(Debug, Serialize, Deserialize)]
struct Begun {
    tree: TreeId,
    at: longhaul_core::TimeMs,
}

/// Runs the initializer until its plan is locked.
pub(crate) async fn initialize(
    harness: &Harness,
    ctx: &NodeContext,
    project: Project,
    state: &HarnessState,
) -> Result<HarnessUpdate, NodeError> {
    let s = Sitting::open(harness, ctx, project, 0).await?;
    let begin = async {
        s.hand_to_sandbox()?;
        Ok(Begun { tree: s.snapshot().await?, at: harness.ambient.clock.now() })
    };
    let request = s.project().request;
    let begun = s
        .record("begin", begin, move |_| {
            vec![EventDraft::business(
                "session.started",
                json!({"session": 0, "mode": "initializer", "description": request}),
            )]
        })
        .await?;
    s.left(begun.tree);
    let planned = s.rows().await?.features;
    let opening = opening(&s, prompt(&s, &planned).await?, specs(&s)).await;
    let host = Host { sitting: &s, claims: Claims::of(None) };
    let conversed = converse_with(ctx, &means(&s, &host), opening, limits(harness)).await?;
    let Some(accepted) = host.accepted() else {
        s.close().await;
        return unplanned(&s, &conversed.ending, state.sittings + 1, planned.len()).await;
    };
    let closing = Closing {
        purpose: Purpose::Initialize,
        started_at: begun.at,
        refused_claims: 0,
        conversed,
        result: SessionResult::Planned(accepted),
    };
    let entry = close(&s, closing).await?;
    let rows = s.refresh().await?;
    let sentences: usize = rows.features.iter().map(|f| f.definition.steps.len()).sum();
    let data = json!({"features": rows.features.len(), "sentences": sentences, "commit": entry.commit});
    s.record("initialized", async { Ok(()) }, move |()| vec![EventDraft::business("project.initialized", data)])
        .await?;
    s.close().await;
    Ok(HarnessUpdate { phase: Phase::Coding, session: false, grew: false })
}

/// The first prompt, with the plan so far in what part of the window it may take.
async fn prompt(s: &Sitting<'_>, planned: &[Feature]) -> Result<String, NodeError> {
    let project = s.project();
    let survey = match &project.adopted {
        Some(commit) => Some(survey(&s.git, commit).await.map_err(NodeError::gave_up)?),
        None => None,
    };
    let window = s.harness.model.info().window_tokens;
    let chars = usize::try_from(window / PLAN_PART * CHARS_PER_TOKEN).unwrap_or(usize::MAX);
    let settings = &s.harness.settings;
    let batch = batch_hint(window, settings.answer_tokens_max);
    let wanted = Wanted::of(settings.planning.features_min, project.brief.size);
    let so_far =
        PlanSoFar { features: planned, shown: digest(planned, chars), lacking: wanted.lacking(planned), batch };
    Ok(prompts::initializer(&project, &so_far, survey.as_ref()))
}

/// The initializer stopped without a plan. What it planned so far is kept, and another sitting goes on, as a large plan
/// fills many windows; a few that added nothing are enough to know that more will not help.
async fn unplanned(
    s: &Sitting<'_>,
    ending: &Ending,
    sittings: u32,
    planned_before: usize,
) -> Result<HarnessUpdate, NodeError> {
    let why = match ending {
        Ending::Done => "it ended without a claim".to_owned(),
        Ending::HandOver { note, why } | Ending::OutOfBudget { note, why } | Ending::CalledOff { note, why } => {
            format!("{why}; its last words: {note}")
        }
    };
    let is_cut_short = matches!(ending, Ending::OutOfBudget { .. } | Ending::CalledOff { .. });
    let why: String = why.chars().take(WHY_CHARS_MAX).collect();
    let planned = s.rows().await?.features.len();
    let data = json!({"session": 0, "outcome": "handed_over", "summary": why, "planned": planned});
    s.record("unplanned", async { Ok(()) }, move |()| vec![EventDraft::business("session.ended", data)]).await?;
    let grew = planned > planned_before;
    let gives_up = sittings >= SITTINGS_MAX && !grew && !is_cut_short;
    let phase = if gives_up { Phase::Stuck } else { Phase::Planning };
    Ok(HarnessUpdate { phase, session: false, grew })
}

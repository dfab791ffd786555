//! The initializer's session: from the request to a locked plan and the first commit (H2).

use longhaul_agent::{Ending, Opening, converse};
use longhaul_core::EventDraft;
use longhaul_durable::{NodeContext, NodeError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    claim::Claims,
    closing::{Closing, SessionResult, close},
    coding::limits,
    environment::Harness,
    error::HarnessError,
    history::Purpose,
    host::Host,
    project::Project,
    prompts,
    sitting::Sitting,
    state::{HarnessState, HarnessUpdate, Phase},
    tool_set::own_specs,
    work_tree::TreeId,
};

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
    _state: HarnessState,
) -> Result<HarnessUpdate, NodeError> {
    let s = Sitting::open(harness, ctx, project, 0).await?;
    let begin = async {
        s.hand_to_sandbox()?;
        Ok(Begun { tree: s.snapshot().await?, at: harness.ambient.clock.now() })
    };
    let begun = s
        .record("begin", begin, |_| {
            vec![EventDraft::business("session.started", json!({"session": 0, "mode": "initializer"}))]
        })
        .await?;
    s.left(begun.tree);
    let mut specs = s.registry.specs();
    specs.extend(own_specs());
    let opening =
        Opening { system: prompts::SYSTEM.to_owned(), prompt: prompts::initializer(&s.project()), tools: specs };
    let host = Host { sitting: &s, claims: Claims::of(None) };
    let conversed = converse(ctx, harness.model.as_ref(), &host, opening, limits(harness)).await?;
    let Some(accepted) = host.accepted() else {
        s.close().await;
        let why = match &conversed.ending {
            Ending::Done => "without a plan".to_owned(),
            Ending::HandOver { note, why } => format!("{why}; its last words: {note}"),
        };
        return Err(NodeError::gave_up(HarnessError::NoPlan { why }));
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
    Ok(HarnessUpdate { phase: Phase::Coding, session: false })
}

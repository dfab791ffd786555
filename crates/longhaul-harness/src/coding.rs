//! A coding session: orient, boot, look whether anything broke, take one feature, build it, have it verified, leave the
//! folder fit for the next (H3, H4). The harness runs this order; the model works inside it.

use longhaul_agent::{Conversed, Ending, Layout, Limits, Opening, converse_with};
use longhaul_core::{EventDraft, FeatureId, RecordId, TimeMs, ToolSpec};
use longhaul_durable::{NodeContext, NodeError, StepError};
use longhaul_memory::{
    Query,
    user::{RenderLimits, UserMemory},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    application::Boot,
    claim::Claims,
    closing::{Closing, SessionResult, close},
    environment::Harness,
    error::HarnessError,
    external::{self, ExternalAgent, Worked},
    features::{Feature, pick, sample_for_regression},
    git::{Commit, GitError},
    history::Purpose,
    host::{Host, recall, recalled_events, tamper_event},
    means::{means, prompt_tokens},
    project::Project,
    prompts::{self, Orientation},
    regression,
    sitting::Sitting,
    state::{HarnessState, HarnessUpdate, Phase},
    stray::{clear, set_aside},
    tool_set::own_specs,
    verification::Occasion,
    work_tree::TreeId,
};

const LOG_SHOWN: usize = 10;
/// Most characters of the application's output in an event.
const LOG_EVENT_CHARS_MAX: usize = 4_000;
const PATCH_SHOWN_BYTES: usize = 64 * 1024;

/// What a session finds when it opens the folder.
#[derive(Debug, Serialize, Deserialize)]
struct Oriented {
    tree: TreeId,
    at: TimeMs,
    log: Vec<Commit>,
    sample: Vec<FeatureId>,
    undone: Vec<(String, String)>,
}

/// What a session will work on.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Picked {
    purpose: Option<Purpose>,
    all_pass: bool,
    /// Whether an external agent does the work; an interrupted session is finished by the same kind of worker.
    #[serde(default)]
    is_external: bool,
}

/// Who works in this session: whoever was recorded with its feature.
fn worker<'a>(s: &Sitting<'a>, picked: &Picked) -> Result<Option<&'a ExternalAgent>, NodeError> {
    match (&s.harness.agent, picked.is_external) {
        (Some(agent), true) => Ok(Some(agent)),
        (None, true) => Err(NodeError::gave_up(HarnessError::NoAgent)),
        (_, false) => Ok(None),
    }
}

/// Runs one coding session.
pub(crate) async fn code(
    harness: &Harness,
    ctx: &NodeContext,
    project: Project,
    state: &HarnessState,
) -> Result<HarnessUpdate, NodeError> {
    // A session that has begun ends in order even so: what it recorded stands for a folder that it has to leave clean.
    if ctx.recorded_next().is_none() && harness.people.has_taken_over() {
        ctx.cancel().cancel();
        // The driver drops this node at its next look.
        std::future::pending::<()>().await;
    }
    let s = Sitting::open(harness, ctx, project, state.sessions + 1).await?;
    let outcome = session(&s).await;
    s.close().await;
    outcome
}

async fn session(s: &Sitting<'_>) -> Result<HarnessUpdate, NodeError> {
    let oriented = orient(s).await?;
    s.left(oriented.tree.clone());
    let boot = boot(s).await?;
    let regression = regression::check(s, &oriented.sample, Occasion::Regression).await?;
    let picked = pick_feature(s).await?;
    let agent = worker(s, &picked)?;
    let Some(purpose) = picked.purpose else {
        let phase = if picked.all_pass { Phase::FinalCheck } else { Phase::Stuck };
        return Ok(HarnessUpdate { phase, session: false, grew: false });
    };
    let rows = s.refresh().await?;
    let wanted = purpose.feature().cloned();
    let feature = wanted.as_ref().and_then(|id| rows.find(id)).cloned();
    let feature = feature.ok_or_else(|| gone("the feature that was picked"))?;
    let question = format!("{} {}", feature.definition.category, feature.definition.description);
    let query = Query { task: Some(s.owner().task), ..Query::new(question.clone(), s.harness.settings.recall_count) };
    let recalled = s.record("recall", recall(s, query), recalled_events(question)).await?;
    let unfinished = unfinished_patch(s, &feature, &rows.sessions).await;
    let prompt = prompts::coding(
        &s.project(),
        &Orientation {
            session: s.session,
            purpose: &purpose,
            feature: &feature,
            features: &rows.features,
            sessions: &rows.sessions,
            log: &oriented.log,
            recalled: &recalled.hits,
            regression: &regression,
            boot_failure: boot.failure.as_deref(),
            unfinished: unfinished.as_deref(),
            how: if agent.is_some() { external::HOW } else { prompts::HOW },
            tokens_max: prompt_tokens(s.harness, &prompts::system(s.project().profile), &specs(s)),
        },
    );
    let Worked { conversed, result, refused_claims } = match agent {
        Some(agent) => external::work(s, agent, &feature, &prompt).await?,
        None => own_loop(s, feature, prompt).await?,
    };
    close(s, Closing { purpose, started_at: oriented.at, refused_claims, conversed, result }).await?;
    let all_pass = s.rows().await?.features.iter().all(|f| f.standing.passes);
    Ok(HarnessUpdate { phase: if all_pass { Phase::FinalCheck } else { Phase::Coding }, session: true, grew: false })
}

/// The session's work, done by our own loop of model and tools.
async fn own_loop(s: &Sitting<'_>, feature: Feature, prompt: String) -> Result<Worked, NodeError> {
    let host = Host { sitting: s, claims: Claims::of(Some(feature.clone())) };
    let conversed = work(s, &host, prompt).await?;
    let result = match (host.accepted(), &conversed.ending) {
        (Some(accepted), _) => {
            let verdict = accepted.verdict.clone();
            let verdict = verdict.ok_or_else(|| gone("the verdict of an accepted claim"))?;
            SessionResult::Verified(accepted, Box::new(feature), Box::new(verdict))
        }
        (None, Ending::HandOver { note, why }) => {
            SessionResult::HandedOver { note: format!("{why}: {note}"), feature: Some(Box::new(feature)) }
        }
        // Neither a limit of the budget nor a person who wants the folder says anything about the feature: the session is
        // no failed attempt at it.
        (None, Ending::OutOfBudget { note, why } | Ending::CalledOff { note, why }) => {
            SessionResult::HandedOver { note: format!("{why}: {note}"), feature: None }
        }
        (None, Ending::Done) => {
            SessionResult::HandedOver { note: "ended without a claim".to_owned(), feature: Some(Box::new(feature)) }
        }
    };
    s.harness.people.heard(&s.owner(), s.session).await?;
    let refused_claims = host.claims.refused();
    Ok(Worked { conversed, result, refused_claims })
}

fn gone(what: &str) -> NodeError {
    NodeError::gave_up(HarnessError::RowGone(what.to_owned()))
}

async fn work(s: &Sitting<'_>, host: &Host<'_>, prompt: String) -> Result<Conversed, NodeError> {
    let opening = opening(s, prompt, specs(s)).await;
    converse_with(s.ctx, &means(s, host), opening, limits(s.harness)).await
}

/// The tools, the same in both modes (H1).
pub(crate) fn specs(s: &Sitting<'_>) -> Vec<ToolSpec> {
    let mut tools = s.registry.specs();
    tools.extend(own_specs());
    tools
}

/// How a session's conversation begins: the static instructions, what is known of the user, the prompt.
pub(crate) async fn opening(s: &Sitting<'_>, prompt: String, tools: Vec<ToolSpec>) -> Opening {
    let user = UserMemory::new(s.harness.memory.clone());
    let known = user.render(&s.owner().scope, RenderLimits::default()).await;
    // A session can do its work without it.
    let known = known.inspect_err(|error| tracing::warn!(%error, "user memory is left out of the prompt"));
    let user_memory = known.map(|rendered| rendered.text).unwrap_or_default();
    let instructions = format!("{}{}", prompts::system(s.project().profile), s.skills.listed());
    Layout { instructions, user_memory, message: prompt, tools, ..Layout::default() }.opening()
}

/// The bounds of a conversation.
pub(crate) fn limits(harness: &Harness) -> Limits {
    Limits {
        turns_max: harness.settings.turns_max,
        window_tokens: harness.model.info().window_tokens,
        answer_tokens_max: harness.settings.answer_tokens_max,
    }
}

/// Looks at the folder: guarded files as they should be, no stray changes, the newest commits, what to verify again.
async fn orient(s: &Sitting<'_>) -> Result<Oriented, NodeError> {
    let rows = s.rows().await?;
    let sample = sample_for_regression(&rows.features, s.harness.settings.regression_sample);
    let sample: Vec<FeatureId> = sample.into_iter().map(|f| f.id().clone()).collect();
    let last_commit = rows.sessions.iter().rev().find_map(|entry| entry.commit.clone());
    let found = set_aside(s).await?;
    let look = async {
        let git = |e: GitError| StepError::from(e);
        let mut undone = found.undone;
        if let Some(commit) = &last_commit {
            undone.extend(history_mended(s, commit).await?.map(|how| (".git".to_owned(), how.to_owned())));
        }
        let tree = clear(s).await?;
        let log = s.git.log(LOG_SHOWN).await.map_err(git)?;
        Ok(Oriented { tree, at: s.harness.ambient.clock.now(), log, sample, undone })
    };
    s.record("orient", look, |o: &Oriented| o.undone.iter().map(|(path, how)| tamper_event(path, how)).collect()).await
}

/// Makes the folder's branch hold the last commit of the record; tells what had been done to it.
pub(crate) async fn history_mended(s: &Sitting<'_>, commit: &str) -> Result<Option<&'static str>, StepError> {
    let git = |e: GitError| StepError::from(e);
    if !s.git.has(commit).await.map_err(git)? {
        let (dir, commit) = (s.project().dir, commit.to_owned());
        return Err(HarnessError::HistoryLost { dir, commit }.into());
    }
    let detached = s.git.reattach(commit).await.map_err(git)?;
    if !s.git.contains(commit).await.map_err(git)? {
        let behind = s.git.is_ancestor("HEAD", commit).await.map_err(git)?;
        if behind && s.mirror.is_some() {
            // Another machine made the commits since.
            s.git.run(&["reset", "--quiet", "--hard", commit]).await.map_err(git)?;
            return Ok(None);
        }
        if !behind {
            s.git.keep_aside().await.map_err(git)?;
        }
        s.git.run(&["reset", "--quiet", "--hard", commit]).await.map_err(git)?;
        return Ok(Some("the history no longer held the last verified commit"));
    }
    Ok(detached.then_some("HEAD was on no branch; it is on one again"))
}

async fn boot(s: &Sitting<'_>) -> Result<Boot, NodeError> {
    let has_app = s.project().profile.has_app();
    let start = async {
        s.settle().await?;
        let tree = s.snapshot().await?;
        Ok(if has_app { s.trial.ensure(&tree).await } else { Boot { elapsed_ms: 0, failure: None } })
    };
    s.record("boot", start, move |boot: &Boot| {
        if !has_app {
            return Vec::new();
        }
        vec![match &boot.failure {
            None => EventDraft::business("app.booted", json!({"ms": boot.elapsed_ms})),
            Some(why) => EventDraft::business("app.failed", json!({"log_tail": end_of(why)})),
        }]
    })
    .await
}

fn end_of(log: &str) -> String {
    let skipped = log.chars().count().saturating_sub(LOG_EVENT_CHARS_MAX);
    log.chars().skip(skipped).collect()
}

async fn pick_feature(s: &Sitting<'_>) -> Result<Picked, NodeError> {
    let rows = s.rows().await?;
    let chosen = pick(&rows.features).cloned();
    let purpose = chosen.as_ref().map(|f| {
        let feature = f.id().clone();
        if f.standing.broken.is_some() { Purpose::Repair { feature } } else { Purpose::Build { feature } }
    });
    let all_pass = rows.features.iter().all(|f| f.standing.passes);
    let session = s.session;
    let picked = Picked { purpose, all_pass, is_external: s.harness.agent.is_some() };
    s.record("pick", async { Ok(picked) }, move |picked: &Picked| {
        let (Some(purpose), Some(feature)) = (&picked.purpose, chosen) else { return Vec::new() };
        let task = if matches!(purpose, Purpose::Repair { .. }) { "repair" } else { "feature" };
        vec![EventDraft::business(
            "session.started",
            json!({
                "session": session, "mode": "coding", "task": task, "feature": feature.id(),
                "description": feature.definition.description,
            }),
        )]
    })
    .await
}

/// The patch that the session before left unfinished, if it worked on the same feature.
async fn unfinished_patch(
    s: &Sitting<'_>,
    feature: &Feature,
    sessions: &[crate::history::SessionEntry],
) -> Option<String> {
    let last = sessions.last()?;
    if last.purpose.feature() != Some(feature.id()) {
        return None;
    }
    let id: RecordId = last.unfinished.as_ref()?.parse().ok()?;
    let (_, content) = s.harness.workspace.task(&s.owner()).read(&id).await.ok()?;
    let shown = content.get(..PATCH_SHOWN_BYTES).unwrap_or(&content);
    Some(String::from_utf8_lossy(shown).into_owned())
}

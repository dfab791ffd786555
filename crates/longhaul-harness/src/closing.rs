//! How a work session ends: one commit, one entry, one transaction. The folder is clean afterwards, whatever happened.
//!
//! Invariant 2: the verdict's effect, the session's entry, its memories and its events are one transaction. The git
//! commit precedes it and is found again by its trailer when the transaction did not happen.

use longhaul_agent::Conversed;
use longhaul_core::{EventDraft, TimeMs};
use longhaul_durable::{NodeError, StepError};
use longhaul_memory::{Kind, MemoryError, Prepared, Source, user::UserError};
use longhaul_store::{StoreError, Tx};
use longhaul_workspace::{Ingest, StagedRecord};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    claim::Accepted,
    error::HarnessError,
    features::{self, Feature, Parked},
    git::GitError,
    history::{self, Purpose, SessionEntry, SessionOutcome},
    mirror,
    parking::{Diagnosis, diagnose},
    projections::Projections,
    sitting::{Rows, Sitting},
    verification::{self, RecordedVerdict},
    work_tree::TreeId,
};

const SUBJECT_CHARS_MAX: usize = 72;
const WHY_CHARS_MAX: usize = 500;
const MEMORY_CHARS_MAX: usize = 4_000;

/// What a session came to.
pub(crate) struct Closing {
    pub(crate) purpose: Purpose,
    pub(crate) started_at: TimeMs,
    pub(crate) refused_claims: u32,
    pub(crate) conversed: Conversed,
    pub(crate) result: SessionResult,
}

/// How it ended.
pub(crate) enum SessionResult {
    /// The plan is locked.
    Planned(Accepted),
    /// The claim stood.
    Verified(Accepted, Box<Feature>, Box<RecordedVerdict>),
    /// Nothing advances.
    HandedOver { note: String, feature: Option<Box<Feature>> },
}

#[derive(Debug, Serialize, Deserialize)]
struct Closed {
    entry: SessionEntry,
    tree: TreeId,
    /// Whether the remote took the commit; the reason when it did not. Nothing without a remote.
    #[serde(default)]
    mirrored: Option<Result<(), String>>,
    #[serde(skip)]
    patch: Option<StagedRecord>,
    #[serde(skip)]
    parked: Option<(Parked, StagedRecord)>,
}

/// Closes the session and returns its entry.
pub(crate) async fn close(s: &Sitting<'_>, closing: Closing) -> Result<SessionEntry, NodeError> {
    let rows = s.rows().await?;
    let step = s.ctx.step_id("commit_session").to_string();
    let events = events_of(s, &closing);
    let memories = memories_of(s, &closing).map_err(NodeError::gave_up)?;
    let effects = effects_of(s, &closing, &rows, memories);
    let owner = s.owner();
    let closed: Closed = s
        .record_with("commit_session", commit(s, &closing, rows, &step), events, move |tx, closed: &Closed| {
            if let Some(patch) = &closed.patch {
                patch.commit(tx)?;
            }
            if let (Some(Ok(())), Some(commit)) = (&closed.mirrored, &closed.entry.commit) {
                mirror::took(tx, &owner, commit)?;
            }
            if let Some((_, diagnosis)) = &closed.parked {
                diagnosis.commit(tx)?;
            }
            effects(tx, &closed.entry, closed.parked.as_ref().map(|(parked, _)| parked.clone()))
        })
        .await?;
    s.left(closed.tree);
    Ok(closed.entry)
}

/// Makes the folder what the session leaves behind, and commits it.
async fn commit(s: &Sitting<'_>, closing: &Closing, rows: Rows, step: &str) -> Result<Closed, StepError> {
    let git = |e: GitError| StepError::from(e);
    // From here on nothing else changes the folder; what was changed since somebody looked is put back.
    s.trial.stop().await;
    s.work_tree.forget().await;
    s.settle().await?;
    let mut patch = None;
    match &closing.result {
        SessionResult::Verified(_, _, verdict) => {
            let tree = s.snapshot().await?;
            if !s.work_tree.same_work(verdict.tree(), &tree).await.map_err(git)? {
                return Err(HarnessError::FolderMoved { dir: s.project().dir }.into());
            }
        }
        SessionResult::Planned(_) => {}
        SessionResult::HandedOver { .. } => {
            patch = set_aside(s).await?;
            s.git.reset_to_tip().await.map_err(git)?;
        }
    }
    let mut entry = entry_of(s, closing);
    entry.unfinished = patch.as_ref().map(|staged| staged.reference().id.to_string());
    let known = rows.sessions.iter().rev().find_map(|entry| entry.commit.clone());
    let parked = park(s, closing, &rows, &entry).await?;
    let after = rows_after(rows, closing, &entry, parked.is_some());
    let projections = Projections::render(&s.project(), &after.features, &after.sessions);
    projections.write(&s.project().dir).map_err(StepError::from)?;
    s.guard(projections);
    let made = s.git.commit_once(step, &message_of(closing, &entry)).await.map_err(git)?;
    let mirrored = offer(s, known.as_deref()).await;
    s.hand_to_sandbox()?;
    entry.commit = Some(made.id);
    Ok(Closed { entry, tree: s.snapshot().await?, mirrored, patch, parked })
}

/// The diagnosis of a feature that has failed as often as it may, kept as a record.
async fn park(
    s: &Sitting<'_>,
    closing: &Closing,
    rows: &Rows,
    entry: &SessionEntry,
) -> Result<Option<(Parked, StagedRecord)>, StepError> {
    let SessionResult::HandedOver { feature: Some(feature), .. } = &closing.result else { return Ok(None) };
    let now = rows.features.iter().find(|f| f.id() == feature.id()).unwrap_or(feature);
    if now.standing.attempts + 1 < s.harness.attempts_max() {
        return Ok(None);
    }
    let owner = s.owner();
    let of = owner.clone();
    let verdicts = s.harness.store.read(move |read| verification::all(read, &of)).await?;
    let Diagnosis { suspected, text } = diagnose(now, &rows.sessions, entry, &verdicts);
    let summary = format!("why {} is parked", feature.id());
    let what = Ingest {
        media_type: "text/markdown".to_owned(),
        execution: Some(s.ctx.execution().clone()),
        ..Ingest::new(longhaul_workspace::Kind::Decision, "diagnosis", &summary, "harness", text)
    };
    let staged = s.harness.workspace.task(&owner).stage(what).await?;
    let diagnosis = staged.reference().id.to_string();
    Ok(Some((Parked { suspected, diagnosis }, staged)))
}

/// Offers the commit to the remote before the store knows it, so that no other machine looks for it in vain. A remote
/// that cannot be reached does not stop the work: the next session offers everything again.
async fn offer(s: &Sitting<'_>, known: Option<&str>) -> Option<Result<(), String>> {
    let mirror = s.mirror.as_ref()?;
    let offered = mirror::push(&s.git, &mirror.remote, known).await;
    Some(offered.map_err(|error| {
        tracing::warn!(%error, "the remote did not take the commit");
        error.to_string().replace(&mirror.remote, "the remote").chars().take(WHY_CHARS_MAX).collect()
    }))
}

/// Keeps unfinished changes as a patch.
async fn set_aside(s: &Sitting<'_>) -> Result<Option<StagedRecord>, StepError> {
    let patch = s.git.patch_since_tip().await.map_err(StepError::from)?;
    if patch.is_empty() {
        return Ok(None);
    }
    let summary = format!("unfinished work of session {}", s.session);
    let source = "harness, taken out of the folder when the session ended";
    let patch = Ingest {
        media_type: "text/x-diff".to_owned(),
        ..Ingest::new(longhaul_workspace::Kind::Artifact, "unfinished", &summary, source, patch)
    };
    let staged = s.harness.workspace.task(&s.owner()).stage(patch).await;
    staged.map(Some).map_err(StepError::from)
}

fn entry_of(s: &Sitting<'_>, closing: &Closing) -> SessionEntry {
    let (outcome, summary) = match &closing.result {
        SessionResult::Planned(accepted) => (SessionOutcome::Planned, accepted.summary.clone()),
        SessionResult::Verified(accepted, ..) => (SessionOutcome::Verified, accepted.summary.clone()),
        SessionResult::HandedOver { note, .. } => (SessionOutcome::HandedOver, note.clone()),
    };
    SessionEntry {
        number: s.session,
        purpose: closing.purpose.clone(),
        outcome,
        summary,
        commit: None,
        unfinished: None,
        refused_claims: closing.refused_claims,
        turns: closing.conversed.turns,
        prompt_tokens: closing.conversed.usage.prompt_tokens,
        answer_tokens: closing.conversed.usage.answer_tokens,
        started_at: closing.started_at,
        ended_at: s.harness.ambient.clock.now(),
    }
}

/// The rows as they will be once the transaction is done; the committed files show these.
fn rows_after(mut rows: Rows, closing: &Closing, entry: &SessionEntry, parked: bool) -> Rows {
    match &closing.result {
        SessionResult::Verified(_, feature, _) => {
            if let Some(f) = rows.features.iter_mut().find(|f| f.id() == feature.id()) {
                f.standing.passes = true;
                f.standing.parked = false;
                f.standing.broken = None;
            }
        }
        SessionResult::HandedOver { feature: Some(feature), .. } => {
            if let Some(f) = rows.features.iter_mut().find(|f| f.id() == feature.id()) {
                f.standing.parked = parked;
            }
        }
        SessionResult::Planned(_) | SessionResult::HandedOver { feature: None, .. } => {}
    }
    if !rows.sessions.iter().any(|known| known.number == entry.number) {
        rows.sessions.push(entry.clone());
    }
    rows
}

fn message_of(closing: &Closing, entry: &SessionEntry) -> String {
    let wanted = match &closing.result {
        SessionResult::Planned(a) => a.commit_message.clone().unwrap_or_else(|| "chore: plan the features".to_owned()),
        SessionResult::Verified(a, f, _) => {
            a.commit_message.clone().unwrap_or_else(|| format!("feat: {}", f.definition.description))
        }
        SessionResult::HandedOver { feature, .. } => {
            let worked_on = feature.as_ref().map(|f| f.id()).or(closing.purpose.feature());
            let what = worked_on.map_or("the plan".to_owned(), ToString::to_string);
            format!("chore: progress of session {}, {what} not finished", entry.number)
        }
    };
    let subject: String = wanted.lines().next().unwrap_or_default().chars().take(SUBJECT_CHARS_MAX).collect();
    let mut message = format!("{subject}\n\n{}\n", entry.summary.trim());
    if let SessionResult::Verified(_, feature, verdict) = &closing.result {
        message.push_str(&format!("\nLonghaul-Feature: {}\nLonghaul-Verdict: {}", feature.id(), verdict.id()));
    }
    message
}

type Effects = Box<dyn FnOnce(&mut Tx<'_>, &SessionEntry, Option<Parked>) -> Result<(), StoreError> + Send>;

/// The rows that the end of the session writes.
fn effects_of(s: &Sitting<'_>, closing: &Closing, rows: &Rows, memories: Vec<Prepared>) -> Effects {
    let owner = s.owner();
    let standing = |id| rows.features.iter().find(|f| f.id() == id).map(|f| f.standing.clone()).unwrap_or_default();
    let verified = match &closing.result {
        SessionResult::Verified(_, feature, verdict) => Some((verdict.as_ref().clone(), standing(feature.id()))),
        SessionResult::Planned(_) | SessionResult::HandedOver { .. } => None,
    };
    let failed = match &closing.result {
        SessionResult::HandedOver { feature: Some(feature), .. } => {
            Some((feature.id().clone(), standing(feature.id())))
        }
        SessionResult::Planned(_) | SessionResult::Verified(..) | SessionResult::HandedOver { feature: None, .. } => {
            None
        }
    };
    let memory = s.harness.memory.clone();
    Box::new(move |tx, entry, parked| {
        let commit = entry.commit.as_deref().unwrap_or_default();
        if let Some((verdict, before)) = &verified {
            features::record_verdict(tx, &owner, verdict, before, Some(commit))?;
            verification::bind_commit(tx, &owner, verdict.id(), commit)?;
        }
        if let Some((feature, before)) = &failed {
            features::attempted(tx, &owner, feature, before, parked)?;
        }
        history::append(tx, &owner, entry)?;
        for note in &memories {
            match memory.insert_prepared(tx, &owner.scope, note) {
                // The session goes on without, as its user wants it.
                Ok(_) | Err(MemoryError::User(UserError::Off { .. })) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    })
}

/// What later sessions may want to know of this one: its progress record and its commit (H6).
fn memories_of(s: &Sitting<'_>, closing: &Closing) -> Result<Vec<Prepared>, MemoryError> {
    let entry = entry_of(s, closing);
    let (about, status) = match &closing.result {
        SessionResult::Planned(_) => ("planned the project".to_owned(), "planned"),
        SessionResult::Verified(_, f, _) => (format!("{} {}", f.id(), f.definition.description), "verified"),
        SessionResult::HandedOver { feature: Some(f), .. } => {
            (format!("{} {}", f.id(), f.definition.description), "not finished")
        }
        SessionResult::HandedOver { feature: None, .. } => {
            (closing.purpose.feature().map_or_else(|| "planning".to_owned(), ToString::to_string), "not finished")
        }
    };
    let feature = match &closing.result {
        SessionResult::Verified(_, feature, _) | SessionResult::HandedOver { feature: Some(feature), .. } => {
            Some(feature.id())
        }
        SessionResult::Planned(_) | SessionResult::HandedOver { feature: None, .. } => None,
    };
    let progress = format!("Session {}: {about} | {status} | {}", s.session, entry.summary);
    let progress: String = progress.chars().take(MEMORY_CHARS_MAX).collect();
    let mut memories = vec![s.new_memory(Kind::Progress, Source::Harness, feature, progress)?];
    if !matches!(closing.result, SessionResult::HandedOver { .. }) {
        let subject = message_of(closing, &entry);
        let subject = subject.lines().next().unwrap_or_default();
        memories.push(s.new_memory(Kind::Commit, Source::Harness, feature, format!("commit: {subject}"))?);
    }
    Ok(memories)
}

fn events_of(s: &Sitting<'_>, closing: &Closing) -> impl FnOnce(&Closed) -> Vec<EventDraft> + Send + 'static {
    let features = match &closing.result {
        SessionResult::Verified(_, feature, verdict) => {
            Some((feature.id().clone(), verdict.id().clone(), verdict.elapsed_ms()))
        }
        SessionResult::Planned(_) | SessionResult::HandedOver { .. } => None,
    };
    let (session, git, snapshots) = (s.session, s.git.clone(), s.work_tree.clone());
    let untold = s.untold_events();
    move |closed| {
        let entry = &closed.entry;
        let git_ms = git.spent_ms() + snapshots.spent_ms();
        let mut events = untold();
        if let Some((feature, verdict, ms)) = features {
            let data = json!({"feature": feature, "commit": entry.commit, "verdict": verdict, "ms": ms});
            events.push(EventDraft::business("feature.passed", data));
        }
        if let Some((Parked { suspected, diagnosis }, _)) = &closed.parked {
            let data = json!({
                "feature": entry.purpose.feature(), "suspected": suspected, "diagnosis": diagnosis,
            });
            events.push(EventDraft::business("feature.parked", data));
        }
        if let Some(mirrored) = &closed.mirrored {
            let data = json!({"commit": entry.commit, "ok": mirrored.is_ok(), "why": mirrored.as_ref().err()});
            events.push(EventDraft::business("mirror.pushed", data));
        }
        events.push(EventDraft::business(
            "session.ended",
            json!({
                "session": session, "outcome": entry.outcome, "commit": entry.commit,
                "prompt_tokens": entry.prompt_tokens, "answer_tokens": entry.answer_tokens,
                "ms": entry.ended_at.0.saturating_sub(entry.started_at.0), "git_ms": git_ms,
            }),
        ));
        events
    }
}

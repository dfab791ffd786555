//! A claim of success, and what becomes of it: the project's own checks, then the verifier. The model only claims.

use std::sync::Mutex;

use longhaul_agent::{After, ToolTurn};
use longhaul_core::EventDraft;
use longhaul_durable::{NodeError, StepError};
use longhaul_tools::sandbox::SandboxCommand;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    features::{self, Feature},
    folder::LeftOut,
    host::{Host, locked_plan, missing, tamper_event, text_argument, told},
    plan::{PlanError, parse_batch},
    sitting::{Sitting, lock},
    verification::{self, Occasion, RecordedVerdict, Subject},
    work_tree::TreeId,
};

const OUTPUT_SHOWN_BYTES: usize = 4_000;

/// The claims of one session.
#[derive(Debug)]
pub(crate) struct Claims {
    /// The feature being worked on; none in the initializer's session.
    feature: Option<Feature>,
    refused: Mutex<u32>,
    pub(crate) accepted: Mutex<Option<Accepted>>,
}

impl Claims {
    pub(crate) fn of(feature: Option<Feature>) -> Self {
        Self { feature, refused: Mutex::new(0), accepted: Mutex::new(None) }
    }

    pub(crate) fn refused(&self) -> u32 {
        *lock(&self.refused)
    }
}

/// A claim that stood.
#[derive(Debug, Clone)]
pub(crate) struct Accepted {
    pub(crate) summary: String,
    pub(crate) commit_message: Option<String>,
    pub(crate) verdict: Option<RecordedVerdict>,
}

/// A file without which the commit would not be what was verified, as a check that failed.
fn too_large(file: &LeftOut) -> (String, String) {
    let (path, mib) = (file.path.display(), file.bytes / (1024 * 1024));
    let reason = format!(
        "{path} has {mib} MiB and is too large to be committed; make it smaller, let init.sh make it, or name it in \
         .gitignore"
    );
    ("every file can be committed".to_owned(), reason)
}

/// The project's own checks, run at a claim.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Quality {
    /// The command that failed and the end of its output.
    pub(crate) failed: Option<(String, String)>,
    pub(crate) tree: TreeId,
    undone: Vec<(String, String)>,
    elapsed_ms: u64,
}

impl Quality {
    pub(crate) fn events(&self) -> Vec<EventDraft> {
        let command = self.failed.as_ref().map(|(command, _)| command);
        let data = json!({"passed": self.failed.is_none(), "command": command, "ms": self.elapsed_ms});
        let mut events = vec![EventDraft::business("project.checked", data)];
        events.extend(self.undone.iter().map(|(path, how)| tamper_event(path, how)));
        events
    }
}

/// Runs build, lint and test, where the project has them. The first that fails ends it.
pub(crate) async fn quality_now(s: &Sitting<'_>) -> Result<Quality, StepError> {
    let brief = s.project().brief;
    let commands: Vec<String> = [brief.build, brief.lint, brief.test].into_iter().flatten().collect();
    s.settle().await?;
    let started = tokio::time::Instant::now();
    let mut failed = s.not_committed().await.first().map(too_large);
    for command in commands.into_iter().filter(|_| failed.is_none()).collect::<Vec<_>>() {
        let line = SandboxCommand::shell(&command)
            .timeout(s.harness.settings.quality_timeout)
            .output_bytes_max(OUTPUT_SHOWN_BYTES);
        let done = s.sandbox.run(line, None).await.map_err(StepError::from)?;
        if !done.success() {
            failed = Some((command, format!("{}\n{}", done.exit, done.output)));
            break;
        }
    }
    let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut undone = s.take_untold();
    undone.extend(s.restore_guarded()?);
    let undone = undone.into_iter().map(|u| (u.path, u.how)).collect();
    Ok(Quality { failed, tree: s.snapshot().await?, undone, elapsed_ms })
}

/// A refused claim as an event, and its place in words.
pub(crate) fn refused_event(
    feature: &Feature,
    attempt: u32,
    (step, sentence, reason): (usize, &str, &str),
    verified_ms: u64,
) -> (EventDraft, String) {
    let data = json!({
        "feature": feature.id(), "attempt": attempt, "step": step, "sentence": sentence,
        "reason": reason.chars().take(2_000).collect::<String>(), "ms": verified_ms,
    });
    let place = if step == 0 { String::new() } else { format!("step {step} \"{sentence}\": ") };
    (EventDraft::business("claim.refused", data), place)
}

impl Host<'_> {
    pub(crate) async fn claim(&self, arguments: &Value) -> Result<ToolTurn, NodeError> {
        let Some(summary) = text_argument(arguments, "summary") else { return Ok(missing("summary")) };
        let commit_message = text_argument(arguments, "commit_message");
        let Some(feature) = &self.claims.feature else { return self.claim_plan(summary, commit_message).await };
        if let Some((command, output)) = self.quality().await? {
            let reason = format!("the project's own check `{command}` failed:\n{output}");
            return self.refuse(feature, (0, "", &reason), 0).await;
        }
        let verdict = self.verify_claim(feature).await?;
        if let Some(r) = verdict.refusal() {
            let reason = if r.step == 0 { r.reason.clone() } else { format!("{} {}", r.check, r.reason) };
            return self.refuse(feature, (r.step, &r.sentence, &reason), verdict.elapsed_ms()).await;
        }
        let text = format!("VERIFIED: {} passes; every sentence was carried out in the browser", feature.id());
        *lock(&self.claims.accepted) = Some(Accepted { summary, commit_message, verdict: Some(verdict) });
        Ok(ToolTurn { text, after: After::Done })
    }

    /// Runs the project's own checks as a step; gives the command that failed, with its output.
    async fn quality(&self) -> Result<Option<(String, String)>, NodeError> {
        let s = self.sitting;
        let quality = s.record("project_checks", quality_now(s), Quality::events).await?;
        s.left(quality.tree);
        Ok(quality.failed)
    }

    async fn verify_claim(&self, feature: &Feature) -> Result<RecordedVerdict, NodeError> {
        let s = self.sitting;
        let (owner, session) = (s.owner(), s.session);
        let untold = s.untold_events();
        s.record_with(
            "verify",
            verify_now(s, feature, Occasion::Claim),
            |_| untold(),
            move |tx, verdict: &RecordedVerdict| verdict.commit(tx, &owner, session, None),
        )
        .await
    }

    async fn refuse(
        &self,
        feature: &Feature,
        (step, sentence, reason): (usize, &str, &str),
        verified_ms: u64,
    ) -> Result<ToolTurn, NodeError> {
        let s = self.sitting;
        let attempt = {
            let mut refused = lock(&self.claims.refused);
            *refused += 1;
            *refused
        };
        let (event, place) = refused_event(feature, attempt, (step, sentence, reason), verified_ms);
        s.record("claim_refused", async { Ok(()) }, move |()| vec![event]).await?;
        let mut text = format!("REFUSED: {place}{reason}");
        if attempt >= s.harness.settings.claims_max {
            let note = format!("{attempt} claims were refused; the last because of {place}{reason}");
            return Ok(ToolTurn { text, after: After::HandOver(note) });
        }
        text.push_str("\nMend it and call `claim_done` again.");
        Ok(told(text))
    }

    /// The initializer's claim: there is a plan and something that boots it.
    async fn claim_plan(&self, summary: String, commit_message: Option<String>) -> Result<ToolTurn, NodeError> {
        let s = self.sitting;
        let planned = s.rows().await?.features.len();
        let init = s.project().dir.join("init.sh");
        let executable = std::fs::symlink_metadata(&init).is_ok_and(|found| {
            use std::os::unix::fs::PermissionsExt;
            found.is_file() && found.permissions().mode() & 0o111 != 0
        });
        if planned == 0 {
            return Ok(told("REFUSED: no features are planned yet; call `plan_features`"));
        }
        if !executable {
            return Ok(told("REFUSED: init.sh is missing or not executable (`chmod +x init.sh`)"));
        }
        *lock(&self.claims.accepted) = Some(Accepted { summary, commit_message, verdict: None });
        Ok(ToolTurn { text: format!("LOCKED: {planned} features are planned"), after: After::Done })
    }

    pub(crate) async fn plan_features(&self, arguments: &Value) -> Result<ToolTurn, NodeError> {
        let s = self.sitting;
        if s.session > 0 {
            return Ok(locked_plan());
        }
        let existing: Vec<_> = s.rows().await?.features.iter().map(|f| f.id().clone()).collect();
        let parsed = parse_batch(arguments, &existing);
        let (owner, from) = (s.owner(), existing.len());
        let (batch, outcome) = match parsed {
            Ok(batch) => (batch, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        let count = batch.len();
        let recorded: Planned = s
            .record_with(
                "tool:plan_features",
                async move { Ok(Planned { added: count, total: from + count, refused: outcome.err().map(Into::into) }) },
                |p: &Planned| vec![planned_event(p)],
                move |tx, _| features::lock(tx, &owner, from, &batch),
            )
            .await?;
        s.refresh().await?;
        Ok(told(match recorded.refused {
            Some((place, message)) => format!("REFUSED: {place}: {message}. Nothing of this call was kept; call again"),
            None => format!("planned {} features, {} in all", recorded.added, recorded.total),
        }))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Planned {
    added: usize,
    total: usize,
    refused: Option<(String, String)>,
}

impl From<PlanError> for (String, String) {
    fn from(error: PlanError) -> Self {
        (error.place, error.message)
    }
}

fn planned_event(planned: &Planned) -> EventDraft {
    match &planned.refused {
        Some((place, message)) => EventDraft::business("plan.refused", json!({"place": place, "message": message})),
        None => EventDraft::business("plan.extended", json!({"features": planned.added, "total": planned.total})),
    }
}

/// Verifies the feature against the folder as the last recorded step left it.
pub(crate) async fn verify_now(
    s: &Sitting<'_>,
    feature: &Feature,
    occasion: Occasion,
) -> Result<RecordedVerdict, StepError> {
    // Nothing but the verified application may touch the folder now: what it is called by its verdict, it has to be.
    s.trial.stop().await;
    s.work_tree.forget().await;
    s.settle().await?;
    let tree = s.snapshot().await?;
    let project = s.project();
    let documented = occasion == Occasion::Claim;
    let subject = Subject { project: &project, feature, tree: tree.as_str(), occasion, documented };
    let verdict = verification::verify(s.harness, &s.launch, subject).await?;
    s.left(tree);
    s.look_again().await?;
    Ok(verdict)
}

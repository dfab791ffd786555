//! A claim of success, and what becomes of it: the project's own checks, then the verifier. The model only claims.

use std::sync::Mutex;

use futures::future::try_join_all;
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
    planning::{PlanError, Wanted, batch_hint, digest, parse_within, put_back},
    sitting::{Sitting, lock},
    verification::{self, Occasion, RecordedVerdict, Subject, Wishes},
    work_tree::TreeId,
};

const OUTPUT_SHOWN_BYTES: usize = 4_000;
/// How much of the plan so far the answer to a batch shows.
const PLAN_SHOWN_CHARS: usize = 1_500;

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
        let Some(begun_with) = &self.claims.feature else { return self.claim_plan(summary, commit_message).await };
        // Its checks as they are locked now: somebody may have decided on a proposal since the session began.
        let now = self.sitting.rows().await?.find(begun_with.id()).cloned();
        let feature = now.as_ref().unwrap_or(begun_with);
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
        let features = s.rows().await?.features;
        let planned = features.len();
        if planned == 0 {
            return Ok(told("REFUSED: no features are planned yet; call `plan_features`"));
        }
        let wanted = Wanted::of(s.harness.settings.planning.features_min, s.project().brief.size);
        if let Some(lacking) = wanted.lacking(&features) {
            return Ok(told(format!("REFUSED: {lacking}. Go on with `plan_features`; what is planned is kept")));
        }
        if s.project().profile.has_app() && !self.boots() {
            return Ok(told("REFUSED: init.sh is missing or not executable (`chmod +x init.sh`)"));
        }
        if let Some(touched) = self.leave_as_it_was().await? {
            return Ok(told(format!(
                "REFUSED: planning leaves the repository as it is, and adds nothing but init.sh. Put back: {touched}. Call \
                 `claim_done` again"
            )));
        }
        *lock(&self.claims.accepted) = Some(Accepted { summary, commit_message, verdict: None });
        Ok(ToolTurn { text: format!("LOCKED: {planned} features are planned"), after: After::Done })
    }

    /// Whether there is something that starts the application.
    fn boots(&self) -> bool {
        let init = self.sitting.project().dir.join("init.sh");
        std::fs::symlink_metadata(&init).is_ok_and(|found| {
            use std::os::unix::fs::PermissionsExt;
            found.is_file() && found.permissions().mode() & 0o111 != 0
        })
    }

    /// In an adopted repository: makes everything what it was, and says what was not.
    async fn leave_as_it_was(&self) -> Result<Option<String>, NodeError> {
        let s = self.sitting;
        let Some(commit) = s.project().adopted else { return Ok(None) };
        let work = async {
            s.settle().await?;
            let touched = put_back(&s.git, &commit).await.map_err(StepError::from)?;
            s.hand_to_sandbox()?;
            s.work_tree.forget().await;
            Ok(PutBack { touched, tree: s.snapshot().await? })
        };
        let back = s
            .record("leave_as_it_was", work, |back: &PutBack| {
                let undone = back.touched.iter();
                undone.map(|path| tamper_event(path, "changed while planning an adopted repository")).collect()
            })
            .await?;
        s.left(back.tree);
        Ok((!back.touched.is_empty()).then(|| back.touched.join(", ")))
    }

    pub(crate) async fn plan_features(&self, arguments: &Value) -> Result<ToolTurn, NodeError> {
        let s = self.sitting;
        if s.session > 0 {
            return Ok(locked_plan());
        }
        let rows = s.rows().await?;
        let existing: Vec<_> = rows.features.iter().map(|f| f.definition.clone()).collect();
        let retired: Vec<_> = rows.retired.iter().map(|f| f.id().clone()).collect();
        let parsed = parse_within(arguments, &existing, &retired);
        let (owner, from, before) = (s.owner(), existing.len() + retired.len(), existing.len());
        let (batch, refused, more) = match parsed {
            Ok(batch) => (batch, None, Vec::new()),
            Err(PlanError { place, message, more }) => (Vec::new(), Some((place, message)), more),
        };
        let count = batch.len();
        let recorded: Planned = s
            .record_with(
                "tool:plan_features",
                async move { Ok(Planned { added: count, total: before + count, refused, more }) },
                |p: &Planned| vec![planned_event(p)],
                move |tx, _| features::lock(tx, &owner, from, &batch),
            )
            .await?;
        let features = s.refresh().await?.features;
        Ok(told(match recorded.refused {
            Some((place, message)) => {
                let more: String = recorded.more.iter().map(|other| format!("\n{other}")).collect();
                format!("REFUSED: {place}: {message}{more}\nNothing of this call was kept; mend it and call again")
            }
            None => self.planned_so_far(&recorded, &features),
        }))
    }

    /// What the plan is by now, and what it still wants.
    fn planned_so_far(&self, recorded: &Planned, features: &[Feature]) -> String {
        let s = self.sitting;
        let settings = &s.harness.settings;
        let mut text = format!("planned {} features, {} in all", recorded.added, recorded.total);
        if let Some(lacking) = Wanted::of(settings.planning.features_min, s.project().brief.size).lacking(features) {
            let batch = batch_hint(s.harness.model.info().window_tokens, settings.answer_tokens_max);
            text.push_str(&format!("; {lacking}: go on, about {batch} a call"));
        }
        format!("{text}\n{}", digest(features, PLAN_SHOWN_CHARS))
    }
}

/// What was put back in an adopted repository.
#[derive(Debug, Serialize, Deserialize)]
struct PutBack {
    touched: Vec<String>,
    tree: TreeId,
}

#[derive(Debug, Serialize, Deserialize)]
struct Planned {
    added: usize,
    total: usize,
    refused: Option<(String, String)>,
    /// Further mistakes of the same call.
    #[serde(default)]
    more: Vec<String>,
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
    let wishes = Wishes { documented: occasion == Occasion::Claim, ..Wishes::default() };
    let subject = Subject { project: &project, feature, tree: tree.as_str(), occasion, wishes };
    let verdict = verification::verify(s.harness, &s.launch, subject).await?;
    s.left(tree);
    s.look_again().await?;
    Ok(verdict)
}

/// Verifies several features of the folder at a time, in one browser, each with an application and data of its own.
pub(crate) async fn verify_side_by_side(
    s: &Sitting<'_>,
    features: &[Feature],
    occasion: Occasion,
) -> Result<Vec<RecordedVerdict>, StepError> {
    s.trial.stop().await;
    s.work_tree.forget().await;
    s.settle().await?;
    let tree = s.snapshot().await?;
    let project = s.project();
    let flows = features.iter().map(|feature| {
        let wishes = Wishes::default();
        let subject = Subject { project: &project, feature, tree: tree.as_str(), occasion, wishes };
        verification::verify(s.harness, &s.launch, subject)
    });
    let verdicts = try_join_all(flows).await?;
    s.left(tree);
    s.look_again().await?;
    Ok(verdicts)
}

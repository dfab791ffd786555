//! One verification of one feature: the application afresh, a real browser, the locked checks, and evidence that is kept.
//!
//! Invariant 1 lives here: a [`RecordedVerdict`] is made only from what the verifier saw (or from the fact that the
//! application did not start, which is never a pass), and nothing else can change `passes`.

use longhaul_core::{Ambient, Digest, FeatureId, TaskScope, VerdictId};
use longhaul_durable::StepError;
use longhaul_store::{ReadTx, StoreError, Tx, values};
use longhaul_workspace::{Ingest, Kind, RecordRef, Relation, StagedRecord, WorkspaceError};
use serde::{Deserialize, Serialize};

use crate::{
    application::{FlowApp, NoFlow},
    bisect::Culprit,
    environment::Harness,
    features::Feature,
    pictures,
    project::Project,
    verifier::{
        AppControl, Baselines, Flow, Limits, NoApplication, Pictures, Verdict, Verifier, VerifyError, Workbench,
        media_type,
    },
};

const SCHEMA: i64 = 1;
/// Most characters of a reason; an event that carries it has room for more.
const REASON_CHARS_MAX: usize = 4_000;

/// Why a verification was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// The agent claimed success.
    Claim,
    /// A sample at the start of a session.
    Regression,
    /// All features, before the project counts as done.
    FinalCheck,
    /// Somebody asked.
    OnDemand,
}

impl Occasion {
    fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Regression => "regression",
            Self::FinalCheck => "final_check",
            Self::OnDemand => "on_demand",
        }
    }
}

/// A sentence that was not fulfilled, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Number of the sentence, from 1; 0 when the application did not start.
    pub step: usize,
    /// The sentence.
    pub sentence: String,
    /// The check, as JSON.
    pub check: String,
    /// What was seen instead.
    pub reason: String,
}

/// One kept piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it shows.
    pub summary: String,
    /// Where it is kept.
    pub record: RecordRef,
    /// Its media type.
    pub media_type: String,
}

/// A verdict bound to its evidence, the tree that was verified and the digest of the checks. Only this module makes one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RecordedVerdict {
    id: VerdictId,
    feature: FeatureId,
    occasion: Occasion,
    checks_hash: Digest,
    tree: String,
    refusal: Option<Refusal>,
    evidence: Vec<Evidence>,
    elapsed_ms: u64,
    /// Which commit broke the feature, where that was looked for and found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    broken_by: Option<Culprit>,
    /// Pictures that this verdict makes the accepted ones, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    accepted: Vec<(String, RecordRef)>,
    /// Whether a person said so, so that they take the place of earlier ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    accepted_anew: bool,
    #[serde(skip)]
    staged: Vec<StagedRecord>,
}

impl RecordedVerdict {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &VerdictId {
        &self.id
    }

    /// The feature it is about.
    #[must_use]
    pub fn feature(&self) -> &FeatureId {
        &self.feature
    }

    /// Whether every sentence was fulfilled.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.refusal.is_none()
    }

    /// What was not fulfilled.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// What was not fulfilled, in one sentence; empty for a pass.
    #[must_use]
    pub fn reason(&self) -> String {
        self.refusal.as_ref().map_or_else(String::new, |r| {
            if r.step == 0 { r.reason.clone() } else { format!("step {} \"{}\": {}", r.step, r.sentence, r.reason) }
        })
    }

    /// The digest of the checks that were carried out.
    #[must_use]
    pub fn checks_hash(&self) -> &Digest {
        &self.checks_hash
    }

    /// Which commit broke the feature, where that was looked for and found.
    #[must_use]
    pub fn broken_by(&self) -> Option<&Culprit> {
        self.broken_by.as_ref()
    }

    /// Notes which commit broke the feature. It changes nothing of what was decided.
    pub(crate) fn blame(&mut self, culprit: Option<Culprit>) {
        self.broken_by = culprit;
    }

    /// What was not fulfilled, and since which commit.
    pub(crate) fn reason_and_culprit(&self) -> String {
        let culprit = self.broken_by.as_ref().map_or_else(String::new, |culprit| format!(" ({})", culprit.told()));
        format!("{}{culprit}", self.reason())
    }

    /// The tree that was verified.
    #[must_use]
    pub fn tree(&self) -> &str {
        &self.tree
    }

    /// What was kept.
    #[must_use]
    pub fn evidence(&self) -> &[Evidence] {
        &self.evidence
    }

    /// How long it took.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms
    }

    /// Writes the verdict, its evidence and the links between them.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub(crate) fn commit(
        &self,
        tx: &mut Tx<'_>,
        owner: &TaskScope,
        session: u32,
        commit: Option<&str>,
    ) -> Result<(), StoreError> {
        let json = serde_json::to_string(self).map_err(StoreError::record("verdict", &self.id))?;
        let now = tx.now();
        tx.execute(
            "insert into verdicts (tenant_id, task_id, verdict_id, feature_id, session, purpose, passed, commit_id,
                 tree_id, checks_hash, verdict, at, schema)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            &values![
                &owner.scope.tenant,
                &owner.task,
                &self.id,
                &self.feature,
                session,
                self.occasion.name(),
                self.passed(),
                commit,
                &self.tree,
                &self.checks_hash,
                json,
                now,
                SCHEMA,
            ],
        )?;
        for record in &self.staged {
            record.commit(tx)?;
            record.link(tx, Relation::Verifies, self.id.as_str())?;
        }
        // A verdict over uncommitted work is news for whoever asked; a claim's is committed right after it.
        if commit.is_some() || self.occasion == Occasion::Claim || self.accepted_anew {
            for (name, record) in &self.accepted {
                let by = (self.id.as_str(), self.accepted_anew);
                pictures::accept(tx, owner, &self.feature, (name, record), by)?;
            }
        }
        Ok(())
    }
}

/// A stored verdict with its place in time.
#[derive(Debug, Clone)]
pub struct StoredVerdict {
    /// The verdict.
    pub verdict: RecordedVerdict,
    /// Session in which it was reached.
    pub session: u32,
    /// Commit it is bound to; for a claim the commit made because of it.
    pub commit: Option<String>,
    /// When.
    pub at: longhaul_core::TimeMs,
}

/// Binds the verdict of an accepted claim to the commit that was made of what it saw.
pub(crate) fn bind_commit(
    tx: &mut Tx<'_>,
    owner: &TaskScope,
    verdict: &VerdictId,
    commit: &str,
) -> Result<(), StoreError> {
    tx.execute(
        "update verdicts set commit_id = ?4 where tenant_id = ?1 and task_id = ?2 and verdict_id = ?3",
        &values![&owner.scope.tenant, &owner.task, verdict, commit],
    )?;
    Ok(())
}

/// All verdicts of the task, oldest first.
///
/// # Errors
/// When the store cannot be read.
pub fn all(read: &ReadTx<'_>, owner: &TaskScope) -> Result<Vec<StoredVerdict>, StoreError> {
    read.query(
        "select verdict_id, verdict, session, commit_id, at from verdicts
         where tenant_id = ?1 and task_id = ?2 order by at, verdict_id",
        &values![&owner.scope.tenant, &owner.task],
        |row| {
            let id: VerdictId = row.get(0)?;
            Ok(StoredVerdict {
                verdict: serde_json::from_str(row.text(1)?).map_err(StoreError::record("verdict", id))?,
                session: row.get(2)?,
                commit: row.get(3)?,
                at: row.get(4)?,
            })
        },
    )
}

/// The commit with which the feature last passed, by these very checks.
///
/// # Errors
/// When the store cannot be read.
pub(crate) fn last_pass(
    read: &ReadTx<'_>,
    owner: &TaskScope,
    feature: &FeatureId,
    checks_hash: &Digest,
) -> Result<Option<String>, StoreError> {
    let commits: Vec<Option<String>> = read.query(
        "select commit_id from verdicts
         where tenant_id = ?1 and task_id = ?2 and feature_id = ?3 and checks_hash = ?4 and passed = ?5
             and commit_id is not null
         order by at desc, verdict_id desc limit 1",
        &values![&owner.scope.tenant, &owner.task, feature, checks_hash, true],
        |row| row.get(0),
    )?;
    Ok(commits.into_iter().next().flatten())
}

/// What a verification works on.
pub(crate) struct Subject<'a> {
    pub(crate) project: &'a Project,
    pub(crate) feature: &'a Feature,
    pub(crate) tree: &'a str,
    pub(crate) occasion: Occasion,
    pub(crate) wishes: Wishes,
}

/// What is to be kept of a verification beside its outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// A picture of every sentence, not only of the end.
    pub(crate) documented: bool,
    /// A sequence of pictures.
    pub(crate) film: bool,
    /// A person accepts the pictures of `visual` checks as they are now.
    pub(crate) accept_pictures: bool,
}

/// The verdict over an application that is known not to start. Never a pass.
pub(crate) fn never_started(harness: &Harness, subject: &Subject<'_>, why: &str) -> RecordedVerdict {
    verdict_of(&harness.ambient, subject, Some(no_start(why)), std::time::Duration::ZERO)
}

fn no_start(why: &str) -> Refusal {
    Refusal {
        step: 0,
        sentence: String::new(),
        check: String::new(),
        reason: shortened(&format!("the application does not start: {why}")),
    }
}

/// Verifies one feature. A browser that cannot be used is an error, never a verdict.
pub(crate) async fn verify(
    harness: &Harness,
    launch: &crate::application::Launch,
    subject: Subject<'_>,
) -> Result<RecordedVerdict, StepError> {
    let started = tokio::time::Instant::now();
    let seen = match see(harness, launch, &subject).await? {
        Ok(seen) => seen,
        Err(no_start) => return Ok(verdict_of(&harness.ambient, &subject, Some(no_start), started.elapsed())),
    };
    let refusal = refusal_of(&seen);
    let mut verdict = verdict_of(&harness.ambient, &subject, refusal, started.elapsed());
    keep_evidence(harness, &subject, seen, &mut verdict).await.map_err(StepError::from)?;
    Ok(verdict)
}

/// Looks whether a feature passes, and keeps nothing of it; gives what was not fulfilled.
pub(crate) async fn look(
    harness: &Harness,
    launch: &crate::application::Launch,
    subject: &Subject<'_>,
) -> Result<Option<Refusal>, StepError> {
    Ok(match see(harness, launch, subject).await? {
        Ok(seen) => refusal_of(&seen),
        Err(no_start) => Some(no_start),
    })
}

/// Starts the application and carries the flow out; the refusal is that of an application that does not start.
async fn see(
    harness: &Harness,
    launch: &crate::application::Launch,
    subject: &Subject<'_>,
) -> Result<Result<Verdict, Refusal>, StepError> {
    let baselines = if subject.wishes.accept_pictures {
        Baselines::new()
    } else {
        pictures::accepted(harness, &subject.project.owner, subject.feature.id()).await?
    };
    let plan = Plan { flow: flow_of(subject.feature), workbench: Workbench::new(launch.sandbox.clone()), baselines };
    if !plan.flow.needs_app() {
        let seen = drive(harness, subject, &plan, &mut NoApplication).await;
        return seen.map(Ok).map_err(StepError::from);
    }
    let scratch = harness.task_dir(&subject.project.owner.task).join("flows");
    std::fs::create_dir_all(&scratch).map_err(StepError::from)?;
    let mut app = match FlowApp::start(launch.clone(), &scratch).await {
        Ok(app) => app,
        Err(NoFlow::Here(error)) => return Err(error),
        Err(NoFlow::App(why)) => return Ok(Err(no_start(&why))),
    };
    let seen = drive(harness, subject, &plan, &mut app).await;
    app.stop().await;
    seen.map(Ok).map_err(StepError::from)
}

/// What one verification is carried out with, each time it is tried.
struct Plan {
    flow: Flow,
    workbench: Workbench,
    baselines: Baselines,
}

fn flow_of(feature: &Feature) -> Flow {
    Flow {
        feature: feature.id().clone(),
        steps: feature.definition.steps.clone(),
        checks: feature.definition.checks.clone(),
    }
}

fn refusal_of(seen: &Verdict) -> Option<Refusal> {
    seen.failure().map(|failure| Refusal {
        step: failure.step_index,
        sentence: failure.sentence.clone(),
        check: failure.check_json.clone(),
        reason: shortened(&failure.reason),
    })
}

/// A reason that fits into events and prompts: its beginning and its end.
fn shortened(reason: &str) -> String {
    let count = reason.chars().count();
    if count <= REASON_CHARS_MAX {
        return reason.to_owned();
    }
    let head: String = reason.chars().take(REASON_CHARS_MAX / 2).collect();
    let tail: String = reason.chars().skip(count - REASON_CHARS_MAX / 2).collect();
    format!("{head} … {tail}")
}

/// Carries the flow out, a second time with a new browser when the first died under it. Without a page there is none.
async fn drive(
    harness: &Harness,
    subject: &Subject<'_>,
    plan: &Plan,
    app: &mut dyn AppControl,
) -> Result<Verdict, VerifyError> {
    let Plan { flow, workbench, baselines } = plan;
    // A claim is documented sentence by sentence; a repeated verification only shows where it ended.
    let pictures = if subject.wishes.documented { Pictures::EachSentence } else { Pictures::TheEnd };
    let limits =
        Limits { flow: harness.settings.flow_timeout, pictures, film: subject.wishes.film, ..Limits::default() };
    let equipped = |verifier: Verifier| verifier.with_workbench(workbench.clone()).with_baselines(baselines.clone());
    if !flow.needs_browser() {
        return equipped(Verifier::without_browser()).verify(flow, app, &limits).await;
    }
    let browser = harness.browser.get().await?;
    let first = equipped(Verifier::new(browser.clone())).verify(flow, app, &limits).await;
    match first {
        Err(VerifyError::Browser(_)) => {
            tracing::warn!(feature = %flow.feature, "the browser died during a verification; starting it again");
            harness.browser.retire(&browser).await;
            equipped(Verifier::new(harness.browser.get().await?)).verify(flow, app, &limits).await
        }
        decided => decided,
    }
}

fn verdict_of(
    ambient: &Ambient,
    subject: &Subject<'_>,
    refusal: Option<Refusal>,
    elapsed: std::time::Duration,
) -> RecordedVerdict {
    RecordedVerdict {
        id: VerdictId::from_body(&ambient.ids.body()),
        feature: subject.feature.id().clone(),
        occasion: subject.occasion,
        checks_hash: subject.feature.definition.checks_hash,
        tree: subject.tree.to_owned(),
        refusal,
        evidence: Vec::new(),
        broken_by: None,
        elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        accepted: Vec::new(),
        accepted_anew: subject.wishes.accept_pictures,
        staged: Vec::new(),
    }
}

/// Puts screenshots and the log of the flow on disk.
async fn keep_evidence(
    harness: &Harness,
    subject: &Subject<'_>,
    seen: Verdict,
    verdict: &mut RecordedVerdict,
) -> Result<(), WorkspaceError> {
    let proposed = seen.baselines().to_vec();
    let (log, pictures) = seen.into_evidence();
    let mut pieces = vec![("the flow's log: steps, console, network".to_owned(), "application/json", log)];
    pieces.extend(pictures.into_iter().map(|(summary, png)| (summary, media_type(&png), png)));
    for (summary, media_type, content) in pieces {
        let whole = format!("{}: {summary}", verdict.feature);
        let source = format!("verifier, {}", verdict.id);
        let evidence = Ingest {
            media_type: media_type.to_owned(),
            // Found by what it shows: a flow's log is long, and its words are not what anybody looks for.
            text: Some(String::new()),
            ..Ingest::new(Kind::Evidence, "evidence", &whole, &source, content)
        };
        let staged = harness.workspace.task(&subject.project.owner).stage(evidence).await?;
        verdict.evidence.push(Evidence {
            summary,
            record: staged.reference().clone(),
            media_type: media_type.to_owned(),
        });
        verdict.staged.push(staged);
    }
    for (name, picture) in proposed {
        let whole = format!("{}: {name:?} as accepted", verdict.feature);
        let source = format!("verifier, {}", verdict.id);
        let record = Ingest {
            media_type: "image/png".to_owned(),
            text: Some(String::new()),
            ..Ingest::new(Kind::Evidence, "evidence", &whole, &source, picture)
        };
        let staged = harness.workspace.task(&subject.project.owner).stage(record).await?;
        verdict.accepted.push((name, staged.reference().clone()));
        verdict.staged.push(staged);
    }
    Ok(())
}

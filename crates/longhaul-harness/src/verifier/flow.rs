//! Carrying a flow out: the checks one after the other, their log, and the end at the first that does not hold. How one
//! check is carried out is `run`'s.

use std::sync::Arc;

use longhaul_tools::browser::{Activity, Browser, BrowserError, PageError};
use tokio::time::Instant;

use super::{
    AppControl, Failure, Flow, Limits, Pictures, StepLog, Verdict, Verifier, VerifyError,
    film::Film,
    front::Front,
    run::{OpenPage, Run},
};
use crate::checks::{self, CheckAction};
use longhaul_tools::browser::Permission;

/// Why a check ended otherwise than by holding.
pub(super) enum Stop {
    /// It does not hold; the flow fails.
    Refused(String),
    /// Nothing can be said; there is no verdict.
    Unverifiable(VerifyError),
}

impl From<PageError> for Stop {
    fn from(error: PageError) -> Self {
        match error {
            PageError::Browser(error) => error.into(),
            PageError::NotFound { .. }
            | PageError::Ambiguous { .. }
            | PageError::NotVisible { .. }
            | PageError::NotReady { .. }
            | PageError::NotLoaded { .. }
            | PageError::Dialog(_)
            | PageError::NoOption { .. }
            | PageError::NoChooser { .. }
            | PageError::File { .. }
            | PageError::NoTab { .. }
            | PageError::LastTab
            | PageError::NoDownload { .. }
            | PageError::Download { .. }
            | PageError::NotPrinted { .. }
            | PageError::Crashed => Self::Refused(error.to_string()),
        }
    }
}

impl From<BrowserError> for Stop {
    fn from(error: BrowserError) -> Self {
        match error {
            // Whoever closes the only tab leaves its user with nothing.
            BrowserError::NoTab => Self::Refused(error.to_string()),
            BrowserError::NotFound { .. }
            | BrowserError::Folder { .. }
            | BrowserError::Spawn { .. }
            | BrowserError::Start { .. }
            | BrowserError::Gone
            | BrowserError::Silent { .. }
            | BrowserError::Refused { .. } => Self::Unverifiable(error.into()),
        }
    }
}

/// Carries the flow out and gives the verdict.
pub(super) async fn carry_out(
    verifier: &Verifier,
    flow: &Flow,
    app: &mut dyn AppControl,
    limits: &Limits,
) -> Result<Verdict, VerifyError> {
    let started = Instant::now();
    let needs_page = flow.checks.iter().any(|check| check.action.needs_page());
    let browser = if needs_page { Some(verifier.browser.as_ref().ok_or(VerifyError::NeedsBrowser)?) } else { None };
    // The clipboard is one for all profiles: flows that use it go one after the other.
    let _clipboard = match browser {
        Some(browser) if uses_clipboard(flow) => Some(browser.clipboard().await),
        _ => None,
    };
    let open = match browser {
        Some(browser) => Some(open(browser, &app.base_url()).await?),
        None => None,
    };
    let mut run = Run {
        open,
        app,
        workbench: verifier.workbench.as_ref(),
        baselines: &verifier.baselines,
        known: super::expect::Remembered::default(),
        dialog_armed: false,
        http_limit: limits.http,
        downloads_told: Vec::new(),
        proposed: Vec::new(),
        exhibits: Vec::new(),
        film: (limits.film && needs_page).then(Film::default),
    };
    let mut log = Log { flow, limits, started, steps: Vec::new(), failure: None };
    log.fill(&mut run).await?;
    let passed = log.failure.is_none();
    let film = run.film.take().and_then(Film::develop);
    let mut exhibits = std::mem::take(&mut run.exhibits);
    exhibits.extend(film.map(|film| ("the flow as a film".to_owned(), film)));
    Ok(Verdict {
        feature: flow.feature.clone(),
        checks_hash: checks::digest(&flow.steps, &flow.checks),
        browser: browser.map_or_else(|| "none".to_owned(), |browser| browser.version().to_owned()),
        failure: log.failure,
        steps: log.steps,
        activity: run.open.as_ref().map_or_else(Activity::default, |open| open.page.activity()),
        elapsed_ms: milliseconds(started),
        exhibits,
        baselines: if passed { run.proposed } else { Vec::new() },
    })
}

async fn open(browser: &Arc<Browser>, base_url: &str) -> Result<OpenPage, VerifyError> {
    let front = Front::open(base_url).await.map_err(VerifyError::Front)?;
    let page = browser.open_page(front.base_url()).await?;
    Ok(OpenPage { page, front })
}

fn uses_clipboard(flow: &Flow) -> bool {
    flow.checks.iter().any(
        |check| matches!(&check.action, CheckAction::Permission(asked) if asked.permission == Permission::Clipboard),
    )
}

fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The log of a flow while it is written.
struct Log<'a> {
    flow: &'a Flow,
    limits: &'a Limits,
    started: Instant,
    steps: Vec<StepLog>,
    failure: Option<Failure>,
}

impl Log<'_> {
    /// Carries the checks out until one does not hold.
    async fn fill(&mut self, run: &mut Run<'_>) -> Result<(), VerifyError> {
        for check in &self.flow.checks {
            let sentence = self.flow.steps.get(check.step - 1).cloned().unwrap_or_default();
            if self.steps.last().is_none_or(|step| step.index != check.step) {
                if self.limits.pictures == Pictures::EachSentence {
                    run.close_step(self.steps.last_mut()).await?;
                }
                self.begin(check.step, &sentence);
            }
            let began = Instant::now();
            let left = self.limits.flow.saturating_sub(self.started.elapsed());
            let outcome = match tokio::time::timeout(left, run.carry_out(check)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Stop::Refused(format!("the flow took longer than {} ms", self.limits.flow.as_millis()))),
            };
            let step = self.steps.last_mut().expect("a log was begun for this check's sentence");
            step.ms += milliseconds(began);
            match outcome {
                Ok(note) => step.notes.push(note),
                Err(Stop::Unverifiable(error)) => return Err(error),
                Err(Stop::Refused(reason)) => {
                    step.ok = false;
                    step.notes.push(format!("FAILED {check}: {reason}"));
                    let check_json = check.to_string();
                    self.failure = Some(Failure { step_index: check.step, sentence, check_json, reason });
                    break;
                }
            }
        }
        run.close_step(self.steps.last_mut()).await
    }

    fn begin(&mut self, index: usize, sentence: &str) {
        self.steps.push(StepLog {
            index,
            sentence: sentence.to_owned(),
            ok: true,
            ms: 0,
            notes: Vec::new(),
            screenshot: None,
        });
    }
}

impl Run<'_> {
    /// Takes the picture that ends a sentence.
    async fn close_step(&mut self, step: Option<&mut StepLog>) -> Result<(), VerifyError> {
        let (Some(step), Some(open)) = (step, &self.open) else { return Ok(()) };
        match open.page.screenshot().await {
            Ok(picture) => step.screenshot = Some(picture),
            // A page that shows nothing any more has no picture; a browser that is gone proves nothing.
            Err(BrowserError::Refused { message, .. }) => step.notes.push(format!("no picture: {message}")),
            Err(error @ BrowserError::NoTab) => step.notes.push(format!("no picture: {error}")),
            Err(BrowserError::Silent { method, .. }) if !step.ok => {
                step.notes.push(format!("no picture: {method} hangs"))
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

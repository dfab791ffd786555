//! Carrying a flow out: the checks one after the other, their log, and the end at the first that does not hold.

use std::{sync::Arc, time::Duration};

use longhaul_tools::browser::{ArmedDialog, Browser, BrowserError, Page, PageError};
use tokio::time::Instant;

use super::{
    AppControl, Failure, Flow, Limits, Pictures, StepLog, Verdict, VerifyError,
    expect::{self, PageFault, Remembered},
    front::Front,
    http,
};
use crate::checks::{self, Act, Check, CheckAction, DialogExpectation};

const POLL: Duration = Duration::from_millis(30);

/// Why a check ended otherwise than by holding.
enum Stop {
    /// It does not hold; the flow fails.
    Refused(String),
    /// Nothing can be said; there is no verdict.
    Unverifiable(BrowserError),
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
        Self::Unverifiable(error)
    }
}

impl From<PageFault> for Stop {
    fn from(fault: PageFault) -> Self {
        match fault {
            PageFault::Page(error) => error.into(),
            PageFault::Reason(reason) => Self::Refused(reason),
        }
    }
}

/// A flow under way.
struct Run<'a> {
    page: Page,
    front: Front,
    app: &'a mut dyn AppControl,
    known: Remembered,
    /// A picture of the page as it still is, taken by the last check.
    picture: Option<Vec<u8>>,
    dialog_armed: bool,
    http_limit: Duration,
}

/// Carries the flow out and gives the verdict.
pub(super) async fn carry_out(
    browser: &Arc<Browser>,
    flow: &Flow,
    app: &mut dyn AppControl,
    limits: &Limits,
) -> Result<Verdict, VerifyError> {
    let started = Instant::now();
    let front = Front::open(&app.base_url()).await.map_err(VerifyError::Front)?;
    let page = browser.open_page(front.base_url()).await?;
    let mut run = Run {
        page,
        front,
        app,
        known: Remembered::default(),
        picture: None,
        dialog_armed: false,
        http_limit: limits.http,
    };
    let mut steps: Vec<StepLog> = Vec::new();
    let mut failure = None;
    for check in &flow.checks {
        let sentence = flow.steps.get(check.step - 1).cloned().unwrap_or_default();
        if steps.last().is_none_or(|step| step.index != check.step) {
            match limits.pictures {
                Pictures::EachSentence => run.close_step(steps.last_mut()).await?,
                Pictures::TheEnd => run.picture = None,
            }
            steps.push(StepLog {
                index: check.step,
                sentence: sentence.clone(),
                ok: true,
                ms: 0,
                notes: Vec::new(),
                screenshot: None,
            });
        }
        let began = Instant::now();
        let left = limits.flow.saturating_sub(started.elapsed());
        let outcome = match tokio::time::timeout(left, run.carry_out(check)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Stop::Refused(format!("the flow took longer than {} ms", limits.flow.as_millis()))),
        };
        let step = steps.last_mut().expect("a log was begun for this check's sentence");
        step.ms += milliseconds(began);
        match outcome {
            Ok(note) => step.notes.push(note),
            Err(Stop::Unverifiable(error)) => return Err(error.into()),
            Err(Stop::Refused(reason)) => {
                step.ok = false;
                step.notes.push(format!("FAILED {check}: {reason}"));
                failure = Some(Failure { step_index: check.step, sentence, check_json: check.to_string(), reason });
                run.picture = None;
                break;
            }
        }
    }
    run.close_step(steps.last_mut()).await?;
    Ok(Verdict {
        feature: flow.feature.clone(),
        checks_hash: checks::digest(&flow.steps, &flow.checks),
        browser: browser.version().to_owned(),
        failure,
        steps,
        activity: run.page.activity(),
        elapsed_ms: milliseconds(started),
    })
}

fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl Run<'_> {
    /// Takes the picture that ends a sentence, unless one of the page as it is was taken already.
    async fn close_step(&mut self, step: Option<&mut StepLog>) -> Result<(), VerifyError> {
        let Some(step) = step else { return Ok(()) };
        let picture = match self.picture.take() {
            Some(picture) => Ok(picture),
            None => self.page.screenshot().await,
        };
        match picture {
            Ok(picture) => step.screenshot = Some(picture),
            // A page that shows nothing any more has no picture; a browser that is gone proves nothing.
            Err(BrowserError::Refused { message, .. }) => step.notes.push(format!("no picture: {message}")),
            Err(BrowserError::Silent { method, .. }) if !step.ok => {
                step.notes.push(format!("no picture: {method} hangs"))
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Carries one check out; gives the line for the log.
    async fn carry_out(&mut self, check: &Check) -> Result<String, Stop> {
        let note = match &check.action {
            CheckAction::Expect(expect) => {
                self.picture = expect::wait(&self.page, expect, &self.known).await?;
                format!("saw {check}")
            }
            CheckAction::ExpectUrl { contains, within_ms } => self.expect_url(contains, *within_ms).await?,
            CheckAction::NoConsoleErrors => self.no_console_errors()?,
            CheckAction::NoFailedRequests => self.no_failed_requests()?,
            CheckAction::Remember { name, query, target } => {
                let noted = expect::remember(&self.page, *query, target).await?;
                let note = format!("remembered {name} = {noted:?}");
                self.known.put(name, noted);
                note
            }
            CheckAction::Dialog(dialog) => self.arm(dialog),
            CheckAction::Http(check) => {
                http::hold(check, &self.app.base_url(), self.http_limit).await.map_err(Stop::Refused)?
            }
            CheckAction::Goto { .. } | CheckAction::Act(_) | CheckAction::Reload | CheckAction::RestartApp => {
                self.picture = None;
                self.change(&check.action).await?
            }
        };
        match self.page.fault() {
            None => Ok(note),
            Some(fault) => Err(fault.into()),
        }
    }

    fn arm(&mut self, dialog: &DialogExpectation) -> String {
        self.dialog_armed = true;
        let armed = ArmedDialog {
            kind: dialog.kind,
            message: dialog.message.as_deref().map(|message| self.known.fill_in(message)),
            accept: dialog.accept,
            text: dialog.text.clone(),
        };
        let note = format!("will {} {armed}", if armed.accept { "accept" } else { "dismiss" });
        self.page.arm(armed);
        note
    }

    /// Checks that change the page, and may open a dialog.
    async fn change(&mut self, action: &CheckAction) -> Result<String, Stop> {
        let outcome = match action {
            CheckAction::Act(act) => self.act(act).await,
            CheckAction::Goto { path } => {
                self.page.goto(path).await.map(|()| format!("opened {path}")).map_err(Stop::from)
            }
            CheckAction::RestartApp => self.restart().await,
            CheckAction::Reload
            | CheckAction::Dialog(_)
            | CheckAction::Remember { .. }
            | CheckAction::Expect(_)
            | CheckAction::ExpectUrl { .. }
            | CheckAction::NoConsoleErrors
            | CheckAction::NoFailedRequests
            | CheckAction::Http(_) => {
                self.page.reload().await.map(|()| "loaded the page again".to_owned()).map_err(Stop::from)
            }
        };
        if self.dialog_armed && outcome.is_ok() {
            self.dialog_armed = false;
            self.page.dialogs_done().await?;
        }
        match outcome {
            // An unexpected dialog is why the act went wrong.
            Err(Stop::Refused(reason)) => Err(self.page.fault().map_or(Stop::Refused(reason), Stop::from)),
            other => other,
        }
    }

    async fn act(&mut self, act: &Act) -> Result<String, Stop> {
        let page = &self.page;
        let note = match act {
            Act::Click(target) => {
                page.click(target).await?;
                format!("clicked {target}")
            }
            Act::Fill { target, text } => {
                let text = self.known.fill_in(text);
                page.fill(target, &text).await?;
                format!("filled {target} with {text:?}")
            }
            Act::Press { target, key } => {
                let parsed =
                    key.parse().map_err(|error: longhaul_tools::browser::KeyError| Stop::Refused(error.to_string()))?;
                page.press(target.as_ref(), &parsed).await?;
                format!("pressed {key}")
            }
            Act::Select { target, option } => {
                page.select(target, option).await?;
                format!("chose {option:?} of {target}")
            }
            Act::Hover(target) => {
                page.hover(target).await?;
                format!("pointed at {target}")
            }
            Act::Drag { target, to } => {
                page.drag(target, to).await?;
                format!("dragged {target} onto {to}")
            }
            Act::Upload { target, files } => {
                page.upload(target, files).await?;
                let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
                format!("chose {} with {target}", names.join(", "))
            }
        };
        Ok(note)
    }

    async fn restart(&mut self) -> Result<String, Stop> {
        self.app
            .restart()
            .await
            .map_err(|why| Stop::Refused(format!("the application did not start again on the same data: {why}")))?;
        self.front.forward_to(&self.app.base_url());
        if self.page.url().await? != "about:blank" {
            self.page.reload().await?;
        }
        Ok("restarted the application".to_owned())
    }

    async fn expect_url(&mut self, contains: &str, within_ms: u64) -> Result<String, Stop> {
        let wanted = self.known.fill_in(contains);
        let deadline = Instant::now() + Duration::from_millis(within_ms);
        loop {
            let url = self.page.url().await?;
            if url.contains(&wanted) {
                return Ok(format!("the URL is {url}"));
            }
            if Instant::now() >= deadline {
                let shown = url.strip_prefix(self.page.base_url()).unwrap_or(&url);
                return Err(Stop::Refused(format!("expected {wanted:?} in the URL, but it is {shown:?}")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn no_console_errors(&self) -> Result<String, Stop> {
        let errors = self.page.activity().console;
        match errors.first() {
            None => Ok("no console errors".to_owned()),
            Some(first) => {
                let at = if first.at.is_empty() { String::new() } else { format!(" at {}", first.at) };
                Err(Stop::Refused(format!("{} console error(s), the first: {}{at}", errors.len(), first.text)))
            }
        }
    }

    fn no_failed_requests(&self) -> Result<String, Stop> {
        let failed = self.page.activity().requests;
        match failed.first() {
            None => Ok("no failed requests".to_owned()),
            Some(first) => Err(Stop::Refused(format!("{} failed request(s), the first: {first}", failed.len()))),
        }
    }
}

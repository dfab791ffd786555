//! One check after the other on an open page, or beside it. It knows nothing of sentences and logs.

use std::time::Duration;

use longhaul_tools::browser::{ArmedDialog, Page, fold};
use tokio::time::Instant;

use super::{
    AppControl, VerifyError, Workbench, artifacts,
    expect::{self, PageFault, Remembered},
    film::Film,
    flow::Stop,
    front::Front,
    http, pattern, visual,
};
use crate::checks::{
    Act, Check, CheckAction, DialogExpectation, DownloadCheck, PermissionCheck, PrintCheck, TabCheck, VisualCheck,
};

const POLL: Duration = Duration::from_millis(30);

/// A page with the address in front of its application.
pub(super) struct OpenPage {
    pub(super) page: Page,
    pub(super) front: Front,
}

/// A flow under way.
pub(super) struct Run<'a> {
    /// None for a flow that needs none.
    pub(super) open: Option<OpenPage>,
    pub(super) app: &'a mut dyn AppControl,
    pub(super) workbench: Option<&'a Workbench>,
    pub(super) baselines: &'a visual::Baselines,
    pub(super) known: Remembered,
    pub(super) dialog_armed: bool,
    pub(super) http_limit: Duration,
    /// Downloads that a check has already spoken of.
    pub(super) downloads_told: Vec<usize>,
    /// Pictures that no accepted one exists for yet.
    pub(super) proposed: Vec<(String, Vec<u8>)>,
    /// What is shown beside the pictures of the sentences.
    pub(super) exhibits: Vec<(String, Vec<u8>)>,
    pub(super) film: Option<Film>,
}

impl Run<'_> {
    pub(super) fn page(&self) -> Result<&Page, Stop> {
        self.open.as_ref().map(|open| &open.page).ok_or(Stop::Unverifiable(VerifyError::NeedsBrowser))
    }

    fn workbench(&self) -> Result<&Workbench, Stop> {
        self.workbench.ok_or(Stop::Unverifiable(VerifyError::NeedsProject))
    }

    /// Carries one check out; gives the line for the log.
    pub(super) async fn carry_out(&mut self, check: &Check) -> Result<String, Stop> {
        let note = self.one(check).await?;
        if let Some(open) = &self.open {
            if let Some(fault) = open.page.fault() {
                return Err(fault.into());
            }
            if let Some(film) = self.film.as_mut().filter(|_| check.action.needs_page()) {
                film.take(&open.page).await?;
            }
        }
        Ok(note)
    }

    async fn one(&mut self, check: &Check) -> Result<String, Stop> {
        Ok(match &check.action {
            CheckAction::Expect(expect) => {
                expect::wait(self.page()?, expect, &self.known).await?;
                format!("saw {check}")
            }
            CheckAction::ExpectUrl { contains, within_ms } => self.expect_url(contains, *within_ms).await?,
            CheckAction::NoConsoleErrors => self.no_console_errors()?,
            CheckAction::NoFailedRequests => self.no_failed_requests()?,
            CheckAction::Remember { name, query, target } => {
                let noted = expect::remember(self.page()?, *query, target).await?;
                let note = format!("remembered {name} = {noted:?}");
                self.known.put(name, noted);
                note
            }
            CheckAction::Dialog(dialog) => self.arm(dialog)?,
            CheckAction::Http(check) => {
                http::hold(check, &self.app.base_url(), self.http_limit).await.map_err(Stop::Refused)?
            }
            CheckAction::Goto { .. } | CheckAction::Act(_) | CheckAction::Reload | CheckAction::RestartApp => {
                self.change(&check.action).await?
            }
            CheckAction::Tab(tab) => self.tab(tab).await?,
            CheckAction::Permission(permission) => self.permit(permission).await?,
            CheckAction::Download(download) => self.download(download).await?,
            CheckAction::Print(print) => self.print(print).await?,
            CheckAction::Visual(check) => self.compare(check).await?,
            CheckAction::Command(command) => artifacts::command(self.workbench()?, command).await?,
            CheckAction::File(file) => artifacts::file(self.workbench()?, file).map_err(Stop::Refused)?,
            CheckAction::Table(table) => artifacts::table(self.workbench()?, table).map_err(Stop::Refused)?,
            CheckAction::Citation(citation) => {
                artifacts::citation(self.workbench()?, citation).map_err(Stop::Refused)?
            }
        })
    }

    fn arm(&mut self, dialog: &DialogExpectation) -> Result<String, Stop> {
        self.dialog_armed = true;
        let armed = ArmedDialog {
            kind: dialog.kind,
            message: dialog.message.as_deref().map(|message| self.known.fill_in(message)),
            accept: dialog.accept,
            text: dialog.text.clone(),
        };
        let note = format!("will {} {armed}", if armed.accept { "accept" } else { "dismiss" });
        self.page()?.arm(armed);
        Ok(note)
    }

    /// Checks that change the page, and may open a dialog.
    async fn change(&mut self, action: &CheckAction) -> Result<String, Stop> {
        let outcome = if let CheckAction::Act(act) = action {
            self.act(act).await
        } else if let CheckAction::Goto { path } = action {
            self.page()?.goto(path).await.map(|()| format!("opened {path}")).map_err(Stop::from)
        } else if matches!(action, CheckAction::RestartApp) {
            self.restart().await
        } else {
            self.page()?.reload().await.map(|()| "loaded the page again".to_owned()).map_err(Stop::from)
        };
        if self.dialog_armed && outcome.is_ok() {
            self.dialog_armed = false;
            self.page()?.dialogs_done().await?;
        }
        match outcome {
            // An unexpected dialog is why the act went wrong.
            Err(Stop::Refused(reason)) => {
                let fault = self.open.as_ref().and_then(|open| open.page.fault());
                Err(fault.map_or(Stop::Refused(reason), Stop::from))
            }
            other => other,
        }
    }

    async fn act(&mut self, act: &Act) -> Result<String, Stop> {
        let page = self.page()?;
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
        if let Some(open) = &self.open {
            open.front.forward_to(&self.app.base_url());
            if open.page.url().await? != "about:blank" {
                open.page.reload().await?;
            }
        }
        Ok("restarted the application".to_owned())
    }

    async fn tab(&mut self, tab: &TabCheck) -> Result<String, Stop> {
        let page = self.page()?;
        let mut note = String::new();
        if let Some(wanted) = &tab.wanted {
            page.switch_tab(wanted, Duration::from_millis(tab.within_ms)).await?;
            note = format!("went to {wanted}");
        }
        if tab.close {
            page.close_tab().await?;
            note = if note.is_empty() { "closed the tab".to_owned() } else { format!("{note} and closed it") };
        }
        if self.dialog_armed {
            self.dialog_armed = false;
            self.page()?.dialogs_done().await?;
        }
        Ok(note)
    }

    async fn permit(&mut self, check: &PermissionCheck) -> Result<String, Stop> {
        let page = self.page()?;
        page.permit(check.permission, check.granted).await?;
        if let Some((latitude, longitude)) = check.place {
            page.set_place(latitude, longitude).await?;
        }
        let answer = if check.granted { "granted" } else { "denied" };
        Ok(format!("{answer} {}", check.permission.name()))
    }

    async fn download(&mut self, check: &DownloadCheck) -> Result<String, Stop> {
        let name = self.known.fill_in(&check.name);
        let told = &self.downloads_told;
        let wanted = |all: &[longhaul_tools::browser::DownloadSeen]| {
            (0..all.len()).find(|index| !told.contains(index) && pattern::fits(&name, &all[*index].name))
        };
        let got = self.page()?.download(Duration::from_millis(check.within_ms), wanted).await.map_err(|error| {
            match Stop::from(error) {
                Stop::Refused(reason) => Stop::Refused(format!("{reason} (expected {name:?})")),
                Stop::Unverifiable(error) => Stop::Unverifiable(error),
            }
        })?;
        self.downloads_told.push(got.index);
        let text = String::from_utf8_lossy(&got.content);
        let contains = check.contains.as_deref().map(|text| self.known.fill_in(text));
        pattern::content(&text, contains.as_deref(), check.matches.as_deref())
            .map_err(|why| Stop::Refused(format!("the download {:?}: {why}", got.name)))?;
        if let Some(wanted) = &check.json {
            let json = serde_json::from_slice(&got.content)
                .map_err(|error| Stop::Refused(format!("the download {:?} is no JSON: {error}", got.name)))?;
            if let Some(difference) = http::differs(wanted, &json, "") {
                return Err(Stop::Refused(format!("the download {:?} is other JSON: {difference}", got.name)));
            }
        }
        Ok(format!("downloaded {:?}, {} bytes", got.name, got.content.len()))
    }

    async fn print(&mut self, check: &PrintCheck) -> Result<String, Stop> {
        let printed = self.page()?.printed(Duration::from_millis(check.within_ms)).await?;
        self.exhibits.push(("what was printed".to_owned(), printed.pdf));
        let contains = check.contains.as_deref().map(|text| fold(&self.known.fill_in(text)));
        pattern::content(&printed.text, contains.as_deref(), None)
            .map_err(|why| Stop::Refused(format!("on the paper: {why}")))?;
        if let Some(lacks) = check.lacks.as_deref().filter(|lacks| printed.text.contains(&fold(lacks))) {
            return Err(Stop::Refused(format!("the paper shows {lacks:?}")));
        }
        match check.pages {
            Some(pages) if pages != printed.pages => {
                Err(Stop::Refused(format!("expected {pages} sheets of paper, but there are {}", printed.pages)))
            }
            _ => Ok(format!("printed {} sheet(s)", printed.pages)),
        }
    }

    async fn compare(&mut self, check: &VisualCheck) -> Result<String, Stop> {
        let shot = match &check.target {
            None => self.page()?.screenshot().await?,
            Some(target) => self.page()?.screenshot_of(target).await?,
        };
        let name = &check.name;
        let Some(accepted) = self.baselines.get(name) else {
            self.proposed.push((name.clone(), shot));
            return Ok(format!("no picture {name:?} was accepted yet; this one will be, if the feature passes"));
        };
        match visual::difference(accepted, &shot) {
            Ok(part) if part <= check.tolerance => {
                Ok(format!("{name:?} looks as accepted ({:.2} % differ)", part * 100.0))
            }
            outcome => {
                let why = match outcome {
                    Ok(part) => format!(
                        "{:.2} % of its pixels differ, at most {:.2} % may",
                        part * 100.0,
                        check.tolerance * 100.0
                    ),
                    Err(why) => why,
                };
                self.exhibits.push((format!("{name}: as accepted"), accepted.clone()));
                self.exhibits.push((format!("{name}: as it is now"), shot));
                Err(Stop::Refused(format!(
                    "{name:?} does not look as accepted: {why}; if it should look so, a person accepts it with \
                     `longhaul verify --accept-baseline`"
                )))
            }
        }
    }

    async fn expect_url(&mut self, contains: &str, within_ms: u64) -> Result<String, Stop> {
        let wanted = self.known.fill_in(contains);
        let page = self.page()?;
        let deadline = Instant::now() + Duration::from_millis(within_ms);
        loop {
            let url = page.url().await?;
            if url.contains(&wanted) {
                return Ok(format!("the URL is {url}"));
            }
            if Instant::now() >= deadline {
                let shown = url.strip_prefix(page.base_url()).unwrap_or(&url);
                return Err(Stop::Refused(format!("expected {wanted:?} in the URL, but it is {shown:?}")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn no_console_errors(&self) -> Result<String, Stop> {
        let errors = self.page()?.activity().console;
        match errors.first() {
            None => Ok("no console errors".to_owned()),
            Some(first) => {
                let at = if first.at.is_empty() { String::new() } else { format!(" at {}", first.at) };
                Err(Stop::Refused(format!("{} console error(s), the first: {}{at}", errors.len(), first.text)))
            }
        }
    }

    fn no_failed_requests(&self) -> Result<String, Stop> {
        let failed = self.page()?.activity().requests;
        match failed.first() {
            None => Ok("no failed requests".to_owned()),
            Some(first) => Err(Stop::Refused(format!("{} failed request(s), the first: {first}", failed.len()))),
        }
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

//! The agent's own `browser` tool: one page on the running application, which it opens, acts on and reads. What the agent
//! sees with it decides nothing; the verifier looks for itself.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use async_trait::async_trait;
use longhaul_core::ToolSpec;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{
    Key, Page, SharedBrowser, Target,
    error::{BrowserError, PageError},
    outline::outline,
};
use crate::{Attachment, Tool, ToolOutput};

/// The address of the application that is running now, if one is. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct AppAddress(Arc<StdMutex<Option<String>>>);

impl AppAddress {
    /// From now on the application is at this address (`http://127.0.0.1:PORT`), or nowhere.
    pub fn set(&self, base_url: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = base_url;
    }

    /// Where the application is.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The tool `browser{action, path?, target?, text?, key?}`.
#[derive(Debug)]
pub struct BrowserTool {
    browser: SharedBrowser,
    app: AppAddress,
    page: Mutex<Option<Open>>,
}

/// The page that is open, with how much of what was observed the agent has been told.
#[derive(Debug)]
struct Open {
    page: Page,
    console_told: usize,
    requests_told: usize,
    dialogs_told: usize,
}

impl BrowserTool {
    /// A tool on this browser for the application at this address.
    #[must_use]
    pub fn new(browser: SharedBrowser, app: AppAddress) -> Self {
        Self { browser, app, page: Mutex::new(None) }
    }

    async fn run(&self, arguments: &Value) -> Result<ToolOutput, ToolOutput> {
        let Some(base_url) = self.app.get() else {
            return Err(ToolOutput::error(
                "the application is not running; see why with the shell (`sh init.sh`), mend it and try again",
            ));
        };
        let action = arguments["action"].as_str().unwrap_or_default();
        let mut open = self.page.lock().await;
        if open.as_ref().is_some_and(|open| open.page.base_url() != base_url || open.page.is_lost()) {
            *open = None;
        }
        if open.is_none() && action != "open" {
            return Err(ToolOutput::error("no page is open; use the action open with a path such as / first"));
        }
        if open.is_none() {
            let browser = self.browser.get().await.map_err(ToolOutput::error)?;
            let page = browser.open_page(&base_url).await.map_err(ToolOutput::error)?;
            *open = Some(Open { page, console_told: 0, requests_told: 0, dialogs_told: 0 });
        }
        let Some(open) = open.as_mut() else { return Err(ToolOutput::error("no page is open")) };
        let done = act(&open.page, action, arguments).await?;
        open.report(done, action == "snapshot").await.map_err(ToolOutput::error)
    }
}

/// Does what is asked, and says what was done.
async fn act(page: &Page, action: &str, arguments: &Value) -> Result<String, ToolOutput> {
    let text = |field: &str| arguments[field].as_str();
    let missing = |field: &str| ToolOutput::error(format!("{action} needs {field}"));
    let target = || match arguments.get("target") {
        None => Err(missing("a target such as {\"role\":\"button\",\"name\":\"Save\"}")),
        Some(value) => Target::parse(value, "target").map_err(ToolOutput::error),
    };
    let failed = |error: PageError| ToolOutput::error(explain(&error));
    match action {
        "open" => {
            let path = text("path").unwrap_or("/");
            if !path.starts_with('/') || path.starts_with("//") {
                return Err(ToolOutput::error("path must start with one /: it is below the application's address"));
            }
            page.goto(path).await.map_err(failed)?;
            Ok(format!("opened {path}"))
        }
        "click" => {
            let target = target()?;
            page.click(&target).await.map_err(failed)?;
            Ok(format!("clicked {target}"))
        }
        "fill" => {
            let (target, text) = (target()?, text("text").ok_or_else(|| missing("text"))?);
            page.fill(&target, text).await.map_err(failed)?;
            Ok(format!("filled {target}"))
        }
        "press" => {
            let key = text("key").ok_or_else(|| missing("key"))?;
            let parsed: Key = key.parse().map_err(ToolOutput::error)?;
            let target = arguments.get("target").map(|_| target()).transpose()?;
            page.press(target.as_ref(), &parsed).await.map_err(failed)?;
            Ok(format!("pressed {key}"))
        }
        "snapshot" => Ok("looked".to_owned()),
        unknown => Err(ToolOutput::error(format!(
            "{unknown:?} is not an action; the actions are open, click, fill, press, snapshot"
        ))),
    }
}

fn explain(error: &PageError) -> String {
    let cause = std::error::Error::source(error);
    cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

impl Open {
    /// What was done, where the page is, what is on it, and what has gone wrong since the last report.
    async fn report(&mut self, done: String, with_picture: bool) -> Result<ToolOutput, BrowserError> {
        let url = self.page.url().await?;
        let path = url.strip_prefix(self.page.base_url()).filter(|path| !path.is_empty()).unwrap_or(&url);
        let mut text = format!("{done}\npage {path}\n{}", outline(&self.page.tree().await?));
        let activity = self.page.activity();
        for error in &activity.console[self.console_told..] {
            text.push_str(&format!("CONSOLE ERROR: {} {}\n", error.text, error.at));
        }
        for request in &activity.requests[self.requests_told..] {
            text.push_str(&format!("FAILED REQUEST: {request}\n"));
        }
        for dialog in &activity.dialogs[self.dialogs_told..] {
            text.push_str(&format!("DIALOG: {} {:?} opened and was dismissed\n", dialog.kind.name(), dialog.message));
        }
        self.console_told = activity.console.len();
        self.requests_told = activity.requests.len();
        self.dialogs_told = activity.dialogs.len();
        let _ = self.page.fault(); // dialogs are told above; here they are no failure
        let output = ToolOutput::ok(text);
        if !with_picture {
            return Ok(output);
        }
        let bytes = self.page.screenshot().await?;
        Ok(output.with_attachment(Attachment {
            name: "page.png".to_owned(),
            media_type: "image/png".to_owned(),
            bytes,
        }))
    }
}

#[async_trait]
impl Tool for BrowserTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "browser".to_owned(),
            description: "Uses the running application in a real browser, as a user would: open a path, click, fill, \
                          press a key, or take a snapshot. Answers with an outline of what is on the page (roles, names, \
                          values), console errors and failed requests. Targets are {role, name, text, within, nth}, as \
                          in the checks."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["open", "click", "fill", "press", "snapshot"]},
                    "path": {"type": "string", "description": "for open: where, below the application's address"},
                    "target": {
                        "type": "object",
                        "additionalProperties": true, // Target::parse says better what is wrong
                        "description": "for click, fill and press: {\"role\": \"button\", \"name\": \"Save\"}, \
                                        optionally with text, within (a target) and nth (from 0)",
                    },
                    "text": {"type": "string", "description": "for fill: the new content"},
                    "key": {"type": "string", "description": "for press: Enter, Escape, Tab, Control+a …"},
                },
                "required": ["action"],
                "additionalProperties": false,
            }),
        }
    }

    fn changes_work_tree(&self) -> bool {
        false
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        match self.run(&arguments).await {
            Ok(output) | Err(output) => output,
        }
    }
}

//! What happens on a page while nobody asks: loading, dialogs, console messages, failed requests, file choosers. It
//! answers dialogs at once, so that none ever stalls a flow. Invariant: what it keeps is bounded, and of what it drops
//! the number is known.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{
    DialogKind,
    error::DialogFault,
    text::{cut, fold},
    wire::{EventSink, Wire},
};

/// Most entries of each kind that are kept.
const KEPT_MAX: usize = 200;
const MESSAGE_CHARS_MAX: usize = 600;

/// An error that the page wrote to its console, or an exception nobody caught.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleError {
    /// What was written.
    pub text: String,
    /// Where: URL and line.
    pub at: String,
}

/// A request that failed or was answered with 4xx or 5xx.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRequest {
    /// HTTP method.
    pub method: String,
    /// URL.
    pub url: String,
    /// The status, when there was an answer.
    pub status: Option<u16>,
    /// Why there was none.
    pub error: Option<String>,
}

impl fmt::Display for FailedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url)?;
        match (self.status, &self.error) {
            (Some(status), _) => write!(f, " answered {status}"),
            (None, Some(error)) => write!(f, " failed: {error}"),
            (None, None) => f.write_str(" failed"),
        }
    }
}

/// A dialog that opened, and the answer it got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogSeen {
    /// Its kind.
    pub kind: DialogKind,
    /// Its message.
    pub message: String,
    /// Whether it was accepted.
    pub accepted: bool,
    /// Whether it was the expected one.
    pub expected: bool,
}

/// What was observed since the page was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Console errors and uncaught exceptions, oldest first.
    pub console: Vec<ConsoleError>,
    /// Failed requests, oldest first.
    pub requests: Vec<FailedRequest>,
    /// Dialogs, oldest first.
    pub dialogs: Vec<DialogSeen>,
    /// Entries dropped because there were too many.
    pub dropped: u64,
}

/// The dialog that is expected next, and the answer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmedDialog {
    /// Its kind.
    pub kind: DialogKind,
    /// Its whole message, white space folded; any when `None`.
    pub message: Option<String>,
    /// Whether to accept it.
    pub accept: bool,
    /// What to type into a prompt.
    pub text: Option<String>,
}

impl DialogKind {
    /// The protocol's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Alert => "alert",
            Self::Confirm => "confirm",
            Self::Prompt => "prompt",
            Self::Beforeunload => "beforeunload",
        }
    }

    fn parse(name: &str) -> Self {
        match name {
            "confirm" => Self::Confirm,
            "prompt" => Self::Prompt,
            "beforeunload" => Self::Beforeunload,
            _ => Self::Alert,
        }
    }
}

impl fmt::Display for ArmedDialog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} dialog", self.kind.name())?;
        match &self.message {
            Some(message) => write!(f, " {message:?}"),
            None => Ok(()),
        }
    }
}

#[derive(Default)]
struct Seen {
    activity: Activity,
    requests: HashMap<String, (String, String)>,
    armed: VecDeque<ArmedDialog>,
    fault: Option<DialogFault>,
    loading: bool,
    loads: u64,
    last_loader: Option<String>,
    stayed: u64,
    chooser: Option<i64>,
    drag: Option<Value>,
    crashed: bool,
}

/// The observer of one page.
pub(super) struct Observer {
    wire: Wire,
    session: String,
    main_frame: String,
    origin: String,
    seen: Mutex<Seen>,
    changed: Notify,
}

impl Observer {
    pub(super) fn new(wire: Wire, session: String, main_frame: String, origin: String) -> Self {
        Self { wire, session, main_frame, origin, seen: Mutex::default(), changed: Notify::new() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn until(&self, limit: Duration, holds: impl Fn(&Seen) -> bool) -> bool {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if holds(&self.seen()) {
                    return;
                }
                changed.await;
            }
        };
        tokio::select! {
            () = wait => true,
            () = self.wire.closed() => false,
            () = tokio::time::sleep(limit) => false,
        }
    }

    pub(super) fn activity(&self) -> Activity {
        self.seen().activity.clone()
    }

    pub(super) fn crashed(&self) -> bool {
        self.seen().crashed
    }

    pub(super) fn arm(&self, dialog: ArmedDialog) {
        self.seen().armed.push_back(dialog);
    }

    /// Waits until no expected dialog is outstanding; disarms and names the one that did not open.
    pub(super) async fn dialogs_done(&self, limit: Duration) -> Result<(), DialogFault> {
        self.until(limit, |seen| seen.armed.is_empty() || seen.fault.is_some()).await;
        let mut seen = self.seen();
        if let Some(fault) = seen.fault.take() {
            seen.armed.clear();
            return Err(fault);
        }
        let missing = seen.armed.pop_front();
        seen.armed.clear();
        match missing {
            None => Ok(()),
            Some(dialog) => Err(DialogFault::Missing {
                expected: dialog.to_string(),
                waited_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            }),
        }
    }

    pub(super) fn take_fault(&self) -> Option<DialogFault> {
        self.seen().fault.take()
    }

    pub(super) fn loads(&self) -> (u64, u64) {
        let seen = self.seen();
        (seen.loads, seen.stayed)
    }

    /// Waits until a load after `before` has ended, or a dialog kept the page.
    pub(super) async fn loaded_since(&self, before: (u64, u64), limit: Duration) -> bool {
        self.until(limit, |seen| seen.loads > before.0 || seen.stayed > before.1 || seen.crashed).await
    }

    pub(super) async fn loaded(&self, loader: &str, limit: Duration) -> bool {
        self.until(limit, |seen| seen.last_loader.as_deref() == Some(loader) || seen.crashed).await
    }

    /// Waits until no navigation is under way.
    pub(super) async fn quiet(&self, limit: Duration) -> bool {
        self.until(limit, |seen| !seen.loading || seen.crashed).await
    }

    pub(super) fn forget_chooser(&self) {
        let mut seen = self.seen();
        seen.chooser = None;
        seen.drag = None;
    }

    pub(super) async fn chooser(&self, limit: Duration) -> Option<i64> {
        self.until(limit, |seen| seen.chooser.is_some() || seen.fault.is_some()).await;
        self.seen().chooser.take()
    }

    pub(super) fn take_drag(&self) -> Option<Value> {
        self.seen().drag.take()
    }

    fn on_dialog(&self, seen: &mut Seen, params: &Value) {
        let kind = DialogKind::parse(params["type"].as_str().unwrap_or_default());
        let message = cut(params["message"].as_str().unwrap_or_default(), MESSAGE_CHARS_MAX);
        let armed = seen.armed.pop_front();
        let matches = armed.as_ref().is_some_and(|armed| {
            armed.kind == kind
                && armed
                    .message
                    .as_ref()
                    .is_none_or(|wanted| kind == DialogKind::Beforeunload || fold(wanted) == fold(&message))
        });
        let accepted = matches && armed.as_ref().is_some_and(|armed| armed.accept);
        let text = armed.as_ref().and_then(|armed| armed.text.clone());
        if !matches && seen.fault.is_none() {
            seen.fault = Some(match &armed {
                Some(armed) => {
                    DialogFault::Different { expected: armed.to_string(), kind: kind.name(), message: message.clone() }
                }
                None => DialogFault::Unexpected { kind: kind.name(), message: message.clone() },
            });
        }
        if kind == DialogKind::Beforeunload && !accepted {
            seen.stayed += 1;
        }
        let mut answer = json!({"accept": accepted});
        if let Some(text) = text.filter(|_| accepted) {
            answer["promptText"] = json!(text);
        }
        self.wire.post(Some(&self.session), "Page.handleJavaScriptDialog", answer);
        let entry = DialogSeen { kind, message, accepted, expected: matches };
        keep(&mut seen.activity.dialogs, &mut seen.activity.dropped, entry);
    }

    fn on_console(seen: &mut Seen, params: &Value) {
        if !matches!(params["type"].as_str(), Some("error" | "assert")) {
            return;
        }
        let said = |argument: &Value| match argument.get("value") {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => argument["description"].as_str().unwrap_or("undefined").to_owned(),
        };
        let words: Vec<String> =
            params["args"].as_array().map(|args| args.iter().map(said).collect()).unwrap_or_default();
        let frame = &params["stackTrace"]["callFrames"][0];
        let at = place(frame["url"].as_str(), frame["lineNumber"].as_u64());
        let entry = ConsoleError { text: cut(&words.join(" "), MESSAGE_CHARS_MAX), at };
        keep(&mut seen.activity.console, &mut seen.activity.dropped, entry);
    }

    fn on_exception(seen: &mut Seen, params: &Value) {
        let details = &params["exceptionDetails"];
        let what = details["exception"]["description"].as_str().or(details["exception"]["value"].as_str());
        let text = format!("{} {}", details["text"].as_str().unwrap_or("Uncaught"), what.unwrap_or_default());
        let entry = ConsoleError {
            text: cut(text.trim(), MESSAGE_CHARS_MAX),
            at: place(details["url"].as_str(), details["lineNumber"].as_u64()),
        };
        keep(&mut seen.activity.console, &mut seen.activity.dropped, entry);
    }

    fn on_log(seen: &mut Seen, params: &Value) {
        let entry = &params["entry"];
        // Failed requests are kept as requests, with their status.
        if entry["level"] == "error" && entry["source"] != "network" {
            let text = cut(entry["text"].as_str().unwrap_or_default(), MESSAGE_CHARS_MAX);
            let at = place(entry["url"].as_str(), entry["lineNumber"].as_u64());
            keep(&mut seen.activity.console, &mut seen.activity.dropped, ConsoleError { text, at });
        }
    }

    fn on_response(seen: &mut Seen, params: &Value) {
        let status = params["response"]["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        if let Some(status) = status.filter(|status| *status >= 400) {
            let known = params["requestId"].as_str().and_then(|id| seen.requests.get(id).cloned());
            let url = params["response"]["url"].as_str().unwrap_or_default().to_owned();
            let (method, url) = known.unwrap_or(("GET".to_owned(), url));
            if !is_favicon(&url) {
                let entry =
                    FailedRequest { method, url: cut(&url, MESSAGE_CHARS_MAX), status: Some(status), error: None };
                keep(&mut seen.activity.requests, &mut seen.activity.dropped, entry);
            }
        }
    }

    fn on_failure(&self, seen: &mut Seen, params: &Value) {
        let Some((method, url)) = params["requestId"].as_str().and_then(|id| seen.requests.remove(id)) else { return };
        // A request that the page itself gave up, by navigating or by its own decision, is no failure.
        if params["canceled"] == true || is_favicon(&url) {
            return;
        }
        let foreign = !url.starts_with(&self.origin);
        let reason = params["errorText"].as_str().unwrap_or_default();
        let error = if foreign {
            format!("{reason} (only the application's own origin {} can be reached)", self.origin)
        } else {
            reason.to_owned()
        };
        let entry = FailedRequest { method, url: cut(&url, MESSAGE_CHARS_MAX), status: None, error: Some(error) };
        keep(&mut seen.activity.requests, &mut seen.activity.dropped, entry);
    }
}

impl EventSink for Observer {
    fn on_event(&self, method: &str, params: &Value) {
        let is_main = || params["frameId"] == self.main_frame.as_str();
        let mut seen = self.seen();
        match method {
            "Page.javascriptDialogOpening" => self.on_dialog(&mut seen, params),
            "Page.frameStartedLoading" | "Page.frameRequestedNavigation" | "Page.frameStartedNavigating"
                if is_main() =>
            {
                seen.loading = true;
            }
            "Page.frameStoppedLoading" | "Page.navigatedWithinDocument" if is_main() => seen.loading = false,
            "Page.lifecycleEvent" if is_main() && params["name"] == "load" => {
                seen.last_loader = params["loaderId"].as_str().map(str::to_owned);
                seen.loads += 1;
            }
            "Page.fileChooserOpened" => seen.chooser = params["backendNodeId"].as_i64(),
            "Input.dragIntercepted" => seen.drag = Some(params["data"].clone()),
            "Inspector.targetCrashed" => seen.crashed = true,
            "Runtime.consoleAPICalled" => Self::on_console(&mut seen, params),
            "Runtime.exceptionThrown" => Self::on_exception(&mut seen, params),
            "Log.entryAdded" => Self::on_log(&mut seen, params),
            "Network.requestWillBeSent" => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let request = &params["request"];
                if seen.requests.len() < 5_000 {
                    seen.requests.insert(text(&params["requestId"]), (text(&request["method"]), text(&request["url"])));
                }
            }
            "Network.responseReceived" => Self::on_response(&mut seen, params),
            "Network.loadingFinished" => {
                if let Some(id) = params["requestId"].as_str() {
                    seen.requests.remove(id);
                }
            }
            "Network.loadingFailed" => self.on_failure(&mut seen, params),
            _ => return,
        }
        drop(seen);
        self.changed.notify_waiters();
    }
}

fn keep<T>(entries: &mut Vec<T>, dropped: &mut u64, entry: T) {
    if entries.len() < KEPT_MAX {
        entries.push(entry);
    } else {
        *dropped += 1;
    }
}

fn place(url: Option<&str>, line: Option<u64>) -> String {
    match (url.filter(|url| !url.is_empty()), line) {
        (Some(url), Some(line)) => format!("{url}:{}", line + 1),
        (Some(url), None) => url.to_owned(),
        (None, _) => String::new(),
    }
}

/// Browsers ask for it by themselves; no application is wrong for having none.
fn is_favicon(url: &str) -> bool {
    url.ends_with("/favicon.ico")
}

//! The events of one session, as the browser tells them: what each changes in the state of its profile. Dialogs are
//! answered here, before anybody waits for anything, so that none ever stalls a flow. It runs on the reader's task and
//! never blocks.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    DialogKind,
    activity::{ConsoleError, DialogSeen, DownloadSeen, DownloadState, FailedRequest},
    error::DialogFault,
    observe::{Observer, Seen},
    setup::BINDING,
    text::{cut, fold},
    wire::EventSink,
};

/// Most entries of each kind that are kept.
const KEPT_MAX: usize = 200;
const MESSAGE_CHARS_MAX: usize = 600;

/// Whose session it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// A tab's, with the frames of its process.
    Tab,
    /// A frame's in another process.
    Frame,
    /// A worker's.
    Worker,
}

/// Hears one session.
pub(super) struct SessionSink {
    observer: Arc<Observer>,
    session: String,
    /// Target of the tab it belongs to.
    tab: String,
    whose: Whose,
}

impl SessionSink {
    pub(super) fn of_tab(observer: Arc<Observer>, session: &str, tab: &str) -> Self {
        Self { observer, session: session.to_owned(), tab: tab.to_owned(), whose: Whose::Tab }
    }

    /// A frame of another process, or a worker, has come to this session's tab.
    fn attach(&self, params: &Value) {
        let Some(session) = params["sessionId"].as_str() else { return };
        let whose = if params["targetInfo"]["type"] == "iframe" { Whose::Frame } else { Whose::Worker };
        let (observer, tab) = (self.observer.clone(), self.tab.clone());
        let sink = Self { observer, session: session.to_owned(), tab, whose };
        self.observer.wire.listen(session, Arc::new(sink));
        match whose {
            Whose::Frame => {
                self.observer.seen().frames.push((session.to_owned(), self.tab.clone()));
                self.observer.setup.frame(&self.observer.wire, session);
            }
            Whose::Worker | Whose::Tab => self.observer.setup.worker(&self.observer.wire, session),
        }
    }

    fn on_download(seen: &mut Seen, params: &Value) {
        let guid = params["guid"].as_str().unwrap_or_default();
        if seen.activity.downloads.iter().any(|known| known.guid == guid) {
            return;
        }
        let entry = DownloadSeen {
            name: cut(params["suggestedFilename"].as_str().unwrap_or_default(), MESSAGE_CHARS_MAX),
            url: cut(params["url"].as_str().unwrap_or_default(), MESSAGE_CHARS_MAX),
            state: DownloadState::Running,
            guid: guid.to_owned(),
        };
        keep(&mut seen.activity.downloads, &mut seen.activity.dropped, entry);
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
        if kind == DialogKind::Beforeunload
            && !accepted
            && let Some(tab) = seen.tab_mut(&self.tab)
        {
            tab.stayed += 1;
        }
        let mut answer = json!({"accept": accepted});
        if let Some(text) = text.filter(|_| accepted) {
            answer["promptText"] = json!(text);
        }
        self.observer.wire.post(Some(&self.session), "Page.handleJavaScriptDialog", answer);
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
        let foreign = !url.starts_with(&self.observer.origin);
        let reason = params["errorText"].as_str().unwrap_or_default();
        let error = if foreign {
            format!("{reason} (only the application's own origin {} can be reached)", self.observer.origin)
        } else {
            reason.to_owned()
        };
        let entry = FailedRequest { method, url: cut(&url, MESSAGE_CHARS_MAX), status: None, error: Some(error) };
        keep(&mut seen.activity.requests, &mut seen.activity.dropped, entry);
    }
}

impl EventSink for SessionSink {
    fn on_event(&self, method: &str, params: &Value) {
        match method {
            "Target.attachedToTarget" => {
                self.attach(params);
                return self.observer.tell();
            }
            "Target.detachedFromTarget" => {
                return self.observer.release(params["sessionId"].as_str().unwrap_or_default());
            }
            _ => {}
        }
        let is_main = || self.whose == Whose::Tab && params["frameId"] == self.tab.as_str();
        let mut seen = self.observer.seen();
        match method {
            "Page.javascriptDialogOpening" => self.on_dialog(&mut seen, params),
            "Page.frameStartedLoading" | "Page.frameRequestedNavigation" | "Page.frameStartedNavigating"
                if is_main() =>
            {
                if let Some(tab) = seen.tab_mut(&self.tab) {
                    tab.loading = true;
                }
            }
            "Page.frameStoppedLoading" | "Page.navigatedWithinDocument" if is_main() => {
                if let Some(tab) = seen.tab_mut(&self.tab) {
                    tab.loading = false;
                }
            }
            "Page.lifecycleEvent" if is_main() && params["name"] == "load" => {
                if let Some(tab) = seen.tab_mut(&self.tab) {
                    tab.last_loader = params["loaderId"].as_str().map(str::to_owned);
                    tab.loads += 1;
                }
            }
            "Page.fileChooserOpened" => {
                seen.chooser = params["backendNodeId"].as_i64().map(|input| (self.session.clone(), input));
            }
            "Page.downloadWillBegin" => Self::on_download(&mut seen, params),
            "Input.dragIntercepted" => seen.drag = Some(params["data"].clone()),
            "Inspector.targetCrashed" => {
                if let Some(tab) = seen.tab_mut(&self.tab).filter(|_| self.whose == Whose::Tab) {
                    tab.crashed = true;
                }
            }
            "Runtime.bindingCalled" if params["name"] == BINDING && seen.prints.len() < KEPT_MAX => {
                seen.prints.push_back(self.tab.clone());
            }
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
        self.observer.tell();
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

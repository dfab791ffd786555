//! The DevTools protocol over the browser's pipe: JSON messages ended by a zero byte, calls matched to answers by number,
//! events handed to the sink of their session. It knows no method. Invariant: every call ends, by its answer, by its
//! time limit or by the end of the browser.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{ChildStdin, ChildStdout},
    sync::{mpsc, oneshot, watch},
};

use super::error::BrowserError;

/// Calls waiting to be written; a writer that falls behind holds its callers back.
const OUTGOING_MAX: usize = 256;

/// The name under which events of no session, the browser's own, are listened to.
pub(super) const ROOT: &str = "";

/// Receives a session's events, in the order they happen, on the reader's task: it must not block.
pub(super) trait EventSink: Send + Sync {
    fn on_event(&self, method: &str, params: &Value);
}

/// A connection to the browser. Cheap to clone.
#[derive(Clone)]
pub(super) struct Wire {
    shared: Arc<Shared>,
    outgoing: mpsc::Sender<Vec<u8>>,
}

/// A call that has not been answered.
struct Pending {
    session: Option<String>,
    answer: oneshot::Sender<Result<Value, String>>,
}

struct Shared {
    last_id: AtomicU64,
    pending: Mutex<HashMap<u64, Pending>>,
    sinks: Mutex<HashMap<String, Arc<dyn EventSink>>>,
    closed: watch::Sender<bool>,
    call_timeout: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wire {
    /// A connection over the pipe's two ends. Its two tasks end with the pipe.
    pub(super) fn new(to_browser: ChildStdin, from_browser: ChildStdout, call_timeout: Duration) -> Self {
        let (outgoing, queue) = mpsc::channel(OUTGOING_MAX);
        let shared = Arc::new(Shared {
            last_id: AtomicU64::new(0),
            pending: Mutex::default(),
            sinks: Mutex::default(),
            closed: watch::Sender::new(false),
            call_timeout,
        });
        tokio::spawn(write(to_browser, queue, shared.closed.subscribe()));
        tokio::spawn(read(from_browser, shared.clone()));
        Self { shared, outgoing }
    }

    /// Whether the browser can still answer.
    pub(super) fn is_open(&self) -> bool {
        !*self.shared.closed.borrow()
    }

    /// Lets go of the pipe, which ends the browser.
    pub(super) fn close(&self) {
        self.shared.end();
    }

    /// Resolves when the browser has gone.
    pub(super) async fn closed(&self) {
        let mut closed = self.shared.closed.subscribe();
        let _ = closed.wait_for(|closed| *closed).await; // an error means that nobody can set it any more
    }

    /// Sends the events of a session to a sink, until [`Wire::unlisten`].
    pub(super) fn listen(&self, session: &str, sink: Arc<dyn EventSink>) {
        lock(&self.shared.sinks).insert(session.to_owned(), sink);
    }

    pub(super) fn unlisten(&self, session: &str) {
        lock(&self.shared.sinks).remove(session);
    }

    /// Calls a method and gives its result. A refusal is an error with the browser's words.
    pub(super) async fn call(
        &self,
        session: Option<&str>,
        method: &'static str,
        params: Value,
    ) -> Result<Value, BrowserError> {
        self.call_within(self.shared.call_timeout, session, method, params).await
    }

    /// The same with a limit of its own.
    pub(super) async fn call_within(
        &self,
        limit: Duration,
        session: Option<&str>,
        method: &'static str,
        params: Value,
    ) -> Result<Value, BrowserError> {
        let (answer, answered) = oneshot::channel();
        let (id, message) = self.message(session, method, params);
        lock(&self.shared.pending).insert(id, Pending { session: session.map(str::to_owned), answer });
        let exchange = async {
            if !self.is_open() || self.outgoing.send(message).await.is_err() {
                return Err(BrowserError::Gone);
            }
            match answered.await {
                Ok(Ok(result)) => Ok(result),
                Ok(Err(message)) => Err(BrowserError::Refused { method, message }),
                Err(_) => Err(BrowserError::Gone),
            }
        };
        let outcome = tokio::time::timeout(limit, exchange).await;
        lock(&self.shared.pending).remove(&id);
        let waited_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        outcome.unwrap_or(Err(BrowserError::Silent { method, waited_ms }))
    }

    /// Calls a method without waiting for its answer; lost when the queue is full or the browser has gone.
    pub(super) fn post(&self, session: Option<&str>, method: &'static str, params: Value) {
        let (_, message) = self.message(session, method, params);
        if self.outgoing.try_send(message).is_err() {
            tracing::debug!(method, "not sent to the browser");
        }
    }

    fn message(&self, session: Option<&str>, method: &str, params: Value) -> (u64, Vec<u8>) {
        let id = self.shared.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        (id, bytes)
    }
}

impl Shared {
    fn end(&self) {
        self.closed.send_replace(true);
        lock(&self.pending).clear(); // drops the senders, which ends the calls
    }

    /// What a page that has gone has not answered it never will.
    fn end_session(&self, session: Option<&str>) {
        if session.is_none() {
            return;
        }
        let ended = lock(&self.pending).extract_if(|_, call| call.session.as_deref() == session).collect::<Vec<_>>();
        for (_, call) in ended {
            let _ = call.answer.send(Err("the page has gone".to_owned())); // its caller may have given up
        }
    }

    fn dispatch(&self, message: &[u8]) {
        let Ok(mut message) = serde_json::from_slice::<Value>(message) else {
            tracing::warn!(bytes = message.len(), "the browser sent something that is not JSON");
            return;
        };
        if let Some(id) = message.get("id").and_then(Value::as_u64) {
            let Some(waiting) = lock(&self.pending).remove(&id) else { return };
            let answer = match message.get("error") {
                Some(error) => Err(error["message"].as_str().unwrap_or("no reason given").to_owned()),
                None => Ok(message["result"].take()),
            };
            let _ = waiting.answer.send(answer); // its caller may have given up
        } else if let Some(method) = message["method"].as_str() {
            let session = message["sessionId"].as_str().unwrap_or(ROOT);
            let sink = lock(&self.sinks).get(session).cloned();
            if let Some(sink) = sink {
                sink.on_event(method, &message["params"]);
            }
            // Afterwards, so that whoever is told already finds the page gone.
            if method == "Target.detachedFromTarget" {
                self.end_session(message["params"]["sessionId"].as_str());
            }
        }
    }
}

async fn write(mut pipe: ChildStdin, mut queue: mpsc::Receiver<Vec<u8>>, mut closed: watch::Receiver<bool>) {
    loop {
        let message = tokio::select! {
            message = queue.recv() => message,
            _ = closed.wait_for(|closed| *closed) => None,
        };
        let Some(message) = message else { return };
        if pipe.write_all(&message).await.is_err() {
            return; // the reader sees the end of the pipe too
        }
    }
}

async fn read(pipe: ChildStdout, shared: Arc<Shared>) {
    let mut pipe = BufReader::with_capacity(64 * 1024, pipe);
    let mut closed = shared.closed.subscribe();
    let mut message = Vec::new();
    loop {
        message.clear();
        let read = tokio::select! {
            read = pipe.read_until(0, &mut message) => read,
            _ = closed.wait_for(|closed| *closed) => break,
        };
        match read {
            Ok(0) | Err(_) => break,
            Ok(_) if message.last() == Some(&0) => shared.dispatch(&message[..message.len() - 1]),
            Ok(_) => break, // cut off in the middle of a message
        }
    }
    shared.end();
}

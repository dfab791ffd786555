//! A connection to a network over HTTP, as the wire contract has it: register, send, held polls.
//!
//! It owns the client's side of the contract and nothing of the server's. Invariants: the secret is sent to the network's
//! address and nowhere else, and is in no log; a poll that failed is made again by the caller, never here.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use longhaul_core::TimeMs;
use longhaul_network::{
    Address, AgentId, Draft, Event, EventName, Refusal, RefusalKind, Registration, Reply, Sender, Visibility,
};
use reqwest::{Client, Response, StatusCode, Url, header::AUTHORIZATION, redirect};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use super::link::Link;

/// Longest time for an answer, beside what a poll waits.
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// Longest time until a connection stands.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Longest that a poll is held.
const HOLD_MAX: Duration = Duration::from_secs(20);
/// Characters of a server's words that are repeated.
const SAID_CHARS: usize = 300;

/// How to join.
#[derive(Clone)]
pub struct Joining {
    /// `http://127.0.0.1:8700`.
    pub url: String,
    /// Name, group, credential, secret, what it says of itself.
    pub registration: Registration,
    /// A file for the secret and the place in the events, so that the agent comes back after a restart and misses
    /// nothing; made for nobody else to read. Without it a restart is a new registration.
    pub state: Option<PathBuf>,
}

/// What is in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    agent: String,
    network: String,
    secret: String,
    /// Everything up to here has been handled.
    cursor: Option<i64>,
}

impl fmt::Debug for Joining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joining").field("url", &self.url).field("registration", &self.registration).finish()
    }
}

/// A connection over HTTP.
pub struct HttpLink {
    client: Client,
    base: Url,
    agent: AgentId,
    network: String,
    secret: String,
    group: String,
    state: Option<PathBuf>,
    /// Everything up to the first has been handled; up to the second it was handed out.
    places: Mutex<(Option<i64>, Option<i64>)>,
}

impl fmt::Debug for HttpLink {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLink")
            .field("base", &self.base.as_str())
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

impl HttpLink {
    /// Asks the network who it is, and registers.
    ///
    /// # Errors
    /// [`RefusalKind::Unavailable`] when nobody answers there; [`RefusalKind::Forbidden`] and
    /// [`RefusalKind::Conflict`] for a credential or a name that is not accepted.
    pub async fn join(joining: Joining) -> Result<Self, Refusal> {
        let wrong = |why: String| Refusal::invalid(format!("the network's address {:?} {why}", joining.url));
        let base: Url = joining.url.parse().map_err(|error| wrong(format!("is none: {error}")))?;
        let loopback = base.host_str().is_some_and(|host| matches!(host, "127.0.0.1" | "localhost" | "[::1]"));
        if base.scheme() != "https" && !(base.scheme() == "http" && loopback) {
            return Err(wrong("would send the secret unencrypted: write https, or an address of this machine".into()));
        }
        let mut builder =
            Client::builder().connect_timeout(CONNECT_MAX).redirect(redirect::Policy::none()).user_agent("longhaul");
        if loopback {
            builder = builder.no_proxy();
        }
        let client = builder
            .tls_backend_preconfigured(tls(&base)?)
            .build()
            .map_err(|error| wrong(format!("cannot be reached: {error}")))?;
        let kept =
            joining.state.as_deref().and_then(kept).filter(|kept| kept.agent == joining.registration.agent.as_str());
        let kept = kept.unwrap_or_default();
        let Registration { agent, group, credential, secret, metadata, capabilities, .. } = joining.registration;
        let secret = secret.or_else(|| Some(kept.secret.clone()).filter(|secret| !secret.is_empty()));
        let mut metadata = metadata;
        if !capabilities.is_empty() {
            metadata.insert("capabilities".into(), json!(capabilities));
        }
        let body = json!({"agent_id": agent.as_str(), "metadata": metadata, "password_hash": credential,
            "agent_group": group, "certificate": null, "secret": secret, "capabilities": capabilities});
        let sent = client.post(at(&base, "api/register")?).timeout(ANSWER_MAX).json(&body).send().await;
        let (status, answer) = read(sent, &base).await?;
        if answer.get("success") != Some(&Value::Bool(true)) {
            return Err(refused(status, &answer));
        }
        let word = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (network, secret, group) = (word("network_id"), word("secret"), word("assigned_group"));
        if secret.is_empty() {
            return Err(wrong("is no network's: it gave no secret".into()));
        }
        // The place belongs to the network that gave it.
        let cursor = kept.cursor.filter(|_| kept.network == network);
        let places = Mutex::new((cursor, cursor));
        let link = Self { client, base, agent, network, secret, group, state: joining.state, places };
        link.keep(cursor).await?;
        Ok(link)
    }

    /// Writes the secret and the place down.
    async fn keep(&self, cursor: Option<i64>) -> Result<(), Refusal> {
        let Some(path) = self.state.clone() else { return Ok(()) };
        let (agent, network) = (self.agent.to_string(), self.network.clone());
        let state = State { agent, network, secret: self.secret.clone(), cursor };
        let text = serde_json::to_string(&state).unwrap_or_default();
        let shown = path.display().to_string();
        let written = tokio::task::spawn_blocking(move || write(&path, &text)).await;
        let failed = match written {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        Err(Refusal::invalid(format!("the agent's state cannot be written to {shown}: {failed}")))
    }

    fn poll_url(&self, max: usize, wait: Duration, after: Option<i64>) -> Result<Url, Refusal> {
        let mut url = at(&self.base, "api/poll")?;
        url.query_pairs_mut()
            .append_pair("agent_id", self.agent.as_str())
            .append_pair("wait", &wait.as_secs_f64().to_string())
            .append_pair("limit", &max.clamp(1, 200).to_string());
        if let Some(after) = after {
            url.query_pairs_mut().append_pair("after", &after.to_string());
        }
        Ok(url)
    }

    fn bearer(&self) -> String {
        format!("Bearer {}:{}", self.agent, self.secret)
    }

    /// The secret, for a return after a restart.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The group that the network gave.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    fn sender(&self, text: &str) -> Sender {
        if let Some(module) = text.strip_prefix("mod:") {
            return Sender::Mod(module.to_owned());
        }
        if text.starts_with("system:") || text == self.network {
            return Sender::Network;
        }
        text.parse().map_or(Sender::Network, Sender::Agent)
    }

    /// An event as the contract has it.
    fn event(&self, value: Value) -> Option<Event> {
        let Value::Object(mut fields) = value else { return None };
        let mut take = |key: &str| fields.remove(key).filter(|value| !value.is_null());
        let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
        let object = |value: Option<Value>| match value {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        let name: EventName = text(take("event_name"))?.parse().ok()?;
        let to = text(take("destination_id")).or_else(|| text(take("target_agent_id")));
        let at = take("timestamp").and_then(|at| at.as_f64()).unwrap_or(0.0);
        #[expect(clippy::cast_possible_truncation, reason = "a moment in milliseconds is far below 2^53")]
        let at = TimeMs((at * 1_000.0) as i64);
        Some(Event {
            seq: take("seq").and_then(|seq| seq.as_i64()).unwrap_or(0),
            id: text(take("event_id"))?,
            origin_id: None,
            name,
            from: self.sender(&text(take("source_id")).unwrap_or_default()),
            from_group: text(take("source_agent_group")),
            to: Address::parse(to.as_deref()).unwrap_or(Address::Agent(self.agent.clone())),
            at,
            payload: object(take("payload")),
            metadata: object(take("metadata")),
            visibility: Visibility::default(),
            allowed_agents: None,
            relevant_mod: text(take("relevant_mod")),
            requires_response: take("requires_response").and_then(|flag| flag.as_bool()).unwrap_or(false),
            response_to: text(take("response_to")),
            thread_name: text(take("thread_name")),
            text: text(take("text_representation")),
        })
    }
}

#[async_trait]
impl Link for HttpLink {
    fn agent(&self) -> &AgentId {
        &self.agent
    }

    fn network(&self) -> &str {
        &self.network
    }

    async fn send(&self, draft: Draft) -> Result<Reply, Refusal> {
        let to = match &draft.to {
            Address::System => String::new(),
            to => to.to_string(),
        };
        let body = json!({
            "event_id": draft.id,
            "event_name": draft.name.as_str(),
            "source_id": self.agent.as_str(),
            "target_agent_id": to,
            "payload": draft.payload,
            "metadata": draft.metadata,
            "visibility": "network",
            "secret": self.secret,
            "requires_response": draft.requires_response,
            "response_to": draft.response_to,
            "thread_name": draft.thread_name,
            "relevant_mod": draft.relevant_mod,
            "text_representation": draft.text,
        });
        let request = self.client.post(at(&self.base, "api/send_event")?).timeout(ANSWER_MAX).json(&body);
        let (status, mut answer) = read(request.send().await, &self.base).await?;
        let success = answer.get("success") == Some(&Value::Bool(true));
        if !success && (status != StatusCode::OK || is_unauthenticated(&answer)) {
            return Err(refused(status, &answer));
        }
        let message = answer.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
        let data = answer.remove("data").filter(|data| !data.is_null());
        let repeated = answer.get("repeated") == Some(&Value::Bool(true));
        Ok(Reply { success, message, data, repeated })
    }

    async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Arc<Event>>, Refusal> {
        let mut places = self.places.lock().await;
        let (handled, given) = *places;
        if given != handled {
            self.keep(given).await?;
            places.0 = given;
        }
        let wait = wait.min(HOLD_MAX);
        let url = self.poll_url(max, wait, given)?;
        let asked = self.client.get(url).header(AUTHORIZATION, self.bearer()).timeout(wait + ANSWER_MAX);
        let (status, mut answer) = read(asked.send().await, &self.base).await?;
        if answer.get("success") != Some(&Value::Bool(true)) {
            return Err(refused(status, &answer));
        }
        let messages = match answer.remove("messages") {
            Some(Value::Array(messages)) => messages,
            _ => Vec::new(),
        };
        if let Some(cursor) = answer.get("cursor").and_then(Value::as_i64).filter(|_| !messages.is_empty()) {
            places.1 = Some(cursor);
        }
        Ok(messages.into_iter().filter_map(|event| self.event(event)).map(Arc::new).collect())
    }

    async fn leave(&self) -> Result<(), Refusal> {
        let body = json!({"agent_id": self.agent.as_str(), "secret": self.secret});
        let request = self.client.post(at(&self.base, "api/unregister")?).timeout(ANSWER_MAX).json(&body);
        let (status, answer) = read(request.send().await, &self.base).await?;
        if answer.get("success") == Some(&Value::Bool(true)) { Ok(()) } else { Err(refused(status, &answer)) }
    }
}

fn kept(path: &Path) -> Option<State> {
    let text = std::fs::read_to_string(path).ok()?;
    serde_json::from_str(&text).ok()
}

/// Whole or not at all, and for nobody else.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    use std::{
        io::Write,
        os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    };
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let staged = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&staged)?;
    file.write_all(text.as_bytes())?;
    drop(file);
    std::fs::rename(staged, path)
}

/// The system's certificate authorities for https, and none for http, where TLS does not happen.
fn tls(base: &Url) -> Result<rustls::ClientConfig, Refusal> {
    use rustls_platform_verifier::BuilderVerifierExt;
    let broken = |error: rustls::Error| Refusal::new(RefusalKind::Unavailable, format!("no trusted TLS: {error}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(broken)?;
    if base.scheme() == "http" {
        return Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth());
    }
    Ok(builder.with_platform_verifier().map_err(broken)?.with_no_client_auth())
}

fn at(base: &Url, path: &str) -> Result<Url, Refusal> {
    let text = format!("{}/{path}", base.as_str().trim_end_matches('/'));
    text.parse().map_err(|_| Refusal::invalid(format!("{text} is no address")))
}

async fn read(sent: Result<Response, reqwest::Error>, base: &Url) -> Result<(StatusCode, Map<String, Value>), Refusal> {
    let place = base.host_str().unwrap_or_default().to_owned();
    let port = base.port_or_known_default().unwrap_or_default();
    // The error itself may hold the address with the secret in it.
    let away = |error: reqwest::Error| {
        let (kind, what) = if error.is_timeout() {
            (RefusalKind::TimedOut, "did not answer in time")
        } else {
            (RefusalKind::Unavailable, "does not answer")
        };
        Refusal::new(
            kind,
            format!("the network at {place}:{port} {what}: is it running? `longhaul network start` starts it"),
        )
    };
    let response = sent.map_err(away)?;
    let status = response.status();
    let bytes = response.bytes().await.map_err(away)?;
    let answer = serde_json::from_slice(&bytes).unwrap_or_default();
    Ok((status, answer))
}

fn is_unauthenticated(answer: &Map<String, Value>) -> bool {
    let said = answer.get("message").or_else(|| answer.get("error_message")).and_then(Value::as_str);
    said.is_some_and(|said| said.starts_with("Authentication failed"))
}

fn refused(status: StatusCode, answer: &Map<String, Value>) -> Refusal {
    let word = |key: &str| answer.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let said = word("error_message").or(word("message")).or(word("error")).unwrap_or("the network refused it");
    let kind = match status.as_u16() {
        401 => RefusalKind::Unauthenticated,
        403 => RefusalKind::Forbidden,
        404 => RefusalKind::Missing,
        409 => RefusalKind::Conflict,
        413 => RefusalKind::TooLarge,
        429 => RefusalKind::TooMany,
        502 | 503 => RefusalKind::Unavailable,
        504 => RefusalKind::TimedOut,
        _ if is_unauthenticated(answer) => RefusalKind::Unauthenticated,
        _ => RefusalKind::Invalid,
    };
    Refusal::new(kind, said.chars().take(SAID_CHARS).collect::<String>())
}

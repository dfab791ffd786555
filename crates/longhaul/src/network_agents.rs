//! Agents of files: one joins a network over HTTP, and answers until it is ended.
//!
//! It owns the wiring: the model that the settings name, the home's store for what is recorded, a file for the secret.
//! Invariant: a message that was taken on is answered once, also when the process dies and is started again.

use std::{path::PathBuf, sync::Arc};

use longhaul_mods::agents::{AgentFile, AgentWorked, HttpLink, Joining, Link, Mind, MindParts};
use longhaul_network::{Refusal, Registration, Via};
use tokio_util::sync::CancellationToken;

use crate::{ErrorKind, Longhaul, LonghaulError, connect::Connected, network::refusal_error_kind};

pub use longhaul_mods::agents;

/// Where the network of an agent's file is, where neither the file nor a flag says so.
const DEFAULT_URL: &str = "http://127.0.0.1:8700";

/// Why an agent does not work.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The network said no, or does not answer.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Its model cannot be reached.
    #[error(transparent)]
    Longhaul(#[from] LonghaulError),
}

impl AgentError {
    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(refusal) => refusal_error_kind(refusal),
            Self::Longhaul(error) => error.kind(),
        }
    }
}

/// How an agent is to join.
#[derive(Debug, Clone)]
pub struct AgentRequest {
    /// What it is.
    pub file: AgentFile,
    /// The network's address, if another than the file's.
    pub url: Option<String>,
    /// The credential of the group it asks for: the hexadecimal SHA-256 of the group's password.
    pub credential: String,
}

/// An agent that has joined.
pub struct JoinedAgent {
    mind: Arc<Mind>,
    /// The network's id.
    pub network: String,
    /// The group that it was given.
    pub group: String,
    /// The network's address.
    pub url: String,
    /// The model that speaks for it.
    pub model: String,
    /// Servers of cassettes live as long.
    _connected: Connected,
}

impl std::fmt::Debug for JoinedAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinedAgent").field("mind", &self.mind).finish_non_exhaustive()
    }
}

impl JoinedAgent {
    /// Works until `shutdown`; what was taken on before is finished first.
    ///
    /// # Errors
    /// When its secret has been replaced, or it was sent away.
    pub async fn run(self, shutdown: CancellationToken) -> Result<AgentWorked, AgentError> {
        Ok(self.mind.clone().run(shutdown).await?)
    }
}

/// The address of the network that a file names.
#[must_use]
pub fn address_of(file: &AgentFile) -> String {
    match (&file.connection.host, file.connection.port) {
        (None, None) => DEFAULT_URL.to_owned(),
        (host, port) => {
            let host = host.as_deref().unwrap_or("127.0.0.1");
            // The SDK's agents say both.
            let host = if matches!(host, "localhost" | "0.0.0.0") { "127.0.0.1" } else { host };
            format!("http://{host}:{}", port.unwrap_or(8700))
        }
    }
}

impl Longhaul {
    /// Joins the network with an agent of a file.
    ///
    /// # Errors
    /// [`AgentError`]: nobody answers at the address, the name is held, the model cannot be reached.
    pub async fn join(&self, request: AgentRequest) -> Result<JoinedAgent, AgentError> {
        let AgentRequest { file, url, credential } = request;
        let url = url.unwrap_or_else(|| address_of(&file));
        let named = file.model.as_deref().map(|spec| (spec, file.api_base.as_deref()));
        let (connected, spec) = self.connect(named).await?;
        let mut registration = Registration::new(file.agent.clone(), Via::Http);
        registration.group.clone_from(&file.group);
        registration.credential = credential;
        registration.capabilities.clone_from(&file.capabilities);
        registration.metadata.insert("name".into(), file.agent.as_str().into());
        registration.metadata.insert("type".into(), "agent".into());
        if !file.description.is_empty() {
            registration.metadata.insert("description".into(), file.description.clone().into());
        }
        let state = Some(self.agent_state(&url, file.agent.as_str()));
        let link = HttpLink::join(Joining { url: url.clone(), registration, state }).await?;
        let (network, group) = (link.network().to_owned(), link.group().to_owned());
        let wants_memory = !file.memory.recall.is_empty() || file.memory.keep.is_some();
        let memory = wants_memory.then(|| self.memory(self.embedder().ok()));
        let parts = MindParts {
            link: Arc::new(link),
            store: self.store.clone(),
            runtime: self.runtime.clone(),
            scope: self.scope.clone(),
            model: connected.model.clone(),
            memory,
        };
        let mind = Mind::new(file, parts).await?;
        Ok(JoinedAgent { mind, network, group, url, model: spec.to_string(), _connected: connected })
    }

    /// Where an agent's secret is kept: of this address, for nobody else to read.
    fn agent_state(&self, url: &str, agent: &str) -> PathBuf {
        let name: String =
            url.chars().map(|c| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' }).collect();
        self.settings().home.join("agents").join(name).join(format!("{agent}.json"))
    }
}

//! Who takes part: ids, how one comes in, what one may receive.

use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc};

use longhaul_core::TimeMs;
use serde_json::{Map, Value};

use crate::{Event, Refusal, event::ID_BYTES_MAX};

/// The name an agent, or a person, has in a network.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(Arc<str>);

impl AgentId {
    /// The name as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AgentId {
    type Err = Refusal;

    /// Letters and digits of any script and any of `-_.@+~`, at most 200 bytes; not a word that means everybody or
    /// the network.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let text = text.strip_prefix("agent:").unwrap_or(text);
        let is_word = |c: char| c.is_alphanumeric() || "-_.@+~".contains(c);
        let taken = matches!(text, "broadcast" | "all" | "system");
        if text.is_empty() || text.len() > ID_BYTES_MAX || taken || !text.chars().all(is_word) {
            let shown: String = text.chars().take(80).collect();
            return Err(Refusal::invalid(format!(
                "agent id {shown:?}: write letters, digits and any of `-_.@+~`, at most {ID_BYTES_MAX} bytes, and not \
                 \"all\", \"broadcast\" or \"system\""
            )));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The transport over which somebody came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Via {
    /// HTTP, long polls and server-sent events.
    Http,
    /// WebSocket.
    WebSocket,
    /// gRPC.
    Grpc,
    /// libp2p.
    Libp2p,
    /// A2A, any binding.
    A2a,
    /// MCP.
    Mcp,
    /// A part of this process.
    InProcess,
}

impl Via {
    /// The word of the wire contract.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http | Self::InProcess => "http",
            Self::WebSocket => "websocket",
            Self::Grpc => "grpc",
            Self::Libp2p => "libp2p",
            Self::A2a => "a2a",
            Self::Mcp => "mcp",
        }
    }

    /// Reads the word of the wire contract; another one is a part of this process.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        let all = [Self::Http, Self::WebSocket, Self::Grpc, Self::Libp2p, Self::A2a, Self::Mcp];
        all.into_iter().find(|some| some.as_str() == word).unwrap_or(Self::InProcess)
    }
}

/// What somebody says who wants to come in.
#[derive(Clone)]
pub struct Registration {
    /// The wanted name.
    pub agent: AgentId,
    /// The wanted group; without it the group whose credential is shown, else the network's default group.
    pub group: Option<String>,
    /// The group's credential as it came: the hexadecimal SHA-256 of its password, empty for none.
    pub credential: String,
    /// The secret of an earlier registration, which makes this a return.
    pub secret: Option<String>,
    /// Said about itself: `name`, `description`, `type`, …; shown to others.
    pub metadata: Map<String, Value>,
    /// What it can do, for discovery.
    pub capabilities: Vec<String>,
    /// Over which transport.
    pub via: Via,
}

impl Registration {
    /// A registration with nothing but a name.
    #[must_use]
    pub fn new(agent: AgentId, via: Via) -> Self {
        Self {
            agent,
            group: None,
            credential: String::new(),
            secret: None,
            metadata: Map::new(),
            capabilities: Vec::new(),
            via,
        }
    }
}

impl fmt::Debug for Registration {
    /// Without credential and secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("agent", &self.agent).field("via", &self.via).finish_non_exhaustive()
    }
}

/// Somebody has come in.
#[derive(Clone)]
pub struct Registered {
    /// Proof for the calls of this process.
    pub member: Member,
    /// 64 letters and digits, shown once; only its digest is kept.
    pub secret: String,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("member", &self.member).finish_non_exhaustive()
    }
}

/// Proof of who makes a call. Only the network makes one, from a secret. It ends with the secret it was made from.
#[derive(Debug, Clone)]
pub struct Member {
    pub(crate) agent: AgentId,
    pub(crate) group: Arc<str>,
    /// Of the registration it was made from; a newer one makes it invalid.
    pub(crate) generation: u64,
}

impl Member {
    /// Who it is.
    #[must_use]
    pub fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// The group it was given.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }
}

/// An agent as others see it.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentView {
    /// Its name.
    pub agent: AgentId,
    /// Its group.
    pub group: String,
    /// What it says about itself.
    pub metadata: Map<String, Value>,
    /// What it can do.
    pub capabilities: BTreeSet<String>,
    /// Over which transport it came.
    pub via: Via,
    /// When it was last heard of.
    pub last_seen: TimeMs,
    /// Its lease has not ended.
    pub present: bool,
}

/// Events for a receiver, and where it stands after them.
#[derive(Debug, Clone, Default)]
pub struct Received {
    /// In the order of the log.
    pub events: Vec<Arc<Event>>,
    /// Acknowledge this number when all of them are safe with the receiver.
    pub cursor: i64,
    /// There are more.
    pub more: bool,
}

/// A receiver's place in its events; one for each connection. Dropping it acknowledges nothing.
#[derive(Debug)]
pub struct Inbox {
    pub(crate) network: crate::Network,
    pub(crate) member: Member,
    /// Everything up to here has been handed out by this inbox.
    pub(crate) position: i64,
}

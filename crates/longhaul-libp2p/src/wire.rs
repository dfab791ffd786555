//! What frames say: JSON objects with a `type`. The page `docs/libp2p.md` shows each of them.
//!
//! It owns the translation between frames and the network's types, and nothing else knows these shapes. Invariant:
//! who an event comes from is never taken from a frame; a frame may only repeat it.

use longhaul_network::{Address, AgentId, Draft, Refusal, RefusalKind, Reply, Visibility};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a peer says on a stream.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum FromPeer {
    /// Let me in.
    Register {
        #[serde(default)]
        request_id: Option<String>,
        agent_id: String,
        #[serde(default)]
        agent_group: Option<String>,
        #[serde(default)]
        password_hash: String,
        #[serde(default)]
        secret: Option<String>,
        #[serde(default)]
        metadata: Map<String, Value>,
        #[serde(default)]
        capabilities: Vec<String>,
    },
    /// I am in already.
    Hello {
        #[serde(default)]
        request_id: Option<String>,
        agent_id: String,
        secret: String,
    },
    /// Send this.
    Send {
        #[serde(default)]
        request_id: Option<String>,
        event: WireDraft,
    },
    /// Push what is for me, from where I stand or from behind `after`.
    Receive {
        #[serde(default)]
        request_id: Option<String>,
        #[serde(default)]
        after: Option<i64>,
    },
    /// Everything up to here is safe with me.
    Ack { seq: i64 },
    /// On which topic is this channel?
    Topic {
        #[serde(default)]
        request_id: Option<String>,
        channel: String,
    },
    /// I am there.
    Ping {
        #[serde(default)]
        request_id: Option<String>,
    },
    /// I leave.
    Unregister {
        #[serde(default)]
        request_id: Option<String>,
    },
}

/// What a peer is told on a stream, and what stands on a topic ([`ToPeer::Event`]).
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ToPeer {
    /// The secret is shown this once.
    Registered {
        request_id: Option<String>,
        agent_id: String,
        secret: String,
        assigned_group: String,
        network_id: String,
        network_name: String,
    },
    /// The secret is the right one.
    Welcome {
        request_id: Option<String>,
        agent_id: String,
        assigned_group: String,
        network_id: String,
        network_name: String,
    },
    /// The answer to an event.
    Reply {
        request_id: Option<String>,
        event_id: String,
        success: bool,
        message: String,
        data: Option<Value>,
        repeated: bool,
    },
    /// Pushing has begun.
    Receiving { request_id: Option<String> },
    /// An event.
    Event { seq: i64, event: Value },
    /// Where the channel's gossip is, and whether the peer's own subscription to it has arrived: only what is said
    /// from then on is gossiped to it.
    Topic { request_id: Option<String>, channel: String, topic: String, reading: bool },
    /// Heard.
    Pong { request_id: Option<String> },
    /// Gone.
    Unregistered { request_id: Option<String> },
    /// Not done.
    Error {
        request_id: Option<String>,
        code: String,
        message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
}

impl ToPeer {
    /// The refusal as a frame.
    pub(crate) fn refused(request_id: Option<String>, refusal: Refusal) -> Self {
        Self::Error {
            request_id,
            code: code(refusal.kind).to_owned(),
            message: refusal.message,
            retry_after_ms: refusal.retry_after_ms,
        }
    }

    /// The answer as a frame.
    pub(crate) fn reply(request_id: Option<String>, event_id: String, reply: Reply) -> Self {
        let Reply { success, message, data, repeated } = reply;
        Self::Reply { request_id, event_id, success, message, data, repeated }
    }

    /// As bytes of a frame.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Only maps with keys other than strings and writers that fail make an error; there are neither.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The word for a kind of refusal.
fn code(kind: RefusalKind) -> &'static str {
    match kind {
        RefusalKind::Invalid => "invalid",
        RefusalKind::Unauthenticated => "unauthenticated",
        RefusalKind::Forbidden => "forbidden",
        RefusalKind::Missing => "missing",
        RefusalKind::Conflict => "conflict",
        RefusalKind::TooLarge => "too_large",
        RefusalKind::TooMany => "too_many",
        RefusalKind::TimedOut => "timed_out",
        RefusalKind::Unavailable => "unavailable",
    }
}

/// The kind behind the word; a word of a later version is something that cannot be done now.
pub(crate) fn kind(code: &str) -> RefusalKind {
    match code {
        "invalid" => RefusalKind::Invalid,
        "unauthenticated" => RefusalKind::Unauthenticated,
        "forbidden" => RefusalKind::Forbidden,
        "missing" => RefusalKind::Missing,
        "conflict" => RefusalKind::Conflict,
        "too_large" => RefusalKind::TooLarge,
        "too_many" => RefusalKind::TooMany,
        "timed_out" => RefusalKind::TimedOut,
        _ => RefusalKind::Unavailable,
    }
}

/// An event as a client writes it, with the contract's field names.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct WireDraft {
    pub(crate) event_id: String,
    pub(crate) event_name: String,
    #[serde(default)]
    pub(crate) source_id: Option<String>,
    #[serde(default, alias = "target_agent_id")]
    pub(crate) destination_id: Option<String>,
    #[serde(default)]
    pub(crate) payload: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) metadata: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) visibility: Option<String>,
    #[serde(default)]
    pub(crate) allowed_agents: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) relevant_mod: Option<String>,
    #[serde(default)]
    pub(crate) requires_response: bool,
    #[serde(default)]
    pub(crate) response_to: Option<String>,
    #[serde(default)]
    pub(crate) thread_name: Option<String>,
    #[serde(default)]
    pub(crate) text_representation: Option<String>,
}

impl WireDraft {
    /// The draft, from this agent and nobody else.
    pub(crate) fn into_draft(self, from: &AgentId) -> Result<Draft, Refusal> {
        if let Some(source) = self.source_id.filter(|source| !source.is_empty()) {
            let source = source.strip_prefix("agent:").unwrap_or(&source);
            if source != from.as_str() {
                return Err(Refusal::forbidden(format!("this stream speaks for {from}: leave source_id out")));
            }
        }
        let to = Address::parse(self.destination_id.as_deref())?;
        let mut draft = Draft::new(self.event_id, self.event_name.parse()?, to, self.payload.unwrap_or_default());
        draft.metadata = self.metadata.unwrap_or_default();
        if let Some(word) = self.visibility.as_deref() {
            draft.visibility = visibility(word)?;
        }
        let allowed = self.allowed_agents.map(|all| all.iter().map(|agent| agent.parse()).collect::<Result<_, _>>());
        draft.allowed_agents = allowed.transpose()?;
        draft.relevant_mod = self.relevant_mod;
        draft.requires_response = self.requires_response;
        draft.response_to = self.response_to;
        draft.thread_name = self.thread_name;
        draft.text = self.text_representation;
        Ok(draft)
    }

    /// The frame for a draft, for clients.
    pub(crate) fn from_draft(draft: Draft) -> Self {
        Self {
            event_id: draft.id,
            event_name: draft.name.to_string(),
            source_id: None,
            destination_id: Some(draft.to.to_string()),
            payload: Some(draft.payload),
            metadata: Some(draft.metadata),
            visibility: Some(word(draft.visibility).to_owned()),
            allowed_agents: draft.allowed_agents.map(|all| all.iter().map(ToString::to_string).collect()),
            relevant_mod: draft.relevant_mod,
            requires_response: draft.requires_response,
            response_to: draft.response_to,
            thread_name: draft.thread_name,
            text_representation: draft.text,
        }
    }
}

fn visibility(word: &str) -> Result<Visibility, Refusal> {
    Ok(match word {
        "public" => Visibility::Public,
        "network" | "" => Visibility::Network,
        "channel" => Visibility::Channel,
        "direct" => Visibility::Direct,
        "restricted" => Visibility::Restricted,
        "mod_only" => Visibility::ModOnly,
        _ => {
            return Err(Refusal::invalid("visibility: write public, network, channel, direct, restricted or mod_only"));
        }
    })
}

fn word(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Public => "public",
        Visibility::Network => "network",
        Visibility::Channel => "channel",
        Visibility::Direct => "direct",
        Visibility::Restricted => "restricted",
        Visibility::ModOnly => "mod_only",
    }
}

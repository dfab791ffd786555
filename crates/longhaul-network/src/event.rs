//! The one envelope of a network. A transport translates at its edge and nowhere else (invariant 10).

use std::{fmt, str::FromStr};

use longhaul_core::TimeMs;
use serde_json::{Map, Value};

use crate::{AgentId, Refusal};

/// Longest name of an event, bytes.
pub const NAME_BYTES_MAX: usize = 200;
/// Longest id of an event, bytes.
pub const ID_BYTES_MAX: usize = 200;
/// Longest id of an event, and of what it refers to, in characters.
pub const ID_CHARS_MAX: usize = 200;

/// What happened, in parts from the general to the particular: `thread.channel_message.post`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventName(String);

impl EventName {
    /// The name as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EventName {
    type Err = Refusal;

    /// Two parts or more of `[a-z][a-z0-9_]*`, the first of them of two characters or more.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let is_part = |part: &str| {
            part.len() >= 2
                && part.starts_with(|c: char| c.is_ascii_lowercase())
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        let well_formed = text.len() <= NAME_BYTES_MAX && text.contains('.') && text.split('.').all(is_part);
        if well_formed {
            return Ok(Self(text.to_owned()));
        }
        let shown: String = text.chars().take(80).collect();
        Err(Refusal::invalid(format!(
            "event name {shown:?}: write two or more parts with dots between, each of lower-case letters, digits and \
             underscores and at least two long, as in \"thread.channel_message.post\""
        )))
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names that are meant: one name, or all that begin so (`thread.*`, `*`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern(String);

impl Pattern {
    /// Any text is a pattern; a `*` is only special at its end.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this name is meant.
    #[must_use]
    pub fn matches(&self, name: &EventName) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => name.as_str().starts_with(beginning),
            None => self.0 == name.as_str(),
        }
    }
}

/// Who an event comes from. Set by the network, never taken from what a client says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Sender {
    /// An agent, or a person who takes part.
    Agent(AgentId),
    /// A mod, by its name.
    Mod(String),
    /// The network itself.
    Network,
}

/// Where an event goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// One agent: `agent:x`, or `x` alone.
    Agent(AgentId),
    /// Everybody in a channel but the sender: `channel:x`.
    Channel(String),
    /// Everybody of a group but the sender: `group:x`.
    Group(String),
    /// One mod, which alone sees it: `mod:openagents.mods.workspace.wiki`.
    Mod(String),
    /// Everybody but the sender: `agent:broadcast`, `broadcast`, `all`.
    Everybody,
    /// The network itself: `system:system`, or nothing.
    System,
}

impl Address {
    /// Reads what a client wrote; nothing and the empty text are the network itself.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Invalid`] when the name behind the prefix is none.
    pub fn parse(text: Option<&str>) -> Result<Self, Refusal> {
        let text = text.unwrap_or_default().trim();
        let name = |name: &str| {
            if name.is_empty() || name.len() > ID_BYTES_MAX || name.chars().any(char::is_control) {
                let shown: String = text.chars().take(80).collect();
                return Err(Refusal::invalid(format!("destination {shown:?}: a name is missing, or too long")));
            }
            Ok(name.to_owned())
        };
        match text.split_once(':') {
            None if text.is_empty() || text == "system" => Ok(Self::System),
            None if matches!(text, "broadcast" | "all") => Ok(Self::Everybody),
            Some(("agent", "broadcast" | "all")) => Ok(Self::Everybody),
            Some(("agent", agent)) => Ok(Self::Agent(agent.parse()?)),
            Some(("channel", channel)) => Ok(Self::Channel(name(channel)?)),
            Some(("group", group)) => Ok(Self::Group(name(group)?)),
            Some(("mod", module)) => Ok(Self::Mod(name(module)?)),
            Some(("system", _)) => Ok(Self::System),
            _ => Ok(Self::Agent(text.parse()?)),
        }
    }
}

impl fmt::Display for Address {
    /// As [`Self::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(agent) => write!(f, "agent:{agent}"),
            Self::Channel(channel) => write!(f, "channel:{channel}"),
            Self::Group(group) => write!(f, "group:{group}"),
            Self::Mod(module) => write!(f, "mod:{module}"),
            Self::Everybody => f.write_str("agent:broadcast"),
            Self::System => f.write_str("system:system"),
        }
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(agent) => write!(f, "{agent}"),
            Self::Mod(name) => write!(f, "mod:{name}"),
            Self::Network => f.write_str("system:system"),
        }
    }
}

/// Who may see an event beside its receivers; only [`Visibility::Restricted`] narrows who receives it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Anybody, outside of the network too.
    Public,
    /// Anybody in the network.
    #[default]
    Network,
    /// Members of its channel.
    Channel,
    /// Sender and receiver.
    Direct,
    /// Those that `allowed_agents` names.
    Restricted,
    /// Mods.
    ModOnly,
}

impl Visibility {
    /// The word of the wire contract.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Network => "network",
            Self::Channel => "channel",
            Self::Direct => "direct",
            Self::Restricted => "restricted",
            Self::ModOnly => "mod_only",
        }
    }

    /// Reads the word of the wire contract.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Public, Self::Network, Self::Channel, Self::Direct, Self::Restricted, Self::ModOnly];
        all.into_iter().find(|some| some.as_str() == word)
    }
}

/// What a client hands in. Whoever sends it is known from its [`crate::Member`].
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The sender's id for it, at most [`ID_CHARS_MAX`]: sent twice it is done once, and answered the same.
    pub id: String,
    /// What happens.
    pub name: EventName,
    /// Where it goes.
    pub to: Address,
    /// Content, at most the network's `max_message_size` when printed.
    pub payload: Map<String, Value>,
    /// What is said about it.
    pub metadata: Map<String, Value>,
    /// Who may see it.
    pub visibility: Visibility,
    /// Receivers, where it is [`Visibility::Restricted`].
    pub allowed_agents: Option<Vec<AgentId>>,
    /// The mod it concerns.
    pub relevant_mod: Option<String>,
    /// An answer is waited for.
    pub requires_response: bool,
    /// The event it answers.
    pub response_to: Option<String>,
    /// The thread it belongs to.
    pub thread_name: Option<String>,
    /// The content for people, where the payload is not.
    pub text: Option<String>,
}

impl Draft {
    /// A draft with nothing but these.
    #[must_use]
    pub fn new(id: impl Into<String>, name: EventName, to: Address, payload: Map<String, Value>) -> Self {
        Self {
            id: id.into(),
            name,
            to,
            payload,
            metadata: Map::new(),
            visibility: Visibility::default(),
            allowed_agents: None,
            relevant_mod: None,
            requires_response: false,
            response_to: None,
            thread_name: None,
            text: None,
        }
    }
}

/// An event of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its number in the network's log, rising; 0 while it is being admitted.
    pub seq: i64,
    /// Identity. For what a client sent and no mod changed, the client's.
    pub id: String,
    /// The id of the sender's draft that led to it, which may be another one: a notice of a post carries the post's.
    pub origin_id: Option<String>,
    /// What happened.
    pub name: EventName,
    /// Who it comes from.
    pub from: Sender,
    /// The group of an agent that sent it.
    pub from_group: Option<String>,
    /// Where it goes.
    pub to: Address,
    /// When it was admitted.
    pub at: TimeMs,
    /// Content.
    pub payload: Map<String, Value>,
    /// What is said about it.
    pub metadata: Map<String, Value>,
    /// Who may see it.
    pub visibility: Visibility,
    /// Receivers, where it is restricted.
    pub allowed_agents: Option<Vec<AgentId>>,
    /// The mod it concerns.
    pub relevant_mod: Option<String>,
    /// An answer is waited for.
    pub requires_response: bool,
    /// The event it answers.
    pub response_to: Option<String>,
    /// The thread it belongs to.
    pub thread_name: Option<String>,
    /// The content for people.
    pub text: Option<String>,
}

/// The answer to an event. A refusal in it is an answer too; what could not be admitted at all is a [`Refusal`].
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// It was done.
    pub success: bool,
    /// What happened, for people.
    pub message: String,
    /// What was asked for.
    pub data: Option<Value>,
    /// The same id had been answered before; nothing was done again.
    pub repeated: bool,
}

impl Reply {
    /// Done, with what was asked for.
    #[must_use]
    pub fn done(message: impl Into<String>, data: Option<Value>) -> Self {
        Self { success: true, message: message.into(), data, repeated: false }
    }

    /// Not done, for this reason; the event is kept as answered so.
    #[must_use]
    pub fn refused(message: impl Into<String>) -> Self {
        Self { success: false, message: message.into(), data: None, repeated: false }
    }
}

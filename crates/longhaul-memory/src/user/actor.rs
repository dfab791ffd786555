//! Who changed something, and why: what the history of user memory says of each version.

use std::{fmt, str::FromStr};

use longhaul_core::UserId;
use serde::{Deserialize, Serialize};

use crate::{MemoryError, item::field};

/// Who wants, or has made, a change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Actor {
    /// A person, by their own act: a command, a button.
    Person(UserId),
    /// A model's tool call, by the agent's name.
    Agent(String),
    /// The background pass, by the name of the rule or of the model that proposed.
    Proposer(String),
    /// Longhaul itself: a conversation was deleted, a policy decided.
    System,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(user) => write!(f, "person:{user}"),
            Self::Agent(name) => write!(f, "agent:{name}"),
            Self::Proposer(name) => write!(f, "proposer:{name}"),
            Self::System => f.write_str("system"),
        }
    }
}

impl FromStr for Actor {
    type Err = MemoryError;
    fn from_str(text: &str) -> Result<Self, MemoryError> {
        let wrong = || field("actor", text, "`person:USER`, `agent:NAME`, `proposer:NAME` or `system`");
        match text.split_once(':') {
            Some(("person", user)) => user.parse().map(Self::Person).map_err(|_| wrong()),
            Some(("agent", name)) => Ok(Self::Agent(name.to_owned())),
            Some(("proposer", name)) => Ok(Self::Proposer(name.to_owned())),
            None if text == "system" => Ok(Self::System),
            Some(_) | None => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Actor {
    type Error = MemoryError;
    fn try_from(text: String) -> Result<Self, MemoryError> {
        text.parse()
    }
}

impl From<Actor> for String {
    fn from(actor: Actor) -> Self {
        actor.to_string()
    }
}

/// Who makes a change, in which conversation, and for which reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct By {
    /// Who.
    pub actor: Actor,
    /// The conversation in which it was wanted.
    pub thread: Option<String>,
    /// In a few words; kept in the history.
    pub why: String,
}

impl By {
    /// A person's own act.
    #[must_use]
    pub fn person(user: &UserId) -> Self {
        Self { actor: Actor::Person(user.clone()), thread: None, why: String::new() }
    }

    /// An agent's tool call.
    #[must_use]
    pub fn agent(name: &str, thread: Option<&str>) -> Self {
        Self { actor: Actor::Agent(name.to_owned()), thread: thread.map(str::to_owned), why: String::new() }
    }
}

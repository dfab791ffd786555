//! Who acts, and where: what a mod reads of its stage before anything else, and the answers that say no.
//!
//! Shared by the mods of forum, wiki, tasks, the social graph and shared memory. It owns no rows. Invariant: whose
//! rows are touched comes from the stage, and who acts from the event's sender, never from a payload.

use longhaul_core::{Scope, TenantId, TimeMs};
use longhaul_network::{AgentId, Event, Reply, Sender, Stage};
use serde_json::{Value, json};

/// Whose network it is: the beginning of every row's key.
#[derive(Debug, Clone)]
pub(crate) struct Here {
    pub(crate) scope: Scope,
    pub(crate) tenant: TenantId,
    pub(crate) network: String,
}

impl Here {
    pub(crate) fn of(stage: &Stage<'_, '_>) -> Self {
        let (scope, network) = stage.place();
        Self { scope: scope.clone(), tenant: scope.tenant.clone(), network: network.to_owned() }
    }
}

/// Who sent the event.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    /// As it stands in rows and in what others read.
    pub(crate) id: String,
    pub(crate) group: String,
    /// Its group has the permission `admin`: it may see and put in order what belongs to others.
    pub(crate) is_admin: bool,
    pub(crate) sender: Sender,
}

impl Actor {
    pub(crate) fn of(stage: &Stage<'_, '_>, event: &Event) -> Self {
        let is_admin = match &event.from {
            Sender::Agent(agent) => stage.may(agent, "admin"),
            Sender::Mod(_) | Sender::Network => true,
        };
        Self {
            id: event.from.to_string(),
            group: event.from_group.clone().unwrap_or_default(),
            is_admin,
            sender: event.from.clone(),
        }
    }

    /// The agent that acts; nothing for a mod or the network.
    pub(crate) fn agent(&self) -> Option<&AgentId> {
        match &self.sender {
            Sender::Agent(agent) => Some(agent),
            Sender::Mod(_) | Sender::Network => None,
        }
    }
}

/// A no with a word that programs can tell apart.
pub(crate) fn no(code: &str, message: impl Into<String>) -> Reply {
    let message = message.into();
    let data = json!({"error": message, "error_code": code});
    Reply { success: false, message, data: Some(data), repeated: false }
}

/// A no with its word and whatever the asker needs to go on.
pub(crate) fn no_with(code: &str, message: impl Into<String>, more: Value) -> Reply {
    let mut reply = no(code, message);
    if let (Some(Value::Object(data)), Value::Object(more)) = (&mut reply.data, more) {
        data.extend(more);
    }
    reply
}

/// A moment as the wire contract writes it in forum, tasks and discovery: seconds, with a fraction.
#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit exactly for 285,000 years")]
pub(crate) fn seconds(at: TimeMs) -> f64 {
    at.0 as f64 / 1000.0
}

/// A number of a mod's `config`, where there is one that makes sense.
pub(crate) fn limit_of(config: &serde_json::Map<String, Value>, key: &str, default: i64) -> i64 {
    config.get(key).and_then(Value::as_i64).filter(|limit| *limit > 0).unwrap_or(default)
}

//! The JSON of the wire: how an event, an answer and a registration are written, and how they are read.
//!
//! HTTP, server-sent events and WebSocket share it, and gRPC for the JSON within its messages. It owns the form and
//! nothing else: who a client is, is decided by the network from the secret; `source_id` only says whom it claims to be.
//! Invariant: what is written never holds a secret.

use longhaul_network::{
    Address, AgentId, AgentView, Draft, Event, ID_CHARS_MAX, Refusal, RefusalKind, Registration, Reply, Sender, Via,
    Visibility,
};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value, json};
use utoipa::{
    ToSchema,
    openapi::schema::{Array, ArrayBuilder, ObjectBuilder, SchemaType, Type},
};

/// What a client hands in: `POST /api/send_event`, an `event` frame of a WebSocket. Fields it does not know are left
/// out of account, as the SDK's versions differ in them.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = EventIn)]
pub struct EventIn {
    /// The sender's id for it: the same id again is the same event, and is answered the same. Without it one is made,
    /// and a repetition is not recognised.
    #[schema(max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    #[serde(default)]
    pub event_id: Option<String>,
    /// What happens: `thread.channel_message.post`.
    #[schema(required = true, nullable = false, max_length = 200, pattern = "^[a-z][a-z0-9_]+(\\.[a-z][a-z0-9_]+)+$")]
    #[serde(default)]
    pub event_name: Option<String>,
    /// Who sends it, as it registered. Not needed with `Authorization: Bearer AGENT_ID:SECRET`.
    #[serde(default)]
    pub source_id: Option<String>,
    /// Where it goes: an agent's name, `agent:x`, `channel:x`, `group:x`, `mod:x`, `agent:broadcast`; empty for the
    /// network itself.
    #[serde(default)]
    pub target_agent_id: Option<String>,
    /// The same under the name that events in full have.
    #[serde(default)]
    pub destination_id: Option<String>,
    /// Content.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub payload: Option<Map<String, Value>>,
    /// What is said about it.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
    /// `public`, `network`, `channel`, `direct`, `restricted` or `mod_only`.
    #[schema(pattern = "^(public|network|channel|direct|restricted|mod_only)?$")]
    #[serde(default)]
    pub visibility: Option<String>,
    /// The sender's secret.
    #[serde(default)]
    pub secret: Option<String>,
    /// The mod it concerns.
    #[schema(max_length = 200)]
    #[serde(default)]
    pub relevant_mod: Option<String>,
    /// An answer is waited for.
    #[serde(default)]
    pub requires_response: Option<bool>,
    /// The event it answers.
    #[schema(max_length = 200)]
    #[serde(default)]
    pub response_to: Option<String>,
    /// The thread it belongs to.
    #[schema(max_length = 200)]
    #[serde(default)]
    pub thread_name: Option<String>,
    /// The content for people.
    #[serde(default)]
    pub text_representation: Option<String>,
    /// Receivers, where it is restricted.
    #[serde(default)]
    pub allowed_agents: Option<Vec<String>>,
}

/// An event that was read: whom its sender claims to be, with what secret, and what is to be sent.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Whom the sender claims to be.
    pub claimed: AgentId,
    /// What it shows for it.
    pub secret: Option<String>,
    /// What is to be sent.
    pub draft: Draft,
}

/// Nobody has a name that is none, which is no other answer than that of a name that nobody has.
fn nobody(refusal: Refusal) -> Refusal {
    Refusal { kind: RefusalKind::Missing, ..refusal }
}

impl EventIn {
    /// Reads it; `fresh_id` is asked for an id where the client gave none.
    ///
    /// # Errors
    /// [`RefusalKind::Invalid`] for what cannot be read, [`RefusalKind::Forbidden`] for a source that is no agent,
    /// [`RefusalKind::Missing`] for a receiver that cannot be one.
    pub fn read(self, fresh_id: impl FnOnce() -> String) -> Result<Incoming, Refusal> {
        let present = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let (Some(name), Some(source)) = (present(self.event_name), present(self.source_id)) else {
            return Err(Refusal::invalid("event_name and source_id are required"));
        };
        if self.event_id.as_ref().is_some_and(|id| id.chars().any(char::is_control)) {
            return Err(Refusal::invalid("event_id: an id holds no control characters"));
        }
        let ids = [&self.event_id, &self.relevant_mod, &self.response_to, &self.thread_name];
        if ids.into_iter().flatten().any(|id| id.chars().nth(ID_CHARS_MAX).is_some()) {
            return Err(Refusal::invalid(format!(
                "event_id, relevant_mod, response_to and thread_name are at most {ID_CHARS_MAX} characters each"
            )));
        }
        let (name, visibility) = (name.parse()?, visibility(present(self.visibility).as_deref())?);
        // It is well formed; what follows is about whom it names.
        if source.contains(':') && !source.starts_with("agent:") {
            return Err(Refusal::forbidden("only agents send over this transport: give the agent's id as source_id"));
        }
        let target = present(self.target_agent_id).or(present(self.destination_id));
        let to = Address::parse(target.as_deref()).map_err(nobody)?;
        let id = present(self.event_id).unwrap_or_else(fresh_id);
        let mut draft = Draft::new(id, name, to, self.payload.unwrap_or_default());
        draft.metadata = self.metadata.unwrap_or_default();
        draft.visibility = visibility;
        draft.relevant_mod = present(self.relevant_mod);
        draft.requires_response = self.requires_response.unwrap_or_default();
        draft.response_to = present(self.response_to);
        draft.thread_name = present(self.thread_name);
        draft.text = present(self.text_representation);
        let allowed = self.allowed_agents.map(|all| all.iter().map(|agent| agent.parse().map_err(nobody)).collect());
        draft.allowed_agents = allowed.transpose()?;
        Ok(Incoming {
            claimed: source.parse().map_err(|wrong: Refusal| Refusal::forbidden(wrong.message))?,
            secret: present(self.secret),
            draft,
        })
    }
}

/// Reads who may see an event.
///
/// # Errors
/// [`RefusalKind::Invalid`] for a word that is none.
pub fn visibility(word: Option<&str>) -> Result<Visibility, Refusal> {
    Ok(match word {
        None | Some("network") => Visibility::Network,
        Some("public") => Visibility::Public,
        Some("channel") => Visibility::Channel,
        Some("direct") => Visibility::Direct,
        Some("restricted") => Visibility::Restricted,
        Some("mod_only") => Visibility::ModOnly,
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            return Err(Refusal::invalid(format!(
                "visibility {shown:?}: write public, network, channel, direct, restricted or mod_only"
            )));
        }
    })
}

pub(crate) fn visibility_word(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Public => "public",
        Visibility::Network => "network",
        Visibility::Channel => "channel",
        Visibility::Direct => "direct",
        Visibility::Restricted => "restricted",
        Visibility::ModOnly => "mod_only",
    }
}

/// An event as it is delivered, in the full form of the contract.
#[derive(Debug, Clone, Copy)]
pub struct EventOut<'a>(pub &'a Event);

/// The source as the wire writes it.
#[must_use]
pub fn source(from: &Sender) -> String {
    from.to_string()
}

/// The destination as the wire writes it: an agent's name stands alone.
#[must_use]
pub fn destination(to: &Address) -> String {
    match to {
        Address::Agent(agent) => agent.to_string(),
        Address::Channel(_) | Address::Group(_) | Address::Mod(_) | Address::Everybody | Address::System => {
            to.to_string()
        }
    }
}

impl Serialize for EventOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = self.0;
        let mut map = serializer.serialize_map(Some(17))?;
        map.serialize_entry("event_name", event.name.as_str())?;
        map.serialize_entry("source_id", &source(&event.from))?;
        map.serialize_entry("event_id", &event.id)?;
        map.serialize_entry("timestamp", &event.at.0.div_euclid(1000))?;
        let source_type = if matches!(event.from, Sender::Agent(_)) { "agent" } else { "mod" };
        map.serialize_entry("source_type", source_type)?;
        map.serialize_entry("destination_id", &destination(&event.to))?;
        map.serialize_entry("relevant_mod", &event.relevant_mod)?;
        map.serialize_entry("requires_response", &event.requires_response)?;
        map.serialize_entry("response_to", &event.response_to)?;
        map.serialize_entry("thread_name", &event.thread_name)?;
        map.serialize_entry("payload", &event.payload)?;
        map.serialize_entry("metadata", &event.metadata)?;
        map.serialize_entry("text_representation", &event.text)?;
        map.serialize_entry("visibility", visibility_word(event.visibility))?;
        let allowed = event.allowed_agents.as_ref();
        map.serialize_entry("allowed_agents", &allowed.map(|all| all.iter().map(AgentId::as_str).collect::<Vec<_>>()))?;
        map.serialize_entry("secret", &None::<&str>)?;
        map.serialize_entry("source_agent_group", &event.from_group)?;
        map.end()
    }
}

/// The event as a value, for transports that put it into something larger.
#[must_use]
pub fn event(event: &Event) -> Value {
    serde_json::to_value(EventOut(event)).unwrap_or_default()
}

/// The answer to an event.
#[must_use]
pub fn reply(event_id: &str, event_name: &str, reply: &Reply) -> Value {
    let mut told = json!({
        "success": reply.success,
        "message": reply.message,
        "event_id": event_id,
        "data": reply.data,
        "event_name": event_name,
    });
    if reply.repeated {
        told["repeated"] = true.into();
    }
    told
}

/// The answer to an event that was not admitted. `error_code` is stable, the message is for people.
#[must_use]
pub fn refused(event_id: Option<&str>, event_name: Option<&str>, refusal: &Refusal) -> Value {
    json!({
        "success": false,
        "message": told(refusal),
        "event_id": event_id,
        "data": null,
        "event_name": event_name,
        "error_message": told(refusal),
        "error_code": code(refusal.kind),
    })
}

/// The words for a refusal. One for whoever is not known is always the same, and the one that clients look for.
#[must_use]
pub fn told(refusal: &Refusal) -> String {
    match refusal.kind {
        RefusalKind::Unauthenticated => UNAUTHENTICATED.to_owned(),
        RefusalKind::Invalid
        | RefusalKind::Forbidden
        | RefusalKind::Missing
        | RefusalKind::Conflict
        | RefusalKind::TooLarge
        | RefusalKind::TooMany
        | RefusalKind::TimedOut
        | RefusalKind::Unavailable => refusal.message.clone(),
    }
}

/// What somebody is told who shows no secret or a wrong one.
pub const UNAUTHENTICATED: &str = "Authentication failed: Invalid or missing secret";

/// The stable name of a kind of refusal.
#[must_use]
pub fn code(kind: RefusalKind) -> &'static str {
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

/// What somebody says who wants to come in: `POST /api/register`, a `register` frame of a WebSocket.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = RegisterIn)]
pub struct RegisterIn {
    /// The wanted name: letters, digits and any of `-_.@+~`.
    #[schema(required = true, nullable = false, pattern = "^(agent:)?[\\w.@+~-]{1,200}$")]
    #[serde(default)]
    pub agent_id: Option<String>,
    /// Said about itself; shown to others.
    #[schema(value_type = Option<Object>)]
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
    /// What it can do.
    #[schema(schema_with = described_capabilities)]
    #[serde(default)]
    pub capabilities: Option<Vec<String>>,
    /// The group's credential: the hexadecimal SHA-256 of its password.
    #[serde(default)]
    pub password_hash: Option<String>,
    /// The wanted group.
    #[serde(default)]
    pub agent_group: Option<String>,
    /// The secret of an earlier registration, which makes this a return.
    #[serde(default)]
    pub secret: Option<String>,
}

/// What an agent can do, as it is described.
fn described_capabilities() -> Array {
    let one = ObjectBuilder::new().schema_type(Type::String).max_length(Some(200));
    let several = SchemaType::from_iter([Type::Array, Type::Null]);
    ArrayBuilder::new().schema_type(several).items(one).max_items(Some(256)).build()
}

impl RegisterIn {
    /// Reads it. Capabilities may also stand in `metadata.capabilities`, where the SDK puts them.
    ///
    /// # Errors
    /// [`RefusalKind::Invalid`] without a name, or with one that is none.
    pub fn read(self, via: Via) -> Result<Registration, Refusal> {
        let present = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let agent = present(self.agent_id).ok_or_else(|| Refusal::invalid("agent_id is required"))?;
        let mut registration = Registration::new(agent.parse()?, via);
        registration.metadata = self.metadata.unwrap_or_default();
        registration.capabilities = self.capabilities.unwrap_or_else(|| {
            let said = registration.metadata.get("capabilities").and_then(Value::as_array);
            said.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        });
        registration.credential = present(self.password_hash).unwrap_or_default();
        registration.group = present(self.agent_group);
        registration.secret = present(self.secret);
        Ok(registration)
    }
}

/// An agent as strangers see it.
#[must_use]
pub fn agent(view: &AgentView) -> Value {
    json!({
        "capabilities": view.capabilities,
        "last_seen": view.last_seen.0 as f64 / 1000.0,
        "transport_type": view.via.as_str(),
        "address": null,
        "group": view.group,
    })
}

#[cfg(test)]
mod tests;

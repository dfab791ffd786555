//! How a network is reachable over A2A.

use std::time::Duration;

use longhaul_network::{AgentId, settings::NetworkSettings};
use serde_json::{Map, Value};
use tonic::Code;

/// Which release's table of HTTP and gRPC statuses errors follow. Clients tell errors apart by their `ErrorInfo`, which
/// is the same in both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Statuses {
    /// Release 1.0.1: `FAILED_PRECONDITION` and 400 for what the state of things does not allow.
    #[default]
    V1_0_1,
    /// Release 1.0.0, which the compatibility kit of that time tests: `UNIMPLEMENTED`, 409 and 415.
    V1_0_0,
}

impl Statuses {
    pub(crate) fn pick(self, now: (Code, u16), before: Option<(Code, u16)>) -> (Code, u16) {
        match self {
            Self::V1_0_1 => now,
            Self::V1_0_0 => before.unwrap_or(now),
        }
    }
}

/// Settings of the three bindings. Start from [`A2aSettings::default`] or [`A2aSettings::read`].
#[derive(Debug, Clone)]
pub struct A2aSettings {
    /// Where clients reach the HTTP port, as in `https://agents.example.com`; without it what they wrote as `Host`.
    pub public_url: Option<String>,
    /// The HTTP port speaks TLS.
    pub encrypted: bool,
    /// Where clients reach the gRPC port, as in `agents.example.com:8600`; without it gRPC is not on the card, unless
    /// [`Self::grpc_port`] is.
    pub grpc_address: Option<String>,
    /// The gRPC port on the host that clients wrote as `Host`.
    pub grpc_port: Option<u16>,
    /// The network's name on its card, where it is not the network's own.
    pub name: Option<String>,
    /// The network's description on its card.
    pub description: Option<String>,
    /// Who answers for the network as a whole. Without it only its agents can be spoken to.
    pub coordinator: Option<AgentId>,
    /// Whoever shows this token is let in, as one caller that all who have it share.
    pub token: Option<String>,
    /// Anybody is let in, as one caller. For a network that only this machine reaches.
    pub anybody: bool,
    /// The group of callers who are let in by token or as anybody; without it the network's default group.
    pub group: Option<String>,
    /// Streams are offered.
    pub streaming: bool,
    /// Webhooks are offered.
    pub push: bool,
    /// Webhooks may go to this machine, and unencrypted: for a network that only this machine reaches.
    pub push_to_this_machine: bool,
    /// The extended card is offered.
    pub extended_card: bool,
    /// Media types that agents here read: `text/*` for all of a kind, `*/*` for all, as a network does not know what its
    /// agents make of what they get.
    pub input_modes: Vec<String>,
    /// Extensions (by URI) that every client has to name.
    pub required_extensions: Vec<String>,
    /// How long a call that waits for its task is held; then it is answered with the task as it is.
    pub wait_max: Duration,
    /// Largest body of a request, bytes.
    pub body_bytes_max: usize,
    /// Streams at once.
    pub streams_max: usize,
    /// How long tasks that have ended are kept.
    pub kept: Duration,
    /// Which table of statuses errors follow.
    pub statuses: Statuses,
}

impl Default for A2aSettings {
    fn default() -> Self {
        Self {
            public_url: None,
            encrypted: false,
            grpc_address: None,
            grpc_port: None,
            name: None,
            description: None,
            coordinator: None,
            token: None,
            anybody: false,
            group: None,
            streaming: true,
            push: true,
            push_to_this_machine: false,
            extended_card: true,
            input_modes: ["text/plain", "application/json", "*/*"].map(str::to_owned).to_vec(),
            required_extensions: Vec::new(),
            wait_max: Duration::from_secs(300),
            body_bytes_max: 8 * 1024 * 1024,
            streams_max: 1_000,
            kept: Duration::from_secs(30 * 24 * 60 * 60),
            statuses: Statuses::default(),
        }
    }
}

impl A2aSettings {
    /// What `network.yaml` says: the transport `a2a`, `external_access`, and the agent of type `coordinator`. The second part are notices for people: what was not understood, what was not done.
    #[must_use]
    pub fn read(network: &NetworkSettings) -> (Self, Vec<String>) {
        let (mut settings, mut notices) = (Self::default(), Vec::new());
        let of = |kind: &str| network.transports.iter().find(|(found, _)| found == kind).map(|(_, config)| config);
        settings.body_bytes_max = network.message_bytes_max.saturating_mul(2).max(64 * 1024);
        settings.grpc_port = of("grpc").map(|config| port(config).unwrap_or(8_600)).filter(|port| *port != 0);
        // Without TLS a network is reachable from this machine only.
        let tls = of("http").and_then(|config| config.get("tls")).filter(|tls| !tls.is_null());
        settings.encrypted = tls.is_some_and(|tls| tls["enabled"] != Value::Bool(false));
        let inside = !settings.encrypted;
        settings.push_to_this_machine = inside;
        settings.coordinator = coordinator(&network.rest);
        if let Some(config) = of("a2a") {
            settings.take(config, inside, &mut notices);
        }
        if let Some(Value::Object(access)) = network.rest.get("external_access") {
            settings.group = text(access, "default_agent_group");
            settings.token = text(access, "auth_token").filter(|token| !token.is_empty()).or_else(|| {
                let variable = text(access, "auth_token_env")?;
                std::env::var(&variable).ok().filter(|token| !token.is_empty()).or_else(|| {
                    notices.push(format!(
                        "external_access.auth_token_env: {variable} is not set; nobody is let in by token"
                    ));
                    None
                })
            });
        }
        (settings, notices)
    }

    fn take(&mut self, config: &Map<String, Value>, inside: bool, notices: &mut Vec<String>) {
        self.public_url = text(config, "public_url").map(|url| url.trim_end_matches('/').to_owned());
        self.grpc_address = text(config, "grpc_address");
        if let Some(Value::Object(agent)) = config.get("agent") {
            self.name = text(agent, "name");
            self.description = text(agent, "description");
        }
        if let Some(named) = text(config, "coordinator") {
            match named.parse() {
                Ok(agent) => self.coordinator = Some(agent),
                Err(refusal) => notices.push(format!("transports.a2a.config.coordinator: {refusal}")),
            }
        }
        let kind = match config.get("a2a_auth") {
            Some(Value::Object(auth)) => text(auth, "type"),
            Some(Value::String(kind)) => Some(kind.clone()),
            _ => None,
        };
        match kind.as_deref() {
            Some("none") if inside => self.anybody = true,
            Some("none") => notices.push(
                "transports.a2a.config.a2a_auth: `none` is for networks that only this machine reaches; callers have to \
                 show AGENT_ID:SECRET or the token of external_access"
                    .to_owned(),
            ),
            None | Some("bearer" | "token") => {}
            Some(other) => notices.push(format!(
                "transports.a2a.config.a2a_auth: {other:?} is not known; callers have to show AGENT_ID:SECRET or the \
                 token of external_access"
            )),
        }
    }
}

fn text(config: &Map<String, Value>, key: &str) -> Option<String> {
    config.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn port(config: &Map<String, Value>) -> Option<u16> {
    config.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok())
}

fn coordinator(rest: &Map<String, Value>) -> Option<AgentId> {
    let agents = rest.get("agents")?.as_object()?;
    let (name, _) = agents.iter().find(|(_, agent)| agent["type"] == "coordinator")?;
    name.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(http: Value, a2a: Value, rest: Value) -> (A2aSettings, Vec<String>) {
        let map = |value: Value| value.as_object().cloned().unwrap();
        let mut network = NetworkSettings::named("n");
        network.transports = vec![("http".to_owned(), map(http)), ("a2a".to_owned(), map(a2a))];
        network.rest = map(rest);
        A2aSettings::read(&network)
    }

    #[test]
    fn nobody_is_let_in_without_a_credential_from_other_machines() {
        let none = json!({ "a2a_auth": { "type": "none" } });
        let (inside, notices) = read(json!({}), none.clone(), json!({}));
        assert!(inside.anybody && inside.push_to_this_machine && notices.is_empty());
        let (outside, notices) = read(json!({ "tls": { "enabled": true } }), none, json!({}));
        assert!(!outside.anybody && !outside.push_to_this_machine && outside.encrypted);
        assert_eq!(notices.len(), 1);
        assert!(!read(json!({}), json!({}), json!({})).0.anybody);
        assert_eq!(read(json!({}), json!({ "a2a_auth": "kerberos" }), json!({})).1.len(), 1);
    }

    #[test]
    fn the_coordinator_and_the_token_are_found() {
        let rest = json!({
            "agents": { "planner": { "type": "coordinator" }, "milvus": { "type": "expert" } },
            "external_access": { "auth_token": "t", "default_agent_group": "guest" },
        });
        let (settings, _) = read(json!({}), json!({}), rest.clone());
        assert_eq!(settings.coordinator.as_ref().map(AgentId::as_str), Some("planner"));
        assert_eq!((settings.token.as_deref(), settings.group.as_deref()), (Some("t"), Some("guest")));
        let (named, _) = read(json!({}), json!({ "coordinator": "milvus" }), rest);
        assert_eq!(named.coordinator.as_ref().map(AgentId::as_str), Some("milvus"));
        let (_, notices) =
            read(json!({}), json!({}), json!({ "external_access": { "auth_token_env": "LONGHAUL_NO_SUCH" } }));
        assert_eq!(notices.len(), 1);
        assert!(read(json!({}), json!({}), json!({ "external_access": { "auth_token": "" } })).0.token.is_none());
    }
}

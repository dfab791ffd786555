//! Cards: what a network and each of its agents say of themselves (specification, section 8).
//!
//! Invariant: a card names only what is offered; who takes part is on the extended card, for those who have shown who
//! they are.

use std::collections::HashMap;

use longhaul_network::{AgentId, AgentView};
use serde_json::Value;

use crate::{
    check::{EVENT_EXTENSION, ONCE_EXTENSION},
    error::A2aError,
    service::{Call, Service},
    wire::v1::{
        AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill, HttpAuthSecurityScheme,
        SecurityRequirement, SecurityScheme, StringList, security_scheme,
    },
};

/// Agents on the extended card of a network.
const AGENTS_MAX: usize = 200;
/// What agents answer with.
const OUTPUT_MODES: [&str; 2] = ["text/plain", "application/json"];

/// Where the client has reached us.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reached {
    /// What it wrote as `Host`.
    pub(crate) host: Option<String>,
}

impl Service {
    /// The card of the network, or of one agent.
    pub(crate) fn card(&self, agent: Option<&AgentId>, reached: &Reached) -> Result<AgentCard, A2aError> {
        match agent {
            None => Ok(self.network_card(reached)),
            Some(agent) => {
                let view = self.network.agent(agent).ok_or_else(|| A2aError::NoAgent(agent.to_string()))?;
                Ok(self.agent_card(&view, reached))
            }
        }
    }

    /// `GetExtendedAgentCard` (3.1.11).
    pub(crate) fn extended_card(&self, call: &Call, reached: &Reached) -> Result<AgentCard, A2aError> {
        if !self.settings.extended_card {
            return Err(A2aError::Unsupported("there is no extended card here: read the card itself".to_owned()));
        }
        let mut card = self.card(call.agent.as_ref(), reached)?;
        if call.agent.is_none() {
            let agents = self.network.agents(&[]);
            card.skills.extend(agents.iter().take(AGENTS_MAX).map(skill));
        }
        Ok(card)
    }

    fn network_card(&self, reached: &Reached) -> AgentCard {
        let view = self.network.view();
        let said = |key: &str| view.settings.profile.get(key).and_then(Value::as_str).map(str::to_owned);
        let description = self.settings.description.clone().or_else(|| said("description"));
        let mut skills = vec![match &self.settings.coordinator {
            Some(coordinator) => AgentSkill {
                id: "coordinate".to_owned(),
                name: "Coordinate".to_owned(),
                description: format!("{coordinator} takes messages for the network and brings in its agents"),
                tags: vec!["agents".to_owned(), "coordination".to_owned()],
                ..AgentSkill::default()
            },
            None => AgentSkill {
                id: "agents".to_owned(),
                name: "Agents".to_owned(),
                description: "Each agent of the network is reached at its own address".to_owned(),
                tags: vec!["agents".to_owned()],
                ..AgentSkill::default()
            },
        }];
        if let Some(view) = self.settings.coordinator.as_ref().and_then(|agent| self.network.agent(agent)) {
            skills.extend(capabilities(&view));
        }
        AgentCard {
            name: self.settings.name.clone().unwrap_or_else(|| view.name.clone()),
            description: description.unwrap_or_else(|| format!("The agent network {}", view.name)),
            icon_url: said("icon"),
            documentation_url: said("website"),
            skills,
            ..self.common(None, reached)
        }
    }

    fn agent_card(&self, view: &AgentView, reached: &Reached) -> AgentCard {
        let mut skills: Vec<AgentSkill> = capabilities(view).collect();
        if skills.is_empty() {
            skills.push(skill(view));
        }
        AgentCard {
            name: said(view, "name").unwrap_or_else(|| view.agent.to_string()),
            description: said(view, "description").unwrap_or_else(|| format!("The agent {}", view.agent)),
            skills,
            ..self.common(Some(&view.agent), reached)
        }
    }

    fn common(&self, agent: Option<&AgentId>, reached: &Reached) -> AgentCard {
        let required = self.settings.required_extensions.iter();
        let mut extensions: Vec<AgentExtension> = required
            .map(|uri| AgentExtension { uri: uri.clone(), required: true, ..AgentExtension::default() })
            .collect();
        extensions.push(AgentExtension {
            uri: EVENT_EXTENSION.to_owned(),
            description:
                "a message with one data part of the type application/vnd.longhaul.event+json is sent as that \
                          event of the network, and answered with its reply"
                    .to_owned(),
            ..AgentExtension::default()
        });
        extensions.push(AgentExtension {
            uri: ONCE_EXTENSION.to_owned(),
            description: "for clients that name it a message that is sent again with the same messageId is the same \
                          message: nothing is done twice, and the answer is about the same task"
                .to_owned(),
            ..AgentExtension::default()
        });
        let scheme = HttpAuthSecurityScheme {
            description: "AGENT_ID:SECRET of a member of this network, or the token it gives to outside callers"
                .to_owned(),
            scheme: "Bearer".to_owned(),
            bearer_format: String::new(),
        };
        let scheme = SecurityScheme { scheme: Some(security_scheme::Scheme::HttpAuthSecurityScheme(scheme)) };
        let schemes = HashMap::from([("bearer".to_owned(), StringList::default())]);
        let needed = if self.settings.anybody { Vec::new() } else { vec![SecurityRequirement { schemes }] };
        AgentCard {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            supported_interfaces: self.interfaces(agent, reached),
            capabilities: Some(AgentCapabilities {
                streaming: Some(self.settings.streaming),
                push_notifications: Some(self.settings.push),
                extended_agent_card: Some(self.settings.extended_card),
                extensions,
            }),
            security_schemes: HashMap::from([("bearer".to_owned(), scheme)]),
            security_requirements: needed,
            default_input_modes: self.settings.input_modes.clone(),
            default_output_modes: OUTPUT_MODES.map(str::to_owned).to_vec(),
            ..AgentCard::default()
        }
    }

    fn interfaces(&self, agent: Option<&AgentId>, reached: &Reached) -> Vec<AgentInterface> {
        let scheme = if self.settings.encrypted { "https" } else { "http" };
        let host = reached.host.clone().unwrap_or_else(|| "localhost".to_owned());
        let base = self.settings.public_url.clone().unwrap_or_else(|| format!("{scheme}://{host}"));
        let path = agent.map_or_else(|| "/a2a".to_owned(), |agent| format!("/a2a/agents/{}", escaped(agent.as_str())));
        let of = |binding: &str, url: String, version: &str| AgentInterface {
            url,
            protocol_binding: binding.to_owned(),
            protocol_version: version.to_owned(),
            tenant: String::new(),
        };
        let mut interfaces =
            vec![of("JSONRPC", format!("{base}{path}"), "1.0"), of("HTTP+JSON", format!("{base}{path}/rest"), "1.0")];
        let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
        let grpc = self.settings.grpc_address.clone();
        if let Some(address) = grpc.or_else(|| self.settings.grpc_port.map(|port| format!("{name}:{port}"))) {
            let tenant = agent.map(ToString::to_string).unwrap_or_default();
            interfaces.push(AgentInterface { tenant, ..of("GRPC", address, "1.0") });
        }
        interfaces.push(of("JSONRPC", format!("{base}{path}"), "0.3"));
        interfaces
    }
}

/// A path segment of this text.
fn escaped(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~@+".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

fn said(view: &AgentView, key: &str) -> Option<String> {
    view.metadata.get(key).and_then(Value::as_str).filter(|said| !said.is_empty()).map(str::to_owned)
}

/// An agent as a skill of its network.
fn skill(view: &AgentView) -> AgentSkill {
    AgentSkill {
        id: view.agent.to_string(),
        name: said(view, "name").unwrap_or_else(|| view.agent.to_string()),
        description: said(view, "description").unwrap_or_else(|| format!("Speak to the agent {}", view.agent)),
        tags: match view.capabilities.is_empty() {
            true => vec!["agent".to_owned()],
            false => view.capabilities.iter().cloned().collect(),
        },
        ..AgentSkill::default()
    }
}

/// What an agent can do, a skill each.
fn capabilities(view: &AgentView) -> impl Iterator<Item = AgentSkill> + '_ {
    view.capabilities.iter().map(|capability| AgentSkill {
        id: capability.clone(),
        name: capability.clone(),
        description: said(view, "description").unwrap_or_else(|| format!("{} of the agent {}", capability, view.agent)),
        tags: vec![capability.clone()],
        ..AgentSkill::default()
    })
}

//! Whose rows, and who asks: what every mod's statements and checks begin with.

use longhaul_core::TenantId;
use longhaul_network::{AgentId, Event, Refusal, Sender, Stage};

/// The first two columns of every row.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) tenant: TenantId,
    pub(crate) network: String,
}

impl Place {
    pub(crate) fn of(stage: &Stage<'_, '_>) -> Self {
        let (scope, network) = stage.place();
        Self { tenant: scope.tenant.clone(), network: network.to_owned() }
    }
}

/// The agent an event comes from.
///
/// # Errors
/// That it comes from no agent.
pub(crate) fn asker(event: &Event) -> Result<&AgentId, Refusal> {
    match &event.from {
        Sender::Agent(agent) => Ok(agent),
        Sender::Mod(_) | Sender::Network => Err(Refusal::forbidden("only agents take part here: send it as one")),
    }
}

/// The asker's group; empty where there is none.
pub(crate) fn group(event: &Event) -> &str {
    event.from_group.as_deref().unwrap_or_default()
}

//! An agent's connection to a network: the network of this process, or one behind a wire.
//!
//! It owns how an agent sends and receives, whatever lies between. Invariants: an event that was received is received
//! again after a crash, unless a later [`Link::receive`] has taken note of it; a draft sent twice is one event.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use longhaul_core::ToolSpec;
use longhaul_network::{
    Address, AgentId, Draft, Event, Inbox, Member, Network, Refusal, RefusalKind, Registration, Reply, Via,
};
use tokio::sync::Mutex;

/// A mod's event as a tool.
#[derive(Debug, Clone)]
pub struct NetworkTool {
    /// As the model sees it.
    pub spec: ToolSpec,
    /// The event that a call becomes.
    pub event: String,
    /// The mod that answers it.
    pub module: String,
    /// The argument that names the destination; none for the mod.
    pub destination: Option<String>,
}

impl NetworkTool {
    /// Where a call with these arguments goes.
    ///
    /// # Errors
    /// When the argument that names the destination is missing, or names nothing.
    pub fn address(&self, arguments: &serde_json::Map<String, serde_json::Value>) -> Result<Address, Refusal> {
        let Some(argument) = &self.destination else { return Ok(Address::Mod(self.module.clone())) };
        let named = arguments.get(argument).and_then(serde_json::Value::as_str).filter(|name| !name.is_empty());
        let named = named.ok_or_else(|| Refusal::invalid(format!("`{argument}` is missing: it says where to")))?;
        let kind = if argument.contains("channel") {
            "channel:"
        } else if argument.contains("group") {
            "group:"
        } else {
            ""
        };
        let text = if named.contains(':') { named.to_owned() } else { format!("{kind}{named}") };
        Address::parse(Some(&text))
    }
}

/// One agent's connection.
#[async_trait]
pub trait Link: Send + Sync + fmt::Debug + 'static {
    /// Who it is.
    fn agent(&self) -> &AgentId;

    /// The id of the network.
    fn network(&self) -> &str;

    /// Sends. The same id again is answered the same, and nothing happens twice.
    ///
    /// # Errors
    /// What could not be admitted, or was not answered.
    async fn send(&self, draft: Draft) -> Result<Reply, Refusal>;

    /// The next events, at most `max`; waits at most `wait` for the first. Takes note that what the call before gave is
    /// safe.
    ///
    /// # Errors
    /// When the secret has been replaced, or the network cannot be reached.
    async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Arc<Event>>, Refusal>;

    /// The mods' events that models may call; empty where that is not known.
    fn tools(&self) -> Vec<NetworkTool> {
        Vec::new()
    }

    /// Leaves for good: queue and memberships end.
    ///
    /// # Errors
    /// When the network could not be told.
    async fn leave(&self) -> Result<(), Refusal>;
}

/// A connection to the network of this process.
#[derive(Debug)]
pub struct LocalLink {
    network: Network,
    id: String,
    member: Member,
    inbox: Mutex<(Inbox, i64)>,
}

impl LocalLink {
    /// Joins; the secret is for a return after a restart.
    ///
    /// # Errors
    /// Those of [`Network::register`].
    pub async fn join(network: &Network, registration: Registration) -> Result<(Self, String), Refusal> {
        let registered = network.register(Registration { via: Via::InProcess, ..registration }).await?;
        Ok((Self::of(network, registered.member)?, registered.secret))
    }

    /// For a member who has come in already.
    ///
    /// # Errors
    /// [`RefusalKind::Unauthenticated`] when its secret has been replaced.
    pub fn of(network: &Network, member: Member) -> Result<Self, Refusal> {
        let inbox = network.inbox(&member, None)?;
        let id = network.id().to_owned();
        Ok(Self { network: network.clone(), id, member, inbox: Mutex::new((inbox, 0)) })
    }

    /// Who takes part.
    #[must_use]
    pub fn member(&self) -> &Member {
        &self.member
    }
}

#[async_trait]
impl Link for LocalLink {
    fn agent(&self) -> &AgentId {
        self.member.agent()
    }

    fn network(&self) -> &str {
        &self.id
    }

    async fn send(&self, draft: Draft) -> Result<Reply, Refusal> {
        self.network.send(&self.member, draft).await
    }

    async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Arc<Event>>, Refusal> {
        self.network.touch(&self.member)?;
        let mut held = self.inbox.lock().await;
        let (inbox, given) = &mut *held;
        if *given > 0 {
            inbox.acknowledge(*given);
        }
        let received = inbox.next(max, wait).await?;
        if !received.events.is_empty() {
            *given = received.cursor;
        }
        Ok(received.events)
    }

    fn tools(&self) -> Vec<NetworkTool> {
        let manifests = self.network.mods().iter().map(|module| module.manifest());
        let tools = manifests.flat_map(|manifest| {
            let module = manifest.name;
            manifest.answers.into_iter().filter_map(move |event| {
                let tool = event.tool?;
                let spec = ToolSpec { name: tool.name, description: event.description, parameters: event.payload };
                let event = event.pattern.as_str().to_owned();
                Some(NetworkTool { spec, event, module: module.clone(), destination: tool.destination })
            })
        });
        tools.collect()
    }

    async fn leave(&self) -> Result<(), Refusal> {
        self.network.unregister(&self.member).await
    }
}

/// Whether trying again may help.
#[must_use]
pub fn may_pass(refusal: &Refusal) -> bool {
    matches!(refusal.kind, RefusalKind::Unavailable | RefusalKind::TimedOut | RefusalKind::TooMany)
}

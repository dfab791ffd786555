//! The port for mods: what answers events, writes rows of its own and emits further events.
//!
//! A mod sees an event three times: [`Mod::prepare`] before the transaction, for what takes time (a blob's fsync, an
//! embedding); [`Mod::apply`] within it, where rows are read and written and events emitted; [`Mod::observe`] after it,
//! for what may happen later. All of the second is one transaction with the event's own row.

use std::{any::Any, fmt, sync::Arc};

use async_trait::async_trait;
use longhaul_core::TimeMs;
use longhaul_store::Tx;
use serde_json::{Map, Value};

use crate::{Address, AgentId, Event, EventName, Network, Pattern, Refusal, Reply, Sender, sending::Made};

/// What a mod is and offers; shown by `list_mods`, in docs and as MCP tools.
#[derive(Debug, Clone, Default)]
pub struct Manifest {
    /// `openagents.mods.workspace.messaging`.
    pub name: String,
    /// Other names under which a `network.yaml` may ask for it.
    pub aliases: Vec<String>,
    /// Of its events' shapes.
    pub version: String,
    /// One sentence.
    pub description: String,
    /// What agents can do with it.
    pub capabilities: Vec<String>,
    /// The events it answers.
    pub answers: Vec<ModEvent>,
    /// The notices it emits: name and what it says.
    pub emits: Vec<(String, String)>,
    /// The events it wants to see after they were committed.
    pub observes: Vec<Pattern>,
}

/// One event that a mod answers.
#[derive(Debug, Clone)]
pub struct ModEvent {
    /// Its name, or a beginning with `*`.
    pub pattern: Pattern,
    /// What it does, for people and models.
    pub description: String,
    /// JSON Schema of the payload (an object).
    pub payload: Value,
    /// It changes nothing: answered from a snapshot, and not kept in the log.
    pub reads_only: bool,
    /// The tool under which models call it, where they may.
    pub tool: Option<ModTool>,
}

/// A mod's event as a tool: the arguments are its payload.
#[derive(Debug, Clone)]
pub struct ModTool {
    /// `send_channel_message`.
    pub name: String,
    /// The argument that names the destination, as in `channel` → `channel:general`; none for the mod itself.
    pub destination: Option<String>,
}

/// Something that [`Mod::prepare`] made for [`Mod::apply`].
#[derive(Default)]
pub struct Prepared(pub Option<Box<dyn Any + Send>>);

impl Prepared {
    /// With this.
    pub fn with<T: Any + Send>(value: T) -> Self {
        Self(Some(Box::new(value)))
    }

    /// What was prepared, if it is of this type.
    #[must_use]
    pub fn take<T: Any>(self) -> Option<T> {
        self.0?.downcast::<T>().ok().map(|value| *value)
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Prepared").field(&self.0.is_some()).finish()
    }
}

/// What a mod made of an event.
#[derive(Debug)]
pub enum Outcome {
    /// Not mine: the next mod sees it, and without one it is delivered to its destination.
    Pass,
    /// Answered; nobody else sees it but for what was emitted.
    Answer(Reply),
    /// Seen and noted: it is delivered to its destination, and answered with this.
    Deliver(Reply),
}

/// A mod that runs in this process. An external one is an agent whose group has the permission `mod`.
#[async_trait]
pub trait Mod: Send + Sync + fmt::Debug + 'static {
    /// What it is. Called once, at the start.
    fn manifest(&self) -> Manifest;

    /// Before the transaction: whatever takes time or does I/O.
    ///
    /// # Errors
    /// A refusal is the answer; nothing is written.
    async fn prepare(&self, _backstage: &Backstage, _event: &Event) -> Result<Prepared, Refusal> {
        Ok(Prepared::default())
    }

    /// Within the event's transaction (a snapshot for what reads only). Must not block on anything else.
    ///
    /// # Errors
    /// A refusal undoes everything that was written for this event, and is the answer.
    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Outcome, Refusal>;

    /// After the commit, for events that the manifest observes: in the order of the log, at least once each, from a
    /// cursor that survives restarts. An error is tried again with growing pauses, a few times, then noted and passed.
    ///
    /// # Errors
    /// Whatever kept it from doing its work.
    async fn observe(&self, _backstage: &Backstage, _event: &Arc<Event>) -> Result<(), Refusal> {
        Ok(())
    }

    /// Several times a second while the network is open: what time alone brings, such as a deadline. It should know
    /// without reading rows that there is nothing to do. An error is noted, and the next tick comes all the same.
    ///
    /// # Errors
    /// Whatever kept it from doing its work.
    async fn tick(&self, _backstage: &Backstage) -> Result<(), Refusal> {
        Ok(())
    }
}

/// What a mod reaches outside of transactions.
#[derive(Debug, Clone)]
pub struct Backstage {
    /// The network, to emit events as the mod ([`Network::emit`]) and to read what is known of agents.
    pub network: Network,
    /// The mod's name.
    pub name: Arc<str>,
    /// The mod's `config` of `network.yaml`.
    pub config: Arc<Map<String, Value>>,
}

/// Where an event is being handled: its transaction, and what the network knows.
///
/// In an event that reads only [`Self::tx`] refuses to write.
pub struct Stage<'a, 'tx> {
    pub(crate) tx: &'a mut Tx<'tx>,
    pub(crate) network: &'a Network,
    pub(crate) name: &'a str,
    pub(crate) config: &'a Map<String, Value>,
    pub(crate) now: TimeMs,
    /// The number that the first row of this transaction will have.
    pub(crate) first: i64,
    pub(crate) event: &'a Event,
    pub(crate) made: &'a mut Made,
}

/// An event on its way into the log.
#[derive(Debug)]
pub(crate) struct Emitted {
    pub(crate) id: String,
    pub(crate) name: EventName,
    pub(crate) from: Sender,
    pub(crate) to: Address,
    pub(crate) payload: Map<String, Value>,
    /// It is the row of the sender's event itself.
    pub(crate) is_origin: bool,
    pub(crate) allowed_agents: Option<Vec<AgentId>>,
    pub(crate) response_to: Option<String>,
}

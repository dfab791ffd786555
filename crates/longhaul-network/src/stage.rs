//! What a mod may do while an event is handled: rows of its own, further events, channels.
//!
//! Invariant: all of it is the event's transaction; a mod cannot say anything as somebody who did not send the event.

use longhaul_core::{Scope, TimeMs};
use longhaul_store::{ReadTx, Tx};
use serde_json::{Map, Value};

use crate::{
    Address, AgentId, AgentView, Refusal, Sender, Stage, mods::Emitted, opening, registry::Change, sending::distinct,
};

impl<'tx> Stage<'_, 'tx> {
    /// The transaction, for the mod's own rows. Every row carries the network's tenant and id.
    pub fn tx(&mut self) -> &mut Tx<'tx> {
        self.tx
    }

    /// Reading only.
    #[must_use]
    pub fn rows(&self) -> ReadTx<'_> {
        **self.tx
    }

    /// Whose network it is, and its id: the key of every row.
    #[must_use]
    pub fn place(&self) -> (&Scope, &str) {
        (&self.network.0.scope, &self.network.0.key.network)
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> TimeMs {
        self.now
    }

    /// A fresh id.
    #[must_use]
    pub fn new_id(&self) -> String {
        self.network.new_id()
    }

    /// The mod's settings of `network.yaml`.
    #[must_use]
    pub fn config(&self) -> &Map<String, Value> {
        self.config
    }

    /// The event's own row in the log takes this form, from the sender, with a new id, and carries the draft's id as
    /// its origin: a post in a channel becomes the notice of the post. At most once an event.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Missing`] for a destination that does not exist.
    pub fn publish(&mut self, name: &str, to: Address, payload: Map<String, Value>) -> Result<String, Refusal> {
        if self.made.emitted.iter().any(|emitted| emitted.is_origin) {
            return Err(Refusal::conflict(format!(
                "the mod {} publishes {name} as a second form of one event",
                self.name
            )));
        }
        let from = self.event.from.clone();
        self.add(from, name, to, payload, true)
    }

    /// One more event, from `from` (the sender, this mod, or the network). Its id.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Missing`] for a destination that does not exist; [`crate::RefusalKind::Forbidden`] for
    /// somebody who did not send the event.
    pub fn emit(
        &mut self,
        from: Sender,
        name: &str,
        to: Address,
        payload: Map<String, Value>,
    ) -> Result<String, Refusal> {
        let own = match &from {
            Sender::Network => true,
            Sender::Mod(name) => **name == *self.name,
            Sender::Agent(_) => from == self.event.from,
        };
        if !own {
            return Err(Refusal::forbidden(format!("the mod {} cannot speak for {from}", self.name)));
        }
        self.add(from, name, to, payload, false)
    }

    /// One more event, only for these agents of those whom it is addressed to.
    ///
    /// # Errors
    /// Those of [`Self::emit`].
    pub fn emit_to_some(
        &mut self,
        from: Sender,
        name: &str,
        to: Address,
        payload: Map<String, Value>,
        some: &[AgentId],
    ) -> Result<String, Refusal> {
        let id = self.emit(from, name, to, payload)?;
        if let Some(emitted) = self.made.emitted.last_mut() {
            emitted.allowed_agents = Some(distinct(some));
        }
        Ok(id)
    }

    fn add(
        &mut self,
        from: Sender,
        name: &str,
        to: Address,
        payload: Map<String, Value>,
        is_origin: bool,
    ) -> Result<String, Refusal> {
        self.network.check_address(&to, &self.made.changes)?;
        let (name, id) = (name.parse()?, self.network.new_id());
        let response_to = None;
        let id_given = id.clone();
        self.made.emitted.push(Emitted { id, name, from, to, payload, is_origin, allowed_agents: None, response_to });
        Ok(id_given)
    }

    /// An agent that has not left, present or not.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> Option<AgentView> {
        self.network.agent(agent)
    }

    /// All agents that have not left.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentView> {
        self.network.agents(&[])
    }

    /// Whether the agent's group has the permission, or one that includes it (`admin` includes all).
    #[must_use]
    pub fn may(&self, agent: &AgentId, permission: &str) -> bool {
        self.network.may(agent, permission)
    }

    /// The channel's members; nothing when there is no such channel.
    #[must_use]
    pub fn members(&self, channel: &str) -> Option<Vec<AgentId>> {
        let mut members = {
            let known = self.network.0.registry.read();
            known.channels.get(channel).map(|channel| channel.members.clone())
        };
        for change in &self.made.changes {
            match change {
                Change::Channel { channel: opened, .. } if opened == channel => drop(members.get_or_insert_default()),
                Change::Member { channel: of, agent, .. } if of == channel => {
                    members.get_or_insert_default().insert(agent.clone());
                }
                _ => {}
            }
        }
        members.map(|members| members.into_iter().collect())
    }

    /// Makes a channel with these members, from this event on; one that exists only gets its new members.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Invalid`] for a name that is none; [`crate::RefusalKind::TooMany`] beyond the quota.
    pub fn open_channel(&mut self, channel: &str, description: &str, members: &[AgentId]) -> Result<(), Refusal> {
        let since = self.first - 1;
        let changes = opening::open_channel(self.tx, self.network, channel, description, members, since)?;
        self.made.changes.extend(changes);
        Ok(())
    }
}

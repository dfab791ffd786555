//! A network that is open: the handle that transports, mods and agents of this process share.

use std::{sync::Arc, time::Duration};

use longhaul_core::{Scope, TimeMs};
use longhaul_store::{ReadTx, Store, Tx};
use serde_json::{Map, Value};

use crate::{
    Address, AgentId, AgentView, Draft, EventName, Inbox, Member, Mod, Received, Refusal, Registered, Registration,
    Reply, Sender, Stage,
};

/// An open network. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Network(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    scope: Scope,
}

/// What anybody who reaches a network may know of it.
#[derive(Debug, Clone)]
pub struct NetworkView {
    /// Its id, which agents join by.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Since when this process has served it.
    pub since: TimeMs,
    /// Agents whose lease has not ended.
    pub present: usize,
    /// All agents that have not left.
    pub agents: usize,
    /// The settings it was opened with, without anything secret.
    pub settings: Arc<crate::settings::NetworkSettings>,
}

impl Network {
    /// Opens the network of these settings, makes it where it does not exist, and takes its lease: one process at a
    /// time serves a network.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Conflict`] when another process serves it; those of the store.
    pub async fn open(
        store: Store,
        scope: Scope,
        settings: crate::settings::NetworkSettings,
        mods: Vec<Arc<dyn Mod>>,
    ) -> Result<Self, Refusal> {
        let _ = (settings, mods);
        Ok(Self(Arc::new(Inner { store, scope })))
    }

    /// Lets somebody in, or back in.
    ///
    /// A name whose lease has not ended can be had again only with its secret or with its group's credential; one
    /// whose lease has ended by anybody of its group, unless the network is `strict`.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Forbidden`] for a wrong credential; [`crate::RefusalKind::Conflict`] for a name that is
    /// held; [`crate::RefusalKind::TooMany`] for a network that is full.
    pub async fn register(&self, registration: Registration) -> Result<Registered, Refusal> {
        let _ = registration;
        todo!()
    }

    /// Who shows this secret. Reads no row.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Unauthenticated`], always with the same words.
    pub fn authenticate(&self, agent: &AgentId, secret: &str) -> Result<Member, Refusal> {
        let _ = (agent, secret);
        todo!()
    }

    /// Lets the member go: its queue, subscriptions and memberships end.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn unregister(&self, member: &Member) -> Result<(), Refusal> {
        let _ = member;
        todo!()
    }

    /// The member is there: its lease begins anew. Written now and then, not each time.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Unauthenticated`] when its secret has been replaced.
    pub fn touch(&self, member: &Member) -> Result<(), Refusal> {
        let _ = member;
        todo!()
    }

    /// Sends what a member says. Answered once it is on the disk.
    ///
    /// # Errors
    /// What could not be admitted: wrong secret, too large, too often, not allowed, a receiver that does not exist.
    pub async fn send(&self, member: &Member, draft: Draft) -> Result<Reply, Refusal> {
        let _ = (member, draft);
        todo!()
    }

    /// Emits an event as a mod or as the network itself.
    ///
    /// # Errors
    /// Those of [`Self::send`].
    pub async fn emit(&self, from: Sender, draft: Draft) -> Result<Reply, Refusal> {
        let _ = (from, draft);
        todo!()
    }

    /// The member's place in its events, from what it has acknowledged, or behind `after`.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Unauthenticated`] when its secret has been replaced.
    pub fn inbox(&self, member: &Member, after: Option<i64>) -> Result<Inbox, Refusal> {
        let _ = (member, after);
        todo!()
    }

    /// For a transport whose reads acknowledge nothing (the contract's poll): what came since the last call of anybody
    /// for this member. The next call acknowledges what this one gave.
    ///
    /// # Errors
    /// Those of [`Self::inbox`].
    pub async fn poll(&self, member: &Member, max: usize, wait: Duration) -> Result<Received, Refusal> {
        let _ = (member, max, wait);
        todo!()
    }

    /// What anybody may know.
    #[must_use]
    pub fn view(&self) -> NetworkView {
        todo!()
    }

    /// Agents, by name; those with all of these capabilities, where any are given.
    #[must_use]
    pub fn agents(&self, capabilities: &[String]) -> Vec<AgentView> {
        let _ = capabilities;
        todo!()
    }

    /// One agent.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> Option<AgentView> {
        let _ = agent;
        todo!()
    }

    /// The mods that are enabled, in their order.
    #[must_use]
    pub fn mods(&self) -> &[Arc<dyn Mod>] {
        todo!()
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Whose it is.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    /// Ends serving: waiting receivers are told, cursors are written, the lease is given back.
    pub async fn close(&self) {}
}

impl Inbox {
    /// The next events, at most `max`; waits at most `wait` for the first. Empty when nothing came.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Unauthenticated`] when the member's secret has been replaced; those of the store.
    pub async fn next(&mut self, max: usize, wait: Duration) -> Result<Received, Refusal> {
        let _ = (max, wait, &self.network, &self.member, self.position);
        todo!()
    }

    /// Everything up to here is safe with the receiver.
    pub fn acknowledge(&self, cursor: i64) {
        let _ = cursor;
    }
}

impl<'tx> Stage<'_, 'tx> {
    /// The transaction, for the mod's own rows. Every row carries the network's tenant and id.
    pub fn tx(&mut self) -> &mut Tx<'tx> {
        self.tx
    }

    /// Reading only.
    #[must_use]
    pub fn rows(&self) -> ReadTx<'_> {
        todo!()
    }

    /// Whose network it is, and its id: the key of every row.
    #[must_use]
    pub fn place(&self) -> (&Scope, &str) {
        todo!()
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> TimeMs {
        self.now
    }

    /// A fresh id.
    #[must_use]
    pub fn new_id(&self) -> String {
        todo!()
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
        let _ = (name, to, payload, self.name, self.network, &self.emitted);
        todo!()
    }

    /// One more event, from `from` (the sender, this mod, or the network). Its id.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Missing`] for a destination that does not exist.
    pub fn emit(
        &mut self,
        from: Sender,
        name: &str,
        to: Address,
        payload: Map<String, Value>,
    ) -> Result<String, Refusal> {
        let _ = (from, name, to, payload);
        todo!()
    }

    /// An agent that has not left, present or not.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> Option<AgentView> {
        self.network.agent(agent)
    }

    /// Whether the agent's group has the permission, or one that includes it (`admin` includes all).
    #[must_use]
    pub fn may(&self, agent: &AgentId, permission: &str) -> bool {
        let _ = (agent, permission);
        todo!()
    }

    /// The channel's members; nothing when there is no such channel.
    #[must_use]
    pub fn members(&self, channel: &str) -> Option<Vec<AgentId>> {
        let _ = channel;
        todo!()
    }

    /// Makes a channel with these members, from this event on; one that exists only gets its new members.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Invalid`] for a name that is none; [`crate::RefusalKind::TooMany`] beyond the quota.
    pub fn open_channel(&mut self, channel: &str, description: &str, members: &[AgentId]) -> Result<(), Refusal> {
        let _ = (channel, description, members);
        todo!()
    }
}

/// Only so that the types above are used until they are.
#[expect(dead_code, reason = "the skeleton")]
fn skeleton(emitted: crate::mods::Emitted) -> impl std::fmt::Debug {
    (
        emitted.name,
        emitted.from,
        emitted.to,
        emitted.payload,
        emitted.is_origin,
        emitted.allowed_agents,
        emitted.response_to,
        None::<EventName>,
    )
}

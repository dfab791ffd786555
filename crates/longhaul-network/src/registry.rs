//! Who and what there is: agents, channels, memberships, subscriptions, in RAM.
//!
//! Rows are written first; what is here follows when the transaction is let go by the pump, in the order of the log.
//! Invariant: it can be made from the rows at any time, but for who was last heard of when.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
};

use longhaul_core::TimeMs;
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::{
    Address, AgentId, AgentView, Event, Pattern, Sender, Via, Visibility,
    digest::Digest,
    locks::{Held, Place, hold},
    log::Entry,
    rate::Bucket,
};

/// What a registration may change.
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    pub(crate) group: Arc<str>,
    pub(crate) secret: Digest,
    pub(crate) generation: u64,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) capabilities: BTreeSet<String>,
    pub(crate) via: Via,
    /// The mod that it is, from outside, where its group may be one.
    pub(crate) serves: Option<Arc<str>>,
}

/// An agent that has not left.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) id: AgentId,
    pub(crate) joined_seq: i64,
    profile: RwLock<Arc<Profile>>,
    last_seen: AtomicI64,
    /// Events it has sent since this process serves the network.
    pub(crate) sent: AtomicU64,
    /// Its row says less than is known here.
    pub(crate) dirty: AtomicBool,
    /// What its row says of when it was last heard of, and of what it has acknowledged.
    pub(crate) seen_written: AtomicI64,
    pub(crate) cursor_written: AtomicI64,
    standing: Mutex<Standing>,
    pub(crate) bell: watch::Sender<Bell>,
    /// One poll at a time, as each acknowledges what the one before it gave.
    pub(crate) polling: tokio::sync::Mutex<()>,
    /// How many polls have come: one that waits ends when another one comes.
    pub(crate) polls: watch::Sender<u64>,
}

/// What an agent's connections wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bell {
    /// The newest event that may be for it.
    pub(crate) newest: i64,
    /// Its secret has been replaced, or it has gone, since that generation.
    pub(crate) generation: u64,
}

/// Where an agent stands.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Acknowledged up to here.
    pub(crate) cursor: i64,
    /// Given by the last poll up to here.
    pub(crate) given: i64,
    /// Numbers of the direct events that it has not acknowledged.
    pub(crate) queue: VecDeque<i64>,
    pub(crate) bucket: Bucket,
    /// Its channels, and since when.
    pub(crate) channels: BTreeMap<Arc<str>, i64>,
    pub(crate) subscriptions: Vec<(String, Subscription)>,
}

/// What somebody wants to hear of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Subscription {
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) channels: Vec<String>,
}

impl Subscription {
    fn wants(&self, event: &Event) -> bool {
        let channel = match &event.to {
            Address::Channel(channel) => self.channels.is_empty() || self.channels.contains(channel),
            Address::Agent(_) | Address::Group(_) | Address::Mod(_) | Address::Everybody | Address::System => true,
        };
        channel && (self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.matches(&event.name)))
    }
}

impl Agent {
    pub(crate) fn new(id: AgentId, profile: Profile, joined_seq: i64, last_seen: TimeMs, standing: Standing) -> Self {
        let bell = Bell { newest: standing.cursor, generation: profile.generation };
        Self {
            id,
            joined_seq,
            profile: RwLock::new(Arc::new(profile)),
            last_seen: AtomicI64::new(last_seen.0),
            sent: AtomicU64::new(0),
            dirty: AtomicBool::new(false),
            seen_written: AtomicI64::new(last_seen.0),
            cursor_written: AtomicI64::new(standing.cursor),
            standing: Mutex::new(standing),
            bell: watch::Sender::new(bell),
            polling: tokio::sync::Mutex::new(()),
            polls: watch::Sender::new(0),
        }
    }

    pub(crate) fn profile(&self) -> Arc<Profile> {
        hold(Place::Agent, || self.profile.read().unwrap_or_else(PoisonError::into_inner)).clone()
    }

    pub(crate) fn standing(&self) -> Held<MutexGuard<'_, Standing>> {
        hold(Place::Agent, || self.standing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn last_seen(&self) -> TimeMs {
        TimeMs(self.last_seen.load(Ordering::Relaxed))
    }

    pub(crate) fn seen(&self, now: TimeMs) {
        self.last_seen.fetch_max(now.0, Ordering::Relaxed);
        self.dirty.store(true, Ordering::Relaxed);
    }

    /// Everything up to here is safe with it.
    pub(crate) fn acknowledge(&self, cursor: i64) {
        let mut standing = self.standing();
        if cursor > standing.cursor {
            standing.cursor = cursor;
            while standing.queue.front().is_some_and(|seq| *seq <= cursor) {
                standing.queue.pop_front();
            }
            self.dirty.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn ring(&self, seq: i64) {
        self.bell.send_modify(|bell| bell.newest = bell.newest.max(seq));
    }

    /// Where its events are, and from which number on.
    pub(crate) fn routes(&self) -> Vec<(Arc<str>, i64)> {
        let profile = self.profile();
        let since = self.joined_seq;
        let mut routes: Vec<(Arc<str>, i64)> = vec![
            (format!("a:{}", self.id).into(), since),
            ("*".into(), since),
            (format!("g:{}", profile.group).into(), since),
        ];
        routes.extend(profile.serves.iter().map(|name| (format!("m:{name}").into(), since)));
        let standing = self.standing();
        routes.extend(standing.channels.iter().map(|(channel, since)| (format!("c:{channel}").into(), *since)));
        routes
    }

    /// Whether an event on one of its routes is for it.
    pub(crate) fn receives(&self, event: &Event) -> bool {
        let own = matches!(&event.from, Sender::Agent(from) if *from == self.id);
        let hidden = match event.visibility {
            Visibility::Restricted => event.allowed_agents.as_ref().is_none_or(|some| !some.contains(&self.id)),
            Visibility::ModOnly => !matches!(event.to, Address::Mod(_)),
            Visibility::Public | Visibility::Network | Visibility::Channel | Visibility::Direct => false,
        };
        if own || hidden {
            return false;
        }
        let standing = self.standing();
        standing.subscriptions.is_empty() || standing.subscriptions.iter().any(|(_, some)| some.wants(event))
    }

    pub(crate) fn view(&self, now: TimeMs, lease_ms: i64) -> AgentView {
        let profile = self.profile();
        AgentView {
            agent: self.id.clone(),
            group: profile.group.to_string(),
            metadata: profile.metadata.clone(),
            capabilities: profile.capabilities.clone(),
            via: profile.via,
            last_seen: self.last_seen(),
            present: self.is_present(now, lease_ms),
        }
    }

    pub(crate) fn is_present(&self, now: TimeMs, lease_ms: i64) -> bool {
        now.0.saturating_sub(self.last_seen().0) < lease_ms
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Channel {
    pub(crate) description: String,
    pub(crate) members: BTreeSet<AgentId>,
}

/// What a transaction changed of it.
#[derive(Debug)]
pub(crate) enum Change {
    Joined(Arc<Agent>),
    Renewed(AgentId, Profile),
    Left(AgentId),
    Channel {
        channel: String,
        description: String,
    },
    ChannelGone {
        channel: String,
    },
    Member {
        channel: String,
        agent: AgentId,
        since: i64,
    },
    NoMember {
        channel: String,
        agent: AgentId,
    },
    Subscribed {
        agent: AgentId,
        id: String,
        subscription: Subscription,
    },
    Unsubscribed {
        agent: AgentId,
        id: String,
    },
    /// Events that nobody receives any more: the pump forgets them.
    TakenBack {
        seqs: Vec<i64>,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Registry(RwLock<Known>);

#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) agents: BTreeMap<AgentId, Arc<Agent>>,
    pub(crate) channels: BTreeMap<String, Channel>,
}

impl Registry {
    pub(crate) fn new(known: Known) -> Self {
        Self(RwLock::new(known))
    }

    pub(crate) fn read(&self) -> Held<RwLockReadGuard<'_, Known>> {
        hold(Place::Registry, || self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn agent(&self, agent: &AgentId) -> Option<Arc<Agent>> {
        self.read().agents.get(agent).cloned()
    }

    /// Tells those whom an event may be for.
    pub(crate) fn tell(&self, entry: &Entry) {
        let (known, seq) = (self.read(), entry.event.seq);
        match (&*entry.route, &entry.event.to) {
            (crate::log::SYSTEM, _) | (_, Address::System) => {}
            (_, Address::Agent(agent)) => {
                if let Some(agent) = known.agents.get(agent) {
                    agent.standing().queue.push_back(seq);
                    agent.ring(seq);
                }
            }
            (_, Address::Channel(channel)) => {
                let members = known.channels.get(channel).into_iter().flat_map(|channel| &channel.members);
                members.filter_map(|member| known.agents.get(member)).for_each(|agent| agent.ring(seq));
            }
            (_, Address::Everybody) => known.agents.values().for_each(|agent| agent.ring(seq)),
            (_, Address::Group(group)) => {
                let of_group = known.agents.values().filter(|agent| *agent.profile().group == **group);
                of_group.for_each(|agent| agent.ring(seq));
            }
            (_, Address::Mod(name)) => {
                let serving = |agent: &&Arc<Agent>| agent.profile().serves.as_deref() == Some(name.as_str());
                known.agents.values().filter(serving).for_each(|agent| agent.ring(seq));
            }
        }
    }

    /// Follows a transaction.
    pub(crate) fn apply(&self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        let mut known = hold(Place::Registry, || self.0.write().unwrap_or_else(PoisonError::into_inner));
        for change in changes {
            known.apply(change);
        }
    }
}

impl Known {
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Joined(agent) => drop(self.agents.insert(agent.id.clone(), agent.clone())),
            Change::Renewed(agent, profile) => {
                if let Some(agent) = self.agents.get(agent) {
                    let writing = || agent.profile.write().unwrap_or_else(PoisonError::into_inner);
                    *hold(Place::Agent, writing) = Arc::new(profile.clone());
                    agent.bell.send_modify(|bell| bell.generation = profile.generation);
                }
            }
            Change::Left(agent) => {
                if let Some(agent) = self.agents.remove(agent) {
                    agent.bell.send_modify(|bell| bell.generation = u64::MAX);
                }
                for channel in self.channels.values_mut() {
                    channel.members.remove(agent);
                }
            }
            Change::Channel { channel, description } => {
                let channel = self.channels.entry(channel.clone()).or_default();
                if channel.description.is_empty() {
                    channel.description.clone_from(description);
                }
            }
            Change::ChannelGone { channel } => {
                self.channels.remove(channel);
                for agent in self.agents.values() {
                    agent.standing().channels.remove(channel.as_str());
                }
            }
            Change::Member { channel, agent, since } => {
                if let Some(at) = self.agents.get(agent) {
                    self.channels.entry(channel.clone()).or_default().members.insert(agent.clone());
                    at.standing().channels.entry(channel.as_str().into()).or_insert(*since);
                }
            }
            Change::NoMember { channel, agent } => {
                if let Some(channel) = self.channels.get_mut(channel) {
                    channel.members.remove(agent);
                }
                if let Some(agent) = self.agents.get(agent) {
                    agent.standing().channels.remove(channel.as_str());
                }
            }
            Change::Subscribed { agent, id, subscription } => {
                if let Some(agent) = self.agents.get(agent) {
                    agent.standing().subscriptions.push((id.clone(), subscription.clone()));
                }
            }
            Change::TakenBack { .. } => {}
            Change::Unsubscribed { agent, id } => {
                if let Some(agent) = self.agents.get(agent) {
                    agent.standing().subscriptions.retain(|(known, _)| known != id);
                }
            }
        }
    }
}

//! A network that is open: the handle that transports, mods and agents of this process share.
//!
//! It owns what all parts of a network share, and the one way in which any of them commits: rows first, then RAM in
//! the order of the log. What is done with it is in `opening`, `admission`, `sending`, `inbox` and `system`.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use longhaul_core::{Scope, TaskScope, TimeMs};
use longhaul_store::{Lease, LeaseToken, Store, Tx};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    AgentId, AgentView, Event, Manifest, Mod, Refusal, RefusalKind, Reply,
    credentials::Credentials,
    log::{self, Entry, Key},
    pump::{Pump, Settled},
    registry::{Agent, Change, Registry},
    responses::Responses,
    settings::NetworkSettings,
};

/// An open network. Cheap to clone.
#[derive(Clone)]
pub struct Network(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) scope: Scope,
    pub(crate) key: Key,
    /// Without anything secret.
    pub(crate) settings: Arc<NetworkSettings>,
    pub(crate) credentials: Credentials,
    pub(crate) profile: Mutex<Map<String, Value>>,
    pub(crate) uuid: String,
    pub(crate) mods: Vec<Arc<dyn Mod>>,
    /// Beside each of `mods`.
    pub(crate) loaded: Vec<Loaded>,
    pub(crate) registry: Registry,
    pub(crate) pump: Pump,
    /// The number of the next event. Changed within write transactions only, which follow one another.
    pub(crate) next: AtomicI64,
    /// Given back when the network is closed.
    pub(crate) lease: Mutex<Option<Lease>>,
    pub(crate) token: LeaseToken,
    /// Where business facts are noted.
    pub(crate) facts: TaskScope,
    pub(crate) since: TimeMs,
    /// Whoever comes, goes or is moved does so one after the other.
    pub(crate) control: tokio::sync::Mutex<()>,
    /// Who waits for a response to an event, by the event's id.
    pub(crate) responses: Responses,
    pub(crate) closing: CancellationToken,
}

/// A mod, as it was found at the start.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) manifest: Manifest,
    pub(crate) name: Arc<str>,
    pub(crate) config: Arc<Map<String, Value>>,
}

/// What anybody who reaches a network may know of it.
#[derive(Debug, Clone)]
pub struct NetworkView {
    /// Its id, which agents join by.
    pub id: String,
    /// An id that no other network has, made with it.
    pub uuid: String,
    /// Its name for people.
    pub name: String,
    /// Since when this process has served it.
    pub since: TimeMs,
    /// Agents whose lease has not ended.
    pub present: usize,
    /// All agents that have not left.
    pub agents: usize,
    /// Channels.
    pub channels: usize,
    /// The number of the newest event.
    pub head: i64,
    /// The settings it was opened with, without anything secret: a group's credential is an empty text where there is
    /// one.
    pub settings: Arc<NetworkSettings>,
    /// `network_profile`, as it stands now.
    pub profile: Map<String, Value>,
}

/// A channel as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelView {
    /// Its name.
    pub channel: String,
    /// What it is for.
    pub description: String,
    /// Who hears what is said in it.
    pub members: Vec<AgentId>,
}

/// A row that a transaction adds to the log; its event gets its number there.
pub(crate) struct NewRow {
    pub(crate) event: Event,
    pub(crate) route: Arc<str>,
    /// What the sender's id led to: fingerprint and reply.
    pub(crate) answer: Option<(String, Reply)>,
}

/// What a transaction adds and changes.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) rows: Vec<NewRow>,
    pub(crate) changes: Vec<Change>,
}

impl Network {
    /// What anybody may know.
    #[must_use]
    pub fn view(&self) -> NetworkView {
        let inner = &*self.0;
        let (now, lease_ms) = (self.now(), self.lease_ms());
        let known = inner.registry.read();
        NetworkView {
            id: inner.key.network.clone(),
            uuid: inner.uuid.clone(),
            name: inner.settings.name.clone(),
            since: inner.since,
            present: known.agents.values().filter(|agent| agent.is_present(now, lease_ms)).count(),
            agents: known.agents.len(),
            channels: known.channels.len(),
            head: inner.pump.head(),
            settings: inner.settings.clone(),
            profile: inner.profile.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Agents, by name; those with all of these capabilities, where any are given.
    #[must_use]
    pub fn agents(&self, capabilities: &[String]) -> Vec<AgentView> {
        let (now, lease_ms) = (self.now(), self.lease_ms());
        let known = self.0.registry.read();
        let able = |agent: &&Arc<Agent>| {
            capabilities.is_empty() || {
                let profile = agent.profile();
                capabilities.iter().all(|wanted| profile.capabilities.contains(wanted))
            }
        };
        known.agents.values().filter(able).map(|agent| agent.view(now, lease_ms)).collect()
    }

    /// One agent.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> Option<AgentView> {
        self.0.registry.agent(agent).map(|agent| agent.view(self.now(), self.lease_ms()))
    }

    /// The channels, by name.
    #[must_use]
    pub fn channels(&self) -> Vec<ChannelView> {
        let known = self.0.registry.read();
        let view = |(name, channel): (&String, &crate::registry::Channel)| ChannelView {
            channel: name.clone(),
            description: channel.description.clone(),
            members: channel.members.iter().cloned().collect(),
        };
        known.channels.iter().map(view).collect()
    }

    /// The mods that are enabled, in their order.
    #[must_use]
    pub fn mods(&self) -> &[Arc<dyn Mod>] {
        &self.0.mods
    }

    /// What the mods said of themselves at the start, in the order of [`Self::mods`].
    pub fn manifests(&self) -> impl Iterator<Item = &Manifest> {
        self.0.loaded.iter().map(|loaded| &loaded.manifest)
    }

    /// Whether the agent's group has the permission, or one that includes it (`admin` includes all).
    #[must_use]
    pub fn may(&self, agent: &AgentId, permission: &str) -> bool {
        let group = self.0.registry.agent(agent).map(|agent| agent.profile().group.clone());
        group.is_some_and(|group| self.0.settings.may(&group, permission))
    }

    /// The number of the newest event, whenever it changes: for whoever follows the log.
    #[must_use]
    pub fn head(&self) -> watch::Receiver<i64> {
        self.0.pump.watch()
    }

    /// The log behind `after`, whoever it was for, at most `limit` events: for those who govern the network. A caller
    /// checks that its own caller may see everything.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn log(&self, after: i64, limit: usize) -> Result<Vec<Arc<Event>>, Refusal> {
        let (key, until) = (self.0.key.clone(), self.0.pump.head());
        let found = self.0.store.read(move |read| log::all(read, &key, after, until, limit)).await?;
        Ok(found.into_iter().map(|entry| entry.event).collect())
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Its id, which agents join by.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.key.network
    }

    /// Whose it is.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    pub(crate) fn now(&self) -> TimeMs {
        self.0.store.ambient().clock.now()
    }

    pub(crate) fn new_id(&self) -> String {
        self.0.store.ambient().ids.body()
    }

    pub(crate) fn lease_ms(&self) -> i64 {
        i64::try_from(self.0.settings.lease.as_millis()).unwrap_or(i64::MAX)
    }

    /// The one way into the log: `work` runs in the network's transaction and is told which number the first of its
    /// rows will have. It is carried through whatever becomes of the caller, and answered when it is on the disk and
    /// those who wait for it have been told.
    pub(crate) async fn commit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>, &Network, i64) -> Result<(T, Batch), Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        if self.0.closing.is_cancelled() {
            return Err(closed());
        }
        // The numbers it has taken, 0 for none: they are settled whatever becomes of the transaction.
        let numbers = Arc::new((AtomicI64::new(0), AtomicI64::new(0)));
        let (taken, network, inner) = (numbers.clone(), self.clone(), self.0.clone());
        let transact = move |tx: &mut Tx<'_>| {
            tx.check_lease(&network.0.token)?;
            let first = network.0.next.load(Ordering::Acquire);
            let (value, batch) = work(tx, &network, first)?;
            if batch.rows.is_empty() && batch.changes.is_empty() {
                return Ok((value, Settled::default()));
            }
            let last = first + i64::try_from(batch.rows.len()).unwrap_or(i64::MAX / 2).max(1) - 1;
            network.0.next.store(last + 1, Ordering::Release);
            taken.0.store(first, Ordering::Release);
            taken.1.store(last, Ordering::Release);
            if batch.rows.is_empty() {
                // No row will say that this number was given.
                log::set_floor(tx, &network.0.key, last)?;
            }
            let entries = insert(tx, &network.0.key, batch.rows, first)?;
            Ok::<_, Refusal>((value, Settled { entries, changes: batch.changes, unknown: false }))
        };
        let settle = move |outcome: Result<(T, Settled), Refusal>| {
            let (first, last) = (numbers.0.load(Ordering::Acquire), numbers.1.load(Ordering::Acquire));
            let (value, settled) = match outcome {
                Ok((value, settled)) => (Ok(value), settled),
                Err(refusal) => (Err(refusal), Settled { unknown: true, ..Settled::default() }),
            };
            let released =
                (first > 0).then(|| inner.pump.settle(first, last, settled, |one, last| inner.release(one, last)));
            Ok((value, released))
        };
        let (value, released) = self.0.store.write_then(transact, settle).await?;
        if let Some(released) = released {
            // An error would mean that the pump is gone, with everything else.
            let _ = released.await;
        }
        value
    }
}

fn insert(tx: &mut Tx<'_>, key: &Key, rows: Vec<NewRow>, first: i64) -> Result<Vec<Entry>, Refusal> {
    let mut entries = Vec::with_capacity(rows.len());
    for (mut row, seq) in rows.into_iter().zip(first..) {
        row.event.seq = seq;
        let answer = row.answer.as_ref().map(|(fingerprint, reply)| (fingerprint.as_str(), reply));
        entries.push(log::insert(tx, key, row.event, row.route, answer)?);
    }
    Ok(entries)
}

pub(crate) fn closed() -> Refusal {
    Refusal::new(RefusalKind::Unavailable, "the network is being closed: connect again in a moment")
}

impl Inner {
    /// Follows a transaction in RAM, and tells those who wait.
    fn release(&self, settled: &Settled, last: i64) {
        if settled.unknown {
            // There may be rows for anybody: whoever waits looks.
            self.registry.read().agents.values().for_each(|agent| agent.ring(last));
        }
        self.registry.apply(&settled.changes);
        for entry in &settled.entries {
            self.registry.tell(entry);
            self.responses.tell(&entry.event, &self.registry);
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("id", &self.0.key.network).finish_non_exhaustive()
    }
}

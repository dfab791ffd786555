//! Opening a network and closing it: its lease, its rows into RAM, its channels, its work in the background.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicI64},
    time::Duration,
};

use longhaul_core::{Scope, TaskScope, ThreadId, TimeMs};
use longhaul_store::{Lease, LeaseError, ReadTx, Store, StoreError, Tx, tasks, values};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    AgentId, Mod, Network, Pattern, Refusal, RefusalKind, Via,
    credentials::Credentials,
    log::{self, Key},
    network::{Batch, Inner, Loaded},
    pump::Pump,
    rate::Bucket,
    registry::{Agent, Change, Channel, Known, Profile, Registry, Standing, Subscription},
    responses::Responses,
    settings::NetworkSettings,
};

/// Version of the rows of networks and agents.
pub(crate) const V: u32 = 1;
/// How long another host waits for one that has gone silent.
const LEASE: Duration = Duration::from_secs(15);

impl Network {
    /// Opens the network of these settings, makes it where it does not exist, and takes its lease: one process at a
    /// time serves a network.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Conflict`] when another process serves it; those of the store.
    pub async fn open(
        store: Store,
        scope: Scope,
        mut settings: NetworkSettings,
        mods: Vec<Arc<dyn Mod>>,
    ) -> Result<Self, Refusal> {
        let thread = thread_of(&settings.id)?;
        let lease = Lease::acquire(&store, &scope, &thread, LEASE).await.map_err(|error| match error {
            LeaseError::Held { .. } => {
                Refusal::conflict(format!("the network {:?} is served by another process already", settings.id))
            }
            LeaseError::Store(error) => error.into(),
        })?;
        let token = lease.token().clone();
        let key = Key { tenant: scope.tenant.clone(), network: settings.id.clone() };
        let (mods, loaded) = in_order(mods, &settings.mods);
        settings.channels = channels_of(&settings);

        let (own, owner, kind) = (key.clone(), scope.clone(), thread.clone());
        let title = settings.name.clone();
        let (facts, uuid, profile) = store.write(move |tx| found(tx, &own, &owner, &kind, title)).await?;
        if let Some(profile) = profile {
            settings.profile = profile;
        }
        let now = store.ambient().clock.now();
        let (own, with) = (key.clone(), settings.clone());
        let (known, head) = store.read(move |read| load(read, &own, &with, now)).await?;

        let credentials = Credentials::new(&settings.groups, now);
        for group in settings.groups.values_mut() {
            group.credential = group.credential.take().map(|_| String::new());
        }
        let inner = Inner {
            scope,
            key,
            credentials,
            profile: Mutex::new(settings.profile.clone()),
            settings: Arc::new(settings),
            uuid,
            mods,
            loaded,
            registry: Registry::new(known),
            pump: Pump::new(head),
            next: AtomicI64::new(head + 1),
            lease: Mutex::new(Some(lease)),
            token,
            facts,
            since: now,
            control: tokio::sync::Mutex::default(),
            responses: Responses::default(),
            closing: CancellationToken::new(),
            store,
        };
        let network = Self(Arc::new(inner));
        network.open_settings_channels().await?;
        crate::background::start(&network).await?;
        Ok(network)
    }

    /// Makes the channels that the settings name, where they do not exist.
    async fn open_settings_channels(&self) -> Result<(), Refusal> {
        let missing: Vec<_> = {
            let known = self.0.registry.read();
            let channels = self.0.settings.channels.iter();
            channels.filter(|(name, _)| !known.channels.contains_key(name)).cloned().collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        self.commit(move |tx, network, first| {
            let mut batch = Batch::default();
            let agents: Vec<AgentId> = network.0.registry.read().agents.keys().cloned().collect();
            for (channel, description) in missing {
                batch.changes.extend(open_channel(tx, network, &channel, &description, &agents, first - 1)?);
            }
            Ok(((), batch))
        })
        .await
    }

    /// Ends serving: waiting receivers are told, cursors are written, the lease is given back.
    pub async fn close(&self) {
        self.0.closing.cancel();
        if let Err(error) = crate::background::write_cursors(&self.0, true).await {
            tracing::warn!(%error, "cursors could not be written: what was acknowledged last will be given again");
        }
        let lease = self.0.lease.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(lease) = lease
            && let Err(error) = lease.release().await
        {
            tracing::warn!(%error, "the network's lease could not be given back: it ends by itself");
        }
    }
}

/// The thread that a network's lease and facts go by.
///
/// # Errors
/// [`RefusalKind::Invalid`] for an id that is none.
pub(crate) fn thread_of(id: &str) -> Result<ThreadId, Refusal> {
    let well_formed = !id.is_empty()
        && id.len() <= 100
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.');
    let thread = well_formed.then(|| format!("network/{id}").parse().ok()).flatten();
    thread.ok_or_else(|| {
        let shown: String = id.chars().take(80).collect();
        Refusal::new(
            RefusalKind::Invalid,
            format!("network id {shown:?}: write at most 100 letters, digits, hyphens, dots or underscores"),
        )
    })
}

/// Mods in the order in which the settings name them, each with its `config`.
fn in_order(mods: Vec<Arc<dyn Mod>>, named: &[(String, Map<String, Value>)]) -> (Vec<Arc<dyn Mod>>, Vec<Loaded>) {
    let mut found: Vec<_> = mods
        .into_iter()
        .map(|module| {
            let manifest = module.manifest();
            let is = |(name, _): &(String, _)| *name == manifest.name || manifest.aliases.contains(name);
            let place = named.iter().position(is);
            let config = place.map(|place| named[place].1.clone()).unwrap_or_default();
            let loaded = Loaded { name: manifest.name.as_str().into(), config: Arc::new(config), manifest };
            (place.unwrap_or(usize::MAX), module, loaded)
        })
        .collect();
    found.sort_by_key(|(place, _, _)| *place);
    found.into_iter().map(|(_, module, loaded)| (module, loaded)).unzip()
}

/// The channels that the settings name and that are everybody's: their own, and those of mods' `config`. Private ones
/// are made by the mod whose they are.
fn channels_of(settings: &NetworkSettings) -> Vec<(String, String)> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let mut channels: BTreeMap<String, String> = BTreeMap::new();
    let of_mods = settings.mods.iter().flat_map(|(_, config)| {
        ["default_channels", "channels"].into_iter().filter_map(|key| config.get(key)?.as_array()).flatten()
    });
    let of_mods = of_mods.filter(|channel| channel.get("private") != Some(&Value::Bool(true)));
    let of_mods = of_mods.filter_map(|channel| {
        let name = text(Some(channel)).or_else(|| text(channel.get("name")))?;
        Some((name, text(channel.get("description")).unwrap_or_default()))
    });
    for (name, description) in settings.channels.iter().cloned().chain(of_mods) {
        let name = name.strip_prefix('#').map_or(name.clone(), str::to_owned);
        channels.entry(name).or_insert(description);
    }
    channels.into_iter().collect()
}

/// The network's row and its task, made where they do not exist.
fn found(
    tx: &mut Tx<'_>,
    key: &Key,
    scope: &Scope,
    thread: &ThreadId,
    title: String,
) -> Result<(TaskScope, String, Option<Map<String, Value>>), StoreError> {
    let facts = match tasks::by_thread(tx, scope, thread)? {
        Some(task) => task.scope,
        None => {
            let thread = thread.clone();
            let (kind, data) = ("network".to_owned(), serde_json::json!({}));
            tasks::create(tx, scope, None, tasks::NewTask { thread, kind, title, dir: None, model: None, data })?.scope
        }
    };
    let uuid = uuid_of(&tx.ambient().ids.body());
    tx.execute(
        "INSERT INTO networks (tenant_id, network_id, v, uuid, created_at, floor_seq) VALUES (?1, ?2, ?3, ?4, ?5, 0)
         ON CONFLICT DO NOTHING",
        &values![&key.tenant, &key.network, V, uuid, tx.now()],
    )?;
    let (uuid, profile) = tx.query_one(
        "SELECT uuid, profile FROM networks WHERE tenant_id = ?1 AND network_id = ?2",
        &values![&key.tenant, &key.network],
        |row| Ok((row.get::<String>(0)?, row.get::<Option<Value>>(1)?)),
    )?;
    let profile = profile.and_then(|profile| profile.as_object().cloned());
    Ok((facts, uuid, profile))
}

/// 28 hexadecimal digits and four more, as people write such ids.
fn uuid_of(body: &str) -> String {
    let body = format!("{body}0000");
    let part = |from: usize, to: usize| body.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// Everything that is held in RAM, and the highest number that was ever given.
fn load(read: &ReadTx<'_>, key: &Key, settings: &NetworkSettings, now: TimeMs) -> Result<(Known, i64), StoreError> {
    let of = values![&key.tenant, &key.network];
    let mut known = Known::default();
    let mut head = log::head(read, key)?;
    let floor = "SELECT floor_seq FROM networks WHERE tenant_id = ?1 AND network_id = ?2";
    head = head.max(read.query_one(floor, &of, |row| row.get(0))?);
    for agent in agents(read, key, settings, now)? {
        head = head.max(agent.joined_seq).max(agent.standing().cursor);
        known.apply(&Change::Joined(Arc::new(agent)));
    }
    let channels = "SELECT channel, description FROM network_channels WHERE tenant_id = ?1 AND network_id = ?2";
    for (channel, description) in read.query(channels, &of, |row| Ok((row.get(0)?, row.get(1)?)))? {
        known.channels.insert(channel, Channel { description, ..Channel::default() });
    }
    let members = "SELECT channel, agent_id, since_seq FROM network_members WHERE tenant_id = ?1 AND network_id = ?2";
    for (channel, agent, since) in
        read.query(members, &of, |row| Ok((row.get::<String>(0)?, row.get::<String>(1)?, row.get::<i64>(2)?)))?
    {
        head = head.max(since);
        if let Ok(agent) = agent.parse() {
            known.apply(&Change::Member { channel, agent, since });
        }
    }
    let subscriptions = "SELECT subscription_id, agent_id, patterns, channels FROM network_subscriptions
        WHERE tenant_id = ?1 AND network_id = ?2 ORDER BY subscription_id";
    for (id, agent, patterns, channels) in read.query(subscriptions, &of, |row| {
        Ok((row.get::<String>(0)?, row.get::<String>(1)?, row.get::<Value>(2)?, row.get::<Value>(3)?))
    })? {
        let patterns = texts(&patterns).iter().map(|text| Pattern::new(text)).collect();
        if let Ok(agent) = agent.parse() {
            let subscription = Subscription { patterns, channels: texts(&channels) };
            known.apply(&Change::Subscribed { agent, id, subscription });
        }
    }
    let observers = "SELECT cursor_seq FROM network_observers WHERE tenant_id = ?1 AND network_id = ?2";
    for cursor in read.query(observers, &of, |row| row.get(0))? {
        head = head.max(cursor);
    }
    // Everything behind an agent's cursor is looked at once.
    known.agents.values().for_each(|agent| agent.ring(head));
    Ok((known, head))
}

/// The texts of a list.
pub(crate) fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn agents(read: &ReadTx<'_>, key: &Key, settings: &NetworkSettings, now: TimeMs) -> Result<Vec<Agent>, StoreError> {
    let rows = read.query(
        "SELECT agent_id, agent_group, secret_digest, generation, metadata, capabilities, via, joined_seq, last_seen,
             cursor_seq FROM network_agents WHERE tenant_id = ?1 AND network_id = ?2",
        &values![&key.tenant, &key.network],
        |row| {
            let id: String = row.get(0)?;
            let group: String = row.get(1)?;
            let digest: String = row.get(2)?;
            let metadata = row.get::<Value>(4)?.as_object().cloned().unwrap_or_default();
            let mut secret = [0; 32];
            // A digest that is none is one that nothing has: nobody comes in with it.
            if hex::decode_to_slice(&digest, &mut secret).is_err() {
                secret = [0; 32];
            }
            let profile = Profile {
                serves: serves(settings, &group, &id, &metadata),
                group: group.into(),
                secret,
                generation: row.get(3)?,
                metadata,
                capabilities: texts(&row.get(5)?).into_iter().collect(),
                via: Via::from_word(row.text(6)?),
            };
            let standing = fresh_standing(settings, row.get(9)?, now);
            Ok((id, profile, row.get::<i64>(7)?, row.get::<TimeMs>(8)?, standing))
        },
    )?;
    let mut found = Vec::with_capacity(rows.len());
    for (id, profile, joined_seq, last_seen, mut standing) in rows {
        let Ok(id) = id.parse::<AgentId>() else { continue };
        let from = standing.cursor.max(joined_seq);
        standing.queue = log::queued(read, key, &id, from, settings.queue_max)?.into();
        found.push(Agent::new(id, profile, joined_seq, last_seen, standing));
    }
    Ok(found)
}

pub(crate) fn fresh_standing(settings: &NetworkSettings, cursor: i64, now: TimeMs) -> Standing {
    Standing {
        cursor,
        given: 0,
        queue: VecDeque::new(),
        bucket: Bucket::full(settings.events_burst, now),
        channels: BTreeMap::new(),
        subscriptions: Vec::new(),
    }
}

/// The mod that an agent is, where its group may be one: what its metadata says, or its name.
pub(crate) fn serves(
    settings: &NetworkSettings,
    group: &str,
    id: &str,
    metadata: &Map<String, Value>,
) -> Option<Arc<str>> {
    let named = settings.groups.get(group)?.permissions.iter().any(|permission| permission == "mod");
    named.then(|| metadata.get("mod").and_then(Value::as_str).unwrap_or(id).into())
}

/// Writes a channel with these members, from behind `since` on, where they are new.
pub(crate) fn open_channel(
    tx: &mut Tx<'_>,
    network: &Network,
    channel: &str,
    description: &str,
    members: &[AgentId],
    since: i64,
) -> Result<Vec<Change>, Refusal> {
    let (key, now) = (&network.0.key, tx.now());
    if channel.is_empty() || channel.len() > 200 || channel.chars().any(char::is_control) {
        return Err(Refusal::invalid("a channel's name is 1 to 200 bytes of text without control characters"));
    }
    let (mut changes, mut new) = (Vec::new(), Vec::new());
    {
        let known = network.0.registry.read();
        let at = known.channels.get(channel);
        if at.is_none() {
            if known.channels.len() >= network.0.settings.channels_max {
                let most = network.0.settings.channels_max;
                return Err(Refusal::new(
                    RefusalKind::TooMany,
                    format!("there are {most} channels, the most there may be: remove one"),
                ));
            }
            let (channel, description) = (channel.to_owned(), description.to_owned());
            changes.push(Change::Channel { channel, description });
        }
        let is_new =
            |agent: &&AgentId| known.agents.contains_key(*agent) && at.is_none_or(|at| !at.members.contains(*agent));
        new.extend(members.iter().filter(is_new).cloned());
    }
    if !changes.is_empty() {
        tx.execute(
            "INSERT INTO network_channels (tenant_id, network_id, channel, description, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
            &values![&key.tenant, &key.network, channel, description, now],
        )?;
    }
    for agent in new {
        add_member(tx, key, channel, &agent, since)?;
        changes.push(Change::Member { channel: channel.to_owned(), agent, since });
    }
    Ok(changes)
}

pub(crate) fn add_member(
    tx: &mut Tx<'_>,
    key: &Key,
    channel: &str,
    agent: &AgentId,
    since: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO network_members (tenant_id, network_id, channel, agent_id, since_seq) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO NOTHING",
        &values![&key.tenant, &key.network, channel, agent.as_str(), since],
    )
    .map(drop)
}

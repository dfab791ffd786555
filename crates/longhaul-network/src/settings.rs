//! What a network is made with. Read from `network.yaml` by [`NetworkSettings::read`], or made in code.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value};

/// The settings of a network. Start from [`NetworkSettings::named`].
#[derive(Debug, Clone)]
pub struct NetworkSettings {
    /// `node_id` of the file: letters, digits and hyphens.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// Groups by name. There is always the default group.
    pub groups: BTreeMap<String, GroupSettings>,
    /// The group of whoever shows no credential.
    pub default_group: String,
    /// Nobody comes in without a group's credential.
    pub requires_password: bool,
    /// A lost secret is lost: only the secret itself brings a name back, also after its lease.
    pub strict: bool,
    /// How long an agent counts as present after it was last heard of.
    pub lease: Duration,
    /// Agents at once.
    pub agents_max: usize,
    /// Events that may wait for one receiver before its senders are told to wait.
    pub queue_max: usize,
    /// Largest payload, bytes when printed.
    pub message_bytes_max: usize,
    /// Events a second from one agent, and how many at once.
    pub events_per_second: u32,
    /// See above.
    pub events_burst: u32,
    /// Channels at most.
    pub channels_max: usize,
    /// Channels that every agent joins, with what they are for. Those that a mod's `config` names as
    /// `default_channels` or `channels` are added when the network is opened.
    pub channels: Vec<(String, String)>,
    /// How long events are kept.
    pub retention: Option<Duration>,
    /// Mods in their order, with their `config`.
    pub mods: Vec<(String, Map<String, Value>)>,
    /// `network_profile`, as it was written, shown to anybody.
    pub profile: Map<String, Value>,
    /// `transports`, as they were written; each transport reads its own.
    pub transports: Vec<(String, Map<String, Value>)>,
    /// `agents` of the older form, and everything else another crate reads (`external_access`, `memory`), by its key.
    pub rest: Map<String, Value>,
}

impl NetworkSettings {
    /// The defaults: one group of guests without a credential, loopback transports, no mods.
    #[must_use]
    pub fn named(id: impl Into<String>) -> Self {
        let id = id.into();
        let guest = GroupSettings { description: "whoever shows no credential".to_owned(), ..GroupSettings::default() };
        Self {
            name: id.clone(),
            id,
            groups: BTreeMap::from([("guest".to_owned(), guest)]),
            default_group: "guest".to_owned(),
            requires_password: false,
            strict: false,
            lease: Duration::from_secs(60),
            agents_max: 10_000,
            queue_max: 10_000,
            message_bytes_max: 16 * 1024 * 1024,
            events_per_second: 2_000,
            events_burst: 4_000,
            channels_max: 10_000,
            channels: Vec::new(),
            retention: Some(Duration::from_secs(30 * 24 * 3600)),
            mods: Vec::new(),
            profile: Map::new(),
            transports: Vec::new(),
            rest: Map::new(),
        }
    }

    /// Whether a group has a permission; `admin` includes all.
    #[must_use]
    pub fn may(&self, group: &str, permission: &str) -> bool {
        self.groups.get(group).is_some_and(|settings| {
            let says = |word: &str| settings.permissions.iter().any(|has| has == word);
            says(permission) || says("admin") || says("all") || says("*")
        })
    }
}

/// One group.
#[derive(Debug, Clone, Default)]
pub struct GroupSettings {
    /// For people.
    pub description: String,
    /// The credential as clients send it (hexadecimal SHA-256 of the password); none: nobody can ask for the group,
    /// but for the default one.
    pub credential: Option<String>,
    /// `admin`, `kick`, `invite`, `mod`, `channels`, `announce`, ….
    pub permissions: Vec<String>,
    /// As it was written.
    pub metadata: Map<String, Value>,
}

/// Settings, and what had to be changed or was not understood in the file.
#[derive(Debug, Clone)]
pub struct Read {
    /// The settings.
    pub settings: NetworkSettings,
    /// For people, a line each: unknown keys, insecure values that were replaced.
    pub notices: Vec<String>,
}

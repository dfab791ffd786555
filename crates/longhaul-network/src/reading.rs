//! Reading `network.yaml`: the documented schema and its older form, as they are, with a word on everything that was
//! changed or not understood.
//!
//! It owns the keys of `network` and of the top of the file; what stands under `config` of a transport or a mod is
//! theirs. Invariants: no default of the file's makes a network open to whoever comes by; nothing that was written is
//! dropped without a notice.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value};

use crate::{
    Refusal, digest,
    settings::{GroupSettings, NetworkSettings, Read},
};

/// Largest file, bytes.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// What stands at the top and is read elsewhere.
const TOP: &[&str] =
    &["external_access", "data_dir", "log_level", "runtime_limit", "shutdown_timeout", "memory", "agents"];
/// Keys of `network` that other crates read.
const ELSEWHERE: &[&str] = &["manifest_transport", "recommended_transport", "memory", "agents"];
/// Keys of `network` that the schema has and that change nothing here.
const WITHOUT_EFFECT: &[&str] = &[
    "encryption_enabled",
    "encryption_type",
    "discovery_interval",
    "discovery_enabled",
    "bootstrap_nodes",
    "connection_timeout",
    "retry_attempts",
    "heartbeat_interval",
    "message_timeout",
    "message_routing_enabled",
    "auto_start_agents",
    "identity_enabled",
    "identity_endpoint",
    "identity_api_key",
    "identity_auto_register",
    "identity_cache_ttl",
];
/// Keys of `network` that say how the file came to be.
const SILENT: &[&str] = &["initialized", "created_by_version"];
/// Passwords that are printed in templates, or that anybody tries first.
const WEAK: &[&str] = &[
    "",
    "admin",
    "administrator",
    "password",
    "passwort",
    "123456",
    "12345678",
    "123456789",
    "guest",
    "user",
    "users",
    "demo",
    "test",
    "root",
    "changeme",
    "secret",
    "openagents",
    "researchers",
    "coordinators",
    "default",
];

impl NetworkSettings {
    /// Reads a `network.yaml`.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Invalid`] for a file that is none, naming the key.
    pub fn read(text: &str) -> Result<Read, Refusal> {
        if text.len() > BYTES_MAX {
            return Err(Refusal::invalid(format!(
                "network.yaml is {} bytes, at most {BYTES_MAX} are read",
                text.len()
            )));
        }
        let file: Value = serde_yaml_ng::from_str(text)
            .map_err(|error| Refusal::invalid(format!("network.yaml cannot be read: {error}")))?;
        let mut reading = Reading { notices: Vec::new(), settings: Self::named("") };
        reading.file(object("network.yaml", &file)?)?;
        Ok(Read { settings: reading.settings, notices: reading.notices })
    }
}

struct Reading {
    settings: NetworkSettings,
    notices: Vec<String>,
}

impl Reading {
    fn notice(&mut self, text: impl Into<String>) {
        self.notices.push(text.into());
    }

    fn file(&mut self, file: &Map<String, Value>) -> Result<(), Refusal> {
        for (key, value) in file {
            match key.as_str() {
                "network" => {}
                "network_profile" => self.profile(object(key, value)?),
                key if TOP.contains(&key) => drop(self.settings.rest.insert(key.to_owned(), value.clone())),
                key => self.notice(format!("{key}: nothing reads this key")),
            }
        }
        let network = file.get("network").ok_or_else(|| Refusal::invalid("network.yaml has no key \"network\""))?;
        self.network(object("network", network)?)
    }

    fn profile(&mut self, profile: &Map<String, Value>) {
        self.settings.profile = profile.clone();
        // For whoever manages the network, not for whoever looks at it.
        self.settings.profile.remove("management_token");
    }

    fn network(&mut self, network: &Map<String, Value>) -> Result<(), Refusal> {
        let mut without_effect = Vec::new();
        for (key, value) in network {
            let at = format!("network.{key}");
            match key.as_str() {
                "name" => self.settings.name = text(&at, value)?,
                "node_id" | "network_id" => self.settings.id = text(&at, value)?,
                "mode" if text(&at, value)? == "centralized" => {}
                "mode" => self.notice(format!("{at}: {value} is not offered, the network is centralized")),
                "transports" => self.transports(list(&at, value)?)?,
                "mods" => self.mods(list(&at, value)?)?,
                "channels" => self.channels(&at, value)?,
                "agent_groups" => self.groups(object(&at, value)?)?,
                "default_agent_group" => self.settings.default_group = text(&at, value)?,
                "requires_password" => self.settings.requires_password = boolean(&at, value)?,
                "strict" => self.settings.strict = boolean(&at, value)?,
                "disable_agent_secret_verification" if boolean(&at, value)? => {
                    self.notice(format!("{at}: secrets are always verified, as anybody could be anybody otherwise"));
                }
                "disable_agent_secret_verification" => {}
                "max_connections" => self.settings.agents_max = count(&at, value)?,
                "message_queue_size" => self.settings.queue_max = count(&at, value)?,
                "max_message_size" => self.settings.message_bytes_max = count(&at, value)?,
                "max_channels" => self.settings.channels_max = count(&at, value)?,
                "agent_timeout" => self.settings.lease = seconds(&at, value)?.max(Duration::from_secs(5)),
                "retention_days" => self.retention(&at, value)?,
                "rate_limit" => self.rate(object(&at, value)?)?,
                key if ELSEWHERE.contains(&key) => drop(self.settings.rest.insert(key.to_owned(), value.clone())),
                key if WITHOUT_EFFECT.contains(&key) => without_effect.push(key.to_owned()),
                key if SILENT.contains(&key) => {}
                _ => self.notice(format!("{at}: nothing reads this key")),
            }
        }
        if !without_effect.is_empty() {
            self.notice(format!("network: {} change nothing here", without_effect.join(", ")));
        }
        self.name_and_id();
        self.agents_channels();
        self.default_group()
    }

    /// A network without an id is known by its name.
    fn name_and_id(&mut self) {
        let settings = &mut self.settings;
        let given = settings.id.clone();
        if given.is_empty() {
            let profile = settings.profile.get("network_id").and_then(Value::as_str).unwrap_or_default();
            let from = if profile.is_empty() { settings.name.as_str() } else { profile };
            settings.id = slug(from);
        } else if crate::opening::thread_of(&given).is_err() {
            settings.id = slug(&given);
            self.notices.push(format!("network.node_id: {given:?} is no id, {:?} is used", self.settings.id));
        }
        if self.settings.name.is_empty() {
            self.settings.name.clone_from(&self.settings.id);
        }
    }

    fn transports(&mut self, transports: &[Value]) -> Result<(), Refusal> {
        for (n, transport) in transports.iter().enumerate() {
            let at = format!("network.transports[{n}]");
            let transport = object(&at, transport)?;
            let kind = text(&format!("{at}.type"), transport.get("type").unwrap_or(&Value::Null))?;
            let config = match transport.get("config") {
                None | Some(Value::Null) => Map::new(),
                Some(config) => object(&format!("{at}.config"), config)?.clone(),
            };
            for key in transport.keys().filter(|key| !["type", "config"].contains(&key.as_str())) {
                self.notice(format!("{at}.{key}: nothing reads this key: write it under config"));
            }
            if self.settings.transports.iter().any(|(known, _)| *known == kind) {
                return Err(Refusal::invalid(format!("{at}: there are two transports {kind:?}: leave one of them")));
            }
            self.settings.transports.push((kind, config));
        }
        Ok(())
    }

    fn mods(&mut self, mods: &[Value]) -> Result<(), Refusal> {
        for (n, module) in mods.iter().enumerate() {
            let at = format!("network.mods[{n}]");
            if let Value::String(name) = module {
                self.settings.mods.push((name.clone(), Map::new()));
                continue;
            }
            let module = object(&at, module)?;
            let name = text(&format!("{at}.name"), module.get("name").unwrap_or(&Value::Null))?;
            let enabled = module.get("enabled").map_or(Ok(true), |value| boolean(&format!("{at}.enabled"), value))?;
            let config = match module.get("config") {
                None | Some(Value::Null) => Map::new(),
                Some(config) => object(&format!("{at}.config"), config)?.clone(),
            };
            for key in module.keys().filter(|key| !["name", "enabled", "config"].contains(&key.as_str())) {
                self.notice(format!("{at}.{key}: nothing reads this key"));
            }
            if enabled {
                self.settings.mods.push((name, config));
            }
        }
        Ok(())
    }

    fn channels(&mut self, at: &str, channels: &Value) -> Result<(), Refusal> {
        for channel in list(at, channels)? {
            let name = channel.as_str().or_else(|| channel.get("name").and_then(Value::as_str));
            let name = name.ok_or_else(|| Refusal::invalid(format!("{at}: each channel is a name, or has one")))?;
            let description = channel.get("description").and_then(Value::as_str).unwrap_or_default();
            self.settings.channels.push((name.to_owned(), description.to_owned()));
        }
        Ok(())
    }

    fn groups(&mut self, groups: &Map<String, Value>) -> Result<(), Refusal> {
        for (name, group) in groups {
            let at = format!("network.agent_groups.{name}");
            let empty = Map::new();
            let group = if group.is_null() { &empty } else { object(&at, group)? };
            let metadata = match group.get("metadata") {
                None | Some(Value::Null) => Map::new(),
                Some(metadata) => object(&format!("{at}.metadata"), metadata)?.clone(),
            };
            let said = group.get("permissions").or_else(|| metadata.get("permissions"));
            let mut permissions = said.map(crate::opening::texts).unwrap_or_default();
            if name == "admin" && permissions.is_empty() {
                permissions.push("admin".to_owned());
            }
            if metadata.get("agents").is_some_and(|agents| agents.as_array().is_some_and(|agents| !agents.is_empty())) {
                self.notice(format!(
                    "{at}.metadata.agents: nobody is let into a group by name alone: give the group a password_hash"
                ));
            }
            for key in group.keys() {
                if !["password_hash", "description", "metadata", "permissions"].contains(&key.as_str()) {
                    self.notice(format!("{at}.{key}: nothing reads this key"));
                }
            }
            let credential = self.credential(&at, name, group.get("password_hash"))?;
            let description = group.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
            self.settings.groups.insert(name.clone(), GroupSettings { description, credential, permissions, metadata });
        }
        Ok(())
    }

    /// The credential of a group; one that everybody knows is one that nobody can show.
    fn credential(&mut self, at: &str, group: &str, hash: Option<&Value>) -> Result<Option<String>, Refusal> {
        let at = format!("{at}.password_hash");
        let hash = match hash {
            None | Some(Value::Null) => return Ok(None),
            Some(hash) => text(&at, hash)?.trim().to_ascii_lowercase(),
        };
        if hash.is_empty() {
            return Ok(None);
        }
        let is = |password: &str| hex::encode(digest::of(password)) == hash;
        if WEAK.iter().any(|weak| is(weak)) || is(group) {
            self.notice(format!(
                "{at}: this is the hash of a password that everybody knows, so nobody comes into {group:?} with it: \
                 choose another one with `longhaul network password`"
            ));
            return Ok(Some(NOBODY.to_owned()));
        }
        let hexadecimal = hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
        if !hexadecimal && !hash.starts_with("pbkdf2$") {
            self.notice(format!(
                "{at}: this is no hexadecimal SHA-256, so nobody comes into {group:?} with it: make one with \
                 `longhaul network password`"
            ));
            return Ok(Some(NOBODY.to_owned()));
        }
        Ok(Some(hash))
    }

    fn rate(&mut self, rate: &Map<String, Value>) -> Result<(), Refusal> {
        for (key, value) in rate {
            let at = format!("network.rate_limit.{key}");
            let number = || count(&at, value).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
            match key.as_str() {
                "events_per_second" => self.settings.events_per_second = number()?,
                "burst" => self.settings.events_burst = number()?,
                _ => self.notice(format!("{at}: nothing reads this key")),
            }
        }
        Ok(())
    }

    fn retention(&mut self, at: &str, value: &Value) -> Result<(), Refusal> {
        self.settings.retention = match value {
            Value::Null => None,
            value => {
                let days = u64::try_from(count(at, value)?).unwrap_or(u64::MAX);
                Some(Duration::from_secs(days.saturating_mul(24 * 3600)))
            }
        };
        Ok(())
    }

    /// The older form says at each agent which channels it is in: these exist.
    fn agents_channels(&mut self) {
        let agents = self.settings.rest.get("agents").and_then(Value::as_object).cloned().unwrap_or_default();
        let mut named: BTreeMap<String, String> = BTreeMap::new();
        for channel in agents.values().filter_map(|agent| agent.get("channels")).flat_map(crate::opening::texts) {
            named.entry(channel).or_default();
        }
        let known = |channel: &String| self.settings.channels.iter().any(|(known, _)| known == channel);
        let new: Vec<_> = named.into_iter().filter(|(channel, _)| !known(channel)).collect();
        self.settings.channels.extend(new);
    }

    fn default_group(&mut self) -> Result<(), Refusal> {
        let name = self.settings.default_group.clone();
        let settings = &mut self.settings;
        if name != "guest" && !settings.groups.contains_key(&name) {
            return Err(Refusal::invalid(format!(
                "network.default_agent_group: there is no group {name:?} under network.agent_groups"
            )));
        }
        let may = settings.groups.get(&name).is_some_and(|group| group.credential.is_none())
            && ["admin", "kick", "configure", "invite", "mod", "channels"].iter().any(|it| settings.may(&name, it));
        if may && !settings.requires_password {
            if let Some(group) = settings.groups.get_mut(&name) {
                group.permissions.clear();
            }
            self.notice(format!(
                "network.default_agent_group: whoever comes by is in {name:?}, so its permissions are taken away: give \
                 it a password_hash, or make another group the default"
            ));
        }
        Ok(())
    }
}

/// A credential that nobody can show.
const NOBODY: &str = "!";

fn object<'v>(at: &str, value: &'v Value) -> Result<&'v Map<String, Value>, Refusal> {
    value.as_object().ok_or_else(|| Refusal::invalid(format!("{at}: a mapping is expected, not {value}")))
}

fn list<'v>(at: &str, value: &'v Value) -> Result<&'v [Value], Refusal> {
    match value {
        Value::Null => Ok(&[]),
        value => value
            .as_array()
            .map(Vec::as_slice)
            .ok_or_else(|| Refusal::invalid(format!("{at}: a list is expected, not {value}"))),
    }
}

fn text(at: &str, value: &Value) -> Result<String, Refusal> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(Refusal::invalid(format!("{at}: a text is expected, not {other}"))),
    }
}

fn boolean(at: &str, value: &Value) -> Result<bool, Refusal> {
    match value {
        Value::Null => Ok(false),
        value => {
            value.as_bool().ok_or_else(|| Refusal::invalid(format!("{at}: true or false is expected, not {value}")))
        }
    }
}

fn count(at: &str, value: &Value) -> Result<usize, Refusal> {
    let number = value.as_u64().filter(|number| *number > 0).and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| Refusal::invalid(format!("{at}: a whole number above 0 is expected, not {value}")))
}

fn seconds(at: &str, value: &Value) -> Result<Duration, Refusal> {
    let number = value.as_f64().filter(|number| (0.0..=31_536_000.0).contains(number));
    let number = number.ok_or_else(|| Refusal::invalid(format!("{at}: seconds are expected, not {value}")))?;
    Ok(Duration::from_secs_f64(number))
}

/// A name as an id: letters, digits and hyphens.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug: String = slug.trim_end_matches('-').chars().take(100).collect();
    if slug.is_empty() { "network".to_owned() } else { slug }
}

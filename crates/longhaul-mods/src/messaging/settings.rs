//! What messaging is configured with: the keys of the reference's `config`, and bounds of our own.

use std::collections::BTreeMap;

use longhaul_network::{AgentId, Refusal};
use serde_json::{Map, Value};

use crate::shape::{config_number, config_texts};

/// The bounds of what is said.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Longest text of one message, bytes.
    pub(super) message_bytes_max: usize,
    /// Levels of replies that are counted; a deeper reply stands on the last one.
    pub(super) thread_depth_max: i64,
    /// Largest file, bytes.
    pub(super) file_bytes_max: usize,
    /// All files of one agent, bytes.
    pub(super) agent_file_bytes_max: usize,
    /// Media types (`image/*`) and endings (`.txt`) that are taken; nothing: all.
    pub(super) file_types: Option<Vec<String>>,
    /// Parts of one stream.
    pub(super) stream_parts_max: i64,
    /// A post in a channel that does not exist makes it.
    pub(super) makes_channels: bool,
    /// Channels that only their members may see, and who is one.
    pub(super) private: BTreeMap<String, Vec<AgentId>>,
}

impl Settings {
    /// Reads a `config`.
    ///
    /// # Errors
    /// Which key makes no sense.
    pub(super) fn read(config: &Map<String, Value>) -> Result<Self, Refusal> {
        let depth = config_number(config, "max_thread_depth", 5)?;
        let parts = config_number(config, "max_stream_parts", 10_000)?;
        Ok(Self {
            message_bytes_max: config_number(config, "max_message_length", 256 * 1024)?,
            thread_depth_max: i64::try_from(depth).unwrap_or(i64::MAX),
            file_bytes_max: config_number(config, "max_file_size", 10 * 1024 * 1024)?,
            agent_file_bytes_max: config_number(config, "max_file_bytes_per_agent", 1024 * 1024 * 1024)?,
            file_types: config_texts(config, "allowed_file_types")?.filter(|types| !types.is_empty()),
            stream_parts_max: i64::try_from(parts).unwrap_or(i64::MAX),
            makes_channels: config.get("auto_create_channels").and_then(Value::as_bool).unwrap_or(true),
            private: private(config)?,
        })
    }
}

/// The channels of both forms of the configuration that are marked as private, with their `members`.
fn private(config: &Map<String, Value>) -> Result<BTreeMap<String, Vec<AgentId>>, Refusal> {
    let listed = ["default_channels", "channels"].into_iter().filter_map(|key| config.get(key)?.as_array()).flatten();
    let mut private = BTreeMap::new();
    for channel in listed.filter_map(Value::as_object) {
        if channel.get("private") != Some(&Value::Bool(true)) {
            continue;
        }
        let Some(name) = channel.get("name").and_then(Value::as_str) else { continue };
        let members = config_texts(channel, "members")?.unwrap_or_default();
        let members = members.iter().map(|member| member.parse()).collect::<Result<Vec<AgentId>, Refusal>>()?;
        private.insert(name.strip_prefix('#').unwrap_or(name).to_owned(), members);
    }
    Ok(private)
}

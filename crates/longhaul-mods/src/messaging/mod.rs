//! Messaging: posts in channels, direct messages, replies, reactions, files, announcements, and text while it is written.
//!
//! What is said is one row of the network's log, under the name of the notice that its receivers get; lists are read
//! from there. This crate's own rows are what belongs to messages: threads, reactions, counts. Invariants: who said
//! something is what the network knows, whatever a payload states; nobody reads or answers what was not said to them.

mod announcements;
mod channels;
mod counts;
mod direct;
mod manifest;
mod partial;
mod post;
mod reactions;
mod retrieve;
mod settings;
mod sharing;
mod strands;
mod view;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use longhaul_network::{Backstage, Event, Manifest, Mod, Outcome, Prepared, Refusal, Sender, Stage};
use serde_json::{Map, Value};

use self::settings::Settings;
use crate::{Parts, files};

/// The name of messages in a channel, as their receivers get them.
pub(super) const POSTED: &str = "thread.channel_message.notification";
/// The name of replies.
pub(super) const REPLIED: &str = "thread.reply.notification";
/// The name of direct messages.
pub(super) const TOLD: &str = "thread.direct_message.notification";
/// The name of parts of a text that is still being written.
pub(super) const PARTIAL: &str = "thread.message.partial";

/// The mod.
#[derive(Debug)]
pub(crate) struct Messaging {
    settings: Settings,
    /// Posts since the last count was written, by channel.
    uncounted: Mutex<HashMap<String, u32>>,
}

/// Makes it from its `config`.
pub(crate) fn make(config: &Map<String, Value>, _parts: &Parts) -> Result<Arc<dyn Mod>, Refusal> {
    Ok(Arc::new(Messaging { settings: Settings::read(config)?, uncounted: Mutex::default() }))
}

#[async_trait]
impl Mod for Messaging {
    fn manifest(&self) -> Manifest {
        manifest::manifest()
    }

    async fn prepare(&self, backstage: &Backstage, event: &Event) -> Result<Prepared, Refusal> {
        match event.name.as_str() {
            "thread.file.upload" | "thread.file.upload_requested" | "thread.file_upload" => {
                let limits = files::Limits {
                    bytes_max: self.settings.file_bytes_max,
                    types: self.settings.file_types.as_deref(),
                };
                files::take_in(backstage, event, "file_content", &limits).await
            }
            "thread.file.download" => files::fetch(backstage, event, "file_id").await,
            "thread.file.operation" if files::is_download(event) => files::fetch(backstage, event, "file_id").await,
            _ => Ok(Prepared::default()),
        }
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Outcome, Refusal> {
        if !matches!(event.from, Sender::Agent(_)) {
            return Ok(Outcome::Pass);
        }
        let reply = match event.name.as_str() {
            "thread.channel_message.post" => self.post(stage, event)?,
            "thread.reply.post" | "thread.reply.sent" => self.reply(stage, event)?,
            "thread.direct_message.send" => self.tell(stage, event)?,
            PARTIAL => self.partial(stage, event)?,
            "thread.reaction.add" => self.react(stage, event, Some("add"))?,
            "thread.reaction.remove" => self.react(stage, event, Some("remove"))?,
            "thread.reaction.toggle" => self.react(stage, event, Some("toggle"))?,
            "thread.reaction" => self.react(stage, event, None)?,
            "thread.channels.list" | "thread.channels.info" => self.list_channels(stage, event)?,
            "thread.channel_info" => self.list_channels_later(stage, event)?,
            "thread.channel.create" => self.create_channel(stage, event)?,
            "thread.channel_messages.retrieve" | "thread.messages.retrieve" => self.retrieve(stage, event)?,
            "thread.direct_messages.retrieve" => self.retrieve_direct(stage, event)?,
            "thread.thread.retrieve" => self.retrieve_thread(stage, event)?,
            "thread.conversations.list" => self.conversations(stage, event)?,
            "thread.announcement.set" => self.announce(stage, event)?,
            "thread.announcement.get" => self.announcement(stage, event)?,
            "thread.file.upload" | "thread.file.upload_requested" | "thread.file_upload" => {
                self.share_file(stage, event, prepared)?
            }
            "thread.file.download" => self.hand_file(stage, event, prepared)?,
            "thread.file.operation" if files::is_download(event) => self.hand_file(stage, event, prepared)?,
            _ => return Ok(Outcome::Pass),
        };
        Ok(Outcome::Answer(reply))
    }
}

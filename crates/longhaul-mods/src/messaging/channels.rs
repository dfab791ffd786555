//! The list of channels, and new ones.

use longhaul_network::{Address, AgentId, ChannelView, Event, Refusal, Reply, Sender, Stage};
use longhaul_store::values;
use serde_json::{Map, Value, json};

use super::{Messaging, counts, post::everybody, strands};
use crate::{
    place::{Place, asker},
    shape::{Fields, wrong},
};

/// Version of what a row holds.
const V: u32 = 1;
/// Longest description of a channel, bytes.
const DESCRIPTION_BYTES_MAX: usize = 2_000;
/// Members that a channel may be made with.
const MEMBERS_MAX: usize = 1_000;

impl Messaging {
    /// `thread.channels.list` and `.info`: the channels the asker may read; `.info` may name one.
    pub(super) fn list_channels(&self, stage: &Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let fields = Fields::of(event);
        let data = json!({
            "success": true,
            "channels": self.channels_for(stage, asker(event)?, fields.channel()?.as_deref())?,
            "request_id": fields.request_id(),
        });
        Ok(Reply::done("channels were listed", Some(data)))
    }

    /// `thread.channel_info`: the SDK's workspace waits for an event with the list, and not for the answer.
    pub(super) fn list_channels_later(&self, stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let (reply, asker) = (self.list_channels(stage, event)?, asker(event)?);
        let mut payload = reply.data.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
        payload.insert("action".to_owned(), json!("list_channels_response"));
        let from = Sender::Mod(super::manifest::NAME.to_owned());
        stage.emit(from, "thread.channels.list_response", Address::Agent(asker.clone()), payload)?;
        Ok(reply)
    }

    fn channels_for(&self, stage: &Stage<'_, '_>, asker: &AgentId, only: Option<&str>) -> Result<Vec<Value>, Refusal> {
        let mut listed = Vec::new();
        for ChannelView { channel: name, description, members } in stage.channels() {
            if only.is_some_and(|only| only != name) || !self.may_read(stage, &name, asker)? {
                continue;
            }
            listed.push(json!({
                "name": name,
                "description": description,
                "message_count": counts::count(stage, &name)?,
                "thread_count": strands::threads_of(stage, &name)?,
                "agents": members.iter().map(AgentId::as_str).collect::<Vec<_>>(),
                "agent_count": members.len(),
                "private": self.is_private(stage, &name)?,
            }));
        }
        match only {
            Some(only) if listed.is_empty() => Err(Refusal::missing("channel", only)),
            _ => Ok(listed),
        }
    }

    /// `thread.channel.create`: with these members, or with everybody.
    pub(super) fn create_channel(&self, stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let (fields, maker) = (Fields::of(event), asker(event)?);
        let channel = fields.channel()?.ok_or_else(|| wrong("channel", "is missing: name the channel"))?;
        let description = fields.optional_text("description", DESCRIPTION_BYTES_MAX)?.unwrap_or_default();
        let configured = self.settings.private.contains_key(&channel);
        if configured && !self.is_listed(&channel, maker) {
            return Err(Refusal::forbidden(format!("channel {channel:?} is private, and you are none of its members")));
        }
        let private = configured || fields.flag("private", false)?;
        if stage.members(&channel).is_some() {
            return Err(Refusal::conflict(format!("there is a channel {channel:?} already: post in it")));
        }
        let named = fields.texts("members", MEMBERS_MAX)?;
        let mut members = match &named {
            Some(names) => names.iter().map(|name| name.parse()).collect::<Result<Vec<AgentId>, Refusal>>()?,
            None if private => Vec::new(),
            None => everybody(stage),
        };
        if let Some(stranger) = members.iter().find(|agent| stage.agent(agent).is_none()) {
            return Err(Refusal::missing("agent", stranger.as_str()));
        }
        if !members.contains(maker) {
            members.push(maker.clone());
        }
        stage.open_channel(&channel, description, &members)?;
        if private {
            let Place { tenant, network } = Place::of(stage);
            stage.tx().execute(
                "INSERT INTO messaging_channels (tenant_id, network_id, channel, v, private, announcement)
                 VALUES (?1, ?2, ?3, ?4, 1, '')
                 ON CONFLICT (tenant_id, network_id, channel) DO UPDATE SET private = 1",
                &values![&tenant, &network, &channel, V],
            )?;
        }
        let names: Vec<&str> = members.iter().map(AgentId::as_str).collect();
        let line = json!({
            "channel": channel, "description": description, "private": private, "agents": names, "created_by": maker.as_str(),
        });
        let payload: Map<String, Value> = line.as_object().cloned().unwrap_or_default();
        stage.publish("thread.channel.created", Address::Channel(channel.clone()), payload)?;
        Ok(Reply::done(format!("channel {channel} was made"), Some(line)))
    }
}

//! Announcements: one text a channel, set by those who may.

use longhaul_network::{Address, Event, Refusal, Reply, Stage};
use longhaul_store::values;
use serde_json::{Map, Value, json};

use super::Messaging;
use crate::{
    place::{Place, asker},
    shape::{Fields, wrong},
};

/// Version of what a row holds.
const V: u32 = 1;
/// Longest announcement, bytes.
const ANNOUNCEMENT_BYTES_MAX: usize = 16 * 1024;

impl Messaging {
    /// `thread.announcement.set`: needs the permission `announce`, which `admin` includes.
    pub(super) fn announce(&self, stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let (fields, agent) = (Fields::of(event), asker(event)?);
        if !stage.may(agent, "announce") {
            let data =
                json!({"error": "only agents of a group with the permission \"announce\" may set announcements"});
            return Ok(Reply { data: Some(data), ..Reply::refused("forbidden") });
        }
        let channel = fields.channel()?.ok_or_else(|| wrong("channel", "is missing: name the channel"))?;
        let text = fields.optional_text("text", ANNOUNCEMENT_BYTES_MAX)?.unwrap_or_default();
        if stage.members(&channel).is_none() {
            return Err(Refusal::missing("channel", &channel));
        }
        let (Place { tenant, network }, now) = (Place::of(stage), stage.now());
        stage.tx().execute(
            "INSERT INTO messaging_channels (tenant_id, network_id, channel, v, private, announcement, announced_by,
                 announced_at)
             VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7)
             ON CONFLICT (tenant_id, network_id, channel) DO UPDATE SET announcement = excluded.announcement,
                 announced_by = excluded.announced_by, announced_at = excluded.announced_at",
            &values![&tenant, &network, &channel, V, text, agent.as_str(), now],
        )?;
        let payload = Map::from_iter([
            ("channel".to_owned(), json!(channel)),
            ("text".to_owned(), json!(text)),
            ("announced_by".to_owned(), json!(agent.as_str())),
        ]);
        stage.publish("thread.announcement.notification", Address::Channel(channel.clone()), payload)?;
        Ok(Reply::done("ok", Some(json!({"channel": channel, "text": text}))))
    }

    /// `thread.announcement.get`: the empty text where none was set.
    pub(super) fn announcement(&self, stage: &Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let (fields, agent) = (Fields::of(event), asker(event)?);
        let channel = fields.channel()?.ok_or_else(|| wrong("channel", "is missing: name the channel"))?;
        self.check_may_read(stage, &channel, agent)?;
        let Place { tenant, network } = Place::of(stage);
        let found: Option<Value> = stage.rows().query_optional(
            "SELECT announcement, announced_by, announced_at FROM messaging_channels
             WHERE tenant_id = ?1 AND network_id = ?2 AND channel = ?3",
            &values![&tenant, &network, &channel],
            |row| {
                let (by, at): (Option<String>, Option<i64>) = (row.get(1)?, row.get(2)?);
                Ok(json!({"text": row.text(0)?, "announced_by": by, "announced_at": at.map(|at| at / 1000)}))
            },
        )?;
        let mut data = found.unwrap_or_else(|| json!({"text": ""}));
        data["channel"] = json!(channel);
        Ok(Reply::done("ok", Some(data)))
    }
}

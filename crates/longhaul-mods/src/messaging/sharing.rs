//! Files within messaging: shared with a channel, an agent, or everybody.

use longhaul_network::{Address, Event, Prepared, Refusal, Reply, Stage};
use serde_json::{Map, Value, json};

use super::{Messaging, direct::target};
use crate::{
    files::{self, Audience, Fetched, Taken},
    place::asker,
    shape::Fields,
};

impl Messaging {
    /// `thread.file.upload`.
    pub(super) fn share_file(
        &self,
        stage: &mut Stage<'_, '_>,
        event: &Event,
        prepared: Prepared,
    ) -> Result<Reply, Refusal> {
        let (fields, owner) = (Fields::of(event), asker(event)?);
        let taken: Taken = prepared.take().ok_or_else(not_prepared)?;
        let (to, audience) = match fields.channel()? {
            Some(channel) => {
                self.enter(stage, &channel, owner)?;
                (Some(Address::Channel(channel.clone())), Audience::Channel(channel))
            }
            // The SDK addresses files to their sender, which is to nobody in particular.
            None => match target(&fields, event)?.filter(|agent| agent != owner) {
                Some(agent) => (Some(Address::Agent(agent.clone())), Audience::Agent(agent.to_string())),
                None => (None, Audience::Everybody),
            },
        };
        let file = files::keep(stage, owner, taken, audience, self.settings.agent_file_bytes_max)?;
        let about = json!({
            "file_id": file.id,
            "filename": file.filename,
            "mime_type": file.media_type,
            "file_size": file.bytes,
            "sender_id": file.owner,
            "created_at": file.created_at / 1000,
        });
        if let Some(to) = to {
            let mut payload: Map<String, Value> = about.as_object().cloned().unwrap_or_default();
            if let Address::Channel(channel) = &to {
                payload.insert("channel".to_owned(), json!(channel));
            }
            payload.insert("success".to_owned(), json!(true));
            // What the reference's workers read.
            payload.insert("file".to_owned(), about);
            stage.publish("thread.file.upload_response", to, payload)?;
        }
        let data = json!({
            "success": true,
            "file_id": file.id,
            "filename": file.filename,
            "mime_type": file.media_type,
            "file_size": file.bytes,
            "request_id": fields.request_id(),
        });
        Ok(Reply::done("the file was shared", Some(data)))
    }

    /// `thread.file.download`.
    pub(super) fn hand_file(&self, stage: &Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Reply, Refusal> {
        let (fields, asker) = (Fields::of(event), asker(event)?);
        let Fetched { file, content } = prepared.take().ok_or_else(not_prepared)?;
        let may_have = file.owner == asker.as_str()
            || match &file.audience {
                Audience::Everybody => true,
                Audience::Channel(channel) => self.may_read(stage, channel, asker).unwrap_or(false),
                Audience::Agent(agent) => agent == asker.as_str(),
                Audience::Groups(groups) => groups.iter().any(|group| group == crate::place::group(event)),
            };
        if !may_have {
            // The same words as for a file that does not exist.
            return Err(Refusal::missing("file", &file.id));
        }
        let data = json!({
            "success": true,
            "file_id": file.id,
            "filename": file.filename,
            "mime_type": file.media_type,
            "file_size": file.bytes,
            "content": files::encoded(&content),
            "request_id": fields.request_id(),
        });
        Ok(Reply::done("the file was found", Some(data)))
    }
}

fn not_prepared() -> Refusal {
    Refusal::invalid("the file did not come with its event: send it again")
}

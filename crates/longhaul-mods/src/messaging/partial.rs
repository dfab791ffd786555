//! Text while it is being written: parts that receivers see at once and that nobody keeps.
//!
//! A stream is opened by its first part and ended by the message that carries its `stream_id`, or by a part that says
//! `done`. Its parts are then taken out of the log. Invariant: a stream has one sender and one destination, and a part
//! of one that has ended is refused, so that a repeated part shows nothing twice.

use longhaul_network::{Address, AgentId, Event, Refusal, Reply, Sender, Stage};
use longhaul_store::{Row, StoreError, values};
use serde_json::{Map, json};

use super::{Messaging, PARTIAL, direct::target};
use crate::{
    place::{Place, asker},
    shape::{Fields, REFERENCE_BYTES_MAX, wrong},
};

/// Version of what a row holds.
const V: u32 = 1;
/// Text of all parts of a stream, bytes.
const STREAM_BYTES_MAX: i64 = 4 * 1024 * 1024;
/// A stream of which nothing has been heard for so long is over.
const SILENCE_MS_MAX: i64 = 10 * 60 * 1000;
/// A stream that has ended is remembered for so long.
const ENDED_MS_MAX: i64 = 24 * 60 * 60 * 1000;
/// Streams of one agent at a time.
const STREAMS_MAX: usize = 16;

/// A stream's row.
struct Stream {
    id: String,
    destination: String,
    floor: i64,
    parts: i64,
    bytes: i64,
    last_at: i64,
    ended: bool,
}

fn stream(row: &Row<'_>) -> Result<Stream, StoreError> {
    Ok(Stream {
        id: row.get(0)?,
        destination: row.get(1)?,
        floor: row.get(2)?,
        parts: row.get(3)?,
        bytes: row.get(4)?,
        last_at: row.get(5)?,
        ended: row.get(6)?,
    })
}

impl Messaging {
    /// `thread.message.partial`.
    pub(super) fn partial(&self, stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let (fields, sender) = (Fields::of(event), asker(event)?);
        let id = fields.text("stream_id", REFERENCE_BYTES_MAX)?;
        let text = fields.said(self.settings.message_bytes_max)?;
        let to = match fields.channel()? {
            Some(channel) => {
                self.enter(stage, &channel, sender)?;
                Address::Channel(channel)
            }
            None => Address::Agent(
                target(&fields, event)?.ok_or_else(|| wrong("channel", "is missing: name a channel or an agent"))?,
            ),
        };
        let stream = open(stage, sender, id, &to)?;
        let bytes = i64::try_from(text.len()).unwrap_or(i64::MAX);
        if stream.parts >= self.settings.stream_parts_max || stream.bytes.saturating_add(bytes) > STREAM_BYTES_MAX {
            return Err(Refusal::new(
                longhaul_network::RefusalKind::TooMany,
                format!("stream {id:?} has no room for more parts: end it with the whole message"),
            ));
        }
        let part = stream.parts + 1;
        let mut payload = Map::new();
        payload.insert("stream_id".to_owned(), json!(id));
        payload.insert("part".to_owned(), json!(part));
        payload.insert("content".to_owned(), json!({"text": text}));
        payload.insert("sender_id".to_owned(), json!(sender.as_str()));
        payload.insert("message_type".to_owned(), json!("partial"));
        let is_over = fields.flag("done", false)?;
        payload.insert("done".to_owned(), json!(is_over));
        match &to {
            Address::Channel(channel) => payload.insert("channel".to_owned(), json!(channel)),
            other => payload.insert("target_agent_id".to_owned(), json!(other.to_string())),
        };
        stage.publish(PARTIAL, to.clone(), payload)?;
        let stream = Stream { parts: part, bytes: stream.bytes + bytes, ..stream };
        write(stage, sender, &stream)?;
        if is_over {
            // The last part itself is not in the log yet, and stays: it tells receivers that nothing follows.
            forget(stage, &event.from, &stream)?;
            mark_ended(stage, sender, id)?;
        }
        Ok(Reply::done("the part was delivered", Some(json!({"stream_id": id, "part": part}))))
    }

    /// The message with this stream's whole text is here: its parts go.
    pub(super) fn end_stream(
        stage: &mut Stage<'_, '_>,
        event: &Event,
        sender: &AgentId,
        id: &str,
    ) -> Result<(), Refusal> {
        let Some(stream) = find(stage, sender, id)? else { return Ok(()) };
        if !stream.ended {
            forget(stage, &event.from, &stream)?;
            mark_ended(stage, sender, id)?;
        }
        Ok(())
    }
}

fn find(stage: &Stage<'_, '_>, sender: &AgentId, id: &str) -> Result<Option<Stream>, Refusal> {
    let Place { tenant, network } = Place::of(stage);
    Ok(stage.rows().query_optional(
        "SELECT stream_id, destination, floor_seq, parts, bytes, last_at, ended FROM messaging_streams
         WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3 AND stream_id = ?4",
        &values![&tenant, &network, sender.as_str(), id],
        stream,
    )?)
}

/// The stream of this id, which may take one more part there.
fn open(stage: &mut Stage<'_, '_>, sender: &AgentId, id: &str, to: &Address) -> Result<Stream, Refusal> {
    match find(stage, sender, id)? {
        Some(stream) if stream.ended => {
            Err(Refusal::conflict(format!("stream {id:?} has ended: begin another one under a new id")))
        }
        Some(stream) if stream.destination != to.to_string() => {
            Err(Refusal::conflict(format!("stream {id:?} goes to {}: begin another one", stream.destination)))
        }
        Some(stream) => Ok(stream),
        None => {
            tidy(stage, sender)?;
            let floor = stage.history().head()?;
            Ok(Stream {
                id: id.to_owned(),
                destination: to.to_string(),
                floor,
                parts: 0,
                bytes: 0,
                last_at: 0,
                ended: false,
            })
        }
    }
}

/// Ends streams that their sender has left open, and forgets those that ended long ago.
fn tidy(stage: &mut Stage<'_, '_>, sender: &AgentId) -> Result<(), Refusal> {
    let (Place { tenant, network }, now) = (Place::of(stage), stage.now().0);
    let all = stage.rows().query(
        "SELECT stream_id, destination, floor_seq, parts, bytes, last_at, ended FROM messaging_streams
         WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3",
        &values![&tenant, &network, sender.as_str()],
        stream,
    )?;
    let mut running = 0;
    for each in all {
        let silent_for = now.saturating_sub(each.last_at);
        if each.ended && silent_for > ENDED_MS_MAX {
            stage.tx().execute(
                "DELETE FROM messaging_streams
                 WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3 AND stream_id = ?4",
                &values![&tenant, &network, sender.as_str(), &each.id],
            )?;
        } else if !each.ended && silent_for > SILENCE_MS_MAX {
            forget(stage, &Sender::Agent(sender.clone()), &each)?;
            mark_ended(stage, sender, &each.id)?;
        } else if !each.ended {
            running += 1;
        }
    }
    if running >= STREAMS_MAX {
        return Err(Refusal::new(
            longhaul_network::RefusalKind::TooMany,
            format!("{STREAMS_MAX} streams are open: end one with its message, or with a part that says done"),
        ));
    }
    Ok(())
}

fn write(stage: &mut Stage<'_, '_>, sender: &AgentId, stream: &Stream) -> Result<(), Refusal> {
    let (Place { tenant, network }, now) = (Place::of(stage), stage.now());
    stage.tx().execute(
        "INSERT INTO messaging_streams (tenant_id, network_id, agent_id, stream_id, v, destination, floor_seq, parts,
             bytes, last_at, ended)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0)
         ON CONFLICT (tenant_id, network_id, agent_id, stream_id) DO UPDATE SET parts = excluded.parts,
             bytes = excluded.bytes, last_at = excluded.last_at",
        &values![
            &tenant,
            &network,
            sender.as_str(),
            &stream.id,
            V,
            &stream.destination,
            stream.floor,
            stream.parts,
            stream.bytes,
            now,
        ],
    )?;
    Ok(())
}

fn mark_ended(stage: &mut Stage<'_, '_>, sender: &AgentId, id: &str) -> Result<(), Refusal> {
    let (Place { tenant, network }, now) = (Place::of(stage), stage.now());
    stage.tx().execute(
        "UPDATE messaging_streams SET ended = 1, last_at = ?5
         WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3 AND stream_id = ?4",
        &values![&tenant, &network, sender.as_str(), id, now],
    )?;
    Ok(())
}

fn forget(stage: &mut Stage<'_, '_>, from: &Sender, stream: &Stream) -> Result<(), Refusal> {
    let to = Address::parse(Some(&stream.destination))?;
    stage.take_back(&to, PARTIAL, from, ("stream_id", &stream.id), stream.floor).map(drop)
}

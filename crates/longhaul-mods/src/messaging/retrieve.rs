//! Pages of what was said: in a channel, between two, in a thread.

use std::collections::HashMap;

use longhaul_network::{Address, Event, Refusal, Reply, Said, Stage};
use serde_json::{Map, Value, json};

use super::{
    Messaging, POSTED,
    counts::{self, MESSAGES},
    direct::target,
    reactions,
    strands::{self, Strand},
    view::{About, Where, line, message_id, whole},
};
use crate::{
    place::asker,
    shape::{Fields, Page, REFERENCE_BYTES_MAX, wrong},
};

/// Messages of one page.
const PAGE_MAX: i64 = 500;

impl Messaging {
    /// `thread.channel_messages.retrieve`: newest first.
    pub(super) fn retrieve(&self, stage: &Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let (fields, asker) = (Fields::of(event), asker(event)?);
        let channel = fields.channel()?.ok_or_else(|| wrong("channel", "is missing: name the channel"))?;
        self.check_may_read(stage, &channel, asker)?;
        let (page, with_replies) = (fields.page(50, PAGE_MAX)?, fields.flag("include_threads", true)?);
        let to = Address::Channel(channel.clone());
        let names: &[&str] = if with_replies { &MESSAGES } else { &[POSTED] };
        let said = stage.history().newest(&to, names, page.limit, page.offset)?;
        let total = match (with_replies, stage.history().span(&to)?) {
            (true, _) => counts::count(stage, &channel)?,
            (false, Some((first, last))) => stage.history().count(&to, names, first - 1, last)?,
            (false, None) => 0,
        };
        let about = about(stage, &said)?;
        let messages: Vec<Value> = said.iter().zip(about).map(|(said, about)| line(said, &channel, about)).collect();
        let mut data = paged(&messages, page, total, &fields);
        data.insert("channel".to_owned(), json!(channel));
        Ok(Reply::done("messages were retrieved", Some(Value::Object(data))))
    }

    /// `thread.direct_messages.retrieve`: the asker's conversation with somebody, oldest first.
    pub(super) fn retrieve_direct(&self, stage: &Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let (fields, asker) = (Fields::of(event), asker(event)?);
        let other = target(&fields, event)?.ok_or_else(|| wrong("target_agent_id", "is missing: name the agent"))?;
        let (strand, page) = (Strand::between(asker, &other), fields.page(50, PAGE_MAX)?);
        let total = strand.standing(stage)?.map_or(0, |standing| standing.count);
        let said = said_of(stage, &strand, page)?;
        let about = about(stage, &said)?;
        let messages: Vec<Value> = said.iter().zip(about).map(|(said, about)| whole(said, about)).collect();
        let mut data = paged(&messages, page, total, &fields);
        data.insert("target_agent_id".to_owned(), json!(other.as_str()));
        Ok(Reply::done("direct messages were retrieved", Some(Value::Object(data))))
    }

    /// `thread.thread.retrieve`: the message that began a thread and the answers to it, oldest first.
    pub(super) fn retrieve_thread(&self, stage: &Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let (fields, asker) = (Fields::of(event), asker(event)?);
        let (any, _) = self.message(stage, fields.text("message_id", REFERENCE_BYTES_MAX)?, asker)?;
        let root = any.payload.get("thread_id").and_then(Value::as_str).unwrap_or(&any.id).to_owned();
        let (root, place) = self.message(stage, &root, asker)?;
        let channel = match place {
            Where::Channel(channel) => Some(channel),
            Where::Between(_) => None,
        };
        let (strand, page) = (Strand::thread(&root.id, channel.as_deref()), fields.page(50, PAGE_MAX)?);
        let total = strand.standing(stage)?.map_or(0, |standing| standing.count);
        let mut said = said_of(stage, &strand, page)?;
        said.insert(0, root);
        let about = about(stage, &said)?;
        let shown = |(said, about): (&Said, About)| match &channel {
            Some(channel) => line(said, channel, about),
            None => whole(said, about),
        };
        let mut messages: Vec<Value> = said.iter().zip(about).map(shown).collect();
        let root = messages.remove(0);
        let mut data = paged(&messages, page, total, &fields);
        data.insert("root".to_owned(), root);
        Ok(Reply::done("the thread was retrieved", Some(Value::Object(data))))
    }
}

fn said_of(stage: &Stage<'_, '_>, strand: &Strand, page: Page) -> Result<Vec<Said>, Refusal> {
    let ids = strand.page(stage, page)?;
    let found = ids.iter().map(|id| stage.history().by_id(id)).collect::<Result<Vec<_>, Refusal>>()?;
    // What retention has removed is not there any more.
    Ok(found.into_iter().flatten().collect())
}

fn paged(messages: &[Value], page: Page, total: i64, fields: &Fields<'_>) -> Map<String, Value> {
    Map::from_iter([
        ("success".to_owned(), json!(true)),
        ("messages".to_owned(), json!(messages)),
        ("total_count".to_owned(), json!(total)),
        ("offset".to_owned(), json!(page.offset)),
        ("limit".to_owned(), json!(page.limit)),
        ("has_more".to_owned(), json!(page.has_more(messages.len(), total))),
        ("request_id".to_owned(), json!(fields.request_id())),
    ])
}

/// What belongs to each of these messages.
fn about(stage: &Stage<'_, '_>, said: &[Said]) -> Result<Vec<About>, Refusal> {
    let ids: Vec<&str> = said.iter().map(|said| said.id.as_str()).collect();
    let mut reactions: HashMap<String, Map<String, Value>> = reactions::of(stage, &ids)?.into_iter().collect();
    let begun: HashMap<String, (i64, i64)> =
        strands::threads(stage, &ids)?.into_iter().map(|each| (each.strand, (each.count, each.last_at))).collect();
    let of = |said: &Said| {
        let thread = match (begun.get(&format!("t:{}", said.id)), said.payload.get("thread_id")) {
            (Some((replies, last_at)), _) => json!({
                "thread_id": message_id(said), "is_root": true, "reply_count": replies, "last_reply_at": last_at / 1000,
            }),
            (None, Some(root)) => json!({
                "thread_id": root,
                "is_root": false,
                "thread_level": said.payload.get("thread_level"),
            }),
            (None, None) => Value::Null,
        };
        About { reactions: reactions.remove(&said.id).unwrap_or_default(), thread }
    };
    Ok(said.iter().map(of).collect())
}

//! Keeping what passes by: messages, tool outputs, decisions; and forgetting what is deleted where it was said.
//!
//! It runs after the commit, at least once for each event; the row of the event makes it once. Nothing is kept that was
//! said to one agent, or that names who may see it.

use longhaul_core::MemoryId;
use longhaul_memory::{CONTENT_BYTES_MAX, Kind, Source};
use longhaul_network::{Address, Backstage, Event, Refusal, Sender, Visibility};
use serde_json::{Map, Value};

use super::{
    SharedMemory, author,
    collection::{Collection, Watch},
    refusal,
    rows::{Kept, Origin},
    storing::{Store, Wish},
    whose,
};
use crate::{acting::Here, shape::inner};

/// Fields of a payload that hold the text, the first that is there.
const TEXTS: &[&str] =
    &["content.text", "text", "decision", "output", "content", "topic.content", "comment.content", "result", "message"];
/// Fields that name what a payload is about, the first that is there; and what that is a part of.
const SUBJECTS: &[&str] =
    &["original_event_id", "message_id", "comment.comment_id", "topic.topic_id", "post.post_id", "page_path"];
const WHOLES: &[&str] = &["comment.topic_id", "reply_to_id", "topic_id"];
/// What is deleted, as notices of deletions name it.
const DELETED: &[&str] = &[
    "target_message_id",
    "message_id",
    "comment.comment_id",
    "topic.topic_id",
    "post.post_id",
    "comment_id",
    "topic_id",
    "post_id",
    "page_path",
];

impl SharedMemory {
    pub(super) async fn observed(&self, backstage: &Backstage, event: &Event) -> Result<(), Refusal> {
        let payload = inner(&event.payload);
        let action = payload.get("action").and_then(Value::as_str).unwrap_or_default();
        if event.name.as_str().ends_with(".deleted") || action == "page_deleted" {
            return match DELETED.iter().find_map(|path| text_at(payload, path)) {
                Some(subject) => self.forget_about(backstage, subject).await,
                None => Ok(()),
            };
        }
        let Some(audience) = Audience::of(event) else { return Ok(()) };
        for collection in &self.collections {
            let Some(watch) = collection.observes.iter().find(|watch| watch.pattern.matches(&event.name)) else {
                continue;
            };
            if let Some(text) = said(payload, watch) {
                self.keep(backstage, event, collection, watch, &audience, text).await?;
            }
        }
        Ok(())
    }

    async fn keep(
        &self,
        backstage: &Backstage,
        event: &Event,
        collection: &Collection,
        watch: &Watch,
        audience: &Audience,
        text: String,
    ) -> Result<(), Refusal> {
        let (scope, network, now) = whose(backstage);
        let payload = inner(&event.payload);
        let (author, from_group) = (author(event), event.from_group.clone().unwrap_or_default());
        let group = audience.group.clone().unwrap_or(from_group);
        let name = event.name.as_str();
        let mut metadata = Map::new();
        metadata.insert("event_name".to_owned(), name.into());
        let wish = Wish {
            collection,
            author: &author,
            group: &group,
            channel: audience.channel.clone(),
            content: text,
            metadata,
            tags: Vec::new(),
            kind: watch.kind.or_else(|| name.contains("decision").then_some(Kind::Decision)),
            source: if name.contains("tool") { Source::Tool } else { Source::Agent },
            importance: 0.5,
            thread: event.thread_name.clone().or_else(|| audience.channel.clone()),
            fact: None,
            happened_at: event.at,
        };
        let mut store: Store = match wish.checked(&network, now) {
            Ok(store) => store,
            // A text that memory does not take would fail each time.
            Err(refusal) => {
                tracing::debug!(%refusal, event = event.id, "a message was not kept in memory");
                return Ok(());
            }
        };
        if let (Some(group), None) = (&audience.group, &store.group) {
            // Said to one group, it stays theirs, whatever the collection's partition is.
            store = store.for_group(&network, group)?;
        }
        let (memory, event_id) = (self.memory.clone(), event.id.clone());
        let subject = SUBJECTS.iter().find_map(|path| text_at(payload, path)).unwrap_or(&event.id).to_owned();
        let within = WHOLES.iter().find_map(|path| text_at(payload, path)).map(str::to_owned);
        let here = Here { tenant: scope.tenant.clone(), scope, network };
        backstage
            .network
            .store()
            .write(move |tx| {
                if Kept::is_known(tx, &here, &author, &event_id, &store.collection)? {
                    return Ok(());
                }
                let id = memory.insert_prepared(tx, &here.scope, &store.checked).map_err(refusal)?;
                let kept = Kept {
                    memory: id,
                    collection: store.collection,
                    group: store.group,
                    channel: store.channel,
                    author,
                };
                let origin = Origin { event: &event_id, subject: &subject, within: within.as_deref() };
                kept.insert(tx, &here, &origin)?;
                Ok::<_, Refusal>(())
            })
            .await
    }

    async fn forget_about(&self, backstage: &Backstage, subject: &str) -> Result<(), Refusal> {
        let (scope, network, _) = whose(backstage);
        let (memory, subject) = (self.memory.clone(), subject.to_owned());
        let here = Here { tenant: scope.tenant.clone(), scope, network };
        backstage
            .network
            .store()
            .write(move |tx| {
                for kept in Kept::about(tx, &here, &subject)? {
                    let id: &MemoryId = &kept.memory;
                    memory.forget(tx, &here.scope, id).map_err(refusal)?;
                    kept.delete(tx, &here)?;
                }
                Ok::<_, Refusal>(())
            })
            .await
    }
}

/// Who heard something that more than one heard.
struct Audience {
    channel: Option<String>,
    group: Option<String>,
}

impl Audience {
    fn of(event: &Event) -> Option<Self> {
        let is_open = matches!(event.visibility, Visibility::Public | Visibility::Network | Visibility::Channel)
            && event.allowed_agents.is_none()
            && matches!(event.from, Sender::Agent(_));
        let (channel, group) = match &event.to {
            Address::Channel(channel) => (Some(channel.clone()), None),
            Address::Group(group) => (None, Some(group.clone())),
            Address::Everybody => (None, None),
            Address::Agent(_) | Address::Mod(_) | Address::System => return None,
        };
        is_open.then_some(Self { channel, group })
    }
}

/// The text of a payload, cut to what a memory takes.
fn said(payload: &Map<String, Value>, watch: &Watch) -> Option<String> {
    let text = match &watch.text {
        Some(path) => text_at(payload, path),
        None => TEXTS.iter().find_map(|path| text_at(payload, path)),
    }?;
    let text = match text_at(payload, "topic.title") {
        Some(title) => format!("{title}\n\n{text}"),
        None => text.to_owned(),
    };
    let mut end = text.len().min(CONTENT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Some(text[..end].replace('\0', " ")).filter(|text| !text.trim().is_empty())
}

/// The text at a path with dots, unless it is empty.
fn text_at<'a>(payload: &'a Map<String, Value>, path: &str) -> Option<&'a str> {
    let mut parts = path.split('.');
    let first = payload.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))?.as_str().filter(|text| !text.is_empty())
}

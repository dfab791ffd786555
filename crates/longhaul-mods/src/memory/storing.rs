//! Keeping what somebody wants to be kept.

use longhaul_core::TimeMs;
use longhaul_memory::{CONTENT_BYTES_MAX, Fact, Kind, NewMemory, Prepared as Checked, Source};
use longhaul_network::{Backstage, Event, Refusal, Reply, Stage};
use serde_json::{Map, Value, json};

use super::{
    Call, Ready, SharedMemory, author,
    collection::Collection,
    partition, refusal,
    rows::{Kept, Origin},
    whose,
};
use crate::{
    acting::no,
    shape::{Fields, REFERENCE_BYTES_MAX, wrong},
};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const TAGS_MAX: usize = 32;

/// A memory that was checked, with where it goes.
pub(super) struct Store {
    pub(super) checked: Checked,
    pub(super) collection: String,
    pub(super) group: Option<String>,
    pub(super) channel: Option<String>,
}

/// What is to be kept, before it is checked.
pub(super) struct Wish<'a> {
    pub(super) collection: &'a Collection,
    pub(super) author: &'a str,
    pub(super) group: &'a str,
    pub(super) channel: Option<String>,
    pub(super) content: String,
    pub(super) metadata: Map<String, Value>,
    pub(super) tags: Vec<String>,
    pub(super) kind: Option<Kind>,
    pub(super) source: Source,
    pub(super) importance: f32,
    pub(super) thread: Option<String>,
    pub(super) fact: Option<Fact>,
    pub(super) happened_at: TimeMs,
}

impl SharedMemory {
    pub(super) fn ready_to_store(&self, backstage: &Backstage, event: &Event) -> Result<Ready, Refusal> {
        let fields = Fields::of(event);
        let collection = match self.named(&fields)? {
            Ok(collection) => collection,
            Err(refused) => return Ok(Ready::Refused(refused)),
        };
        let group = event.from_group.clone().unwrap_or_default();
        if !collection.may_write(&group) {
            let said = format!("the group {group:?} may not write to {:?}", collection.name);
            return Ok(Ready::Refused(no("NOT_ALLOWED", said)));
        }
        let metadata = fields.object("metadata")?.cloned().unwrap_or_default();
        if let Some(problem) = collection.problem(&metadata) {
            return Ok(Ready::Refused(no("METADATA", problem)));
        }
        let content = fields.said(CONTENT_BYTES_MAX)?.to_owned();
        let kind = match fields.optional_text("kind", 20)? {
            Some(word) if !word.is_empty() => Some(word.parse().map_err(refusal)?),
            _ => None,
        };
        // Whoever may only speak for themselves may still say that a tool or a page said it, never that a person did.
        let source = match fields.word("source", &["agent", "tool", "outside"])? {
            "tool" => Source::Tool,
            "outside" => Source::Outside,
            _ => Source::Agent,
        };
        let importance = match fields.value("importance") {
            None => 0.5,
            Some(value) => value
                .as_f64()
                .filter(|number| (0.0..=1.0).contains(number))
                .ok_or_else(|| wrong("importance", "is no number from 0 to 1"))?,
        };
        let wish = Wish {
            collection,
            author: &author(event),
            group: &group,
            channel: None,
            content,
            metadata,
            tags: fields.texts("tags", TAGS_MAX)?.unwrap_or_default(),
            kind,
            source,
            #[expect(clippy::cast_possible_truncation, reason = "from 0 to 1")]
            importance: importance as f32,
            thread: fields.optional_text("thread", REFERENCE_BYTES_MAX)?.map(str::to_owned),
            fact: fact(&fields)?,
            happened_at: event.at,
        };
        let (_, network, now) = whose(backstage);
        Ok(Ready::Store(Box::new(wish.checked(&network, now)?)))
    }
}

/// What it says of the world, where it is such a statement: a newer one takes its place.
fn fact(fields: &Fields<'_>) -> Result<Option<Fact>, Refusal> {
    let subject = fields.optional_text("subject", REFERENCE_BYTES_MAX)?;
    let attribute = fields.optional_text("attribute", REFERENCE_BYTES_MAX)?;
    match (subject, attribute) {
        (None, None) => Ok(None),
        (Some(subject), Some(attribute)) => {
            Ok(Some(Fact { subject: subject.to_owned(), attribute: attribute.to_owned(), ..Fact::default() }))
        }
        (Some(_), None) => Err(wrong("attribute", "is missing: a subject has one")),
        (None, Some(_)) => Err(wrong("subject", "is missing: an attribute has one")),
    }
}

impl Wish<'_> {
    /// Checks it and takes its words, so that the transaction is short.
    pub(super) fn checked(self, network: &str, now: TimeMs) -> Result<Store, Refusal> {
        let group = self.collection.by_group.then(|| self.group.to_owned());
        let kind = self.kind.unwrap_or(self.collection.kind);
        let mut meta = self.metadata;
        meta.insert("author_id".to_owned(), self.author.into());
        if let Some(channel) = &self.channel {
            meta.insert("channel".to_owned(), channel.clone().into());
        }
        let expires_at =
            self.collection.keep_days.map(|days| TimeMs(now.0.saturating_add(days.saturating_mul(DAY_MS))));
        let memory = NewMemory {
            namespace: partition(network, group.as_deref())?,
            meta,
            tags: self.tags,
            importance: self.importance,
            thread: self.thread,
            fact: self.fact,
            index: self.collection.index,
            happened_at: Some(self.happened_at),
            expires_at,
            ..NewMemory::new(&self.collection.name, kind, self.source, self.content)
        };
        let checked = memory.prepare().map_err(refusal)?;
        Ok(Store { checked, collection: self.collection.name.clone(), group, channel: self.channel })
    }
}

impl Store {
    /// The same in a group's own part.
    pub(super) fn for_group(self, network: &str, group: &str) -> Result<Self, Refusal> {
        let mut memory = self.checked.memory().clone();
        memory.namespace = partition(network, Some(group))?;
        Ok(Self { checked: memory.prepare().map_err(refusal)?, group: Some(group.to_owned()), ..self })
    }
}

impl Call<'_, '_> {
    pub(super) fn store(&self, stage: &mut Stage<'_, '_>, event: &Event, store: &Store) -> Result<Reply, Refusal> {
        let count = Kept::count_of(&stage.rows(), &self.here, &self.actor.id)?;
        if count >= self.mod_.per_agent_max {
            let said = format!("{count} memories of yours are kept, and no more: delete some");
            return Ok(no("TOO_MANY_MEMORIES", said));
        }
        let memory = self.mod_.memory.insert_prepared(stage.tx(), &self.here.scope, &store.checked).map_err(refusal)?;
        let kept = Kept {
            memory: memory.clone(),
            collection: store.collection.clone(),
            group: store.group.clone(),
            channel: store.channel.clone(),
            author: self.actor.id.clone(),
        };
        // Who stores something about a message or a page may say so; it is forgotten with it.
        let about = self.fields.optional_text("about", REFERENCE_BYTES_MAX)?.unwrap_or(&event.id);
        kept.insert(stage.tx(), &self.here, &Origin { event: &event.id, subject: about, within: None })?;
        let data = json!({
            "memory_id": memory.as_str(), "collection": kept.collection,
            "partition": store.checked.memory().namespace.as_str(),
        });
        Ok(Reply::done(format!("kept in {}", kept.collection), Some(data)))
    }
}

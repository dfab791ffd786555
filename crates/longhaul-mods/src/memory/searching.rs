//! Finding memories again. The search itself is done before the answer's snapshot is taken; what is found is then
//! checked against who may see it.

use longhaul_memory::{Condition, Hit, Item, MemoryError, Mode, Namespace, Op, Query};
use longhaul_network::{AgentId, Backstage, Event, Refusal, Reply, Sender, Stage};
use longhaul_store::values;
use serde_json::{Map, Value, json};

use super::{
    Call, Ready, SharedMemory,
    collection::Collection,
    partition, refusal,
    rows::{KEPT, Kept, kept},
    shown, whose,
};
use crate::{
    acting::no,
    shape::{Fields, REFERENCE_BYTES_MAX, wrong},
};

const QUERY_BYTES_MAX: usize = 16 * 1024;
const COLLECTIONS_MAX: usize = 32;
/// For each hit that is asked for, so many are looked at, as some may be for others.
const LOOKED_AT: usize = 4;

/// What a search found, before it is checked who may see it.
pub(super) struct Found {
    hits: Vec<Hit>,
    limit: usize,
    min_score: f64,
    newest_first: bool,
    mode: String,
    notes: Vec<String>,
    query: String,
}

impl SharedMemory {
    pub(super) async fn look_up(&self, backstage: &Backstage, event: &Event) -> Result<Ready, Refusal> {
        let fields = Fields::of(event);
        let text = fields.text("query", QUERY_BYTES_MAX)?;
        let group = event.from_group.clone().unwrap_or_default();
        let collections = match self.readable(&fields, &group)? {
            Ok(collections) => collections,
            Err(refused) => return Ok(Ready::Refused(refused)),
        };
        let (scope, network, _) = whose(backstage);
        let first = &collections[0].retrieval;
        let limit = match fields.value("k") {
            Some(_) => fields.number("k", first.k, 1..=50)?,
            None => fields.number("limit", first.k, 1..=50)?,
        };
        let limit = usize::try_from(limit).unwrap_or(1);
        let query = Query {
            namespaces: namespaces(&network, &group, &collections)?,
            collections: collections.iter().map(|collection| collection.name.clone()).collect(),
            tags: fields.texts("tags", COLLECTIONS_MAX)?.unwrap_or_default(),
            thread: fields.optional_text("thread", REFERENCE_BYTES_MAX)?.map(str::to_owned),
            subject: fields.optional_text("subject", REFERENCE_BYTES_MAX)?.map(str::to_owned),
            filter: conditions(fields.object("filter")?)?,
            context: first.context,
            ..Query::new(text, (limit * LOOKED_AT).min(longhaul_memory::HITS_MAX))
        };
        let newest_first = match fields.optional_text("order", 20)? {
            Some("newest") => true,
            Some("relevance") => false,
            Some(_) => return Err(wrong("order", "is none of relevance, newest")),
            None => first.newest_first,
        };
        let min_score = fields.value("min_score").and_then(Value::as_f64).unwrap_or(first.min_score);
        let query_text = text.to_owned();
        let found = match self.memory.search(&scope, &query).await {
            Ok(recall) => {
                let mode = match recall.mode {
                    Mode::Hybrid => "hybrid".to_owned(),
                    Mode::Keyword { reason } => format!("words: {reason}"),
                };
                let mut notes = recall.notes;
                if recall.unembedded > 0 {
                    notes.push(format!("{} memories could be found by words alone so far", recall.unembedded));
                }
                Found { hits: recall.hits, limit, min_score, newest_first, mode, notes, query: query_text }
            }
            // Nothing has this field yet, so nothing fits.
            Err(error @ MemoryError::UnknownField { .. }) => Found {
                hits: Vec::new(),
                limit,
                min_score,
                newest_first,
                mode: "none".to_owned(),
                notes: vec![error.to_string()],
                query: query_text,
            },
            Err(error) => return Err(refusal(error)),
        };
        Ok(Ready::Found(found))
    }

    /// The collections that are asked for, if the group may read them all; those that it may where none is named.
    fn readable(&self, fields: &Fields<'_>, group: &str) -> Result<Result<Vec<&Collection>, Reply>, Refusal> {
        let mut names = fields.texts("collections", COLLECTIONS_MAX)?.unwrap_or_default();
        names.extend(fields.optional_text("collection", REFERENCE_BYTES_MAX)?.map(str::to_owned));
        names.retain(|name| !name.is_empty());
        if names.is_empty() {
            let all: Vec<&Collection> = self.collections.iter().filter(|one| one.may_read(group)).collect();
            let none = || no("NOT_ALLOWED", format!("the group {group:?} may read no collection"));
            return Ok(if all.is_empty() { Err(none()) } else { Ok(all) });
        }
        let mut found = Vec::new();
        for name in &names {
            match self.collection(name) {
                Ok(collection) if collection.may_read(group) => found.push(collection),
                Ok(_) => return Ok(Err(no("NOT_ALLOWED", format!("the group {group:?} may not read {name:?}")))),
                Err(refused) => return Ok(Err(refused)),
            }
        }
        Ok(Ok(found))
    }
}

fn namespaces(network: &str, group: &str, collections: &[&Collection]) -> Result<Vec<Namespace>, Refusal> {
    // What was said to a group is in its own part, whatever its collection.
    let mut names = vec![partition(network, Some(group))?];
    if collections.iter().any(|collection| !collection.by_group) {
        names.push(partition(network, None)?);
    }
    Ok(names)
}

/// `{field: value}` is equal, `{field: [values]}` one of them.
fn conditions(filter: Option<&Map<String, Value>>) -> Result<Vec<Condition>, Refusal> {
    let one = |(field, value): (&String, &Value)| match value {
        Value::Array(_) => Ok(Condition::new(field, Op::In, value.clone())),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Ok(Condition::new(field, Op::Eq, value.clone())),
        Value::Null => Ok(Condition::new(field, Op::Exists, false)),
        Value::Object(_) => Err(wrong("filter", "has an object: compare with a text, a number, true, false or a list")),
    };
    filter.into_iter().flatten().map(one).collect()
}

impl Call<'_, '_> {
    pub(super) fn found(&self, stage: &Stage<'_, '_>, found: Found) -> Result<Reply, Refusal> {
        let mut hits = found.hits;
        if found.newest_first {
            hits.sort_by_key(|hit| std::cmp::Reverse(hit.item.happened_at));
        }
        let mut results = Vec::new();
        for hit in &hits {
            if results.len() == found.limit {
                break;
            }
            if f64::from(hit.score) < found.min_score {
                continue;
            }
            let kept = match Kept::find(&stage.rows(), &self.here, hit.item.id.as_str())? {
                Some(kept) => Some(kept),
                None => self.kept_by_agent(&hit.item)?,
            };
            let Some(kept) = kept.filter(|kept| self.may_see(stage, kept)) else { continue };
            let mut result = shown(&hit.item, &kept.author, kept.channel.as_deref());
            result["score"] = hit.score.into();
            result["relevance"] = hit.explain.relevance.into();
            results.push(result);
        }
        let count = results.len();
        let data = json!({
            "results": results, "count": count, "query": found.query, "mode": found.mode, "notes": found.notes,
        });
        Ok(Reply::done(format!("{count} memories"), Some(data)))
    }

    /// Memories of one collection, newest first.
    pub(super) fn list(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let collection = match self.mod_.named(&self.fields)? {
            Ok(collection) if collection.may_read(&self.actor.group) => collection,
            Ok(collection) => {
                let said = format!("the group {:?} may not read {:?}", self.actor.group, collection.name);
                return Ok(no("NOT_ALLOWED", said));
            }
            Err(refused) => return Ok(refused),
        };
        let page = self.fields.page(20, 200)?;
        let mut params =
            values![&self.here.tenant, &self.here.network, &collection.name, page.limit, page.offset].to_vec();
        let mut of_group = String::new();
        if !self.actor.is_admin {
            params.push((&self.actor.group).into());
            of_group = format!("AND (group_name IS NULL OR group_name = ?{})", params.len());
        }
        let sql = format!(
            "SELECT {KEPT} FROM shared_memories s
             WHERE tenant_id = ?1 AND network_id = ?2 AND collection = ?3 {of_group}
             ORDER BY kept_at DESC, memory_id DESC LIMIT ?4 OFFSET ?5"
        );
        let read = stage.rows();
        let mut memories = Vec::new();
        for kept in read.query(&sql, &params, kept)? {
            if self.may_see(stage, &kept)
                && let Some(item) = self.item(stage, &kept)?
            {
                memories.push(shown(&item, &kept.author, kept.channel.as_deref()));
            }
        }
        let count = memories.len();
        let data = json!({"memories": memories, "count": count, "collection": collection.name, "offset": page.offset});
        Ok(Reply::done(format!("{count} memories"), Some(data)))
    }

    pub(super) fn get(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let id = self.fields.text("memory_id", REFERENCE_BYTES_MAX)?;
        if let Some(kept) = self.visible(stage, id)?
            && let Some(item) = self.item(stage, &kept)?
        {
            return Ok(Reply::done("memory", Some(shown(&item, &kept.author, kept.channel.as_deref()))));
        }
        Ok(no("MEMORY_NOT_FOUND", "there is no such memory"))
    }

    /// What there is, and how much of it the actor may find.
    pub(super) fn collections(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let sql = "SELECT count(*) FROM shared_memories
                   WHERE tenant_id = ?1 AND network_id = ?2 AND collection = ?3
                     AND (group_name IS NULL OR group_name = ?4)";
        let mut all = Vec::new();
        for collection in self.mod_.collections.iter().filter(|one| one.may_read(&self.actor.group)) {
            let key = values![&self.here.tenant, &self.here.network, &collection.name, &self.actor.group];
            let count: i64 = stage.rows().query_one(sql, &key, |row| row.get(0))?;
            let mut said = collection.shown();
            said["memories"] = count.into();
            said["may_write"] = collection.may_write(&self.actor.group).into();
            all.push(said);
        }
        Ok(Reply::done(format!("{} collections", all.len()), Some(json!({"collections": all}))))
    }

    /// The memory's row, if the actor may see it.
    pub(super) fn visible(&self, stage: &Stage<'_, '_>, id: &str) -> Result<Option<Kept>, Refusal> {
        let found = Kept::find(&stage.rows(), &self.here, id)?;
        Ok(found.filter(|kept| self.may_see(stage, kept)))
    }

    fn may_see(&self, stage: &Stage<'_, '_>, kept: &Kept) -> bool {
        if self.actor.is_admin || kept.author == self.actor.id {
            return true;
        }
        let readable = self.mod_.collection(&kept.collection).is_ok_and(|one| one.may_read(&self.actor.group));
        let of_group = kept.group.as_ref().is_none_or(|group| *group == self.actor.group);
        let in_channel = |channel: &String| match (&self.actor.sender, stage.members(channel)) {
            (Sender::Agent(agent), Some(members)) => members.iter().any(|member: &AgentId| member == agent),
            _ => false,
        };
        readable && of_group && kept.channel.as_ref().is_none_or(in_channel)
    }

    /// What an agent of this process kept by itself in the network's part, if it says in which channel it was said:
    /// the rest may be from a conversation of two.
    fn kept_by_agent(&self, item: &Item) -> Result<Option<Kept>, Refusal> {
        let word = |key: &str| item.meta.get(key).and_then(Value::as_str).map(str::to_owned);
        let (Some(channel), true) = (word("channel"), item.namespace == partition(&self.here.network, None)?) else {
            return Ok(None);
        };
        let author = word("agent").or_else(|| word("asked_by")).unwrap_or_default();
        let (memory, collection) = (item.id.clone(), item.collection.clone());
        Ok(Some(Kept { memory, collection, group: None, channel: Some(channel), author }))
    }

    fn item(&self, stage: &Stage<'_, '_>, kept: &Kept) -> Result<Option<Item>, Refusal> {
        self.mod_.memory.find_in(&stage.rows(), &self.here.scope, &kept.memory).map_err(refusal)
    }
}

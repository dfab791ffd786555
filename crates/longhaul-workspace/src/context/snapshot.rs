//! What was found, read again in one snapshot: rows, newest versions, linked records, contents.
//!
//! Invariants: a candidate's row is in the snapshot and the user may read it; a hit of an index whose row is gone or not
//! readable is dropped and counted in a note; a content is what its digest says, or its record is left out by name.

use std::collections::{BTreeMap, HashMap, HashSet};

use longhaul_core::{Digest, MemoryId, MessageId, RecordId, TaskId, TimeMs, UserId};
use longhaul_memory::{Hit, Item, Memory, Source, Tier};
use longhaul_store::{ReadTx, values};

use super::{
    error::ContextError,
    fill::Candidate,
    gather::{Asked, Hits},
    pack::{Found, Label, Omitted, Origin, Reason, Score, Searched},
};
use crate::{
    Record, access, content,
    record::{self, Place},
};

/// Contents up to this are taken whole; of larger ones the parts that were found.
const WHOLE_BYTES_MAX: u64 = 8 * 1024;
/// Parts taken of a record that a link or its age led to.
const PARTS_OF_UNSEARCHED: usize = 2;
/// Relevance of what is only new.
const RECENT_RELEVANCE: f32 = 0.25;
/// What is left of a relevance at the other end of a link.
const LINK_FACTOR: f32 = 0.7;
/// Records whose links are followed, best first.
const FOLLOWED_MAX: usize = 32;
/// Tasks whose newest records are looked at.
const RECENT_TASKS_MAX: usize = 8;
/// Steps from a version to the newest.
const VERSIONS_MAX: usize = 1_000;
/// Characters of a message or memory that stand for it in a list.
const SUMMARY_CHARS: usize = 80;

/// Everything that a pack is chosen from.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) candidates: Vec<Candidate>,
    /// Candidates that are out before anything is weighed.
    pub(super) omitted: Vec<Omitted>,
    pub(super) searched: Searched,
    pub(super) notes: Vec<String>,
}

/// Reads what was found.
pub(super) struct Snapshot<'a> {
    read: &'a ReadTx<'a>,
    memory: &'a Memory,
    asked: &'a Asked,
    /// Whether the user may see the records of a task.
    readable: HashMap<TaskId, bool>,
    records: BTreeMap<RecordId, Seen>,
    messages: BTreeMap<MessageId, (f32, Found)>,
    /// Records that were replaced by newer versions.
    replaced: HashSet<RecordId>,
    gathered: Gathered,
    /// Hits without a row that may be read.
    dropped: usize,
    /// What belongs to other tasks.
    outside: usize,
}

/// A record that is a candidate.
struct Seen {
    record: Record,
    relevance: f32,
    found: Found,
    /// Texts of its index that were found, by the number of the part.
    parts: BTreeMap<u64, String>,
}

impl<'a> Snapshot<'a> {
    pub(super) fn new(read: &'a ReadTx<'a>, memory: &'a Memory, asked: &'a Asked) -> Self {
        Self {
            read,
            memory,
            asked,
            readable: HashMap::new(),
            records: BTreeMap::new(),
            messages: BTreeMap::new(),
            replaced: HashSet::new(),
            gathered: Gathered::default(),
            dropped: 0,
            outside: 0,
        }
    }

    /// All candidates.
    pub(super) fn gather(mut self, hits: Hits) -> Result<Gathered, ContextError> {
        self.gathered.searched = hits.searched;
        self.gathered.notes = hits.notes;
        for hit in hits.records {
            self.record_hit(hit)?;
        }
        self.recent()?;
        for hit in hits.messages {
            self.message_hit(&hit);
        }
        self.linked()?;
        self.record_candidates()?;
        self.message_candidates()?;
        for hit in hits.memories {
            self.memory_candidate(hit)?;
        }
        if self.dropped > 0 {
            let note = format!("{} hits were dropped: what they point to is gone, or not yours to read", self.dropped);
            self.gathered.notes.push(note);
        }
        if self.outside > 0 {
            self.gathered.notes.push(format!("{} things of other tasks were left out", self.outside));
        }
        Ok(self.gathered)
    }

    fn record_hit(&mut self, hit: Hit) -> Result<(), ContextError> {
        let id = hit.item.thread.as_deref().and_then(|thread| thread.parse::<RecordId>().ok());
        let Some(record) = id.map(|id| self.visible(&id)).transpose()?.flatten() else {
            self.dropped += 1;
            return Ok(());
        };
        let part = hit.item.meta.get("at").and_then(|at| at.get("part")?.as_u64()).unwrap_or(0);
        self.admit(record, hit.score, Found::Search, Some((part, hit.item.content)))
    }

    /// The record, if it is within reach and the user may read it now.
    fn visible(&mut self, id: &RecordId) -> Result<Option<Record>, ContextError> {
        if let Some(seen) = self.records.get(id) {
            return Ok(Some(seen.record.clone()));
        }
        let scope = &self.asked.within.scope;
        let found = record::find(self.read, scope, id)?;
        let Some(record) = found.filter(|record| record.expires_at.is_none_or(|at| at > self.read.now())) else {
            return Ok(None);
        };
        if record.owner.scope.user != scope.user {
            let task = &record.owner.task;
            let may = match self.readable.get(task) {
                Some(may) => *may,
                None => access::may_see_task(self.read, self.memory, scope, task)?,
            };
            self.readable.insert(task.clone(), may);
            if !may {
                return Ok(None);
            }
        }
        if !self.asked.reach.has(&record.owner.task) {
            self.outside += 1;
            return Ok(None);
        }
        Ok(Some(record))
    }

    /// Makes a record a candidate; an old version gives its place to the newest.
    fn admit(
        &mut self,
        record: Record,
        relevance: f32,
        found: Found,
        part: Option<(u64, String)>,
    ) -> Result<(), ContextError> {
        let id = record.reference.id.clone();
        let newest = self.newest(record)?;
        let newest_id = newest.reference.id.clone();
        let (found, part) = if newest_id == id { (found, part) } else { (Found::Newest { of: id.to_string() }, None) };
        let seen = self.records.entry(newest_id).or_insert_with(|| Seen {
            record: newest,
            relevance,
            found: found.clone(),
            parts: BTreeMap::new(),
        });
        if relevance > seen.relevance {
            (seen.relevance, seen.found) = (relevance, found);
        }
        seen.parts.extend(part);
        Ok(())
    }

    /// The newest version that may be read; the ones on the way are left out by name.
    fn newest(&mut self, record: Record) -> Result<Record, ContextError> {
        let mut newest = record;
        let mut older: Vec<(RecordId, String)> = Vec::new();
        while let Some(next) = newest.superseded_by.clone().filter(|_| older.len() < VERSIONS_MAX) {
            let Some(next) = self.visible(&next)? else { break };
            older.push((newest.reference.id.clone(), newest.summary.clone()));
            newest = next;
        }
        for (id, summary) in older {
            if self.replaced.insert(id.clone()) {
                let reason = Reason::Superseded { by: newest.reference.id.to_string() };
                self.gathered.omitted.push(Omitted { id: id.to_string(), summary, reason });
            }
        }
        Ok(newest)
    }

    /// The newest records of the newest tasks.
    fn recent(&mut self) -> Result<(), ContextError> {
        let most = self.asked.profile.recent;
        if most == 0 || self.asked.profile.records <= 0.0 {
            return Ok(());
        }
        let mut found: Vec<(TimeMs, RecordId)> = Vec::new();
        for (task, _) in self.asked.reach.tasks.iter().take(RECENT_TASKS_MAX) {
            found.extend(self.read.query(
                "select created_at, record_id from records
                 where tenant_id = ?1 and task_id = ?2 and superseded_by is null order by seq desc limit ?3",
                &values![&self.asked.within.scope.tenant, task, most],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?);
        }
        found.sort_by(|a, b| b.cmp(a));
        for (_, id) in found.into_iter().take(most) {
            if self.records.contains_key(&id) {
                continue;
            }
            if let Some(record) = self.visible(&id)? {
                self.admit(record, RECENT_RELEVANCE, Found::Recent, None)?;
            }
        }
        Ok(())
    }

    /// What the profile's relations lead to from the best records, one step in either direction.
    fn linked(&mut self) -> Result<(), ContextError> {
        let profile = &self.asked.profile;
        if profile.links_max == 0 || profile.follow.is_empty() {
            return Ok(());
        }
        let mut from: Vec<(f32, RecordId)> =
            self.records.iter().map(|(id, seen)| (seen.relevance, id.clone())).collect();
        from.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        for (relevance, id) in from.into_iter().take(FOLLOWED_MAX) {
            for (relation, other) in self.links_of(&id)? {
                let found = Found::Link { relation, of: id.to_string() };
                let relevance = relevance * LINK_FACTOR;
                if let Ok(other) = other.parse::<RecordId>() {
                    if self.replaced.contains(&other) {
                        continue;
                    }
                    match self.visible(&other)? {
                        Some(record) => self.admit(record, relevance, found, None)?,
                        None => continue,
                    }
                } else if let Ok(other) = other.parse::<MessageId>() {
                    let seen = self.messages.entry(other).or_insert((relevance, found));
                    seen.0 = seen.0.max(relevance);
                }
            }
        }
        Ok(())
    }

    fn links_of(&self, id: &RecordId) -> Result<Vec<(String, String)>, ContextError> {
        let links = self.read.query(
            "select relation, target_id from links where tenant_id = ?1 and source_id = ?2
             union all select relation, source_id from links where tenant_id = ?1 and target_id = ?2
             order by 1, 2",
            &values![&self.asked.within.scope.tenant, id],
            |row| Ok((row.get::<String>(0)?, row.get::<String>(1)?)),
        )?;
        let follow = &self.asked.profile.follow;
        let followed = links.into_iter().filter(|(relation, _)| follow.contains(relation));
        Ok(followed.take(self.asked.profile.links_max).collect())
    }

    fn record_candidates(&mut self) -> Result<(), ContextError> {
        for (id, seen) in std::mem::take(&mut self.records) {
            let text = self.text_of(&seen)?;
            let Seen { record, relevance, found, .. } = seen;
            let Some((text, whole)) = text else {
                let omitted = Omitted { id: id.to_string(), summary: record.summary, reason: Reason::Damaged };
                self.gathered.omitted.push(omitted);
                continue;
            };
            self.gathered.candidates.push(Candidate {
                id: id.to_string(),
                origin: Origin::Record,
                kind: record.kind.as_str().to_owned(),
                label: Label::of(&record.source),
                summary: record.summary,
                text,
                whole,
                digest: Some(record.reference.digest),
                at: record.created_at,
                task: Some(record.owner.task),
                score: unweighed(relevance, found),
            });
        }
        Ok(())
    }

    /// A record's text and whether it is all of it; nothing where the content is not what was written.
    fn text_of(&self, seen: &Seen) -> Result<Option<(String, bool)>, ContextError> {
        let record = &seen.record;
        if record.place == Place::Row && record.size <= WHOLE_BYTES_MAX && is_text(&record.media_type) {
            let Ok(bytes) = content::inline(self.read, &self.asked.within.scope, record) else { return Ok(None) };
            if Digest::of(&bytes) != record.reference.digest {
                return Ok(None);
            }
            if let Ok(text) = String::from_utf8(bytes) {
                return Ok(Some((text, true)));
            }
        }
        let stored;
        let parts = if seen.parts.is_empty() {
            stored = self.first_parts(record)?;
            &stored
        } else {
            &seen.parts
        };
        let is_all = parts.len() == record.parts as usize && record.parts > 0 && record.size <= 64 * 1024;
        let text = joined(parts, &record.summary);
        Ok(Some(if text.is_empty() { (record.summary.clone(), false) } else { (text, is_all) }))
    }

    fn first_parts(&self, record: &Record) -> Result<BTreeMap<u64, String>, ContextError> {
        let (scope, namespace) = (&self.asked.within.scope, access::partition_of(&record.owner.task));
        let thread = record.reference.id.as_str();
        let items = self.memory.thread_in(self.read, scope, &namespace, thread, PARTS_OF_UNSEARCHED)?;
        Ok((0..).zip(items).map(|(number, item)| (number, item.content)).collect())
    }

    fn message_hit(&mut self, hit: &Hit) {
        let id = hit.item.meta.get("at").and_then(|at| at.get("message")?.as_str()?.parse::<MessageId>().ok());
        let Some(id) = id else {
            self.dropped += 1;
            return;
        };
        let seen = self.messages.entry(id).or_insert((hit.score, Found::Search));
        seen.0 = seen.0.max(hit.score);
    }

    fn message_candidates(&mut self) -> Result<(), ContextError> {
        let scope = &self.asked.within.scope;
        for (id, (relevance, found)) in std::mem::take(&mut self.messages) {
            let row = self.read.query_optional(
                "select user_id, task_id, role, content, created_at from messages
                 where tenant_id = ?1 and message_id = ?2",
                &values![&scope.tenant, &id],
                |row| {
                    let user = row.get::<UserId>(0)?;
                    let task = row.get::<Option<TaskId>>(1)?;
                    Ok((user, task, row.get::<String>(2)?, row.get::<String>(3)?, row.get::<TimeMs>(4)?))
                },
            )?;
            let Some((_, task, role, text, at)) =
                row.filter(|(user, .., text, _)| *user == scope.user && !text.is_empty())
            else {
                self.dropped += 1;
                continue;
            };
            let label = match role.as_str() {
                "assistant" => "agent",
                "system" => "harness",
                role => role,
            };
            self.gathered.candidates.push(Candidate {
                id: id.to_string(),
                origin: Origin::Message,
                label: Label::of(label),
                kind: role,
                summary: beginning(&text),
                text,
                whole: true,
                digest: None,
                at,
                task,
                score: unweighed(relevance, found),
            });
        }
        Ok(())
    }

    fn memory_candidate(&mut self, hit: Hit) -> Result<(), ContextError> {
        let Some(item) = self.remembered(&hit)? else {
            self.dropped += 1;
            return Ok(());
        };
        if let (Some((task, _)), Some(of)) = (&self.asked.within.task, &item.task)
            && task != of
        {
            self.outside += 1;
            return Ok(());
        }
        let label = match item.source {
            Source::Harness => "harness",
            Source::Agent => "agent",
            Source::User => "user",
            Source::Tool => "tool",
            Source::Outside => "outside",
        };
        self.gathered.candidates.push(Candidate {
            id: item.id.to_string(),
            origin: Origin::Memory,
            kind: item.kind.as_str().to_owned(),
            label: Label::of(label),
            summary: beginning(&item.content),
            text: item.content,
            whole: true,
            digest: None,
            at: item.happened_at,
            task: item.task,
            score: unweighed(hit.score, Found::Search),
        });
        Ok(())
    }

    /// The memory as the snapshot has it.
    fn remembered(&self, hit: &Hit) -> Result<Option<Item>, ContextError> {
        let scope = &self.asked.within.scope;
        let id: &MemoryId = &hit.item.id;
        if let Some(item) = self.memory.find_in(self.read, scope, id)? {
            return Ok(Some(item).filter(|item| item.superseded_by.is_none() && item.user == scope.user));
        }
        let is_there =
            hit.item.tier == Tier::Cold && self.memory.is_cold_in(self.read, scope, &hit.item.namespace, id)?;
        Ok(is_there.then(|| hit.item.clone()))
    }
}

fn unweighed(relevance: f32, found: Found) -> Score {
    Score { total: 0.0, relevance, kind: 1.0, origin: 1.0, recency: 1.0, found }
}

/// Whether a content of this media type is shown as it is.
fn is_text(media_type: &str) -> bool {
    let kind = media_type.split(';').next().unwrap_or_default().trim();
    kind.starts_with("text/")
        || ["application/json", "application/xml", "application/yaml", "application/toml"].contains(&kind)
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
}

/// Parts in their order, with a sign where one is missing; without the summary that the index puts before the first.
fn joined(parts: &BTreeMap<u64, String>, summary: &str) -> String {
    let mut text = String::new();
    let mut expected = 0;
    for (number, part) in parts {
        let part = if *number == 0 { part.strip_prefix(summary).unwrap_or(part).trim_start() } else { part };
        if *number != expected {
            text.push_str(if text.is_empty() { "[…]\n" } else { "\n[…]\n" });
        } else if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(part);
        expected = number + 1;
    }
    text
}

/// The beginning of a text on one line.
fn beginning(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = line.chars().take(SUMMARY_CHARS).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_in_their_order() {
        let parts = |parts: &[(u64, &str)]| parts.iter().map(|(at, text)| (*at, (*text).to_owned())).collect();
        assert_eq!(joined(&parts(&[(0, "A report\n\nFirst."), (1, "Second.")]), "A report"), "First.\nSecond.");
        assert_eq!(joined(&parts(&[(1, "Second."), (3, "Fourth.")]), "x"), "[…]\nSecond.\n[…]\nFourth.");
        assert_eq!(joined(&parts(&[(0, "A picture")]), "A picture"), "");
    }

    #[test]
    fn a_long_text_has_a_short_beginning() {
        assert_eq!(beginning(" one\n two "), "one two");
        assert_eq!(beginning(&"漢".repeat(100)).chars().count(), 81);
    }
}

//! Moving memories from the hot tables into cold segments.
//!
//! The order makes it safe to be killed anywhere: the segment is announced, its object is written and durable, the
//! segment becomes live with none of its rows in it, and then the rows move in small transactions, each of which removes
//! hot rows and notes where they are now. Invariant: at every commit a memory is in exactly one tier, whole.

use async_trait::async_trait;
use longhaul_core::{MemoryId, TimeMs};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};
use serde::{Deserialize, Serialize};

use crate::{Item, Memory, MemoryError, access, keyword, namespace::PartitionId, rows};

use super::{
    ColdError, TierRules,
    cold::{self, Cold},
    rules::Standing,
    segment::{ColdRow, ColdVectors, Encoded, SEGMENT_BYTES_MAX, SEGMENT_ROWS_MAX, Segment},
    shelf,
};

/// Rows moved by one transaction: writers wait no longer than for these.
const BATCH: usize = 32;
/// Rows looked at between two segments.
const LOOKED_MAX: usize = 20_000;

/// Judges what the rules would make cold: a light model, or a rule of the application's own.
#[async_trait]
pub trait TierJudge: Send + Sync {
    /// For each of these memories, in order, whether it may leave the hot tier. A shorter or longer answer keeps all of
    /// them hot.
    async fn may_leave(&self, memories: &[Item]) -> Vec<bool>;
}

/// What a round of moving came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Moved {
    /// Memories that are cold now.
    pub memories: u64,
    /// Segments written.
    pub segments: u64,
    /// Size of their objects, in bytes.
    pub bytes: u64,
    /// Why it stopped early, if it did; what was moved until then stays moved.
    pub stopped: Option<String>,
}

/// A hot row that is to leave.
#[derive(Debug)]
struct Leaving {
    row: ColdRow,
    /// It leaves only as it was read.
    change: i64,
    standing: Standing,
}

/// What a partition gives to one segment, and where to look on.
#[derive(Debug, Default)]
struct Chosen {
    leaving: Vec<Leaving>,
    vectors: Vec<ColdVectors>,
    /// The last number looked at; `None` when all were.
    next: Option<i64>,
}

pub(super) const ROW: &str = "m.seq, m.memory_id, m.v, m.user_id, m.task_id, m.thread, m.collection, m.kind, m.source,
    m.content, m.meta, m.tags, m.importance, m.pinned, m.indexed, m.created_at, m.happened_at, m.expires_at, m.subject,
    m.attribute, m.valid_from, m.valid_to, m.superseded_by, m.superseded_at";

fn cold_row(row: &Row<'_>) -> Result<ColdRow, StoreError> {
    Ok(ColdRow {
        seq: row.get(0)?,
        memory_id: row.get(1)?,
        v: row.get(2)?,
        user_id: row.get(3)?,
        task_id: row.get(4)?,
        thread: row.get(5)?,
        collection: row.get(6)?,
        kind: row.get(7)?,
        source: row.get(8)?,
        content: row.get(9)?,
        meta: row.get(10)?,
        tags: row.get(11)?,
        importance: row.get(12)?,
        pinned: row.get(13)?,
        indexed: row.get(14)?,
        created_at: row.get(15)?,
        happened_at: row.get(16)?,
        expires_at: row.get(17)?,
        subject: row.get(18)?,
        attribute: row.get(19)?,
        valid_from: row.get(20)?,
        valid_to: row.get(21)?,
        superseded_by: row.get(22)?,
        superseded_at: row.get(23)?,
    })
}

impl Memory {
    /// Moves what the rules make cold, in every partition that is written to, into segments of the cold place. Facts that
    /// are believed and memories that wait for their vector stay. Killed at any moment it loses nothing.
    ///
    /// # Errors
    /// [`ColdError::NotConfigured`]; those of the store. That the cold place cannot be reached is part of the answer.
    pub async fn move_cold(&self, rules: &TierRules, now: TimeMs) -> Result<Moved, MemoryError> {
        self.move_cold_judged(rules, now, None).await
    }

    /// As [`Memory::move_cold`], but of what the rules make cold only that leaves which the judge lets go.
    ///
    /// # Errors
    /// As [`Memory::move_cold`].
    pub async fn move_cold_judged(
        &self,
        rules: &TierRules,
        now: TimeMs,
        judge: Option<&dyn TierJudge>,
    ) -> Result<Moved, MemoryError> {
        let place = self.shared.life.cold().ok_or(ColdError::NotConfigured)?;
        let mut moved = Moved::default();
        // What is wrong with the place is found out before anything is written to it.
        if let Err(error) = place.objects.keys(1).await {
            moved.stopped = Some(error.to_string());
            return Ok(moved);
        }
        for id in self.all_partitions().await? {
            let mut after = Some(0);
            while let Some(from) = after {
                let mut chosen = self.choose(&id, rules, now, from).await?;
                after = chosen.next;
                if let Some(judge) = judge {
                    chosen = judged(chosen, &id, judge).await;
                }
                if chosen.leaving.is_empty() || chosen.leaving.len() < rules.rows_min as usize {
                    continue;
                }
                match self.write_segment(&place, &id, chosen).await? {
                    Ok((memories, bytes)) => {
                        moved.memories += memories;
                        moved.segments += 1;
                        moved.bytes += bytes;
                    }
                    Err(error) => {
                        moved.stopped = Some(error.to_string());
                        return Ok(moved);
                    }
                }
            }
        }
        Ok(moved)
    }

    /// Looks for rows that leave, from a number on, until a segment is full.
    async fn choose(&self, id: &PartitionId, rules: &TierRules, now: TimeMs, from: i64) -> Result<Chosen, MemoryError> {
        let Some(before) = rules.written_before(now) else { return Ok(Chosen::default()) };
        let (id, rules) = (id.clone(), rules.clone());
        let embedder = self.shared.embedder.as_ref().map(|embedder| embedder.id().to_owned());
        let choose = move |read: &ReadTx<'_>| {
            let mut chosen = Chosen::default();
            let (mut looked, mut bytes) = (0, 0);
            read.for_each(
                &leaving_sql(),
                &leaving_params(&id, from, before, now, &rules, embedder.as_deref()),
                |row| {
                    let leaving = Leaving { row: cold_row(row)?, change: row.get(24)?, standing: standing(row)? };
                    looked += 1;
                    let seq = leaving.row.seq;
                    if rules.reason(&leaving.standing, now).is_some() {
                        bytes += leaving.row.content.len() + leaving.row.meta.len();
                        chosen.leaving.push(leaving);
                    }
                    let full = chosen.leaving.len() >= SEGMENT_ROWS_MAX || bytes >= SEGMENT_BYTES_MAX;
                    chosen.next = (full || looked >= LOOKED_MAX).then_some(seq);
                    Ok(chosen.next.is_none())
                },
            )?;
            chosen.vectors = vectors(read, &id, &chosen.leaving)?;
            Ok(chosen)
        };
        self.shared.store.read(choose).await
    }

    /// Writes one segment and moves its rows. The inner error is the cold place's.
    async fn write_segment(
        &self,
        cold: &Cold,
        id: &PartitionId,
        chosen: Chosen,
    ) -> Result<Result<(u64, u64), ColdError>, MemoryError> {
        let segment = self.shared.store.ambient().ids.body();
        let (mut rows, mut changes) = (Vec::new(), Vec::new());
        for leaving in chosen.leaving {
            changes.push(leaving.change);
            rows.push(leaving.row);
        }
        let new = Segment {
            tenant: id.tenant.to_string(),
            namespace: id.namespace.to_string(),
            segment,
            rows,
            vectors: chosen.vectors,
        };
        let bytes = match self.publish(cold, id, &new).await? {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error)),
        };
        let mut memories = 0;
        let mut places: Vec<(usize, ColdRow, i64)> =
            new.rows.into_iter().zip(changes).enumerate().map(|(place, (row, change))| (place, row, change)).collect();
        while !places.is_empty() {
            let rest = places.split_off(places.len().min(BATCH));
            let batch = std::mem::replace(&mut places, rest);
            let (id, segment) = (id.clone(), new.segment.clone());
            memories += self.shared.store.write(move |tx| leave(tx, &id, &segment, &batch)).await?;
        }
        Ok(Ok((memories, bytes)))
    }

    /// Announces a segment, writes its object, and makes it live with none of its rows in it. Gives the object's size.
    pub(super) async fn publish(
        &self,
        cold: &Cold,
        id: &PartitionId,
        new: &Segment,
    ) -> Result<Result<u64, ColdError>, MemoryError> {
        let encoded = new.encode().map_err(|error| ColdError::Damaged {
            key: new.segment.clone(),
            problem: format!("it cannot be written: {error}"),
        })?;
        let bytes = encoded.bytes.len() as u64;
        let encoded = self.announce(id, new, encoded).await?;
        if let Err(error) = cold.objects.put(&shelf::object_key(id, &new.segment), encoded.bytes).await {
            // Whether it was written is not known: the sweep deletes what there is.
            let (id, segment) = (id.clone(), new.segment.clone());
            self.shared.store.write(move |tx| shelf::turn(tx, &id, &segment, "writing", "gone").map(drop)).await?;
            return Ok(Err(error));
        }
        let (id, segment) = (id.clone(), new.segment.clone());
        let is_live = self.shared.store.write(move |tx| shelf::turn(tx, &id, &segment, "writing", "live"));
        if is_live.await? {
            return Ok(Ok(bytes));
        }
        let problem = "writing it took so long that it was taken for lost; it is tried again".to_owned();
        Ok(Err(ColdError::Unreachable { place: cold.objects.place().to_string(), problem }))
    }

    async fn announce(&self, id: &PartitionId, new: &Segment, encoded: Encoded) -> Result<Encoded, StoreError> {
        // Only what describes it goes along, not its rows.
        let (id, new) = (id.clone(), Segment { vectors: Vec::new(), ..new.clone() });
        let announced = self.shared.store.write(move |tx| {
            shelf::announce(tx, &id, &new, &encoded)?;
            Ok::<_, StoreError>(encoded)
        });
        announced.await
    }
}

/// What of it the judge lets go. A judge that does not answer for each memory lets none go.
async fn judged(chosen: Chosen, id: &PartitionId, judge: &dyn TierJudge) -> Chosen {
    let items: Vec<Option<Item>> =
        chosen.leaving.iter().map(|leaving| cold::item(&leaving.row, &id.namespace)).collect();
    let asked: Vec<Item> = items.iter().flatten().cloned().collect();
    let mut answers = if asked.is_empty() { Vec::new() } else { judge.may_leave(&asked).await };
    if answers.len() != asked.len() {
        tracing::warn!(
            asked = asked.len(),
            answered = answers.len(),
            "a judge of tiers did not answer for each memory"
        );
        answers.clear();
    }
    let mut answers = answers.into_iter();
    let leaves: Vec<bool> = items.iter().map(|item| item.is_some() && answers.next().unwrap_or(false)).collect();
    let vectors = chosen.vectors.into_iter().map(|of| ColdVectors {
        of_row: of.of_row.into_iter().zip(&leaves).filter(|(_, leaves)| **leaves).map(|(vector, _)| vector).collect(),
        ..of
    });
    let vectors = vectors.collect();
    let leaving = chosen.leaving.into_iter().zip(&leaves).filter(|(_, leaves)| **leaves).map(|(one, _)| one).collect();
    Chosen { leaving, vectors, next: chosen.next }
}

fn leaving_sql() -> String {
    format!(
        "SELECT {ROW}, m.change_seq, a.last_used_at, a.last_shown_at
         FROM memories m
         JOIN memory_partitions p ON p.tenant_id = m.tenant_id AND p.namespace = m.namespace
         LEFT JOIN memory_access a
             ON a.tenant_id = m.tenant_id AND a.namespace = m.namespace AND a.memory_id = m.memory_id
         WHERE m.tenant_id = ?1 AND m.namespace = ?2 AND m.seq > ?3 AND m.seq <= p.last_seq - ?4
           AND p.frozen = 0 AND p.purpose = 'memory' AND m.pinned = 0 AND m.created_at <= ?5
           AND (m.expires_at IS NULL OR m.expires_at > ?6)
           AND (m.subject IS NULL OR m.superseded_at IS NOT NULL)
           AND (?7 = '' OR m.indexed < 2 OR EXISTS (
               SELECT 1 FROM memory_vectors v WHERE v.tenant_id = m.tenant_id AND v.namespace = m.namespace
                   AND v.seq = m.seq AND v.embedder = ?7))
         ORDER BY m.seq"
    )
}

fn leaving_params(
    id: &PartitionId,
    from: i64,
    before: TimeMs,
    now: TimeMs,
    rules: &TierRules,
    embedder: Option<&str>,
) -> Vec<longhaul_store::Value> {
    let keep = i64::from(rules.keep_newest);
    values![&id.tenant, id.namespace.as_str(), from, keep, before, now, embedder.unwrap_or("")].into()
}

fn standing(row: &Row<'_>) -> Result<Standing, StoreError> {
    let word = row.text(7)?;
    let kind = word.parse().map_err(|_| StoreError::Column {
        column: 7,
        expected: "a kind of memory",
        found: word.chars().take(80).collect(),
    })?;
    Ok(Standing {
        kind,
        pinned: row.get(13)?,
        importance: row.get(12)?,
        created_at: row.get(15)?,
        last_used_at: row.get(25)?,
        last_shown_at: row.get(26)?,
    })
}

/// The vectors of these rows, by embedder.
fn vectors(read: &ReadTx<'_>, id: &PartitionId, leaving: &[Leaving]) -> Result<Vec<ColdVectors>, StoreError> {
    let mut all: Vec<ColdVectors> = Vec::new();
    for (place, one) in leaving.iter().enumerate() {
        read.for_each(
            "SELECT embedder, vector FROM memory_vectors WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3",
            &values![&id.tenant, id.namespace.as_str(), one.row.seq],
            |row| {
                let (embedder, bytes) = (row.text(0)?, row.bytes(1)?);
                let dimensions = bytes.len() / size_of::<f32>();
                let known = all.iter().position(|of| of.embedder == embedder && of.dimensions == dimensions);
                let at = known.unwrap_or_else(|| {
                    let (embedder, of_row) = (embedder.to_owned(), vec![None; leaving.len()]);
                    all.push(ColdVectors { embedder, dimensions, of_row });
                    all.len() - 1
                });
                all[at].of_row[place] = crate::vectors::decoded(bytes, dimensions);
                Ok(true)
            },
        )?;
    }
    Ok(all)
}

/// Moves those of the rows that are still as they were read. Gives how many that were.
fn leave(tx: &mut Tx<'_>, id: &PartitionId, segment: &str, batch: &[(usize, ColdRow, i64)]) -> Result<u64, StoreError> {
    // Takes the partition's lock before anything is looked at.
    let mut change = access::next_change(tx, id)?;
    if shelf::find(tx, id, segment)?.is_none() {
        return Ok(0);
    }
    let mut moved = Vec::new();
    for (place, row, expected) in batch {
        let key = values![&id.tenant, id.namespace.as_str(), row.seq];
        let found: Option<i64> = tx.query_optional(
            "SELECT change_seq FROM memories WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3",
            &key,
            |row| row.get(0),
        )?;
        if found != Some(*expected) {
            continue;
        }
        let Ok(memory_id) = row.memory_id.parse::<MemoryId>() else { continue };
        if !moved.is_empty() {
            change = access::next_change(tx, id)?;
        }
        rows::take_out(tx, id, row.seq, change, &memory_id)?;
        shelf::put_stub(tx, id, segment, *place, row)?;
        moved.push((*place, row));
    }
    let texts: Vec<(i64, &str)> = moved
        .iter()
        .filter(|(_, row)| crate::Index::from_stored(row.indexed).has_words())
        .map(|(_, row)| (row.seq, row.content.as_str()))
        .collect();
    keyword::remove_many(tx, id, &texts)?;
    keyword::count_fewer(tx, id, moved.len())?;
    shelf::mark(tx, id, segment, moved.iter().map(|(place, _)| *place), false)?;
    Ok(moved.len() as u64)
}

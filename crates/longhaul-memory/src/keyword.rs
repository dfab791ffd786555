//! The keyword index: an inverted index in the store, written in the transaction of the memory it indexes.
//!
//! Each tenant has an index and statistics of its own, so one tenant's words never weigh on another's results. The
//! postings of a term are grouped into blocks of neighbouring numbers: a write appends to one block by one statement, and
//! a read of a frequent term takes few rows. Invariant: [`score`] scores nothing outside the set it is given.

use std::collections::BTreeMap;

use longhaul_core::TenantId;
use longhaul_store::{ReadTx, StoreError, Tx, values};

use crate::{bits::Bits, item::counted, text};

/// Numbers whose postings share a row.
const BLOCK: i64 = 256;
/// Different terms of one query that are looked up.
const QUERY_TERMS_MAX: usize = 128;
/// Saturation of repeats and weight of a text's length: the usual values of BM25
/// (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009).
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// A tenant's row in `memory_partitions`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Partition {
    pub(crate) last_seq: i64,
    pub(crate) analyser: u32,
    pub(crate) documents: i64,
    pub(crate) terms: i64,
}

pub(crate) fn partition(read: &ReadTx<'_>, tenant: &TenantId) -> Result<Option<Partition>, StoreError> {
    read.query_optional(
        "SELECT last_seq, analyser, documents, terms FROM memory_partitions WHERE tenant_id = ?1",
        &values![tenant],
        |row| {
            Ok(Partition { last_seq: row.get(0)?, analyser: row.get(1)?, documents: row.get(2)?, terms: row.get(3)? })
        },
    )
}

/// Counts a new memory of so many terms, and gives it the tenant's next number.
pub(crate) fn next_seq(tx: &mut Tx<'_>, tenant: &TenantId, length: u32) -> Result<i64, StoreError> {
    tx.execute(
        "INSERT INTO memory_partitions (tenant_id, last_seq, last_vector_seq, analyser, documents, terms)
         VALUES (?1, 1, 0, ?2, 1, ?3)
         ON CONFLICT (tenant_id) DO UPDATE SET last_seq = memory_partitions.last_seq + 1,
             documents = memory_partitions.documents + 1, terms = memory_partitions.terms + excluded.terms",
        &values![tenant, text::VERSION, length],
    )?;
    tx.query_one("SELECT last_seq FROM memory_partitions WHERE tenant_id = ?1", &values![tenant], |row| row.get(0))
}

/// Adds the postings of one memory.
pub(crate) fn add(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    seq: i64,
    terms: &BTreeMap<String, u32>,
    length: u32,
) -> Result<(), StoreError> {
    for (term, count) in terms {
        let mut posting = Vec::with_capacity(8);
        Posting { offset: (seq % BLOCK) as u32, count: *count, length }.encode(&mut posting);
        tx.execute(
            "INSERT INTO memory_postings (tenant_id, term, block, postings) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (tenant_id, term, block)
             DO UPDATE SET postings = CAST(memory_postings.postings || excluded.postings AS BLOB)",
            &values![tenant, term, seq / BLOCK, posting],
        )?;
    }
    Ok(())
}

/// Takes one memory out: its postings and its share of the statistics.
pub(crate) fn remove(tx: &mut Tx<'_>, tenant: &TenantId, seq: i64, content: &str) -> Result<(), StoreError> {
    let (terms, length) = counted(content);
    for term in terms.keys() {
        let key = values![tenant, term, seq / BLOCK];
        let found = tx.query_optional(
            "SELECT postings FROM memory_postings WHERE tenant_id = ?1 AND term = ?2 AND block = ?3",
            &key,
            |row| Ok(decode(row.bytes(0)?).collect::<Vec<_>>()),
        )?;
        let mut rest = Vec::new();
        for posting in found.into_iter().flatten().filter(|posting| i64::from(posting.offset) != seq % BLOCK) {
            posting.encode(&mut rest);
        }
        if rest.is_empty() {
            tx.execute("DELETE FROM memory_postings WHERE tenant_id = ?1 AND term = ?2 AND block = ?3", &key)?;
        } else {
            tx.execute(
                "UPDATE memory_postings SET postings = ?4 WHERE tenant_id = ?1 AND term = ?2 AND block = ?3",
                &values![tenant, term, seq / BLOCK, rest],
            )?;
        }
    }
    tx.execute(
        "UPDATE memory_partitions SET documents = documents - 1, terms = terms - ?2 WHERE tenant_id = ?1",
        &values![tenant, length],
    )?;
    Ok(())
}

/// Whether the index does not fit the rows: built by other rules, or gone.
pub(crate) fn is_stale(read: &ReadTx<'_>, tenant: &TenantId, partition: &Partition) -> Result<bool, StoreError> {
    let count = |sql| read.query_one(sql, &values![tenant], |row| row.get::<i64>(0));
    let rows = count("SELECT count(*) FROM memories WHERE tenant_id = ?1")?;
    let indexed = count("SELECT EXISTS (SELECT 1 FROM memory_postings WHERE tenant_id = ?1)")? == 1;
    Ok(partition.analyser != text::VERSION || partition.documents != rows || (rows > 0 && !indexed))
}

/// Builds the index anew from the rows. Gives the number of memories.
pub(crate) fn rebuild(tx: &mut Tx<'_>, tenant: &TenantId) -> Result<u64, StoreError> {
    const PAGE: i64 = 256;
    tx.execute("DELETE FROM memory_postings WHERE tenant_id = ?1", &values![tenant])?;
    let (mut after, mut documents, mut all_terms) = (0, 0_u64, 0_i64);
    loop {
        let page: Vec<(i64, String)> = tx.query(
            "SELECT seq, content FROM memories WHERE tenant_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
            &values![tenant, after, PAGE],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let Some((last, _)) = page.last() else { break };
        after = *last;
        for (seq, content) in page {
            let (terms, length) = counted(&content);
            add(tx, tenant, seq, &terms, length)?;
            documents += 1;
            all_terms += i64::from(length);
        }
    }
    tx.execute(
        "UPDATE memory_partitions SET analyser = ?2, documents = ?3, terms = ?4 WHERE tenant_id = ?1",
        &values![tenant, text::VERSION, documents, all_terms],
    )?;
    Ok(documents)
}

/// Scores of one query, by number.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    /// BM25 of each number; 0 where nothing matches. Empty when nothing matches at all.
    pub(crate) bm25: Vec<f32>,
    /// What a text that repeats every term of the query for ever would get.
    pub(crate) bound: f32,
}

/// BM25 of every allowed memory that shares a term with the query.
pub(crate) fn score(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    partition: &Partition,
    query: &[String],
    allowed: &Bits,
) -> Result<Scores, StoreError> {
    let mut scores = Scores::default();
    let documents = partition.documents.max(1) as f32;
    let length_mean = (partition.terms as f32 / documents).max(1.0);
    let mut postings: Vec<(i64, Posting)> = Vec::new();
    for term in distinct(query) {
        postings.clear();
        read.for_each(
            "SELECT block, postings FROM memory_postings WHERE tenant_id = ?1 AND term = ?2",
            &values![tenant, term],
            |row| {
                let first = row.get::<i64>(0)? * BLOCK;
                postings.extend(decode(row.bytes(1)?).map(|posting| (first + i64::from(posting.offset), posting)));
                Ok(true)
            },
        )?;
        let containing = (postings.len() as f32).min(documents);
        let rarity = ((documents - containing + 0.5) / (containing + 0.5)).ln_1p();
        scores.bound += rarity * (K1 + 1.0);
        if !postings.is_empty() && scores.bm25.is_empty() {
            scores.bm25 = vec![0.0; partition.last_seq as usize + 1];
        }
        for (seq, posting) in &postings {
            let Some(score) = scores.bm25.get_mut(*seq as usize).filter(|_| allowed.has(*seq)) else { continue };
            let count = posting.count as f32;
            let length = posting.length as f32 / length_mean;
            *score += rarity * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length));
        }
    }
    Ok(scores)
}

fn distinct(query: &[String]) -> Vec<&String> {
    let mut seen = std::collections::HashSet::new();
    query.iter().filter(|term| seen.insert(*term)).take(QUERY_TERMS_MAX).collect()
}

/// One memory under one term.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Posting {
    /// Place within the block.
    offset: u32,
    /// How often the term occurs.
    count: u32,
    /// Terms of the memory in all.
    length: u32,
}

impl Posting {
    fn encode(self, out: &mut Vec<u8>) {
        for mut value in [self.offset, self.count, self.length] {
            while value >= 0x80 {
                out.push(value as u8 | 0x80);
                value >>= 7;
            }
            out.push(value as u8);
        }
    }
}

/// Bytes that are no postings end the list: a damaged index finds less, and is never a panic.
fn decode(mut bytes: &[u8]) -> impl Iterator<Item = Posting> + '_ {
    std::iter::from_fn(move || {
        let mut next = || {
            let mut value = 0_u32;
            for shift in (0..32).step_by(7) {
                let (byte, rest) = bytes.split_first()?;
                bytes = rest;
                value |= u32::from(byte & 0x7F) << shift;
                if byte & 0x80 == 0 {
                    return Some(value);
                }
            }
            None
        };
        Some(Posting { offset: next()?, count: next()?, length: next()? })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Posting, decode};

    proptest! {
        #[test]
        fn postings_come_back_as_they_went_in(list in proptest::collection::vec((0..256_u32, 1..u32::MAX, 1..u32::MAX), 0..20)) {
            let list: Vec<Posting> =
                list.into_iter().map(|(offset, count, length)| Posting { offset, count, length }).collect();
            let mut bytes = Vec::new();
            for posting in &list {
                posting.encode(&mut bytes);
            }
            prop_assert_eq!(decode(&bytes).collect::<Vec<_>>(), list);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(decode(&bytes).count() <= bytes.len() / 3);
        }
    }
}

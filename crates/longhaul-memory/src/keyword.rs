//! The keyword index: an inverted index in the store, written in the transaction of the memory it indexes.
//!
//! Each partition has an index and statistics of its own, so one's words never weigh on another's results. The
//! postings of a term are grouped into blocks of neighbouring numbers: a write appends to one block by one statement, and
//! a read of a frequent term takes few rows. Scoring is
//! `words`' business. Invariant: bytes that are no postings are left out, and never a panic.

mod recent;

use std::collections::BTreeMap;

use longhaul_store::{ReadTx, StoreError, Tx, Value, values};

use crate::{
    Prepared,
    access::Partition,
    columns::Columns,
    item::counted,
    namespace::PartitionId,
    text,
    words::{DatePart, Term},
};

pub(crate) use recent::Recent;

/// Numbers whose postings share a row.
const BLOCK: i64 = 256;
/// Different terms of one query that are looked up.
const QUERY_TERMS_MAX: usize = 128;

/// Adds the postings of memories numbered from `first` on; each block of a term is written once. The partition's
/// statistics have been counted already.
pub(crate) fn add(tx: &mut Tx<'_>, id: &PartitionId, first: i64, batch: &[&Prepared]) -> Result<(), StoreError> {
    // Sorted, so that writers lock postings in one order.
    let mut added: BTreeMap<(&str, i64), Vec<u8>> = BTreeMap::new();
    for (seq, prepared) in (first..).zip(batch) {
        for (term, count) in &prepared.terms {
            let posting = Posting { offset: (seq % BLOCK) as u32, count: *count, length: prepared.length };
            posting.encode(added.entry((term, seq / BLOCK)).or_default());
        }
    }
    append_all(tx, id, added.into_iter().map(|((term, block), postings)| (term, block, postings)).collect())
}

/// Appends to many blocks, in their order. A statement for several costs little more than one for one.
fn append_all(tx: &mut Tx<'_>, id: &PartitionId, mut blocks: Vec<(&str, i64, Vec<u8>)>) -> Result<(), StoreError> {
    for at_once in [32, 8, 1] {
        let groups = blocks.len() / at_once;
        if groups == 0 {
            continue;
        }
        let sql = append_sql(at_once);
        let rest = blocks.split_off(groups * at_once);
        let mut appended = std::mem::replace(&mut blocks, rest).into_iter();
        for _ in 0..groups {
            let mut params: Vec<Value> = Vec::with_capacity(2 + 3 * at_once);
            params.extend([Value::from(&id.tenant), Value::from(id.namespace.as_str())]);
            for (term, block, postings) in appended.by_ref().take(at_once) {
                params.extend([Value::from(term), Value::from(block), Value::from(postings)]);
            }
            tx.execute(&sql, &params)?;
        }
    }
    Ok(())
}

/// Appends to so many blocks, which all must be different: `?1` and `?2` are the partition, then three for each block.
fn append_sql(blocks: usize) -> String {
    let row = |block: usize| format!("(?1, ?2, ?{}, ?{}, ?{})", 3 * block + 3, 3 * block + 4, 3 * block + 5);
    format!(
        "INSERT INTO memory_postings (tenant_id, namespace, term, block, postings) VALUES {}
         ON CONFLICT (tenant_id, namespace, term, block)
         DO UPDATE SET postings = CAST(memory_postings.postings || excluded.postings AS BLOB)",
        (0..blocks).map(row).collect::<Vec<_>>().join(", ")
    )
}

/// Adds the postings of one memory's new text, and counts its terms.
pub(crate) fn add_text(tx: &mut Tx<'_>, id: &PartitionId, seq: i64, content: &str) -> Result<(), StoreError> {
    let (terms, length) = counted(content);
    let mut added = Vec::with_capacity(terms.len());
    for (term, count) in &terms {
        let mut posting = Vec::with_capacity(8);
        Posting { offset: (seq % BLOCK) as u32, count: *count, length }.encode(&mut posting);
        added.push((term.as_str(), seq / BLOCK, posting));
    }
    append_all(tx, id, added)?;
    count_terms(tx, id, i64::from(length))
}

fn count_terms(tx: &mut Tx<'_>, id: &PartitionId, more: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE memory_partitions SET terms = terms + ?3 WHERE tenant_id = ?1 AND namespace = ?2",
        &values![&id.tenant, id.namespace.as_str(), more],
    )?;
    Ok(())
}

/// Takes the words of one memory's text out: its postings and its share of the terms. Without a text it has none.
pub(crate) fn remove(tx: &mut Tx<'_>, id: &PartitionId, seq: i64, content: Option<&str>) -> Result<(), StoreError> {
    let Some(content) = content else { return Ok(()) };
    let (terms, length) = counted(content);
    for term in terms.keys() {
        let key = values![&id.tenant, id.namespace.as_str(), term, seq / BLOCK];
        let found = tx.query_optional(
            "SELECT postings FROM memory_postings
             WHERE tenant_id = ?1 AND namespace = ?2 AND term = ?3 AND block = ?4",
            &key,
            |row| Ok(decode(row.bytes(0)?).collect::<Vec<_>>()),
        )?;
        let mut rest = Vec::new();
        for posting in found.into_iter().flatten().filter(|posting| i64::from(posting.offset) != seq % BLOCK) {
            posting.encode(&mut rest);
        }
        if rest.is_empty() {
            tx.execute(
                "DELETE FROM memory_postings WHERE tenant_id = ?1 AND namespace = ?2 AND term = ?3 AND block = ?4",
                &key,
            )?;
        } else {
            tx.execute(
                "UPDATE memory_postings SET postings = ?5
                 WHERE tenant_id = ?1 AND namespace = ?2 AND term = ?3 AND block = ?4",
                &values![&id.tenant, id.namespace.as_str(), term, seq / BLOCK, rest],
            )?;
        }
    }
    count_terms(tx, id, -i64::from(length))
}

/// Takes the words of many texts out at once: each block of a term is written once.
pub(crate) fn remove_many(tx: &mut Tx<'_>, id: &PartitionId, texts: &[(i64, &str)]) -> Result<(), StoreError> {
    let (mut gone, mut all_terms): (BTreeMap<(String, i64), Vec<i64>>, i64) = (BTreeMap::new(), 0);
    for (seq, content) in texts {
        let (terms, length) = counted(content);
        all_terms += i64::from(length);
        for term in terms.into_keys() {
            gone.entry((term, seq / BLOCK)).or_default().push(seq % BLOCK);
        }
    }
    for ((term, block), offsets) in gone {
        cut_out(tx, id, &term, block, &offsets)?;
    }
    count_terms(tx, id, -all_terms)
}

/// Takes memories out of one block of a term.
fn cut_out(tx: &mut Tx<'_>, id: &PartitionId, term: &str, block: i64, offsets: &[i64]) -> Result<(), StoreError> {
    let key = values![&id.tenant, id.namespace.as_str(), term, block];
    let which = "WHERE tenant_id = ?1 AND namespace = ?2 AND term = ?3 AND block = ?4";
    let found = tx.query_optional(&format!("SELECT postings FROM memory_postings {which}"), &key, |row| {
        Ok(decode(row.bytes(0)?).collect::<Vec<_>>())
    })?;
    let mut rest = Vec::new();
    let kept = found.into_iter().flatten().filter(|posting| !offsets.contains(&i64::from(posting.offset)));
    kept.for_each(|posting| posting.encode(&mut rest));
    if rest.is_empty() {
        tx.execute(&format!("DELETE FROM memory_postings {which}"), &key)?;
    } else {
        let params = values![&id.tenant, id.namespace.as_str(), term, block, rest];
        tx.execute(&format!("UPDATE memory_postings SET postings = ?5 {which}"), &params)?;
    }
    Ok(())
}

/// Counts so many memories less.
pub(crate) fn count_fewer(tx: &mut Tx<'_>, id: &PartitionId, fewer: usize) -> Result<(), StoreError> {
    count_documents(tx, id, -(fewer as i64))
}

/// Counts one memory more.
pub(crate) fn count_more(tx: &mut Tx<'_>, id: &PartitionId) -> Result<(), StoreError> {
    count_documents(tx, id, 1)
}

fn count_documents(tx: &mut Tx<'_>, id: &PartitionId, more: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE memory_partitions SET documents = documents + ?3 WHERE tenant_id = ?1 AND namespace = ?2",
        &values![&id.tenant, id.namespace.as_str(), more],
    )?;
    Ok(())
}

/// Counts one memory less.
pub(crate) fn count_less(tx: &mut Tx<'_>, id: &PartitionId) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE memory_partitions SET documents = documents - 1 WHERE tenant_id = ?1 AND namespace = ?2",
        &values![&id.tenant, id.namespace.as_str()],
    )?;
    Ok(())
}

/// The partition's statistics: the version of the rules, memories and terms; nothing without a partition.
fn statistics(read: &ReadTx<'_>, id: &PartitionId) -> Result<Option<(u32, i64)>, StoreError> {
    read.query_optional(
        "SELECT analyser, documents FROM memory_partitions WHERE tenant_id = ?1 AND namespace = ?2",
        &values![&id.tenant, id.namespace.as_str()],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Whether the index does not fit the rows: built by other rules, or gone.
pub(crate) fn is_stale(read: &ReadTx<'_>, id: &PartitionId) -> Result<bool, StoreError> {
    let Some((analyser, documents)) = statistics(read, id)? else { return Ok(false) };
    let key = values![&id.tenant, id.namespace.as_str()];
    let count = |sql| read.query_one(sql, &key, |row| row.get::<i64>(0));
    let rows = count("SELECT count(*) FROM memories WHERE tenant_id = ?1 AND namespace = ?2")?;
    let any = |what: &str| {
        let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {what} LIMIT 1) AS found");
        read.query_one(&sql, &key, |row| row.get::<i64>(0)).map(|found| found == 1)
    };
    let is_lost = any("memories WHERE tenant_id = ?1 AND namespace = ?2 AND indexed IN (1, 3)")?
        && !any("memory_postings WHERE tenant_id = ?1 AND namespace = ?2")?;
    Ok(analyser != text::VERSION || documents != rows || is_lost)
}

/// Builds the index anew from the rows, if it does not fit them. Gives the number of memories.
pub(crate) fn rebuild(tx: &mut Tx<'_>, id: &PartitionId) -> Result<u64, StoreError> {
    const PAGE: i64 = 1024;
    let key = values![&id.tenant, id.namespace.as_str()];
    // All writers lock the partition before they lock postings. Another process may have built it meanwhile.
    tx.execute("UPDATE memory_partitions SET terms = terms WHERE tenant_id = ?1 AND namespace = ?2", &key)?;
    if !is_stale(tx, id)? {
        return Ok(0);
    }
    tx.execute("DELETE FROM memory_postings WHERE tenant_id = ?1 AND namespace = ?2", &key)?;
    let (mut after, mut documents, mut all_terms) = (0, 0_u64, 0_i64);
    loop {
        let page: Vec<(i64, String, u32)> = tx.query(
            "SELECT seq, content, indexed FROM memories WHERE tenant_id = ?1 AND namespace = ?2 AND seq > ?3
             ORDER BY seq LIMIT ?4",
            &values![&id.tenant, id.namespace.as_str(), after, PAGE],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?;
        let Some((last, ..)) = page.last() else { break };
        after = *last;
        documents += page.len() as u64;
        let mut added: BTreeMap<(String, i64), Vec<u8>> = BTreeMap::new();
        for (seq, content, indexed) in page {
            if !crate::Index::from_stored(indexed).has_words() {
                continue;
            }
            let (terms, length) = counted(&content);
            all_terms += i64::from(length);
            for (term, count) in terms {
                let posting = Posting { offset: (seq % BLOCK) as u32, count, length };
                posting.encode(added.entry((term, seq / BLOCK)).or_default());
            }
        }
        let added = added.iter_mut().map(|((term, block), postings)| (term.as_str(), *block, std::mem::take(postings)));
        append_all(tx, id, added.collect())?;
    }
    tx.execute(
        "UPDATE memory_partitions SET analyser = ?3, documents = ?4, terms = ?5
         WHERE tenant_id = ?1 AND namespace = ?2",
        &values![&id.tenant, id.namespace.as_str(), text::VERSION, documents, all_terms],
    )?;
    Ok(documents)
}

/// Everything that the index of a partition holds: term, number, count and length of each posting.
pub(crate) fn for_each(
    read: &ReadTx<'_>,
    id: &PartitionId,
    mut each: impl FnMut(&str, i64, u32, u32),
) -> Result<(), StoreError> {
    let sql = "SELECT term, block, postings FROM memory_postings WHERE tenant_id = ?1 AND namespace = ?2";
    read.for_each(sql, &values![&id.tenant, id.namespace.as_str()], |row| {
        let (term, first) = (row.text(0)?, row.get::<i64>(1)? * BLOCK);
        decode(row.bytes(2)?).for_each(|posting| {
            each(term, first + i64::from(posting.offset), posting.count, posting.length);
        });
        Ok(true)
    })
}

/// Where the terms of a query occur in a partition, each term once; with the parts of dates that the query names.
pub(crate) fn terms(
    read: &ReadTx<'_>,
    recent: &Recent,
    partition: &Partition,
    columns: &Columns,
    query: &[String],
    dates: &[(DatePart, Option<String>)],
) -> Result<Vec<Term>, StoreError> {
    let mut terms = Vec::new();
    for term in distinct(query) {
        let postings = recent.occurrences(read, partition, columns, term)?;
        let date = dates.iter().find(|(_, says)| says.as_ref() == Some(term)).map(|(part, _)| *part);
        terms.push(Term { postings, date });
    }
    let unsaid = dates.iter().filter(|(_, says)| says.as_ref().is_none_or(|says| !query.contains(says)));
    terms.extend(unsaid.map(|(part, _)| Term { postings: Vec::new(), date: Some(*part) }));
    Ok(terms)
}

/// The terms of a query that are looked up, each once.
pub(crate) fn distinct(query: &[String]) -> Vec<&String> {
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

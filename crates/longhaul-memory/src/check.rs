//! Whether what is stored of memory fits together: rows, keywords, vectors, numbers. It changes nothing.
//!
//! Drift between rows and an index is a defect: both are written by one transaction.

use std::collections::HashMap;

use longhaul_store::{Check, Look, ReadTx, StoreError, values};

use crate::{Index, Memory, MemoryError, item::counted, keyword, namespace::PartitionId, text};

/// What the rows of memory must satisfy; give them to `Store::verify`.
pub const CHECKS: &[Check] = &[
    Check {
        component: "memory",
        name: "the keyword index holds what the texts say",
        advice: "`longhaul memory reindex` builds it anew",
        look: Look::Code(words_drift),
    },
    Check {
        component: "memory",
        name: "every vector belongs to a memory that is there",
        advice: "report it with this line; searches leave it out",
        look: Look::Sql(
            "SELECT 'the vector of number ' || CAST(v.seq AS TEXT) || ' in ' || v.tenant_id || '/' || v.namespace
             FROM memory_vectors v LEFT JOIN memories m
                 ON m.tenant_id = v.tenant_id AND m.namespace = v.namespace AND m.seq = v.seq
             WHERE m.seq IS NULL",
        ),
    },
    Check {
        component: "memory",
        name: "every number was handed out by its partition, and every memory is in one",
        advice: "report it with this line",
        look: Look::Sql(
            "SELECT 'memory ' || m.memory_id || ' in ' || m.tenant_id || '/' || m.namespace FROM memories m
             LEFT JOIN memory_partitions p ON p.tenant_id = m.tenant_id AND p.namespace = m.namespace
             WHERE p.last_seq IS NULL OR m.seq > p.last_seq OR m.change_seq > p.last_change OR m.seq < 1
             UNION ALL
             SELECT 'vector ' || CAST(v.seq AS TEXT) || ' in ' || v.tenant_id || '/' || v.namespace
             FROM memory_vectors v
             LEFT JOIN memory_partitions p ON p.tenant_id = v.tenant_id AND p.namespace = v.namespace
             WHERE p.last_seq IS NULL OR v.vector_seq > p.last_vector_seq",
        ),
    },
    Check {
        component: "memory",
        name: "what was erased is gone",
        advice: "report it with this line",
        look: Look::Sql(
            "SELECT 'memory ' || g.memory_id || ' in ' || g.tenant_id || '/' || g.namespace FROM memory_gone g
             JOIN memories m ON m.tenant_id = g.tenant_id AND m.namespace = g.namespace AND m.seq = g.seq",
        ),
    },
];

/// Differences between texts and keyword index, in every partition whose index is of this version.
fn words_drift(read: &ReadTx<'_>) -> Result<Vec<String>, StoreError> {
    let partitions: Vec<(PartitionId, u32, i64, i64)> = read.query(
        "SELECT tenant_id, namespace, analyser, documents, terms FROM memory_partitions ORDER BY 1, 2",
        &[],
        |row| {
            let name = row.text(1)?;
            let wrong = |_| StoreError::Column { column: 1, expected: "a namespace", found: name.to_owned() };
            let id = PartitionId { tenant: row.get(0)?, namespace: name.parse().map_err(wrong)? };
            Ok((id, row.get(2)?, row.get(3)?, row.get(4)?))
        },
    )?;
    let mut found = Vec::new();
    for (id, analyser, documents, terms) in partitions {
        if analyser == text::VERSION {
            drift_of(read, &id, documents, terms, &mut found)?;
        }
    }
    Ok(found)
}

fn drift_of(
    read: &ReadTx<'_>,
    id: &PartitionId,
    documents: i64,
    terms: i64,
    found: &mut Vec<String>,
) -> Result<(), StoreError> {
    let key = values![&id.tenant, id.namespace.as_str()];
    // By number: how many different terms, and a sum over terms and counts that any difference changes.
    let mut said: HashMap<i64, (u64, u64)> = HashMap::new();
    let (mut rows, mut length_all) = (0_i64, 0_i64);
    read.for_each("SELECT seq, content, indexed FROM memories WHERE tenant_id = ?1 AND namespace = ?2", &key, |row| {
        rows += 1;
        if Index::from_stored(row.get(2)?).has_words() {
            let (counts, length) = counted(row.text(1)?);
            length_all += i64::from(length);
            if !counts.is_empty() {
                let sum = counts.iter().map(|(term, count)| mark(term, *count, length)).fold(0, u64::wrapping_add);
                said.insert(row.get(0)?, (counts.len() as u64, sum));
            }
        }
        Ok(true)
    })?;
    let mut indexed: HashMap<i64, (u64, u64)> = HashMap::new();
    keyword::for_each(read, id, |term, seq, count, length| {
        let (terms, sum) = indexed.entry(seq).or_default();
        *terms += 1;
        *sum = sum.wrapping_add(mark(term, count, length));
    })?;
    for (seq, marks) in &said {
        if indexed.get(seq) != Some(marks) {
            found.push(format!("number {seq} in {id} is indexed otherwise than its text says"));
        }
    }
    for seq in indexed.keys().filter(|seq| !said.contains_key(seq)) {
        found.push(format!("number {seq} in {id} is indexed and not there"));
    }
    if (rows, length_all) != (documents, terms) {
        found.push(format!("{id} counts {documents} memories of {terms} terms; there are {rows} of {length_all}"));
    }
    found.sort();
    Ok(())
}

/// FNV-1a over a posting.
fn mark(term: &str, count: u32, length: u32) -> u64 {
    let bytes = term.bytes().chain(count.to_le_bytes()).chain(length.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Memory {
    /// Everything in which rows and indexes differ, in words; empty when they fit. Reads all of memory.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn drift(&self) -> Result<Vec<String>, MemoryError> {
        let all = |read: &ReadTx<'_>| {
            let mut found = Vec::new();
            for check in CHECKS {
                let drifted = match check.look {
                    Look::Sql(sql) => read.query(sql, &[], |row| row.get::<String>(0))?,
                    Look::Code(look) => look(read)?,
                };
                found.extend(drifted.into_iter().map(|what| format!("{}: {what}", check.name)));
            }
            Ok(found)
        };
        self.shared.store.read(all).await
    }
}

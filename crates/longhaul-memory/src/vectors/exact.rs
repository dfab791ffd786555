//! Cosines in full precision, from the rows of a search's own snapshot: what every hit by meaning is scored with, whoever
//! named the candidates. It keeps nothing.

use std::collections::HashMap;

use longhaul_store::{ReadTx, StoreError, Value, values};

use crate::namespace::PartitionId;

use super::{decoded, dot::dot};

/// Vectors read by one statement.
const ROWS: usize = 32;

/// The cosines of these memories with the query's vector; memories without a usable row of this embedder are left out.
pub(crate) fn cosines(
    read: &ReadTx<'_>,
    id: &PartitionId,
    embedder: &str,
    query: &[f32],
    seqs: &[i64],
) -> Result<HashMap<i64, f32>, StoreError> {
    let places: Vec<String> = (3..3 + ROWS).map(|place| format!("?{place}")).collect();
    // The embedder is compared here: as a condition it would lead the database to its index of all vectors.
    let sql = format!(
        "SELECT seq, vector, embedder FROM memory_vectors
         WHERE tenant_id = ?1 AND namespace = ?2 AND seq IN ({})",
        places.join(", ")
    );
    let mut cosines = HashMap::with_capacity(seqs.len());
    for group in seqs.chunks(ROWS) {
        let mut params: Vec<Value> = values![&id.tenant, id.namespace.as_str()].into();
        params.extend(group.iter().map(|seq| Value::from(*seq)));
        // One statement for every number of rows; no memory has this number.
        params.resize(2 + ROWS, Value::from(-1_i64));
        read.for_each(&sql, &params, |row| {
            if row.text(2)? == embedder
                && let Some(vector) = decoded(row.bytes(1)?, query.len())
            {
                cosines.insert(row.get(0)?, dot(query, &vector));
            }
            Ok(true)
        })?;
    }
    Ok(cosines)
}

//! Bringing cold memories back, and keeping segments in step with what is still remembered of them.
//!
//! Invariants: a memory comes back as it left, under its number; after a round no object holds a row that is not cold
//! any more, as far as the cold place can be reached; an object is deleted only when no live segment names it.

use std::collections::BTreeMap;

use longhaul_core::{MemoryId, TenantId};
use longhaul_store::{ReadTx, StoreError, Tx, values};
use serde::{Deserialize, Serialize};

use crate::{Memory, MemoryError, access, keyword, namespace::PartitionId, rows};

use super::{
    ColdError,
    cold::Cold,
    segment::ColdRow,
    shelf::{self, Shelved, Stub},
};

/// Segments looked after by one round.
const ROUND: usize = 64;
/// Memories brought back by one transaction.
const BATCH: usize = 32;
/// A segment whose writer was not heard of for so long was left behind.
const WRITER_MS_MAX: i64 = 10 * 60 * 1000;

/// What looking after the segments came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tended {
    /// Segments written again without rows that had left them.
    pub rewritten: u64,
    /// Objects deleted.
    pub deleted: u64,
    /// Segments and objects still to be done.
    pub pending: u64,
    /// Why, if something could not be done.
    pub stopped: Option<String>,
}

/// One memory on its way back: its row and its vectors by embedder.
#[derive(Debug, Clone)]
struct Returning {
    stub: Stub,
    row: ColdRow,
    vectors: Vec<(String, Vec<f32>)>,
}

impl Memory {
    /// Brings these memories back into the hot tables; those that are hot or gone are passed over. Gives how many came.
    /// Runs in the background for what was used.
    ///
    /// # Errors
    /// [`MemoryError::Cold`] when their segments cannot be read; those of the store.
    pub(crate) async fn warm(&self, tenant: &TenantId, ids: &[MemoryId]) -> Result<u64, MemoryError> {
        let (of, ids) = (tenant.clone(), ids.to_vec());
        let found = self.shared.store.read(move |read| {
            let mut by_segment: BTreeMap<(PartitionId, String), (Shelved, Vec<Stub>)> = BTreeMap::new();
            for id in &ids {
                let Some(stub) = shelf::stub(read, &of, id)? else { continue };
                let key = (stub.id.clone(), stub.segment.clone());
                if let Some((_, stubs)) = by_segment.get_mut(&key) {
                    stubs.push(stub);
                } else if let Some(shelved) = shelf::find(read, &stub.id, &stub.segment)? {
                    by_segment.insert(key, (shelved, vec![stub]));
                }
            }
            Ok::<_, StoreError>(by_segment)
        });
        let found = found.await?;
        if found.is_empty() {
            return Ok(0);
        }
        let cold = self.shared.life.cold().ok_or(ColdError::NotConfigured)?;
        let mut came = 0;
        for (shelved, stubs) in found.into_values() {
            let loaded = cold.load(&shelved).await?;
            let returning = stubs.into_iter().filter_map(|stub| {
                let row = loaded.segment.rows.get(stub.position)?.clone();
                let vectors = loaded.segment.vectors.iter();
                let vectors = vectors
                    .filter_map(|of| Some((of.embedder.clone(), of.of_row.get(stub.position)?.clone()?)))
                    .collect();
                (row.memory_id == stub.memory_id.as_str()).then_some(Returning { stub, row, vectors })
            });
            let mut returning: Vec<Returning> = returning.collect();
            while !returning.is_empty() {
                let rest = returning.split_off(returning.len().min(BATCH));
                let batch = std::mem::replace(&mut returning, rest);
                came += self.shared.store.write(move |tx| return_all(tx, &batch)).await?;
            }
        }
        if came > 0 {
            self.shared.wake.notify_one();
        }
        Ok(came)
    }

    /// Writes segments again that hold rows which left them, and deletes objects that nobody needs.
    ///
    /// # Errors
    /// Those of the store. What the cold place refuses is part of the answer and is tried again.
    pub async fn tend_cold(&self) -> Result<Tended, MemoryError> {
        let mut tended = Tended::default();
        let now = self.shared.store.ambient().clock.now();
        let look = move |read: &ReadTx<'_>| {
            let leftovers = shelf::leftovers(read, now.0 - WRITER_MS_MAX, ROUND)?;
            Ok::<_, StoreError>((shelf::to_rewrite(read, ROUND)?, leftovers))
        };
        let (to_rewrite, leftovers) = self.shared.store.read(look).await?;
        if to_rewrite.is_empty() && leftovers.is_empty() {
            return Ok(tended);
        }
        let Some(cold) = self.shared.life.cold() else {
            tended.pending = (to_rewrite.len() + leftovers.len()) as u64;
            tended.stopped = Some(ColdError::NotConfigured.to_string());
            return Ok(tended);
        };
        for shelved in to_rewrite {
            match self.rewrite(&cold, &shelved).await {
                Ok(true) => tended.rewritten += 1,
                Ok(false) => {
                    tended.pending += 1;
                    tended.stopped = Some("they changed meanwhile; it is tried again".to_owned());
                }
                Err(MemoryError::Cold(error)) => {
                    tended.pending += 1;
                    tended.stopped = Some(error.to_string());
                    if error.is_of_the_place() {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let leftovers =
            self.shared.store.read(move |read| shelf::leftovers(read, now.0 - WRITER_MS_MAX, ROUND)).await?;
        for left in leftovers {
            // A writer that was asleep may make it live at any moment, but not any more once this is committed.
            let given_up = left.clone();
            if !self.shared.store.write(move |tx| shelf::give_up(tx, &given_up)).await? {
                continue;
            }
            cold.drop_cached(&left.object);
            if let Err(error) = cold.objects.delete(&left.object).await {
                tended.pending += 1;
                tended.stopped = Some(error.to_string());
                if error.is_of_the_place() {
                    break;
                }
                continue;
            }
            tended.deleted += 1;
            self.shared.store.write(move |tx| shelf::drop_row(tx, &left)).await?;
        }
        Ok(tended)
    }

    /// Replaces a segment by one without the rows that left it. Tells whether it was replaced; it is not when something
    /// changed meanwhile, and the next round tries again.
    async fn rewrite(&self, cold: &Cold, shelved: &Shelved) -> Result<bool, MemoryError> {
        let nothing_left = (0..shelved.documents).all(|place| shelved.removed.has(place));
        if nothing_left {
            let old = shelved.clone();
            return Ok(self.shared.store.write(move |tx| retire(tx, &old)).await?);
        }
        let loaded = cold.load(shelved).await?;
        let new = loaded.segment.without(self.shared.store.ambient().ids.body(), |place| shelved.removed.has(place));
        if let Err(error) = self.publish(cold, &shelved.id, &new).await? {
            return Err(error.into());
        }
        let (old, to) = (shelved.clone(), new.segment.clone());
        let replaced = self.shared.store.write(move |tx| replace(tx, &old, &to)).await?;
        cold.drop_cached(&shelved.object);
        Ok(replaced)
    }
}

/// Lets a segment go that holds nothing any more.
fn retire(tx: &mut Tx<'_>, old: &Shelved) -> Result<bool, StoreError> {
    access::next_change(tx, &old.id)?;
    match shelf::find(tx, &old.id, &old.segment)? {
        Some(current) if current.removed == old.removed => shelf::turn(tx, &old.id, &old.segment, "live", "gone"),
        _ => Ok(false),
    }
}

/// Lets the rows of one segment be those of another that holds them in the same order.
fn replace(tx: &mut Tx<'_>, old: &Shelved, to: &str) -> Result<bool, StoreError> {
    access::next_change(tx, &old.id)?;
    // Somebody else who looks after segments takes a new one, in which nothing is yet, for one that was left behind.
    if shelf::find(tx, &old.id, to)?.is_none() {
        return Ok(false);
    }
    let current = shelf::find(tx, &old.id, &old.segment)?;
    if current.is_none_or(|current| current.removed != old.removed) {
        shelf::turn(tx, &old.id, to, "live", "gone")?;
        return Ok(false);
    }
    let kept: Vec<usize> = (0..old.documents).filter(|place| !old.removed.has(*place)).collect();
    for (new, old_place) in kept.iter().enumerate() {
        tx.execute(
            "UPDATE memory_cold SET segment = ?4, position = ?5
             WHERE tenant_id = ?1 AND namespace = ?2 AND segment = ?3 AND position = ?6",
            &values![&old.id.tenant, old.id.namespace.as_str(), &old.segment, to, new, *old_place],
        )?;
    }
    shelf::mark(tx, &old.id, to, 0..kept.len(), false)?;
    shelf::turn(tx, &old.id, &old.segment, "live", "gone")
}

fn return_all(tx: &mut Tx<'_>, batch: &[Returning]) -> Result<u64, StoreError> {
    let mut came = 0;
    for returning in batch {
        came += u64::from(return_one(tx, returning)?);
    }
    Ok(came)
}

/// Puts one memory back under its number, if it is still where it was read.
fn return_one(tx: &mut Tx<'_>, Returning { stub, row, vectors }: &Returning) -> Result<bool, StoreError> {
    let Stub { id, memory_id, .. } = stub;
    let change = access::next_change(tx, id)?;
    if shelf::stub(tx, &id.tenant, memory_id)?.as_ref() != Some(stub) {
        return Ok(false);
    }
    shelf::take_out(tx, &id.tenant, memory_id)?;
    rows::put_back(tx, id, change, row)?;
    if crate::Index::from_stored(row.indexed).has_words() {
        keyword::add_text(tx, id, row.seq, &row.content)?;
    }
    keyword::count_more(tx, id)?;
    for (embedder, vector) in vectors {
        rows::keep_vectors(tx, id, embedder, &[(row.seq, vector)])?;
    }
    Ok(true)
}

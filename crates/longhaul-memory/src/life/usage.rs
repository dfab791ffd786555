//! What was shown and what was used, noted in RAM by whoever reads and written in the background.
//!
//! Statistics are no memory: losing them loses no memory, so a note costs a reader nothing but a lock. Invariant:
//! nothing here writes while a search runs (invariant 9), and a note of a memory that was erased leaves no trace.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use longhaul_core::{MemoryId, Scope, TenantId, TimeMs};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use crate::{
    Memory, MemoryError, Namespace,
    access::{self, Right},
};

/// Memories with notes that are not written yet. Beyond that, what was merely shown is not noted.
const NOTED_MAX: usize = 20_000;
/// Rows written by one transaction.
const PAGE: usize = 500;

/// Notes that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    noted: Mutex<HashMap<(TenantId, MemoryId), Note>>,
}

#[derive(Debug, Clone, Default)]
struct Note {
    namespace: Namespace,
    uses: i64,
    used_at: Option<TimeMs>,
    shown: i64,
    shown_at: Option<TimeMs>,
}

/// How often and when a memory was of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UseCount {
    /// How often somebody opened it by id or relied on it.
    pub uses: u64,
    /// When last.
    pub last_used_at: Option<TimeMs>,
    /// How often it was in a result.
    pub shown: u64,
    /// When last.
    pub last_shown_at: Option<TimeMs>,
}

impl Usage {
    /// It was in a result.
    pub(crate) fn shown<'a>(
        &self,
        tenant: &TenantId,
        found: impl Iterator<Item = (&'a MemoryId, &'a Namespace)>,
        now: TimeMs,
    ) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, namespace) in found {
            let full = noted.len() >= NOTED_MAX;
            let key = (tenant.clone(), id.clone());
            if full && !noted.contains_key(&key) {
                continue;
            }
            let note = noted.entry(key).or_default();
            note.namespace = namespace.clone();
            note.shown += 1;
            note.shown_at = Some(now);
        }
    }

    /// Somebody opened it or relied on it.
    pub(crate) fn used(&self, tenant: &TenantId, id: &MemoryId, namespace: &Namespace, now: TimeMs) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let note = noted.entry((tenant.clone(), id.clone())).or_default();
        note.namespace = namespace.clone();
        note.uses += 1;
        note.used_at = Some(now);
    }

    fn take(&self) -> Vec<((TenantId, MemoryId), Note)> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken: Vec<_> = std::mem::take(&mut *noted).into_iter().collect();
        // In one order, so that writers lock rows in one order.
        taken.sort_by(|a, b| a.0.cmp(&b.0));
        taken
    }

    fn put_back(&self, taken: Vec<((TenantId, MemoryId), Note)>) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, old) in taken.into_iter().take(NOTED_MAX) {
            let note = noted.entry(key).or_default();
            note.namespace = old.namespace;
            note.uses += old.uses;
            note.used_at = note.used_at.max(old.used_at);
            note.shown += old.shown;
            note.shown_at = note.shown_at.max(old.shown_at);
        }
    }
}

/// Adds what was noted to the statistics of a memory that is still there, hot or cold.
fn write(tx: &mut Tx<'_>, (tenant, id): &(TenantId, MemoryId), note: &Note) -> Result<(), StoreError> {
    let namespace = note.namespace.as_str();
    tx.execute(
        "INSERT INTO memory_access (tenant_id, namespace, memory_id, uses, last_used_at, shown, last_shown_at)
         SELECT f.tenant_id, f.namespace, f.memory_id, CAST(?4 AS INTEGER), CAST(?5 AS INTEGER), CAST(?6 AS INTEGER),
                CAST(?7 AS INTEGER)
         FROM (SELECT tenant_id, namespace, memory_id FROM memories
               WHERE tenant_id = ?1 AND memory_id = ?3 AND namespace = ?2
               UNION ALL
               SELECT tenant_id, namespace, memory_id FROM memory_cold
               WHERE tenant_id = ?1 AND memory_id = ?3 AND namespace = ?2) AS f
         WHERE true
         ON CONFLICT (tenant_id, namespace, memory_id) DO UPDATE SET
             uses = memory_access.uses + excluded.uses,
             last_used_at = COALESCE(excluded.last_used_at, memory_access.last_used_at),
             shown = memory_access.shown + excluded.shown,
             last_shown_at = COALESCE(excluded.last_shown_at, memory_access.last_shown_at)",
        &values![tenant, namespace, id, note.uses, note.used_at, note.shown, note.shown_at],
    )?;
    Ok(())
}

/// The statistics of one memory.
pub(crate) fn of(read: &ReadTx<'_>, tenant: &TenantId, id: &MemoryId) -> Result<Option<UseCount>, StoreError> {
    read.query_optional(
        "SELECT uses, last_used_at, shown, last_shown_at FROM memory_access WHERE tenant_id = ?1 AND memory_id = ?2",
        &values![tenant, id],
        |row| {
            Ok(UseCount {
                uses: row.get(0)?,
                last_used_at: row.get(1)?,
                shown: row.get(2)?,
                last_shown_at: row.get(3)?,
            })
        },
    )
}

impl Memory {
    /// Notes that these memories were relied on: opened, quoted, acted upon. It weighs more than having been shown, keeps
    /// them hot, and warms up those that are cold. Written at once; ids that the user may not read are passed over.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn note_used(&self, scope: &Scope, ids: &[MemoryId]) -> Result<(), MemoryError> {
        let (wanted, scope) = (ids.to_vec(), scope.clone());
        let reader = scope.clone();
        let places = self.shared.store.read(move |read| {
            let mut places = Vec::new();
            for id in wanted {
                if let Some(place) = super::place_of(read, &reader.tenant, &id)?
                    && access::may(read, &reader, &place.namespace, Right::Read)?
                {
                    places.push((id, place));
                }
            }
            Ok::<_, MemoryError>(places)
        });
        let now = self.shared.store.ambient().clock.now();
        for (id, place) in places.await? {
            self.shared.life.usage.used(&scope.tenant, &id, &place.namespace, now);
            if place.is_cold {
                self.shared.life.wants_warmth(&scope.tenant, &id);
            }
        }
        self.flush_usage().await.map(drop)
    }

    /// Writes the statistics noted so far. Gives how many memories they are about. Runs in the background by itself.
    ///
    /// # Errors
    /// Those of the store; the notes stay for the next time then.
    pub async fn flush_usage(&self) -> Result<u64, MemoryError> {
        let mut taken = self.shared.life.usage.take();
        let count = taken.len() as u64;
        while !taken.is_empty() {
            let rest = taken.split_off(taken.len().min(PAGE));
            let page = std::mem::replace(&mut taken, rest);
            let writing = page.clone();
            let written: Result<(), StoreError> = self
                .shared
                .store
                .write(move |tx| writing.iter().try_for_each(|(key, note)| write(tx, key, note)))
                .await;
            if let Err(error) = written {
                self.shared.life.usage.put_back(page);
                self.shared.life.usage.put_back(taken);
                return Err(error.into());
            }
        }
        Ok(count)
    }

    /// How often and when a memory was of use, as far as it is written; `None` for never, or where the user may not read.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn use_count(&self, scope: &Scope, id: &MemoryId) -> Result<Option<UseCount>, MemoryError> {
        let (scope, id) = (scope.clone(), id.clone());
        let look = move |read: &ReadTx<'_>| {
            let Some(place) = super::place_of(read, &scope.tenant, &id)? else { return Ok(None) };
            if !access::may(read, &scope, &place.namespace, Right::Read)? {
                return Ok(None);
            }
            Ok(of(read, &scope.tenant, &id)?)
        };
        self.shared.store.read(look).await
    }
}

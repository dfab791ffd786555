//! The columns of the partitions that were used lately, each brought up to a snapshot before it is used.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use longhaul_store::{ReadTx, StoreError, values};

use crate::namespace::PartitionId;

use super::{Cells, Columns, SELECTED};

/// Rows put in between two takings of the lock.
const PAGE: usize = 512;

/// The columns of all partitions that were used lately.
#[derive(Debug)]
pub(crate) struct Shelf {
    partitions: Mutex<Partitions>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Partitions {
    held: HashMap<PartitionId, (u64, Arc<Held>)>,
    uses: u64,
}

/// One partition's columns.
#[derive(Debug)]
pub(crate) struct Held {
    id: PartitionId,
    columns: RwLock<Columns>,
    /// Held by the one that reads new rows.
    reading: Mutex<()>,
}

impl Shelf {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { partitions: Mutex::default(), bytes_max }
    }

    /// The partition's columns with everything that the snapshot holds, whose last change is `last_change`.
    pub(crate) fn current(
        &self,
        read: &ReadTx<'_>,
        id: &PartitionId,
        last_change: i64,
    ) -> Result<Arc<Held>, StoreError> {
        let held = {
            let mut partitions = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
            partitions.uses += 1;
            let now = partitions.uses;
            if let Some((used, held)) = partitions.held.get_mut(id) {
                *used = now;
                held.clone()
            } else {
                let held =
                    Arc::new(Held { id: id.clone(), columns: RwLock::new(Columns::new()), reading: Mutex::new(()) });
                partitions.held.insert(id.clone(), (now, held.clone()));
                held
            }
        };
        if held.columns().change < last_change {
            let many = held.catch_up(read, last_change)?;
            if many >= PAGE {
                self.shrink(&held);
            }
        }
        Ok(held)
    }

    /// Drops what was not used for longest, but never `kept`, until the rest fits.
    fn shrink(&self, kept: &Arc<Held>) {
        let mut partitions = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes: usize = partitions.held.values().map(|(_, held)| held.columns().bytes()).sum();
        while bytes > self.bytes_max {
            let others = partitions.held.iter().filter(|(_, (_, held))| !Arc::ptr_eq(held, kept));
            let Some(oldest) = others.min_by_key(|(_, (used, _))| *used).map(|(id, _)| id.clone()) else { break };
            if let Some((_, held)) = partitions.held.remove(&oldest) {
                bytes -= held.columns().bytes();
            }
        }
    }
}

impl Held {
    pub(crate) fn columns(&self) -> RwLockReadGuard<'_, Columns> {
        self.columns.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn columns_mut(&self) -> RwLockWriteGuard<'_, Columns> {
        self.columns.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the changes up to `last_change` that are not in yet. Gives how many rows that were.
    fn catch_up(&self, read: &ReadTx<'_>, last_change: i64) -> Result<usize, StoreError> {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.columns().change;
        if known >= last_change {
            return Ok(0);
        }
        let params = values![&self.id.tenant, self.id.namespace.as_str(), known, last_change];
        let which = "WHERE tenant_id = ?1 AND namespace = ?2 AND change_seq > ?3 AND change_seq <= ?4";
        // From the beginning the order of numbers is that of the rows, which are read through no index then.
        let order = if known == 0 { "seq" } else { "change_seq" };
        let (mut page, mut many) = (Vec::new(), 0);
        read.for_each(&format!("SELECT {SELECTED} FROM memories {which} ORDER BY {order}"), &params, |row| {
            page.push(Cells::read(row)?);
            if page.len() == PAGE {
                many += PAGE;
                let mut columns = self.columns_mut();
                page.drain(..).for_each(|cells| columns.put(&cells));
            }
            Ok(true)
        })?;
        let gone: Vec<(i64, i64)> = if known == 0 {
            Vec::new() // They never came in.
        } else {
            read.query(&format!("SELECT seq, change_seq FROM memory_gone {which}"), &params, |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?
        };
        let mut columns = self.columns_mut();
        many += page.len() + gone.len();
        page.iter().for_each(|cells| columns.put(cells));
        gone.into_iter().for_each(|(seq, change)| columns.remove(seq, change));
        columns.change = last_change;
        Ok(many)
    }
}

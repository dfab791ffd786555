//! The life of a memory: how it expires, cools, warms up again, is superseded, and is erased.
//!
//! It owns what becomes of rows after they were written; how they are found is `search`'s. Invariants: a search only
//! notes in RAM; what is moved is at any moment in one tier, whole; what is erased is in none.

pub(crate) mod cold;
mod error;
mod expiry;
pub(crate) mod facts;
mod forgetting;
mod keeper;
mod listing;
mod moving;
mod objects;
mod place;
mod receipt;
mod rules;
pub(crate) mod schema;
mod segment;
mod shelf;
mod traces;
mod usage;
mod warming;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use longhaul_core::{MemoryId, Scope, TenantId};
use longhaul_store::{Place, ReadTx, StoreError};

use crate::{
    Item, Memory, MemoryError, Namespace,
    access::{self, Right},
    rows,
};

pub use error::ColdError;
pub(crate) use expiry::erase_cold;
pub use facts::PastFact;
pub use forgetting::{Compacted, Forget};
pub use listing::TierStats;
pub use moving::{Moved, TierJudge};
pub use objects::Limits as ColdLimits;
pub use place::{ColdPlace, Credential, S3Place};
pub use receipt::{Erased, Receipt};
pub use rules::{KindRule, TierRules};
pub(crate) use segment::ColdRow;
pub use traces::{Trace, traces};
pub use usage::UseCount;
pub use warming::Tended;

use cold::Cold;
use objects::Objects;
use shelf::Stub;
use usage::Usage;

/// Memories that wait to be brought back.
const WANTED_MAX: usize = 10_000;

/// What a handle of memory keeps in RAM of all this.
#[derive(Debug, Default)]
pub(crate) struct Life {
    pub(crate) usage: Usage,
    cold: RwLock<Option<Arc<Cold>>>,
    rules: RwLock<Option<TierRules>>,
    /// Cold memories that somebody used.
    wanted: Mutex<BTreeSet<(TenantId, MemoryId)>>,
    /// Some search has seen a cold segment: look for them before the snapshot is taken.
    has_cold: AtomicBool,
}

/// A memory with its vectors by embedder, as they are stored.
pub(crate) type Whole = (Item, Vec<(String, Vec<u8>)>);

/// Where a memory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryPlace {
    pub(crate) namespace: Namespace,
    pub(crate) is_cold: bool,
}

/// Where the tenant's memory of this id is, if it is anywhere.
pub(crate) fn place_of(read: &ReadTx<'_>, tenant: &TenantId, id: &MemoryId) -> Result<Option<MemoryPlace>, StoreError> {
    if let Some(found) = rows::find(read, tenant, id)? {
        return Ok(Some(MemoryPlace { namespace: found.id.namespace, is_cold: false }));
    }
    let stub = shelf::stub(read, tenant, id)?;
    Ok(stub.map(|stub| MemoryPlace { namespace: stub.id.namespace, is_cold: true }))
}

impl Life {
    /// For a store in a folder cold memory is kept beside it; others are told where, because a folder of this machine
    /// means nothing to the next.
    pub(crate) fn new(place: &Place) -> Self {
        let life = Self::default();
        if let Place::Folder(dir) = place {
            // Made when the first segment is written: a store without cold memory has no such folder.
            life.set_cold(Some(Cold::new(Objects::beside(dir.join("cold")))));
        }
        life
    }

    pub(crate) fn cold(&self) -> Option<Arc<Cold>> {
        self.cold.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_cold(&self, cold: Option<Cold>) {
        *self.cold.write().unwrap_or_else(PoisonError::into_inner) = cold.map(Arc::new);
    }

    fn rules(&self) -> Option<TierRules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a search should ask for cold segments before its snapshot.
    pub(crate) fn has_cold(&self) -> bool {
        self.has_cold.load(Ordering::Relaxed)
    }

    /// A search has found segments that it had not asked for.
    pub(crate) fn note_cold(&self) {
        self.has_cold.store(true, Ordering::Relaxed);
    }

    /// A cold memory was used and is to come back.
    pub(crate) fn wants_warmth(&self, tenant: &TenantId, id: &MemoryId) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.len() < WANTED_MAX {
            wanted.insert((tenant.clone(), id.clone()));
        }
    }

    fn take_wanted(&self) -> BTreeSet<(TenantId, MemoryId)> {
        std::mem::take(&mut *self.wanted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Memory {
    /// Keeps cold memory in this place from now on, for every clone of this handle. Segments are found where they were
    /// written: after a move, copy the objects first.
    ///
    /// # Errors
    /// [`ColdError`] when the place's settings are wrong, or its folder cannot be made. A bucket is not asked yet.
    pub fn use_cold(&self, place: ColdPlace, limits: ColdLimits) -> Result<(), MemoryError> {
        let objects = Objects::open(place, limits)?;
        self.shared.life.set_cold(Some(Cold::new(objects)));
        Ok(())
    }

    /// Where cold memory is kept, if anywhere.
    #[must_use]
    pub fn cold_place(&self) -> Option<ColdPlace> {
        self.shared.life.cold().map(|cold| cold.objects.place().clone())
    }

    /// Asks the cold place whether it can be used: its credentials, its bucket.
    ///
    /// # Errors
    /// [`MemoryError::Cold`], which says what is wrong.
    pub async fn check_cold(&self) -> Result<(), MemoryError> {
        let cold = self.shared.life.cold().ok_or(ColdError::NotConfigured)?;
        cold.objects.keys(1).await?;
        Ok(())
    }

    /// Applies these rules from now on, every ten minutes in the background; without rules nothing becomes cold by itself.
    pub fn use_tier_rules(&self, rules: Option<TierRules>) {
        *self.shared.life.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// Brings a cold memory back for a user who may write to it. Gives how many came.
    pub(crate) async fn warm_for(&self, scope: &Scope, id: &MemoryId) -> Result<u64, MemoryError> {
        let (writer, wanted) = (scope.clone(), id.clone());
        let may = self.shared.store.read(move |read| {
            let Some(stub) = shelf::stub(read, &writer.tenant, &wanted)? else { return Ok(false) };
            Ok::<_, MemoryError>(access::may(read, &writer, &stub.id.namespace, Right::Write)?)
        });
        if may.await? { self.warm(&scope.tenant, std::slice::from_ref(id)).await } else { Ok(0) }
    }

    /// The cold memory of this id, as [`Memory::get`] gives it.
    pub(crate) async fn get_cold(&self, scope: &Scope, id: &MemoryId) -> Result<Option<Item>, MemoryError> {
        Ok(self.get_cold_whole(scope, id).await?.map(|(item, _)| item))
    }

    /// The same with its vectors by embedder, as they are stored.
    pub(crate) async fn get_cold_whole(&self, scope: &Scope, id: &MemoryId) -> Result<Option<Whole>, MemoryError> {
        let (reader, wanted) = (scope.clone(), id.clone());
        let found = self.shared.store.read(move |read| {
            let Some(stub) = shelf::stub(read, &reader.tenant, &wanted)? else { return Ok(None) };
            if stub.expires_at.is_some_and(|at| at <= read.now().0)
                || !access::may(read, &reader, &stub.id.namespace, Right::Read)?
            {
                return Ok(None);
            }
            Ok::<_, MemoryError>(Some(stub))
        });
        match found.await? {
            Some(stub) => self.cold_whole(&stub).await,
            None => Ok(None),
        }
    }

    /// The memory of a stub, unless it has moved since.
    pub(crate) async fn cold_whole(&self, stub: &Stub) -> Result<Option<Whole>, MemoryError> {
        let (of, segment) = (stub.id.clone(), stub.segment.clone());
        let shelved = self.shared.store.read(move |read| shelf::find(read, &of, &segment)).await?;
        let Some(shelved) = shelved else { return Ok(None) };
        let cold = self.shared.life.cold().ok_or(ColdError::NotConfigured)?;
        let loaded = cold.load(&shelved).await?;
        let row = loaded.segment.rows.get(stub.position).filter(|row| row.memory_id == stub.memory_id.as_str());
        let Some(item) = row.and_then(|row| cold::item(row, &stub.id.namespace)) else { return Ok(None) };
        let vectors = loaded.segment.vectors.iter().filter_map(|of| {
            let vector = of.of_row.get(stub.position)?.as_ref()?;
            Some((of.embedder.clone(), crate::vectors::encode(vector)))
        });
        Ok(Some((item, vectors.collect())))
    }
}

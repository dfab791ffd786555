//! The keys that are known, and what is remembered of those that came in lately.
//!
//! It owns the cache. Invariant: what is remembered of a key is forgotten when a notice says that keys may have
//! changed, and believed for [`crate::Limits::key_trust_max`] at most; a row that was read before such a notice is not
//! remembered after it.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock, Weak},
    time::{Duration, Instant},
};

use longhaul_core::TenantId;
use longhaul_store::{Store, StoreError, Tx};
use tokio::sync::watch;

use super::{CHANGED, Key, KeyId, MadeKey, NewKey, prefix_of, rows};

/// Keys that are remembered at once; beyond that all are forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// The keys of a store. Cheap to clone.
#[derive(Clone)]
pub struct KeyRing(Arc<Inner>);

struct Inner {
    store: Store,
    trust_max: Duration,
    /// Since when each is believed; nothing for those that have to be looked at again.
    known: RwLock<HashMap<String, (Arc<Key>, Option<Instant>)>>,
    /// Counts the times when keys may have changed.
    changed: watch::Sender<u64>,
}

/// Why a key does not open.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is none, it is another, it has ended or was revoked: a stranger is not told which.
    Unknown,
    /// It cannot be known at the moment.
    Store(StoreError),
}

impl KeyRing {
    /// The keys of a store that was opened with [`crate::MIGRATIONS`] too, to manage them. To be called within a tokio
    /// runtime.
    #[must_use]
    pub fn of(store: Store) -> Self {
        Self::new(store, crate::Limits::default().key_trust_max)
    }

    pub(crate) fn new(store: Store, trust_max: Duration) -> Self {
        let mut notices = store.listen(CHANGED);
        let inner = Arc::new(Inner { store, trust_max, known: RwLock::default(), changed: watch::Sender::new(0) });
        let weak = Arc::downgrade(&inner);
        tokio::spawn(async move {
            while let Some(notice) = notices.next().await {
                let Some(inner) = Weak::upgrade(&weak) else { return };
                inner.forget(notice.payload.as_deref());
            }
        });
        Self(inner)
    }

    /// The key of this text, if it holds now.
    pub(crate) async fn admit(&self, text: &str) -> Result<Arc<Key>, Refused> {
        let prefix = prefix_of(text).ok_or(Refused::Unknown)?;
        let key = self.by_prefix(prefix).await.map_err(Refused::Store)?.ok_or(Refused::Unknown)?;
        let now = self.0.store.ambient().clock.now();
        if key.is_opened_by(text) && key.holds_at(now) { Ok(key) } else { Err(Refused::Unknown) }
    }

    /// Whether this is the text of a key that came in lately; it need no longer hold.
    pub(crate) fn remembers(&self, text: &str) -> bool {
        let Some(prefix) = prefix_of(text) else { return false };
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(prefix).is_some_and(|(key, _)| key.is_opened_by(text))
    }

    /// Whether this key holds now.
    pub(crate) async fn holds(&self, key: &Key) -> bool {
        let now = self.0.store.ambient().clock.now();
        matches!(self.by_prefix(&key.prefix).await, Ok(Some(found)) if found.id == key.id && found.holds_at(now))
    }

    /// Changes whenever a key may have been revoked or made.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    async fn by_prefix(&self, prefix: &str) -> Result<Option<Arc<Key>>, StoreError> {
        let Inner { store, trust_max, known, changed } = &*self.0;
        let remembered = known.read().unwrap_or_else(PoisonError::into_inner).get(prefix).cloned();
        if let Some((key, since)) = remembered
            && since.is_some_and(|since| since.elapsed() < *trust_max)
        {
            return Ok(Some(key));
        }
        let (before, wanted) = (*changed.borrow(), prefix.to_owned());
        let since = Instant::now();
        let Some(key) = store.read(move |read| rows::by_prefix(read, &wanted)).await? else { return Ok(None) };
        let key = Arc::new(key);
        let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
        // Under the lock that forgetting takes: a row that may be older than a change is not kept.
        if *changed.borrow() == before {
            if known.len() >= REMEMBERED_MAX {
                known.clear();
            }
            known.insert(prefix.to_owned(), (key.clone(), Some(since)));
        }
        Ok(Some(key))
    }

    /// Makes a key in a transaction of the caller's.
    pub(crate) fn create_in(&self, tx: &mut Tx<'_>, new: NewKey) -> Result<MadeKey, StoreError> {
        rows::create(tx, new)
    }

    /// Revokes a key in a transaction of the caller's.
    pub(crate) fn revoke_in(&self, tx: &mut Tx<'_>, tenant: &TenantId, name: &str) -> Result<Option<Key>, StoreError> {
        rows::revoke(tx, tenant, name)
    }

    /// Makes a key. Its text is in the answer and nowhere else.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn create(&self, new: NewKey) -> Result<MadeKey, StoreError> {
        self.0.store.write(move |tx| rows::create(tx, new)).await
    }

    /// Makes this key if the store has none at all, of any tenant.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn create_first(&self, new: NewKey) -> Result<Option<MadeKey>, StoreError> {
        self.0.store.write(move |tx| if rows::any(tx)? { Ok(None) } else { rows::create(tx, new).map(Some) }).await
    }

    /// The tenant's keys, the oldest first: those after `after`, at most `limit`; also those that no longer hold.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn list(&self, tenant: &TenantId, after: Option<&KeyId>, limit: u32) -> Result<Vec<Key>, StoreError> {
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.0.store.read(move |read| rows::list(read, &tenant, after.as_ref(), limit)).await
    }

    /// Revokes a key of the tenant, named by its id or its prefix; nothing when the tenant has no such key.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn revoke(&self, tenant: &TenantId, name: &str) -> Result<Option<Key>, StoreError> {
        let (tenant, name) = (tenant.clone(), name.to_owned());
        self.0.store.write(move |tx| rows::revoke(tx, &tenant, &name)).await
    }
}

impl Inner {
    /// Believes the key of this prefix, or all, no longer. That they came in lately is remembered: they are still
    /// listened to while wrong keys come from the same address.
    fn forget(&self, prefix: Option<&str>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        match prefix {
            Some(prefix) => known.get_mut(prefix).into_iter().for_each(|(_, since)| *since = None),
            None => known.values_mut().for_each(|(_, since)| *since = None),
        }
        self.changed.send_modify(|count| *count += 1);
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").finish_non_exhaustive()
    }
}

//! Blobs in this process's memory, as they are.
//!
//! Invariant: content is removed only if nobody has put it since the given time.

use std::{
    collections::HashMap,
    io::{Cursor, Write},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use longhaul_core::{Digest, TenantId, TimeMs};

use super::{
    encoding::{Encoding, Stored},
    stream::{Content, Sink},
};
use crate::{StoreError, shelf::Kept};

/// Contents, each with the time at which it was last put.
#[derive(Debug, Clone, Default)]
pub(super) struct InMemory(Arc<Mutex<HashMap<(TenantId, Digest), (Bytes, TimeMs)>>>);

impl InMemory {
    pub(super) fn put(&self, tenant: TenantId, digest: Digest, content: Vec<u8>, now: TimeMs) {
        self.shelf().insert((tenant, digest), (content.into(), now));
    }

    pub(super) fn sink(&self, now: TimeMs) -> Box<dyn Sink> {
        Box::new(Growing { shelf: self.clone(), content: Vec::new(), now })
    }

    pub(super) fn stored(&self, tenant: &TenantId, digest: &Digest, path: PathBuf) -> Option<Stored> {
        let (content, _) = self.shelf().get(&(tenant.clone(), *digest))?.clone();
        Some(Stored { reader: Box::new(Cursor::new(content)), encoding: Encoding::Raw, path })
    }

    pub(super) fn list(&self, path: impl Fn(&TenantId, &Digest) -> PathBuf) -> Vec<Kept> {
        let kept = |((tenant, digest), (content, put_at)): (&(TenantId, Digest), &(Bytes, TimeMs))| Kept::Blob {
            tenant: tenant.clone(),
            digest: *digest,
            path: path(tenant, digest),
            bytes: content.len() as u64,
            put_at: *put_at,
        };
        self.shelf().iter().map(kept).collect()
    }

    pub(super) fn remove(&self, tenant: &TenantId, digest: &Digest, before: TimeMs) -> bool {
        let (mut shelf, key) = (self.shelf(), (tenant.clone(), *digest));
        let is_old = shelf.get(&key).is_some_and(|(_, put_at)| *put_at < before);
        is_old && shelf.remove(&key).is_some()
    }

    fn shelf(&self) -> MutexGuard<'_, HashMap<(TenantId, Digest), (Bytes, TimeMs)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Content that is being put.
struct Growing {
    shelf: InMemory,
    content: Vec<u8>,
    now: TimeMs,
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.content.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Sink for Growing {
    fn keep(self: Box<Self>, content: Content) -> Result<(), StoreError> {
        self.shelf.put(content.tenant, content.digest, self.content, self.now);
        Ok(())
    }
}

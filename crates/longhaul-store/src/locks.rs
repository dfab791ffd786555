//! The half of a lease that dies with its owner: one lock for each thread, on this host.
//!
//! It owns the lock files' names; who holds a thread beyond this host stands in a row (`lease`). Invariant: of all
//! claims of one thread on one store on this host, at most one is alive.

use std::{
    collections::HashSet,
    fs::File,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use longhaul_core::{Digest, TenantId, ThreadId};
use rustix::fs::{FlockOperation, flock};

use crate::{StoreError, connection::private_file, error::from_io};

type InMemory = Arc<Mutex<HashSet<Digest>>>;

/// The locks of a store.
#[derive(Debug)]
pub(crate) enum Locks {
    /// A file for each thread, in this folder: other processes see them too.
    Folder(PathBuf),
    /// Only the handles of one store in memory can meet.
    Memory(InMemory),
}

impl Locks {
    pub(crate) fn folder(store: &Path) -> Self {
        Self::Folder(store.join("locks"))
    }

    pub(crate) fn memory() -> Self {
        Self::Memory(InMemory::default())
    }

    /// The thread's lock, unless somebody alive has it. Waits for nobody.
    pub(crate) fn try_lock(&self, tenant: &TenantId, thread: &ThreadId) -> Result<Option<ThreadLock>, StoreError> {
        // A thread's name may hold what a file's name may not.
        let key = Digest::of_parts([tenant.as_str().as_bytes(), thread.as_str().as_bytes()]);
        match self {
            Self::Folder(dir) => {
                let path = dir.join(format!("{}.lock", key.hex()));
                let file = private_file(&path)?;
                match flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(std::io::Error::from) {
                    Ok(()) => Ok(Some(ThreadLock::File(file))),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                    Err(error) => Err(from_io(&path, error)),
                }
            }
            Self::Memory(held) => {
                let free = held.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
                Ok(free.then(|| ThreadLock::Memory { held: held.clone(), key }))
            }
        }
    }
}

/// A thread's lock, held until this is dropped.
#[derive(Debug)]
pub(crate) enum ThreadLock {
    /// The operating system's lock lives as long as this file is open.
    File(File),
    Memory {
        held: InMemory,
        key: Digest,
    },
}

impl Drop for ThreadLock {
    fn drop(&mut self) {
        match self {
            // Closing the file is not enough: a child process between its fork and its exec still has it open.
            Self::File(file) => drop(flock(file, FlockOperation::Unlock)),
            Self::Memory { held, key } => {
                held.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            }
        }
    }
}

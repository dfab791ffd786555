//! The half of a lease that dies with its owner: one lock for each thread, on this host.
//!
//! It owns the lock files' names; who holds a thread beyond this host stands in a row (`lease`). Invariant: of all
//! claims of one thread on one store on this host, at most one is alive.

use std::{
    collections::HashSet,
    fs::File,
    io::{ErrorKind, Read, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use longhaul_core::{Digest, TenantId, ThreadId};
use rustix::fs::{FlockOperation, flock};

use crate::{StoreError, connection::private_file, error::from_io};

type InMemory = Arc<Mutex<HashSet<Digest>>>;

/// The locks of a store.
#[derive(Debug)]
pub(crate) struct Locks {
    shelf: Shelf,
    /// The name of all who share these locks.
    host: String,
}

#[derive(Debug)]
enum Shelf {
    /// A file for each thread, in this folder: other processes see them too.
    Folder(PathBuf),
    /// Only the handles of one store in memory can meet.
    Memory(InMemory),
}

impl Locks {
    /// The locks of everybody who uses this folder; whoever can use it is on this host.
    pub(crate) fn folder(store: &Path) -> Self {
        Self { shelf: Shelf::Folder(store.join("locks")), host: host_name() }
    }

    /// Likewise, for a store that others may use without this folder, on this host too, in a container of the same
    /// name or with another folder: `atlas/3f2c1a90` is this host as far as it shares the folder.
    pub(crate) fn of_shared_store(dir: &Path, new_id: &str) -> Result<Self, StoreError> {
        let locks = dir.join("locks");
        let path = locks.join("host-id");
        let mut file = private_file(&path)?;
        let wrong = |error| from_io(&path, error);
        flock(&file, FlockOperation::LockExclusive).map_err(|error| wrong(error.into()))?;
        let mut id = String::new();
        file.read_to_string(&mut id).map_err(wrong)?;
        if id.is_empty() {
            id = new_id.chars().rev().take(8).collect();
            file.write_all(id.as_bytes()).and_then(|()| file.sync_all()).map_err(wrong)?;
        }
        Ok(Self { shelf: Shelf::Folder(locks), host: format!("{}/{id}", host_name()) })
    }

    pub(crate) fn memory() -> Self {
        Self { shelf: Shelf::Memory(InMemory::default()), host: host_name() }
    }

    /// The name under which everybody appears to others who would find these locks held.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The thread's lock, unless somebody alive has it. Waits for nobody.
    pub(crate) fn try_lock(&self, tenant: &TenantId, thread: &ThreadId) -> Result<Option<ThreadLock>, StoreError> {
        // A thread's name may hold what a file's name may not.
        let key = Digest::of_parts([tenant.as_str().as_bytes(), thread.as_str().as_bytes()]);
        match &self.shelf {
            Shelf::Folder(dir) => {
                let path = dir.join(format!("{}.lock", key.hex()));
                let file = private_file(&path)?;
                match flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(std::io::Error::from) {
                    Ok(()) => Ok(Some(ThreadLock::File(file))),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                    Err(error) => Err(from_io(&path, error)),
                }
            }
            Shelf::Memory(held) => {
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

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "unknown".to_owned(), |s| s.trim().to_owned())
}

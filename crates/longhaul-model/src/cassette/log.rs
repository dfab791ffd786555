//! The record of what was served, in memory and, if asked for, as a JSON line a request in a file.
//!
//! Invariant: a line is in the file (handed to the operating system) before the first byte of its reply leaves, so a
//! test that kills the other side can count what was asked.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Mutex, PoisonError},
};

use longhaul_core::TimeMs;
use serde::{Deserialize, Serialize};

/// How many records the server keeps in memory; the file has them all.
const KEPT_MAX: usize = 10_000;

/// One request that the server decided on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// When, by the server's clock.
    pub at: TimeMs,
    /// The entry selected, if one was.
    pub entry: Option<String>,
    /// The turn that the request was at.
    pub turn: u64,
    /// Digest of the request's body, `sha256:…`. Equal requests have equal digests.
    pub request: String,
    /// What the server did.
    pub outcome: ServedOutcome,
}

/// What the server did with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServedOutcome {
    /// Began to send the entry's reply.
    Replied,
    /// Served the entry's fault instead.
    Fault,
    /// Found no entry, several, or an unmet requirement, and said so.
    Refused,
}

/// Where records go.
#[derive(Debug)]
pub(crate) struct ServedLog {
    kept: Mutex<VecDeque<Served>>,
    file: Option<Mutex<File>>,
}

impl ServedLog {
    /// Opens the file for appending, if there is to be one.
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let file = path.map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
        Ok(Self { kept: Mutex::default(), file: file.map(Mutex::new) })
    }

    /// Adds a record.
    pub(crate) fn add(&self, served: Served) -> io::Result<()> {
        if let Some(file) = &self.file {
            let mut line = serde_json::to_string(&served)?;
            line.push('\n');
            // One write, so that lines of several servers on one file do not mix.
            file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())?;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(served);
        Ok(())
    }

    /// The records in memory, oldest first.
    pub(crate) fn kept(&self) -> Vec<Served> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

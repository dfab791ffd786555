//! The one receipt of an erasure over all owners: that something was erased, when, by whom, from where; never what.
//!
//! Invariant: it holds no content, no name of a subject, and no id of what was erased.

use std::collections::BTreeMap;

use longhaul_core::{TimeMs, UserId};
use longhaul_store::erasing::Erasure;
use serde::{Deserialize, Serialize};

/// What an erasure came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureReceipt {
    /// Its id, `erasure_…`.
    pub id: String,
    /// Who had it done: the user, and the account at the terminal.
    pub by: UserId,
    /// The account.
    pub actor: String,
    /// What was asked for: `user`, `task`, `session` or `subject`.
    pub asked: String,
    /// The digest of what was asked for exactly; its name is not kept.
    pub asked_digest: String,
    /// When it was begun.
    pub begun_at: TimeMs,
    /// When nothing was left to do; one without it was cut short and has to be said again.
    pub erased_at: Option<TimeMs>,
    /// Nothing was erased: it was only counted.
    pub dry_run: bool,
    /// How many rows, files and objects, by what they were: `records`, `messages`, `blobs` ….
    pub erased: BTreeMap<String, u64>,
    /// What could not be reached or removed yet, and what to do.
    pub pending: Vec<String>,
    /// What it does not reach.
    pub not_covered: Vec<String>,
}

impl ErasureReceipt {
    pub(super) fn new(by: UserId, actor: String, asked: &str, asked_digest: String, dry_run: bool) -> Self {
        Self {
            id: String::new(),
            by,
            actor,
            asked: asked.to_owned(),
            asked_digest,
            begun_at: TimeMs(0),
            erased_at: None,
            dry_run,
            erased: BTreeMap::new(),
            pending: Vec::new(),
            not_covered: Vec::new(),
        }
    }

    /// As it was kept; of an erasure that was cut short what it came to until then.
    pub(super) fn of(erasure: Erasure) -> Result<Self, serde_json::Error> {
        let receipt: Self = serde_json::from_str(&erasure.receipt)?;
        Ok(Self { id: erasure.id, begun_at: erasure.begun_at, erased_at: erasure.ended_at, ..receipt })
    }

    pub(super) fn count(&mut self, what: &str, many: u64) {
        if many > 0 {
            *self.erased.entry(what.to_owned()).or_default() += many;
        }
    }

    /// Everything together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.erased.values().sum()
    }
}

/// What no erasure reaches.
pub(super) fn not_covered(is_named: bool, is_postgres: bool, has_bucket: bool) -> Vec<String> {
    let mut told = vec![
        "backups and copies of this store, wherever they were made: erase there too, or delete them".to_owned(),
        "folders of projects and their snapshots below `work/` in the home".to_owned(),
        "documents of knowledge bases: `longhaul knowledge remove`".to_owned(),
        "shared knowledge that was approved, which is the tenant's: `longhaul review` takes it back".to_owned(),
        "what was sent to models and other services, and logs of programs".to_owned(),
    ];
    if is_named {
        told.push("texts that mention it without being labelled with it, and states of finished executions".to_owned());
    }
    if is_postgres {
        told.push("the server's write-ahead log until it is recycled, its archives and its replicas".to_owned());
    }
    if has_bucket {
        told.push("old versions that a bucket keeps".to_owned());
    }
    told
}

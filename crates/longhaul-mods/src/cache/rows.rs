//! The rows of the cache.

use longhaul_network::{Refusal, Stage};
use longhaul_store::{Row, StoreError, values};
use serde_json::{Value, json};

use crate::{
    acting::seconds,
    audience,
    files::{self, File},
    place::Place,
};

/// Version of what a row holds.
const V: u32 = 1;
/// Entries that are forgotten on the way of another one.
const FORGOTTEN_AT_ONCE: i64 = 100;

/// An entry.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) value: Option<String>,
    pub(super) file: Option<String>,
    pub(super) media_type: String,
    pub(super) groups: Vec<String>,
    pub(super) version: i64,
    pub(super) created_by: String,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    pub(super) expires_at: Option<i64>,
}

impl Entry {
    /// All but its content.
    pub(super) fn shown(&self) -> Value {
        let at = |ms: i64| json!(seconds(longhaul_core::TimeMs(ms)));
        json!({
            "cache_id": self.id,
            "mime_type": self.media_type,
            "allowed_agent_groups": self.groups,
            "created_by": self.created_by,
            "created_at": at(self.created_at),
            "updated_at": at(self.updated_at),
            "expires_at": self.expires_at.map(at),
            "version": self.version,
            "is_file": self.file.is_some(),
        })
    }
}

fn entry(row: &Row<'_>) -> Result<Entry, StoreError> {
    Ok(Entry {
        id: row.get(0)?,
        value: row.get(1)?,
        file: row.get(2)?,
        media_type: row.get(3)?,
        groups: audience::read(row.text(4)?),
        version: row.get(5)?,
        created_by: row.get(6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
        expires_at: row.get(9)?,
    })
}

/// The entry with this id that has not ended.
pub(super) fn find(stage: &Stage<'_, '_>, id: &str) -> Result<Option<Entry>, Refusal> {
    let Place { tenant, network } = Place::of(stage);
    Ok(stage.rows().query_optional(
        "SELECT cache_id, value, file_id, media_type, groups, version, created_by, created_at, updated_at, expires_at
         FROM cache_entries WHERE tenant_id = ?1 AND network_id = ?2 AND cache_id = ?3
         AND (expires_at IS NULL OR expires_at > ?4)",
        &values![&tenant, &network, id, stage.now()],
        entry,
    )?)
}

/// The file of an entry that is one.
pub(super) fn file_of(stage: &Stage<'_, '_>, entry: &Entry) -> Result<Option<File>, Refusal> {
    match &entry.file {
        None => Ok(None),
        Some(file) => Ok(files::find(&stage.rows(), &Place::of(stage), file)?),
    }
}

pub(super) fn insert(stage: &mut Stage<'_, '_>, entry: &Entry) -> Result<(), Refusal> {
    let Place { tenant, network } = Place::of(stage);
    stage.tx().execute(
        "INSERT INTO cache_entries (tenant_id, network_id, cache_id, v, value, file_id, media_type, groups, version,
             created_by, created_at, updated_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        &values![
            &tenant,
            &network,
            &entry.id,
            V,
            entry.value.as_ref(),
            entry.file.as_ref(),
            &entry.media_type,
            audience::printed(&entry.groups),
            entry.version,
            &entry.created_by,
            entry.created_at,
            entry.updated_at,
            entry.expires_at,
        ],
    )?;
    Ok(())
}

pub(super) fn update(stage: &mut Stage<'_, '_>, entry: &Entry) -> Result<(), Refusal> {
    let Place { tenant, network } = Place::of(stage);
    stage.tx().execute(
        "UPDATE cache_entries SET value = ?4, version = ?5, updated_at = ?6
         WHERE tenant_id = ?1 AND network_id = ?2 AND cache_id = ?3",
        &values![&tenant, &network, &entry.id, entry.value.as_ref(), entry.version, entry.updated_at],
    )?;
    Ok(())
}

/// Removes an entry, and with it the file that it is; the content goes when nobody has it any more.
pub(super) fn delete(stage: &mut Stage<'_, '_>, entry: &Entry) -> Result<(), Refusal> {
    let Place { tenant, network } = Place::of(stage);
    stage.tx().execute(
        "DELETE FROM cache_entries WHERE tenant_id = ?1 AND network_id = ?2 AND cache_id = ?3",
        &values![&tenant, &network, &entry.id],
    )?;
    if let Some(file) = &entry.file {
        files::remove(stage, file)?;
    }
    Ok(())
}

/// Forgets entries that have ended, a few at a time.
pub(super) fn forget_ended(stage: &mut Stage<'_, '_>) -> Result<(), Refusal> {
    let Place { tenant, network } = Place::of(stage);
    let ended = stage.rows().query(
        "SELECT cache_id, value, file_id, media_type, groups, version, created_by, created_at, updated_at, expires_at
         FROM cache_entries WHERE tenant_id = ?1 AND network_id = ?2 AND expires_at <= ?3 LIMIT ?4",
        &values![&tenant, &network, stage.now(), FORGOTTEN_AT_ONCE],
        entry,
    )?;
    ended.iter().try_for_each(|entry| delete(stage, entry))
}

/// How many entries somebody has made.
pub(super) fn count_of(stage: &Stage<'_, '_>, maker: &str) -> Result<i64, Refusal> {
    let Place { tenant, network } = Place::of(stage);
    Ok(stage.rows().query_one(
        "SELECT COUNT(*) FROM cache_entries WHERE tenant_id = ?1 AND network_id = ?2 AND created_by = ?3",
        &values![&tenant, &network, maker],
        |row| row.get(0),
    )?)
}

//! Reading and writing the versions of a user's memory, with the memories that mirror its entries.
//!
//! Invariants: a version, its entries and their mirrors are one transaction; whoever holds a [`Head`] holds the lock of
//! the user's row, so versions have one order; a version that is written is never changed, only followed, or erased from.

use longhaul_core::{MemoryId, Scope, TenantId, TimeMs, UserId};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{Actor, Block, By, Entry, EntryId, Origin, Slot, UserError, schema::ROW_VERSION, state::State};
use crate::{Memory, MemoryError, Namespace, NewMemory, Source};

/// The collection of the memories that mirror entries.
pub const COLLECTION: &str = "user";
/// How much the mirrors matter beside other memories.
const MIRROR_IMPORTANCE: f32 = 0.8;

/// What a user has switched on. Both are on for who has said nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    /// All memory of this user: nothing is written, searched or put into prompts without it.
    pub memory: bool,
    /// Implicit writes: nothing is learned from conversations without it.
    pub implicit: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self { memory: true, implicit: true }
    }
}

/// The newest version of a user's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) version: u32,
    pub(crate) next_entry: u32,
    pub(crate) switches: Switches,
}

impl Head {
    const NEW: Self = Self { version: 0, next_entry: 1, switches: Switches { memory: true, implicit: true } };
}

/// What made a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// An explicit edit.
    Edit,
    /// A proposal that was accepted.
    Proposal,
    /// The conversations behind implicit entries were deleted.
    Fade,
    /// An earlier version was restored.
    Rollback,
    /// Entries were erased from all versions.
    Erase,
}

impl Action {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Proposal => "proposal",
            Self::Fade => "fade",
            Self::Rollback => "rollback",
            Self::Erase => "erase",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Edit, Self::Proposal, Self::Fade, Self::Rollback, Self::Erase].into_iter().find(|a| a.as_str() == word)
    }
}

/// One version in the history: who, why, when, what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its number, from 1.
    pub version: u32,
    /// What made it.
    pub action: Action,
    /// Who made it.
    pub actor: Actor,
    /// The reason given.
    pub why: String,
    /// The proposal that it applied.
    pub proposal: Option<String>,
    /// When.
    pub at: TimeMs,
    /// The entries that differ from the version before.
    pub changes: Vec<EntryChange>,
}

/// What a version changed of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryChange {
    /// The entry.
    pub entry: EntryId,
    /// What it said before; `None` when it was not there.
    pub before: Option<String>,
    /// What it says from this version on; `None` when it is gone.
    pub after: Option<String>,
}

/// The namespace of a user's own memories: `user:` and the id's body, each capital written as a point and the small
/// letter, so that two users never share one.
#[must_use]
pub fn namespace_of(user: &UserId) -> Namespace {
    named("user:", user.as_str().strip_prefix("user_").unwrap_or(user.as_str()))
}

/// The namespace of what was said in a user's conversations, named as [`namespace_of`] is: `talk:` and the id's body.
#[must_use]
pub fn talks_of(user: &UserId) -> Namespace {
    named("talk:", user.as_str().strip_prefix("user_").unwrap_or(user.as_str()))
}

/// A namespace for the body of an id, so that two ids never share one. A body too long for that is named by its digest.
pub(crate) fn named(prefix: &str, body: &str) -> Namespace {
    let mut name = prefix.to_owned();
    for c in body.chars() {
        if c.is_ascii_uppercase() {
            name.push('.');
        }
        name.push(c.to_ascii_lowercase());
    }
    name.parse().unwrap_or_else(|_| {
        let digest = format!("{prefix}..{}", hex::encode(Sha256::digest(body.as_bytes())));
        digest.parse().unwrap_or_default()
    })
}

/// Refuses a namespace that is kept for another user: whoever writes first owns it, and that must be its user.
pub(crate) fn check_namespace(scope: &Scope, namespace: &Namespace) -> Result<(), UserError> {
    let is_anothers = |prefix: &str, own: fn(&UserId) -> Namespace| {
        namespace.as_str().starts_with(prefix) && *namespace != own(&scope.user)
    };
    if is_anothers("user:", namespace_of) || is_anothers("talk:", talks_of) {
        return Err(UserError::NotYours { namespace: namespace.clone() });
    }
    Ok(())
}

/// Refuses what is to be written while the user has switched all memory off.
pub(crate) fn check_switch(read: &ReadTx<'_>, scope: &Scope) -> Result<(), MemoryError> {
    check_on(&head(read, scope)?, scope).map_err(MemoryError::from)
}

/// Refuses to change the text of a memory that mirrors an entry: it is changed there.
pub(crate) fn check_not_mirrored(read: &ReadTx<'_>, scope: &Scope, id: &MemoryId) -> Result<(), MemoryError> {
    match mirrored(read, &scope.tenant, id)? {
        Some(_) => Err(UserError::Mirrored { id: id.to_string() }.into()),
        None => Ok(()),
    }
}

const HEAD: &str = "version, next_entry, memory_on, implicit_on";

fn head_row(row: &Row<'_>) -> Result<Head, StoreError> {
    let switches = Switches { memory: row.get(2)?, implicit: row.get(3)? };
    Ok(Head { version: row.get(0)?, next_entry: row.get(1)?, switches })
}

/// The head as this snapshot has it.
pub(crate) fn head(read: &ReadTx<'_>, scope: &Scope) -> Result<Head, StoreError> {
    let sql = format!("SELECT {HEAD} FROM memory_users WHERE tenant_id = ?1 AND user_id = ?2");
    Ok(read.query_optional(&sql, &values![&scope.tenant, &scope.user], head_row)?.unwrap_or(Head::NEW))
}

/// The head, locked until the transaction ends.
pub(crate) fn lock(tx: &mut Tx<'_>, scope: &Scope) -> Result<Head, StoreError> {
    let sql = format!(
        "INSERT INTO memory_users (tenant_id, user_id, version, next_entry, memory_on, implicit_on)
         VALUES (?1, ?2, 0, 1, 1, 1)
         ON CONFLICT (tenant_id, user_id) DO UPDATE SET version = memory_users.version RETURNING {HEAD}"
    );
    tx.query_one(&sql, &values![&scope.tenant, &scope.user], head_row)
}

/// # Errors
/// [`UserError::Off`] when the user has switched all memory off.
pub(crate) fn check_on(head: &Head, scope: &Scope) -> Result<(), UserError> {
    if head.switches.memory { Ok(()) } else { Err(UserError::Off { user: scope.user.clone() }) }
}

const ENTRY: &str = "entry, block, content, attribute, slot_value, origin, threads, created_at, updated_at";

fn entry_row(row: &Row<'_>) -> Result<Entry, StoreError> {
    let id = EntryId(row.get(0)?);
    let word =
        |column, expected| StoreError::Column { column, expected, found: row.text(column).unwrap_or("").to_owned() };
    let slot = row.get::<Option<String>>(3)?.zip(row.get::<Option<String>>(4)?);
    Ok(Entry {
        id,
        block: row.text(1)?.parse::<Block>().map_err(|_| word(1, "a block"))?,
        text: row.get(2)?,
        slot: slot.map(|(attribute, value)| Slot { attribute, value }),
        origin: row.text(5)?.parse::<Origin>().map_err(|_| word(5, "an origin"))?,
        threads: serde_json::from_str(row.text(6)?).map_err(StoreError::record("user memory entry", &id))?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
    })
}

/// The state as it is now.
pub(crate) fn state(read: &ReadTx<'_>, scope: &Scope) -> Result<State, StoreError> {
    let sql = format!(
        "SELECT {ENTRY} FROM memory_user_entries
         WHERE tenant_id = ?1 AND user_id = ?2 AND version_to IS NULL ORDER BY entry"
    );
    Ok(State::of(read.query(&sql, &values![&scope.tenant, &scope.user], entry_row)?))
}

/// The state as it was at a version.
pub(crate) fn state_at(read: &ReadTx<'_>, scope: &Scope, version: u32) -> Result<State, StoreError> {
    let sql = format!(
        "SELECT {ENTRY} FROM memory_user_entries WHERE tenant_id = ?1 AND user_id = ?2
         AND version_from <= ?3 AND (version_to IS NULL OR version_to > ?3) ORDER BY entry"
    );
    Ok(State::of(read.query(&sql, &values![&scope.tenant, &scope.user, version], entry_row)?))
}

/// Makes `after` the newest version. Gives its number; that of the head when nothing differs.
pub(crate) fn commit(
    memory: &Memory,
    tx: &mut Tx<'_>,
    scope: &Scope,
    head: &Head,
    (before, after): (&State, &State),
    action: Action,
    (by, proposal): (&By, Option<&str>),
) -> Result<u32, MemoryError> {
    let difference = before.difference(after);
    if difference.is_empty() {
        return Ok(head.version);
    }
    let version = head.version + 1;
    for (old, new) in difference {
        let kept = match old {
            Some(old) => close(memory, tx, scope, old, new, version)?,
            None => None,
        };
        if let Some(new) = new {
            let mirror = match kept {
                Some(id) => id,
                None => mirror(memory, tx, scope, new)?,
            };
            open(tx, scope, new, &mirror, version)?;
        }
    }
    let newest = after.entries.keys().next_back().map_or(0, |id| id.0);
    tx.execute(
        "UPDATE memory_users SET version = ?3, next_entry = ?4 WHERE tenant_id = ?1 AND user_id = ?2",
        &values![&scope.tenant, &scope.user, version, head.next_entry.max(newest + 1)],
    )?;
    record(tx, scope, version, action, by, proposal)?;
    Ok(version)
}

pub(crate) fn record(
    tx: &mut Tx<'_>,
    scope: &Scope,
    version: u32,
    action: Action,
    by: &By,
    proposal: Option<&str>,
) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "INSERT INTO memory_user_versions (tenant_id, user_id, version, v, action, actor, why, proposal_id, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        &values![
            &scope.tenant,
            &scope.user,
            version,
            ROW_VERSION,
            action.as_str(),
            by.actor.to_string(),
            &by.why,
            proposal.map(str::to_owned),
            now
        ],
    )?;
    Ok(())
}

/// Ends an entry's row. Gives its mirror's id if that can stay, and removes it otherwise.
fn close(
    memory: &Memory,
    tx: &mut Tx<'_>,
    scope: &Scope,
    old: &Entry,
    new: Option<&Entry>,
    version: u32,
) -> Result<Option<MemoryId>, MemoryError> {
    let mirror = mirror_of(tx, scope, old.id)?;
    tx.execute(
        "UPDATE memory_user_entries SET version_to = ?4, memory_id = NULL
         WHERE tenant_id = ?1 AND user_id = ?2 AND entry = ?3 AND version_to IS NULL",
        &values![&scope.tenant, &scope.user, old.id.0, version],
    )?;
    let same = new.is_some_and(|new| new.text == old.text && new.block == old.block);
    if same {
        return Ok(mirror);
    }
    if let Some(mirror) = mirror {
        memory.forget(tx, scope, &mirror)?;
    }
    Ok(None)
}

fn open(tx: &mut Tx<'_>, scope: &Scope, new: &Entry, mirror: &MemoryId, version: u32) -> Result<(), MemoryError> {
    let threads = serde_json::to_string(&new.threads).unwrap_or_default();
    let (attribute, value) = new.slot.clone().map(|slot| (slot.attribute, slot.value)).unzip();
    tx.execute(
        "INSERT INTO memory_user_entries (tenant_id, user_id, entry, version_from, version_to, v, block, content,
             attribute, slot_value, origin, threads, created_at, updated_at, memory_id)
         VALUES (?1, ?2, ?3, ?4, NULL, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        &values![
            &scope.tenant,
            &scope.user,
            new.id.0,
            version,
            ROW_VERSION,
            new.block.as_str(),
            &new.text,
            attribute,
            value,
            new.origin.as_str(),
            threads,
            new.created_at,
            new.updated_at,
            mirror
        ],
    )?;
    Ok(())
}

/// Writes the memory by which a search finds an entry.
fn mirror(memory: &Memory, tx: &mut Tx<'_>, scope: &Scope, entry: &Entry) -> Result<MemoryId, MemoryError> {
    let mut mirror = NewMemory::new(COLLECTION, entry.block.kind(), Source::User, entry.text.clone());
    mirror.namespace = namespace_of(&scope.user);
    mirror.importance = MIRROR_IMPORTANCE;
    mirror.happened_at = Some(entry.updated_at);
    mirror.meta.insert("entry".to_owned(), json!(entry.id.to_string()));
    mirror.meta.insert("block".to_owned(), json!(entry.block.as_str()));
    mirror.meta.insert("origin".to_owned(), json!(entry.origin.as_str()));
    memory.insert(tx, scope, &mirror)
}

/// The newest versions first, from before `before` on.
pub(crate) fn history(read: &ReadTx<'_>, scope: &Scope, before: u32, limit: usize) -> Result<Vec<Version>, StoreError> {
    let rows = read.query(
        "SELECT version, action, actor, why, proposal_id, at FROM memory_user_versions
         WHERE tenant_id = ?1 AND user_id = ?2 AND version < ?3 ORDER BY version DESC LIMIT ?4",
        &values![&scope.tenant, &scope.user, before, limit],
        |row| {
            let word = |column, expected| StoreError::Column {
                column,
                expected,
                found: row.text(column).unwrap_or("").to_owned(),
            };
            Ok(Version {
                version: row.get(0)?,
                action: Action::parse(row.text(1)?).ok_or_else(|| word(1, "an action"))?,
                actor: row.text(2)?.parse().map_err(|_| word(2, "an actor"))?,
                why: row.get(3)?,
                proposal: row.get(4)?,
                at: row.get(5)?,
                changes: Vec::new(),
            })
        },
    )?;
    rows.into_iter().map(|version| Ok(Version { changes: changes(read, scope, version.version)?, ..version })).collect()
}

fn changes(read: &ReadTx<'_>, scope: &Scope, version: u32) -> Result<Vec<EntryChange>, StoreError> {
    let mut changes: Vec<EntryChange> = Vec::new();
    read.for_each(
        "SELECT entry, content, version_from FROM memory_user_entries
         WHERE tenant_id = ?1 AND user_id = ?2 AND (version_from = ?3 OR version_to = ?3) ORDER BY entry, version_from",
        &values![&scope.tenant, &scope.user, version],
        |row| {
            let (id, text, from) = (EntryId(row.get(0)?), row.get::<String>(1)?, row.get::<u32>(2)?);
            let (before, after) = if from == version { (None, Some(text)) } else { (Some(text), None) };
            match changes.last_mut().filter(|change| change.entry == id) {
                Some(change) => change.after = after,
                None => changes.push(EntryChange { entry: id, before, after }),
            }
            Ok(true)
        },
    )?;
    Ok(changes)
}

/// The entry that a memory mirrors now, with its user.
pub(crate) fn mirrored(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    id: &MemoryId,
) -> Result<Option<(UserId, EntryId)>, StoreError> {
    read.query_optional(
        "SELECT user_id, entry FROM memory_user_entries WHERE tenant_id = ?1 AND memory_id = ?2",
        &values![tenant, id],
        |row| Ok((row.get(0)?, EntryId(row.get(1)?))),
    )
}

/// The memory that mirrors an entry now.
pub(crate) fn mirror_of(read: &ReadTx<'_>, scope: &Scope, entry: EntryId) -> Result<Option<MemoryId>, StoreError> {
    let found: Option<Option<MemoryId>> = read.query_optional(
        "SELECT memory_id FROM memory_user_entries
         WHERE tenant_id = ?1 AND user_id = ?2 AND entry = ?3 AND version_to IS NULL",
        &values![&scope.tenant, &scope.user, entry.0],
        |row| row.get(0),
    )?;
    Ok(found.flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_users_share_a_namespace() {
        let of = |id: &str| namespace_of(&id.parse().unwrap()).to_string();
        assert_eq!(of("user_default"), "user:default");
        assert_eq!(of("user_Ab"), "user:.ab");
        assert_ne!(of("user_ab"), of("user_Ab"));
        let long = of(&format!("user_{}", "A".repeat(64)));
        assert!(long.starts_with("user:..") && long.len() <= 128);
    }

    #[test]
    fn actors_are_read_as_they_are_printed() {
        for text in ["person:user_a", "agent:coder", "proposer:en.name", "system"] {
            assert_eq!(text.parse::<Actor>().unwrap().to_string(), text);
        }
        assert!("somebody".parse::<Actor>().is_err() && "person:x".parse::<Actor>().is_err());
    }
}

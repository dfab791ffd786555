//! The handle of user memory: explicit edits, what prompts show, history, roll-back, switches, fading, erasure, export.
//!
//! Invariant: what a call has written is in the next read and found by the next search, as both are one transaction.

use longhaul_core::{MemoryId, Scope, TenantId};
use longhaul_store::{ReadTx, StoreError, Tx, values};
use serde::{Deserialize, Serialize};

use super::{
    Actor, By, Effect, Entry, EntryId, Proposal, RenderLimits, Rendered, ReviewPolicy, Switches, UserError,
    UserMemoryEdit, Version, render,
    review::{self, Filed},
    state::Change,
    versions::{self, Action},
};
use crate::{Memory, MemoryError};

/// Most versions given by one call of [`UserMemory::history`].
pub const HISTORY_MAX: usize = 1_000;

/// User memory over [`Memory`]. Cheap to clone.
#[derive(Clone)]
pub struct UserMemory {
    pub(crate) memory: Memory,
    pub(crate) policy: ReviewPolicy,
}

/// What an edit came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edited {
    /// The newest version.
    pub version: u32,
    /// The entry that was changed, by number.
    pub entry: Option<EntryId>,
    /// What happened to it; nothing for a list.
    pub effect: Option<Effect>,
    /// All entries afterwards, in the order of their numbers.
    pub entries: Vec<Entry>,
}

/// Everything that is kept of a user's memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserExport {
    /// Version of this form.
    pub v: u32,
    /// What is switched on.
    pub switches: Switches,
    /// The newest version.
    pub version: u32,
    /// The entries as they are.
    pub entries: Vec<Entry>,
    /// Every version, the newest first, with what it changed.
    pub history: Vec<Version>,
    /// Every proposal, the oldest first.
    pub proposals: Vec<Proposal>,
}

impl UserMemory {
    /// User memory with the default policy of review.
    #[must_use]
    pub fn new(memory: Memory) -> Self {
        Self { memory, policy: ReviewPolicy::default() }
    }

    /// The same with another policy.
    #[must_use]
    pub fn reviewed_by(self, policy: ReviewPolicy) -> Self {
        Self { policy, ..self }
    }

    /// The memory underneath.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// A person's own edit, at once: see [`UserMemory::edit_in`].
    ///
    /// # Errors
    /// As [`UserMemory::edit_in`].
    pub async fn edit(&self, scope: &Scope, edit: UserMemoryEdit) -> Result<Edited, MemoryError> {
        let by = By::person(&scope.user);
        self.edit_by(scope, edit, by).await
    }

    /// An edit on somebody's behalf, at once.
    ///
    /// # Errors
    /// As [`UserMemory::edit_in`].
    pub async fn edit_by(&self, scope: &Scope, edit: UserMemoryEdit, by: By) -> Result<Edited, MemoryError> {
        let (handle, scope) = (self.clone(), scope.clone());
        if edit == UserMemoryEdit::List {
            let list = move |read: &ReadTx<'_>| {
                let head = versions::head(read, &scope)?;
                let entries = versions::state(read, &scope)?.entries.into_values().collect();
                Ok::<_, MemoryError>(Edited { version: head.version, entry: None, effect: None, entries })
            };
            return self.memory.shared.store.read(list).await;
        }
        self.memory.shared.store.write(move |tx| handle.edit_in(tx, &scope, &edit, &by)).await
    }

    /// Makes an explicit edit in the caller's transaction: from its commit on every read shows it and every search of the
    /// user's namespace finds it.
    ///
    /// # Errors
    /// [`UserError`]: memory is switched off, no such entry, a full block, a text that is too long; those of the store.
    pub fn edit_in(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        edit: &UserMemoryEdit,
        by: &By,
    ) -> Result<Edited, MemoryError> {
        let head = versions::lock(tx, scope)?;
        let state = versions::state(tx, scope)?;
        let Some(change) = Change::of_edit(edit, &state, by.thread.clone())? else {
            let entries = state.entries.into_values().collect();
            return Ok(Edited { version: head.version, entry: None, effect: None, entries });
        };
        versions::check_on(&head, scope)?;
        let changed = state.changed(&change, head.next_entry, tx.now())?;
        let both = (&state, &changed.state);
        let version = versions::commit(&self.memory, tx, scope, &head, both, Action::Edit, (by, None))?;
        let entries = changed.state.entries.into_values().collect();
        Ok(Edited { version, entry: Some(changed.entry), effect: Some(changed.effect), entries })
    }

    /// All entries, in the order of their numbers; also while memory is switched off, as a person may always look.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn entries(&self, scope: &Scope) -> Result<Vec<Entry>, MemoryError> {
        let scope = scope.clone();
        let read = move |read: &ReadTx<'_>| versions::state(read, &scope);
        Ok(self.memory.shared.store.read(read).await?.entries.into_values().collect())
    }

    /// The entries as they were at a version; erased ones are in none.
    ///
    /// # Errors
    /// [`UserError::NoVersion`]; those of the store.
    pub async fn entries_at(&self, scope: &Scope, version: u32) -> Result<Vec<Entry>, MemoryError> {
        let scope = scope.clone();
        let read = move |read: &ReadTx<'_>| {
            let newest = versions::head(read, &scope)?.version;
            if version > newest {
                return Err(MemoryError::from(UserError::NoVersion { version, newest }));
            }
            Ok(versions::state_at(read, &scope, version)?.entries.into_values().collect())
        };
        self.memory.shared.store.read(read).await
    }

    /// User memory as a part of a prompt; empty while it is switched off.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn render(&self, scope: &Scope, limits: RenderLimits) -> Result<Rendered, MemoryError> {
        let scope = scope.clone();
        let read = move |read: &ReadTx<'_>| {
            let on = versions::head(read, &scope)?.switches.memory;
            let state = if on { versions::state(read, &scope)? } else { Default::default() };
            Ok::<_, StoreError>(render::render(state.entries.values(), limits))
        };
        Ok(self.memory.shared.store.read(read).await?)
    }

    /// The newest versions first, from before `before` on: who, why, when, what.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn history(&self, scope: &Scope, before: Option<u32>, limit: usize) -> Result<Vec<Version>, MemoryError> {
        let (scope, limit) = (scope.clone(), limit.min(HISTORY_MAX));
        let before = before.unwrap_or(i32::MAX as u32);
        Ok(self.memory.shared.store.read(move |read| versions::history(read, &scope, before, limit)).await?)
    }

    /// Makes a new version that holds exactly what that version held; 0 is the empty one. What was erased since does not
    /// come back. Gives the newest version.
    ///
    /// # Errors
    /// [`UserError::NoVersion`], [`UserError::Off`]; those of the store.
    pub async fn rollback(&self, scope: &Scope, version: u32, by: By) -> Result<u32, MemoryError> {
        let (handle, scope) = (self.clone(), scope.clone());
        let rollback = move |tx: &mut Tx<'_>| {
            let head = versions::lock(tx, &scope)?;
            versions::check_on(&head, &scope)?;
            if version > head.version {
                return Err(MemoryError::from(UserError::NoVersion { version, newest: head.version }));
            }
            let (now, then) = (versions::state(tx, &scope)?, versions::state_at(tx, &scope, version)?);
            let why = if by.why.is_empty() { format!("back to version {version}") } else { by.why.clone() };
            let by = By { why, ..by };
            versions::commit(&handle.memory, tx, &scope, &head, (&now, &then), Action::Rollback, (&by, None))
        };
        self.memory.shared.store.write(rollback).await
    }

    /// What is switched on for the user.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn switches(&self, scope: &Scope) -> Result<Switches, MemoryError> {
        let scope = scope.clone();
        Ok(self.memory.shared.store.read(move |read| versions::head(read, &scope)).await?.switches)
    }

    /// Switches implicit writes, or all memory, on or off, from the next call on. Nothing is deleted by it.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn switch(&self, scope: &Scope, switches: Switches) -> Result<(), MemoryError> {
        let scope = scope.clone();
        let switch = move |tx: &mut Tx<'_>| {
            versions::lock(tx, &scope)?;
            tx.execute(
                "UPDATE memory_users SET memory_on = ?3, implicit_on = ?4 WHERE tenant_id = ?1 AND user_id = ?2",
                &values![&scope.tenant, &scope.user, switches.memory, switches.implicit],
            )
        };
        self.memory.shared.store.write(switch).await.map(drop).map_err(|error: StoreError| error.into())
    }

    /// A conversation is gone: implicit entries that nothing else is behind fade, as a version; proposals from it are
    /// withdrawn, with their quotations. Explicit entries stay. Gives the entries that faded.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn conversation_deleted(&self, scope: &Scope, thread: &str) -> Result<Vec<Entry>, MemoryError> {
        let (handle, scope, thread) = (self.clone(), scope.clone(), thread.to_owned());
        let fade = move |tx: &mut Tx<'_>| handle.conversation_deleted_in(tx, &scope, &thread);
        self.memory.shared.store.write(fade).await
    }

    /// As [`UserMemory::conversation_deleted`], and what fades is erased from every version, so that no roll-back brings
    /// it back. Tells how many entries that were.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn conversation_erased(&self, scope: &Scope, thread: &str) -> Result<u64, MemoryError> {
        let (handle, scope, thread) = (self.clone(), scope.clone(), thread.to_owned());
        let erase = move |tx: &mut Tx<'_>| {
            let faded = handle.conversation_deleted_in(tx, &scope, &thread)?;
            let by = By { actor: Actor::System, thread: None, why: "its conversation was erased".to_owned() };
            for entry in &faded {
                handle.erase_in(tx, &scope, entry.id, &by)?;
            }
            Ok::<_, MemoryError>(faded.len() as u64)
        };
        self.memory.shared.store.write(erase).await
    }

    /// As [`UserMemory::conversation_deleted`], in the transaction that deletes the conversation.
    ///
    /// # Errors
    /// Those of the store.
    pub fn conversation_deleted_in(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        thread: &str,
    ) -> Result<Vec<Entry>, MemoryError> {
        let head = versions::lock(tx, scope)?;
        let before = versions::state(tx, scope)?;
        let after = before.without_thread(thread, tx.now());
        let by = By { actor: Actor::System, thread: None, why: "its conversation was deleted".to_owned() };
        versions::commit(&self.memory, tx, scope, &head, (&before, &after), Action::Fade, (&by, None))?;
        review::thread_deleted(tx, scope, thread)?;
        Ok(before.entries.into_values().filter(|entry| !after.entries.contains_key(&entry.id)).collect())
    }

    /// Erases an entry from every version, its mirror and the proposals about it. No roll-back brings it back. Tells
    /// whether anything was there.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn erase(&self, scope: &Scope, entry: EntryId, by: By) -> Result<bool, MemoryError> {
        let (handle, scope) = (self.clone(), scope.clone());
        self.memory.shared.store.write(move |tx| handle.erase_in(tx, &scope, entry, &by)).await
    }

    /// As [`UserMemory::erase`], in the caller's transaction.
    ///
    /// # Errors
    /// Those of the store.
    pub fn erase_in(&self, tx: &mut Tx<'_>, scope: &Scope, entry: EntryId, by: &By) -> Result<bool, MemoryError> {
        let mirror = versions::mirror_of(tx, scope, entry)?;
        let erased = erase_entry(tx, scope, entry, by)?;
        if let Some(mirror) = mirror {
            self.memory.forget(tx, scope, &mirror)?;
        }
        Ok(erased)
    }

    /// Everything kept of the user's memory, in one snapshot; also while it is switched off. The user's other memories
    /// are exported by [`Memory::list`].
    ///
    /// # Errors
    /// Those of the store.
    pub async fn export(&self, scope: &Scope) -> Result<UserExport, MemoryError> {
        let scope = scope.clone();
        let export = move |read: &ReadTx<'_>| {
            let head = versions::head(read, &scope)?;
            Ok::<_, StoreError>(UserExport {
                v: 1,
                switches: head.switches,
                version: head.version,
                entries: versions::state(read, &scope)?.entries.into_values().collect(),
                history: versions::history(read, &scope, i32::MAX as u32, usize::MAX >> 1)?,
                proposals: review::all(read, &scope, None)?,
            })
        };
        Ok(self.memory.shared.store.read(export).await?)
    }

    /// The proposals in a state, or all, the oldest first.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn proposals(
        &self,
        scope: &Scope,
        state: Option<super::ProposalState>,
    ) -> Result<Vec<Proposal>, MemoryError> {
        let scope = scope.clone();
        Ok(self.memory.shared.store.read(move |read| review::all(read, &scope, state)).await?)
    }

    /// A person decides on a proposal. Gives it as it is afterwards.
    ///
    /// # Errors
    /// [`UserError::NoProposal`], [`UserError::Decided`], [`UserError::Outdated`]; those of an edit; those of the store.
    pub async fn review(
        &self,
        scope: &Scope,
        id: &super::ProposalId,
        decision: super::Decision,
        by: By,
    ) -> Result<Proposal, MemoryError> {
        let (handle, scope, id) = (self.clone(), scope.clone(), id.clone());
        self.memory.shared.store.write(move |tx| review::decide(&handle.memory, tx, &scope, &id, &decision, &by)).await
    }

    /// Takes back what an accepted proposal wrote: the memory is forgotten, or the entry restored to what it was before.
    /// Gives the proposal as it is afterwards.
    ///
    /// # Errors
    /// [`UserError::NoProposal`], [`UserError::Decided`] when it was not applied; those of the store.
    pub async fn undo(&self, scope: &Scope, id: &super::ProposalId, by: By) -> Result<Proposal, MemoryError> {
        let (handle, scope, id) = (self.clone(), scope.clone(), id.clone());
        self.memory.shared.store.write(move |tx| review::undo(&handle.memory, tx, &scope, &id, &by)).await
    }

    /// Files a proposal as the policy rules, in the caller's transaction.
    pub(crate) fn file(&self, tx: &mut Tx<'_>, scope: &Scope, draft: review::Draft) -> Result<Filed, MemoryError> {
        review::file(&self.memory, tx, scope, &self.policy, draft)
    }
}

/// Deletes an entry from every version, with the proposals about it. Its mirror is the caller's.
fn erase_entry(tx: &mut Tx<'_>, scope: &Scope, entry: EntryId, by: &By) -> Result<bool, StoreError> {
    let head = versions::lock(tx, scope)?;
    let rows = tx.execute(
        "DELETE FROM memory_user_entries WHERE tenant_id = ?1 AND user_id = ?2 AND entry = ?3",
        &values![&scope.tenant, &scope.user, entry.0],
    )?;
    if rows > 0 {
        // The versions have changed, which the history says.
        versions::record(tx, scope, head.version + 1, Action::Erase, by, None)?;
        tx.execute(
            "UPDATE memory_users SET version = ?3 WHERE tenant_id = ?1 AND user_id = ?2",
            &values![&scope.tenant, &scope.user, head.version + 1],
        )?;
    }
    review::entry_erased(tx, scope, entry)?;
    Ok(rows > 0)
}

/// A memory is about to be forgotten by somebody who may: the entry that it mirrors is erased with it from every version.
pub(crate) fn forgotten(tx: &mut Tx<'_>, tenant: &TenantId, id: &MemoryId) -> Result<(), StoreError> {
    if let Some((user, entry)) = versions::mirrored(tx, tenant, id)? {
        let scope = Scope { tenant: tenant.clone(), user };
        let by = By { actor: Actor::System, thread: None, why: "its memory was forgotten".to_owned() };
        erase_entry(tx, &scope, entry, &by)?;
    }
    // A proposal that became this memory says the same.
    review::memory_erased(tx, tenant, id)
}

/// Erases everything of a user's memory but the switches, so that what was switched off stays off. Tells
/// how many rows that were.
pub(crate) fn forget_all(tx: &mut Tx<'_>, scope: &Scope) -> Result<u64, StoreError> {
    versions::lock(tx, scope)?;
    let mut rows = 0;
    for table in ["memory_user_entries", "memory_user_versions", "memory_proposals", "memory_user_cursors"] {
        let sql = format!("DELETE FROM {table} WHERE tenant_id = ?1 AND user_id = ?2");
        rows += tx.execute(&sql, &values![&scope.tenant, &scope.user])?;
    }
    Ok(rows)
}

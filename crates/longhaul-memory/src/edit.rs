//! Changing a memory: at once, in the transaction, with its keywords; its vector follows when it is embedded again.
//!
//! Invariant: every change takes a new change number, so that columns, other processes and remote indexes learn of it.

use longhaul_core::{MemoryId, Scope, TimeMs};
use longhaul_store::{Tx, Value as Cell, values};
use serde_json::{Map, Value};

use crate::{
    Index, Memory, MemoryError,
    access::{self, Right},
    item::{check_content, check_importance, printed_meta, printed_tags},
    keyword, rows, user,
};

/// What to change of a memory; what is `None` stays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Edit {
    /// A new text.
    pub content: Option<String>,
    /// New metadata in place of all of the old.
    pub meta: Option<Map<String, Value>>,
    /// New tags in place of all of the old.
    pub tags: Option<Vec<String>>,
    /// A new importance, 0 to 1.
    pub importance: Option<f32>,
    /// Pin or unpin it.
    pub pinned: Option<bool>,
    /// A new moment of expiry; `Some(None)` for never.
    pub expires_at: Option<Option<TimeMs>>,
}

impl Memory {
    /// Changes a memory in the caller's transaction: found as changed from the commit on. Tells whether there was one
    /// that the user may write to.
    ///
    /// # Errors
    /// Those of a new memory's checks; [`MemoryError::Frozen`] in a read-only namespace; those of the store.
    pub fn edit(&self, tx: &mut Tx<'_>, scope: &Scope, id: &MemoryId, edit: &Edit) -> Result<bool, MemoryError> {
        let mut set: Vec<(&str, Cell)> = Vec::new();
        if let Some(content) = &edit.content {
            check_content(content)?;
            set.push(("content", content.into()));
        }
        if let Some(meta) = &edit.meta {
            set.push(("meta", printed_meta(meta)?.into()));
        }
        if let Some(tags) = &edit.tags {
            set.push(("tags", printed_tags(tags)?.into()));
        }
        if let Some(importance) = edit.importance {
            check_importance(importance)?;
            set.push(("importance", importance.into()));
        }
        if let Some(pinned) = edit.pinned {
            set.push(("pinned", pinned.into()));
        }
        if let Some(expires_at) = edit.expires_at {
            set.push(("expires_at", expires_at.into()));
        }
        let Some(found) = rows::find(tx, &scope.tenant, id)? else { return Ok(false) };
        match access::open(tx, scope, &found.id.namespace, Right::Write) {
            Ok(Some(_)) => {}
            // As if there were no such memory.
            Ok(None) | Err(MemoryError::NoAccess { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        // First, since it locks the partition: all writers lock that before they lock postings.
        set.push(("change_seq", access::next_change(tx, &found.id)?.into()));
        if let Some(content) = &edit.content {
            user::check_not_mirrored(tx, scope, id)?;
            self.replace_content(tx, &found, content)?;
        }
        let mut params: Vec<Cell> = values![&found.id.tenant, found.id.namespace.as_str(), found.seq].into();
        let mut assignments = Vec::new();
        for (column, value) in set {
            params.push(value);
            assignments.push(format!("{column} = ?{}", params.len()));
        }
        let sql = format!(
            "UPDATE memories SET {} WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3",
            assignments.join(", ")
        );
        tx.execute(&sql, &params)?;
        Ok(true)
    }

    /// Changes a memory in a transaction of its own. A cold one comes back first.
    ///
    /// # Errors
    /// As [`Memory::edit`]; [`MemoryError::Cold`] when a cold memory's segment cannot be read.
    pub async fn change(&self, scope: &Scope, id: &MemoryId, edit: Edit) -> Result<bool, MemoryError> {
        for first in [true, false] {
            let (handle, scope, id, edit) = (self.clone(), scope.clone(), id.clone(), edit.clone());
            let (asking, wanted) = (scope.clone(), id.clone());
            if self.shared.store.write(move |tx| handle.edit(tx, &scope, &id, &edit)).await? {
                return Ok(true);
            }
            if !first || self.warm_for(&asking, &wanted).await? == 0 {
                break;
            }
        }
        Ok(false)
    }

    /// Puts other keywords in, and takes the vector of the old text away.
    fn replace_content(&self, tx: &mut Tx<'_>, found: &rows::Found, content: &str) -> Result<(), MemoryError> {
        let key = values![&found.id.tenant, found.id.namespace.as_str(), found.seq];
        let (old, indexed): (String, u32) = tx.query_one(
            "SELECT content, indexed FROM memories WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3",
            &key,
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        if old == content {
            return Ok(());
        }
        let index = Index::from_stored(indexed);
        if index.has_words() {
            keyword::remove(tx, &found.id, found.seq, Some(&old))?;
            keyword::add_text(tx, &found.id, found.seq, content)?;
        }
        tx.execute("DELETE FROM memory_vectors WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3", &key)?;
        if index.has_meaning() {
            self.shared.wake.notify_one();
        }
        Ok(())
    }
}

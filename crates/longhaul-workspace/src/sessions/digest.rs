//! What a user has asked for lately, over all conversations: about fifteen lines from the user's own words.
//!
//! Rows in the order of time and nothing else: no embedding, no ranking, no search, so that it takes the same time
//! whatever there is. Invariants: only what users said is in it; every item is one line; building it writes nothing.

use longhaul_core::{Scope, SessionId, TimeMs};
use longhaul_store::{ReadTx, StoreError, values};
use serde::{Deserialize, Serialize};

use super::{SessionError, Sessions, indexing::one_line};

/// Items of a digest, where nothing else is said.
pub const DIGEST_ITEMS: usize = 15;
/// Most items of a digest.
pub const DIGEST_ITEMS_MAX: usize = 50;
/// Characters of one item.
const ITEM_CHARS_MAX: usize = 160;

/// One item: what was said in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestItem {
    /// The conversation.
    pub session: SessionId,
    /// When it was last spoken in.
    pub at: TimeMs,
    /// What its user said first, on one line.
    pub said: String,
    /// What its user said last, if that is something else.
    pub lately: Option<String>,
}

impl Sessions {
    /// The user's newest conversations, the newest first, at most `items` and [`DIGEST_ITEMS_MAX`], without the one
    /// `except`. Empty while memory is switched off for the user.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn digest(&self, except: Option<&SessionId>, items: usize) -> Result<Vec<DigestItem>, SessionError> {
        if !self.user_memory().switches(self.scope()).await?.memory {
            return Ok(Vec::new());
        }
        let (scope, except) = (self.scope().clone(), except.cloned());
        let items = items.min(DIGEST_ITEMS_MAX);
        let read = move |read: &ReadTx<'_>| recent(read, &scope, except.as_ref(), items);
        Ok(self.store().read(read).await?)
    }
}

fn recent(
    read: &ReadTx<'_>,
    scope: &Scope,
    except: Option<&SessionId>,
    items: usize,
) -> Result<Vec<DigestItem>, StoreError> {
    let sessions = read.query(
        "SELECT session_id, updated_at FROM session_states
         WHERE tenant_id = ?1 AND user_id = ?2 AND session_id <> ?3 AND deleting = 0 AND title <> ''
         ORDER BY updated_at DESC, session_id LIMIT ?4",
        &values![&scope.tenant, &scope.user, except.map_or("", SessionId::as_str), items],
        |row| Ok((row.get::<SessionId>(0)?, row.get::<TimeMs>(1)?)),
    )?;
    let said = |session: &SessionId, order: &str| {
        let sql = format!(
            "SELECT content FROM messages WHERE tenant_id = ?1 AND session_id = ?2 AND user_id = ?3 AND role = 'user'
             ORDER BY seq {order} LIMIT 1"
        );
        let key = values![&scope.tenant, session, &scope.user];
        read.query_optional(&sql, &key, |row| Ok(one_line(row.text(0)?, ITEM_CHARS_MAX)))
    };
    let mut found = Vec::with_capacity(sessions.len());
    for (session, at) in sessions {
        let Some(first) = said(&session, "ASC")? else { continue };
        let lately = said(&session, "DESC")?.filter(|last| *last != first);
        found.push(DigestItem { session, at, said: first, lately });
    }
    Ok(found)
}

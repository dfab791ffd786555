//! A conversation is deleted with everything behind it: its messages, its words in the index, what only it taught.
//!
//! The order makes a kill harmless at any moment: first one transaction takes the messages, lets user memory fade and
//! leaves a mark; then the index goes; then the mark. Whoever deletes again, or calls [`Sessions::tend`], sees a mark and
//! goes on. Invariant: from the first transaction on nobody finds or reads anything of the conversation, and nobody
//! appends to it.

use longhaul_core::{EventDraft, SessionId, TaskScope};
use longhaul_memory::{Forget, user::Entry};
use longhaul_store::{ReadTx, StoreError, Tx, values};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    SessionError, Sessions,
    rows::{self, STATE, State},
};
use crate::talk_partition_of;

/// What the deletion of a conversation came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeletedSession {
    /// The conversation.
    pub session: SessionId,
    /// Messages that went.
    pub messages: u64,
    /// Rows of the index that went.
    pub index_rows: u64,
    /// What user memory knew from this conversation alone, and knows no more.
    pub faded: Vec<Entry>,
    /// What is still to be done, such as cold bytes of a place that cannot be reached.
    pub pending: Vec<String>,
}

impl Sessions {
    /// Deletes a conversation of the user with everything behind it. Repeat it after an error.
    ///
    /// # Errors
    /// [`SessionError::NoSession`]; those of the store.
    pub async fn delete(&self, session: &SessionId) -> Result<DeletedSession, SessionError> {
        let (sessions, wanted) = (self.clone(), session.clone());
        let (messages, mut faded) = self.store().write(move |tx| sessions.take_messages(tx, &wanted)).await?;
        let forget = Forget::Thread { namespace: talk_partition_of(&self.scope().user), thread: session.to_string() };
        let receipt = self.memory().erase(self.scope(), &forget, false).await?;
        let (sessions, wanted) = (self.clone(), session.clone());
        // A pass of user memory may have read the index between the two.
        faded.extend(self.store().write(move |tx| sessions.take_mark(tx, &wanted)).await?);
        let index_rows = receipt.erased.rows + receipt.erased.cold_rows;
        Ok(DeletedSession { session: session.clone(), messages, index_rows, faded, pending: receipt.pending })
    }

    /// Finishes deletions of the user's conversations that were interrupted. Gives those that it finished.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn tend(&self) -> Result<Vec<DeletedSession>, SessionError> {
        let scope = self.scope().clone();
        let marked = move |read: &ReadTx<'_>| {
            read.query(
                "SELECT session_id FROM session_states WHERE tenant_id = ?1 AND user_id = ?2 AND deleting = 1",
                &values![&scope.tenant, &scope.user],
                |row| row.get::<SessionId>(0),
            )
        };
        let marked: Vec<SessionId> = self.store().read(marked).await?;
        let mut finished = Vec::new();
        for session in marked {
            finished.push(self.delete(&session).await?);
        }
        Ok(finished)
    }

    fn take_messages(&self, tx: &mut Tx<'_>, session: &SessionId) -> Result<(u64, Vec<Entry>), SessionError> {
        let scope = self.scope();
        // The lock of the row first, as those who append have it.
        let sql = format!(
            "UPDATE session_states SET deleting = 1, memo = '', summary = NULL, title = ''
             WHERE tenant_id = ?1 AND session_id = ?2 AND user_id = ?3 RETURNING {STATE}"
        );
        let state: Option<State> =
            tx.query_optional(&sql, &values![&scope.tenant, session, &scope.user], rows::state_row)?;
        let Some(state) = state else { return Err(SessionError::NoSession { session: session.clone() }) };
        let messages = tx.execute(
            "DELETE FROM messages WHERE tenant_id = ?1 AND session_id = ?2",
            &values![&scope.tenant, session],
        )?;
        let faded = self.user_memory().conversation_deleted_in(tx, scope, session.as_str())?;
        if messages > 0 {
            let owner = TaskScope {
                scope: scope.clone(),
                session: session.clone(),
                task: state.task.clone(),
                trace: state.trace.clone(),
            };
            let data = json!({"session": session, "messages": messages, "faded": faded.len()});
            tx.append_event(&owner, None, None, EventDraft::business("session.deleted", data))?;
        }
        Ok((messages, faded))
    }

    fn take_mark(&self, tx: &mut Tx<'_>, session: &SessionId) -> Result<Vec<Entry>, SessionError> {
        let scope = self.scope();
        let faded = self.user_memory().conversation_deleted_in(tx, scope, session.as_str())?;
        tx.execute(
            "DELETE FROM session_states WHERE tenant_id = ?1 AND session_id = ?2 AND user_id = ?3 AND deleting = 1",
            &values![&scope.tenant, session, &scope.user],
        )?;
        Ok::<_, StoreError>(faded).map_err(SessionError::from)
    }
}

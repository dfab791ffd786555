//! One conversation: appending to it, reading it, its memo, and the window over it that a request shows.
//!
//! Invariants: a message, its words in the index and its event are one transaction; messages are numbered without gaps in
//! the order of commits, however many write; nothing but the deletion of the whole conversation removes one.

use longhaul_core::{
    EventDraft, MessageId, TaskScope,
    limits::{SESSION_BYTES_MAX, SESSION_MEMO_BYTES_MAX, SESSION_MESSAGES_MAX},
};
use longhaul_memory::{
    MemoryError, Prepared,
    user::{Proposer, UserError},
};
use longhaul_store::{ReadTx, StoreError, Tx, values};
use serde_json::json;
use std::sync::Arc;

use super::{
    Learning, NewMessage, Role, SessionError, Sessions, StoredMessage, Summarise, Window, WindowView,
    indexing::{self, TITLE_CHARS_MAX},
    rows::{self, State},
    view,
};
use crate::tokens::TokenCounter;

/// Most messages given by one call of [`Session::messages`].
pub const MESSAGES_PAGE_MAX: usize = 500;

/// What a conversation keeps beside its messages: a few lines that its requests always show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memo {
    /// The text; empty when there is none.
    pub text: String,
    /// Rises with each change.
    pub version: u64,
}

/// One conversation of one user, in one task. Cheap to clone; opening it touches nothing.
#[derive(Clone)]
pub struct Session {
    pub(super) sessions: Sessions,
    pub(super) owner: TaskScope,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// A message that was checked, with its words for the index, before a transaction begins.
struct Ready {
    id: MessageId,
    message: NewMessage,
    parts: Vec<Prepared>,
}

impl Session {
    /// Whose conversation it is, and in which task.
    #[must_use]
    pub fn owner(&self) -> &TaskScope {
        &self.owner
    }

    /// All conversations of its user.
    #[must_use]
    pub fn all(&self) -> &Sessions {
        &self.sessions
    }

    /// Appends a message. What a person or a model said is found by [`Sessions::search`] from the commit on.
    ///
    /// # Errors
    /// [`SessionError::MessageTooLong`], [`SessionError::SessionFull`], [`SessionError::NoOpenCall`],
    /// [`SessionError::NoRecord`], [`SessionError::NotYours`]; those of the store.
    pub async fn append(&self, message: NewMessage) -> Result<StoredMessage, SessionError> {
        let appended = self.append_all(vec![message]).await?;
        appended.into_iter().next().ok_or(SessionError::Empty)
    }

    /// Appends messages together, in one transaction: all of them or none.
    ///
    /// # Errors
    /// As [`Session::append`].
    pub async fn append_all(&self, messages: Vec<NewMessage>) -> Result<Vec<StoredMessage>, SessionError> {
        let ready = messages.into_iter().map(|message| self.ready(message)).collect::<Result<Vec<_>, _>>()?;
        let session = self.clone();
        self.sessions.store().write(move |tx| session.append_ready(tx, ready)).await
    }

    /// Appends a message in the caller's transaction, with whatever else belongs together.
    ///
    /// # Errors
    /// As [`Session::append`]; the transaction is then the caller's to end.
    pub fn append_in(&self, tx: &mut Tx<'_>, message: NewMessage) -> Result<StoredMessage, SessionError> {
        let ready = vec![self.ready(message)?];
        self.append_ready(tx, ready)?.into_iter().next().ok_or(SessionError::Empty)
    }

    /// Appends a message, and lets user memory read what its user has said since the last time, in the background: the
    /// one call by which user memory is fed. A kill in between loses nothing, as the next call reads from where the last
    /// one came to.
    ///
    /// # Errors
    /// As [`Session::append`]. What reading comes to is told by [`Learning`] to whoever waits for it.
    pub async fn append_and_learn(
        &self,
        message: NewMessage,
        proposer: Option<Arc<dyn Proposer>>,
    ) -> Result<(StoredMessage, Learning), SessionError> {
        let stored = self.append(message).await?;
        Ok((stored, self.sessions.learn(proposer)))
    }

    fn ready(&self, message: NewMessage) -> Result<Ready, SessionError> {
        message.check()?;
        let id = MessageId::from_body(&self.sessions.store().ambient().ids.body());
        let parts = indexing::prepared(&self.owner, &id, &message)?;
        Ok(Ready { id, message, parts })
    }

    fn append_ready(&self, tx: &mut Tx<'_>, ready: Vec<Ready>) -> Result<Vec<StoredMessage>, SessionError> {
        let mut state = rows::lock(tx, &self.owner)?;
        let mut appended = Vec::with_capacity(ready.len());
        for Ready { id, message, parts } in ready {
            self.check_room(&state, &message)?;
            self.check_refs(tx, &state, &message)?;
            state.last_seq += 1;
            state.bytes += message.bytes() as u64;
            if state.title.is_empty() && message.role == Role::User {
                state.title = indexing::one_line(&message.content, TITLE_CHARS_MAX);
            }
            let stored = rows::stored(tx, &self.owner, id, state.last_seq, message);
            rows::insert(tx, &self.owner, &stored)?;
            self.index(tx, &parts)?;
            tx.append_event(&self.owner, None, None, added(&stored))?;
            appended.push(stored);
        }
        rows::advance(tx, &self.owner, &state)?;
        Ok(appended)
    }

    fn check_room(&self, state: &State, message: &NewMessage) -> Result<(), SessionError> {
        let full = |what, found, max| {
            let session = self.owner.session.clone();
            Err(SessionError::SessionFull { session, what, found, max })
        };
        let messages = u64::try_from(state.last_seq).unwrap_or(u64::MAX) + 1;
        let bytes = state.bytes + message.bytes() as u64;
        if messages > SESSION_MESSAGES_MAX {
            return full("messages", messages, SESSION_MESSAGES_MAX);
        }
        if bytes > SESSION_BYTES_MAX {
            return full("bytes", bytes, SESSION_BYTES_MAX);
        }
        Ok(())
    }

    /// Every attachment is a record that the user may see, and a tool answers an open call.
    fn check_refs(&self, tx: &Tx<'_>, state: &State, message: &NewMessage) -> Result<(), SessionError> {
        for record in &message.attachments {
            if !self.sessions.sees(tx, record)? {
                return Err(SessionError::NoRecord { record: record.id.clone() });
            }
        }
        match &message.answers {
            Some(call) if !rows::is_open(tx, &self.owner, call, state.last_seq)? => {
                let (session, call) = (self.owner.session.clone(), call.chars().take(80).collect());
                Err(SessionError::NoOpenCall { session, call })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Puts a message's words into the index; not while its user has switched memory off, as then nothing of the talk is
    /// to be found later.
    fn index(&self, tx: &mut Tx<'_>, parts: &[Prepared]) -> Result<(), SessionError> {
        match self.sessions.memory().insert_all(tx, &self.owner.scope, parts) {
            Ok(_) | Err(MemoryError::User(UserError::Off { .. })) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Messages after `after` (0 for the beginning), in order, at most `limit` and [`MESSAGES_PAGE_MAX`]. Empty for a
    /// conversation that has none, or that is not the user's.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn messages(&self, after: i64, limit: usize) -> Result<Vec<StoredMessage>, SessionError> {
        let owner = self.owner.clone();
        let page = move |read: &ReadTx<'_>| {
            rows::messages(read, &owner, (after + 1, i64::MAX), limit.min(MESSAGES_PAGE_MAX), false)
        };
        Ok(self.sessions.store().read(page).await?)
    }

    /// The memo; empty where nobody has written one.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn memo(&self) -> Result<Memo, SessionError> {
        let owner = self.owner.clone();
        let state = self.sessions.store().read(move |read| rows::state(read, &owner)).await?;
        Ok(state.map_or_else(Memo::default, |state| Memo { text: state.memo, version: state.version }))
    }

    /// Writes the memo. With `expected`, only if it is still at that version; without, whatever it was.
    ///
    /// # Errors
    /// [`SessionError::MemoTooLong`], [`SessionError::MemoChanged`], [`SessionError::NotYours`]; those of the store.
    pub async fn set_memo(&self, text: &str, expected: Option<u64>) -> Result<Memo, SessionError> {
        let bytes = text.len();
        if bytes > SESSION_MEMO_BYTES_MAX {
            return Err(SessionError::MemoTooLong { bytes, bytes_max: SESSION_MEMO_BYTES_MAX });
        }
        if text.contains('\0') {
            let (value, expected) = ("text with a zero character".to_owned(), "text");
            return Err(SessionError::Field { field: "memo", value, expected });
        }
        let (owner, text) = (self.owner.clone(), text.to_owned());
        let write = move |tx: &mut Tx<'_>| {
            let state = rows::lock(tx, &owner)?;
            if let Some(expected) = expected.filter(|expected| *expected != state.version) {
                let (session, found) = (owner.session.clone(), state.version);
                return Err(SessionError::MemoChanged { session, expected, found });
            }
            let (now, version) = (tx.now(), state.version + 1);
            tx.execute(
                "UPDATE session_states SET memo = ?3, version = ?4, updated_at = ?5
                 WHERE tenant_id = ?1 AND session_id = ?2",
                &values![&owner.scope.tenant, &owner.session, &text, version, now],
            )?;
            Ok(Memo { text, version })
        };
        self.sessions.store().write(write).await
    }

    /// What the next request shows of the conversation. Reading only, but for [`Window::Summarised`], which keeps a
    /// summary that it had to have made; messages and memory are never touched.
    ///
    /// # Errors
    /// [`SessionError::WindowTooSmall`] when not even the newest message fits; those of the store. A failing summariser
    /// is a note of the view.
    pub async fn window(
        &self,
        window: Window,
        counter: &dyn TokenCounter,
        summariser: Option<&dyn Summarise>,
    ) -> Result<WindowView, SessionError> {
        view::of(self, window, counter, summariser).await
    }
}

fn added(stored: &StoredMessage) -> EventDraft {
    EventDraft::business(
        "message.added",
        json!({
            "session": stored.session,
            "message": stored.id,
            "seq": stored.seq,
            "role": stored.role,
            "tokens": stored.tokens,
            "tools": stored.tool_calls.len(),
            "attachments": stored.attachments.iter().map(|record| &record.id).collect::<Vec<_>>(),
        }),
    )
}

/// For closures of other crates' transactions, which fail as the store does.
impl From<SessionError> for StoreError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Store(error) => error,
            #[expect(
                clippy::wildcard_enum_match_arm,
                reason = "whatever a conversation refuses is a row that may not be"
            )]
            refused => Self::Constraint { detail: refused.to_string() },
        }
    }
}

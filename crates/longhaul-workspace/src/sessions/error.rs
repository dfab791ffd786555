//! What can go wrong with a conversation. Messages say what to do next.

use longhaul_core::{RecordId, SessionId};
use longhaul_memory::MemoryError;
use longhaul_store::StoreError;

/// Why a conversation could not be written, read or searched.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The store failed.
    #[error("the store failed while handling a conversation")]
    Store(#[from] StoreError),
    /// Memory refused, or failed.
    #[error("memory failed while handling a conversation")]
    Memory(#[source] MemoryError),
    /// Nothing was said.
    #[error("a message needs words, a tool call or an attachment")]
    Empty,
    /// A message is larger than talk is.
    #[error("a message of {bytes} bytes is over the limit of {bytes_max}; ingest it, keep the ref")]
    MessageTooLong {
        /// Its size in bytes.
        bytes: usize,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// A conversation has all the messages it may have.
    #[error(
        "the conversation {session} would have {found} {what}, over the limit of {max}; begin another session, and of what is long ingest it, keep the ref"
    )]
    SessionFull {
        /// The conversation.
        session: SessionId,
        /// What there would be too much of: messages, bytes.
        what: &'static str,
        /// How much there would be.
        found: u64,
        /// The limit.
        max: u64,
    },
    /// The memo is too long.
    #[error("a memo of {bytes} bytes is over the limit of {bytes_max}; say it shorter, or ingest it, keep the ref")]
    MemoTooLong {
        /// Its size in bytes.
        bytes: usize,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// Somebody else has changed the memo.
    #[error("the memo of {session} is at version {found} and not {expected}; read it again and decide anew")]
    MemoChanged {
        /// The conversation.
        session: SessionId,
        /// The version it was to be at.
        expected: u64,
        /// The version it is at.
        found: u64,
    },
    /// A field has a value outside its range.
    #[error("{field} is {value}: expected {expected}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// The value as given, cut.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A tool's message answers a call that is not open.
    #[error("no open call {call} in {session}; append the assistant's message with the call first, and answer it once")]
    NoOpenCall {
        /// The conversation.
        session: SessionId,
        /// The call.
        call: String,
    },
    /// An attachment is no record of the tenant.
    #[error("the attachment {record} is no record here, or has another digest; attach the ref that ingest gave")]
    NoRecord {
        /// The record.
        record: RecordId,
    },
    /// There is no such conversation of the user.
    #[error("there is no conversation {session} of yours; `longhaul sessions list` shows which there are")]
    NoSession {
        /// The conversation.
        session: SessionId,
    },
    /// The id belongs to another user of the tenant.
    #[error("the session id {session} is in use by another user; make a new session id")]
    NotYours {
        /// The conversation.
        session: SessionId,
    },
    /// The conversation is being deleted.
    #[error(
        "the conversation {session} is being deleted; delete it again to see it through, then begin another session"
    )]
    BeingDeleted {
        /// The conversation.
        session: SessionId,
    },
    /// Not even the newest message fits.
    #[error(
        "the newest message needs {needed} tokens and the window has {budget}; widen the window, or ingest what is long, keep the ref"
    )]
    WindowTooSmall {
        /// What it needs.
        needed: u64,
        /// What there is.
        budget: u64,
    },
    /// A time that nobody understands.
    #[error(transparent)]
    When(#[from] longhaul_memory::when::WhenError),
    /// A stored value cannot be understood: the row was changed by something else.
    #[error("{what} of {session} is unreadable; restore the store from a backup")]
    Unreadable {
        /// The conversation.
        session: SessionId,
        /// What cannot be read.
        what: &'static str,
    },
}

impl From<MemoryError> for SessionError {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Store(error) => Self::Store(error),
            other => Self::Memory(other),
        }
    }
}

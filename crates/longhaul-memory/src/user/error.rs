//! What can go wrong with user memory. Messages say what to do next.

use longhaul_core::UserId;

use super::{Block, EntryId};
use crate::Namespace;

/// Why user memory could not be changed or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// The user has switched all memory off.
    #[error(
        "memory is switched off for {user}, so nothing was written; the user can switch it on again (`longhaul memory user on`)"
    )]
    Off {
        /// Whose memory.
        user: UserId,
    },
    /// One entry is longer than it may be.
    #[error("an entry of {chars} characters is over the limit of {chars_max}; say it shorter, or in several entries")]
    EntryTooLong {
        /// Its length in characters.
        chars: usize,
        /// The limit.
        chars_max: usize,
    },
    /// A block has no room.
    #[error(
        "the block `{block}` is full ({chars} of {chars_max} characters, {entries} of {entries_max} entries); replace or remove one of: {fullest}"
    )]
    BlockFull {
        /// The block.
        block: Block,
        /// Characters it would have.
        chars: usize,
        /// The limit.
        chars_max: usize,
        /// Entries it would have.
        entries: usize,
        /// The limit.
        entries_max: usize,
        /// Its longest entries.
        fullest: String,
    },
    /// No such entry.
    #[error("there is no entry {id} in this user's memory; list it to see which there are")]
    NoEntry {
        /// As asked for.
        id: EntryId,
    },
    /// An entry was named by a text that no entry, or more than one, contains.
    #[error("{found} entries contain {text:?}; name the entry by its id{candidates}")]
    NotOne {
        /// The text, cut.
        text: String,
        /// How many entries contain it.
        found: usize,
        /// The first of them, with their ids.
        candidates: String,
    },
    /// No such version.
    #[error("there is no version {version} of this user's memory; the newest is {newest}")]
    NoVersion {
        /// As asked for.
        version: u32,
        /// The newest there is.
        newest: u32,
    },
    /// No such proposal.
    #[error("there is no proposal {id} for this user; list the proposals to see which there are")]
    NoProposal {
        /// As asked for.
        id: String,
    },
    /// It has been decided already.
    #[error("the proposal {id} is {state} already; roll back to an earlier version to undo what was applied")]
    Decided {
        /// The proposal.
        id: String,
        /// What became of it.
        state: &'static str,
    },
    /// What a proposal is about has changed since it was made.
    #[error("the entry {entry} that proposal {id} is about is gone; reject it")]
    Outdated {
        /// The proposal.
        id: String,
        /// The entry.
        entry: EntryId,
    },
    /// An agent may not write this.
    #[error("{what} cannot come from {source_label}: {why}")]
    NotFromThere {
        /// What was to be written.
        what: &'static str,
        /// Where it came from.
        source_label: &'static str,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// A namespace is kept for another user.
    #[error("the namespace {namespace} is kept for another user; choose another name")]
    NotYours {
        /// The namespace.
        namespace: Namespace,
    },
    /// A proposal was not even filed.
    #[error("this was not filed as a proposal: {why}")]
    Unwanted {
        /// Why not.
        why: &'static str,
    },
    /// A mirrored memory was to be changed behind user memory's back.
    #[error("{id} belongs to user memory; change it there (`memory_user_edits`, `longhaul memory user`)")]
    Mirrored {
        /// The memory's id.
        id: String,
    },
}

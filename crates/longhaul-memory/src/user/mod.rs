//! User memory: what is known of a person, in blocks of bounded size that every prompt may carry (M6, M16).
//!
//! Two ways lead into it. A person edits it, or has an agent edit it: at once ([`UserMemory::edit`]). Or a background pass
//! over conversations proposes ([`UserMemory::observe`]) and a policy or a person decides. Every change is a version that
//! says who made it, when and why, and any version can be restored. Each entry is mirrored as a memory of the collection
//! [`COLLECTION`] in the user's own namespace ([`namespace_of`]), in the same transaction, so that searches find it.
//!
//! It does not know models: [`Proposer`] is the port behind which one may stand.

mod actor;
mod block;
mod error;
mod gate;
mod handle;
mod observe;
mod proposal;
mod render;
mod review;
mod rules;
pub(crate) mod schema;
mod state;
mod versions;

pub use actor::{Actor, By};
pub use block::{
    BLOCK_CHARS_MAX, BLOCK_ENTRIES_MAX, Block, ENTRY_CHARS_MAX, Entry, EntryId, Origin, Slot, THREADS_MAX,
};
pub use error::UserError;
pub use gate::{AgentEdit, Gate, Place, Submitted, gate};
pub(crate) use gate::{is_on, off_note};
pub use handle::{Edited, HISTORY_MAX, UserExport, UserMemory};
pub(crate) use handle::{forget_all, forgotten};
pub use observe::{Observed, ProposeError, Proposer, Suggested, Suggestion, TURNS_MAX, Turn};
pub use proposal::{Decision, Proposal, ProposalId, ProposalState, ProposedMemory, ReviewPolicy, Target};
pub use render::{RenderLimits, Rendered, escaped};
pub use state::{Effect, EntryRef, UserMemoryEdit};
pub use versions::{Action, COLLECTION, EntryChange, Switches, Version, namespace_of, talks_of};
pub(crate) use versions::{check_namespace, check_not_mirrored, check_switch, named};

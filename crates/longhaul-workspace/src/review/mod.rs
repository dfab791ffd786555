//! Reviewed write-back of shared knowledge: proposed with its evidence, approved or rejected by a person, versioned,
//! rolled back.
//!
//! What happens is written at once and labelled as such: records, messages, episodic memories. What many will rely on,
//! such as a service's port, a rule of a project or a customer's contract, is an *entry* under a key, with a value that
//! fits a schema, and there is one way in: [`TaskWorkspace::propose`](crate::TaskWorkspace::propose), then
//! [`SharedKnowledge::approve`]. Rights, facts that supersede each other, actors and the search are memory's.
//!
//! Invariant: what no person has approved is found by nobody who asks for facts.

mod error;
mod knowledge;
mod proposal;
mod proposing;
mod rows;
pub(crate) mod schema;

pub use error::ReviewError;
pub use knowledge::{Recalled, SHARED_PAGE_MAX, SharedKnowledge, Standing, shared_partition};
pub use proposal::{
    NewProposal, ReviewId, ReviewState, Reviewed, Said, SharedAction, SharedVersion, VALUE_BYTES_MAX, WHY_CHARS_MAX,
};

//! From a request to a locked plan, and what people change of it afterwards: what a batch of features must be like, what
//! the initializer is told of the plan so far, how large a plan a request wants.
//!
//! It owns the rules of a plan and touches neither folder nor browser. Invariant: a [`Definition`](crate::features::Definition)
//! that leaves [`parse_batch`] says something that can be seen, says it once in the project, and depends on nothing that
//! depends on it.

mod adopt;
mod batch;
mod changes;
mod order;
mod publish;
mod sentences;
mod settings;
mod size;
mod summary;
mod words;

pub use adopt::{AdoptError, Adopted, adopt_files_in_the_way, examine};
pub use batch::{BATCH_MAX, FEATURES_MAX, PlanError, parse_batch};
pub use changes::{Change, ChangeError, Changed, Recorded, apply, recorded};
pub use publish::{PublishError, publish};
pub use settings::{PlanningSettings, Reviewer};
pub use size::Size;

pub(crate) use adopt::{Survey, put_back, survey};
pub(crate) use batch::{parse_definition, parse_within};
pub(crate) use changes::record as record_change;
pub(crate) use size::Wanted;
pub(crate) use summary::{batch_hint, digest};

//! Evaluation: an execution becomes a case file, and a case file is run again with every effect stubbed.
//!
//! It owns what a case is, how it is recorded out of a store, how it is replayed, and what is compared. It knows of
//! executions, steps, waits and events, and nothing of models or tools. Invariants: nothing outside is called during a
//! replay, for a step whose result is not in the case ends its node before its work is polled; what a replay comes to is
//! recorded by the same code as the case was, so that the two can be laid side by side; a case that cannot be read whole
//! is refused.

mod case;
mod compare;
mod criteria;
mod place;
mod player;
mod record;
mod redact;
mod replayer;
mod script;
mod serve;

pub use case::{
    Begins, CASE_BYTES_MAX, CASE_V, Case, CaseCheckpoint, CaseEnd, CaseError, CaseEvent, CaseExecution,
    CaseIntervention, CaseStep, CaseWait, Origin,
};
pub use compare::{Difference, What};
pub use criteria::{Bounds, Checked, Criteria, EventCriterion, StateCriterion, check};
pub use player::{Counts, ReplayError, Replayed};
pub use redact::Redaction;
pub use replayer::Replayer;
pub use serve::{ASKED, Answer as ServedAnswer, MARK, PROTOCOL_V, Request as ServedRequest};

pub(crate) use script::Script;

//! The tables of reviewed knowledge.

/// The step that makes them.
pub(crate) const STEP_6: &str = "-- Not written yet: the tables come with what uses them.";

//! Every bound that more than one crate must agree on. Units last in each name.

/// Longest body of an id, after its prefix.
pub const ID_BODY_CHARS_MAX: usize = 64;
/// Largest leaf of an execution's state, and largest item appended to it (invariant 5).
pub const STATE_LEAF_BYTES_MAX: usize = 64 * 1024;
/// Largest state outside append-only fields, and the most one superstep may write (invariant 5).
pub const STATE_BYTES_MAX: usize = 256 * 1024;
/// Largest recorded result of a step. Above it the step must keep the content in the workspace and return a ref.
pub const STEP_RESULT_BYTES_MAX: usize = 1024 * 1024;
/// Largest data part of one event.
pub const EVENT_DATA_BYTES_MAX: usize = 64 * 1024;
/// Most supersteps of one execution, unless the caller states another bound.
pub const SUPERSTEPS_MAX: u64 = 10_000;

//! Every bound that more than one crate must agree on. Units last in each name.

/// Longest body of an id, after its prefix.
pub const ID_BODY_CHARS_MAX: usize = 64;
/// Largest leaf of an execution's state, and largest item appended to it (invariant 5).
pub const STATE_LEAF_BYTES_MAX: usize = 64 * 1024;
/// Largest state outside append-only fields, and the most one run of a node may write (invariant 5).
pub const STATE_BYTES_MAX: usize = 256 * 1024;
/// Most items of an append-only field of a state.
pub const STATE_APPEND_ITEMS_MAX: usize = 1_000_000;
/// Most tasks that one task may start at once by sending to them.
pub const SUPERSTEP_TASKS_MAX: usize = 10_000;
/// Most bytes of inputs that one task may send; each single input is limited like a leaf of the state.
pub const INPUTS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest recorded result of a step. Above it the step must keep the content in the workspace and return a ref.
pub const STEP_RESULT_BYTES_MAX: usize = 1024 * 1024;
/// Largest data part of one event.
pub const EVENT_DATA_BYTES_MAX: usize = 64 * 1024;
/// Most supersteps of one execution, unless the caller states another bound.
pub const SUPERSTEPS_MAX: u64 = 10_000;
/// Largest content of a record that is kept in a row; a larger one is a blob.
pub const CONTENT_INLINE_BYTES_MAX: usize = 16 * 1024;
/// Longest summary of a record.
pub const SUMMARY_CHARS_MAX: usize = 1_000;
/// Longest source of a record.
pub const RECORD_SOURCE_CHARS_MAX: usize = 500;
/// Most text of one record that is searched.
pub const INDEXED_TEXT_BYTES_MAX: usize = 256 * 1024;
/// Most refs of one milestone, and of one message.
pub const REFS_MAX: usize = 256;
/// Largest text of one message of a conversation. A larger one is ingested and kept as a ref.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Most messages of one conversation.
pub const SESSION_MESSAGES_MAX: u64 = 100_000;
/// Most bytes of all messages of one conversation.
pub const SESSION_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Largest memo of a conversation.
pub const SESSION_MEMO_BYTES_MAX: usize = 16 * 1024;
/// Most tools that one message asks for.
pub const MESSAGE_CALLS_MAX: usize = 128;

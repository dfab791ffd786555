//! Invariant 5: state holds no large content. What is allowed, and what a value takes.
//!
//! It owns the words for too much; how a value is measured is in `measure`. Sizes are those of the JSON that is stored,
//! give or take the escapes of its strings.

use longhaul_core::limits::{
    INPUTS_BYTES_MAX, STATE_APPEND_ITEMS_MAX, STATE_BYTES_MAX, STATE_LEAF_BYTES_MAX, SUPERSTEP_TASKS_MAX,
};

use crate::{
    Field, GraphState, Planned, Reducer,
    measure::{self, Items},
};

/// Something in the state, in an update to it or among the inputs of tasks is too large.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// It takes too many bytes.
    #[error(
        "{path} takes {bytes} bytes, at most {bytes_max} are allowed: keep the content as a record or blob and only \
         its reference here"
    )]
    Bytes {
        /// Where: `state.features[3].notes`, `state`, `update.lines[0]`, `input of work`.
        path: String,
        /// Its size as JSON.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// It has too many items.
    #[error("{path} has {items} items, at most {items_max} are allowed: keep the older ones as records")]
    Items {
        /// Where: `state.messages`, `tasks`.
        path: String,
        /// How many.
        items: usize,
        /// The limit.
        items_max: usize,
    },
}

/// Checks a whole state, every item of its append fields too: takes time in proportion to its size.
pub(crate) fn check_state<S: GraphState>(state: &S) -> Result<usize, LimitError> {
    let bytes = measure::fields(state, "state", S::FIELDS, Items::Each)?;
    within("state", bytes, STATE_BYTES_MAX)
}

/// Checks a state after a superstep: of append fields only how many items they have, for what was appended has been
/// checked with the update. Gives the bytes outside them.
pub(crate) fn check_close<S: GraphState>(state: &S) -> Result<usize, LimitError> {
    let bytes = measure::fields(state, "state", S::FIELDS, Items::Count)?;
    within("state", bytes, STATE_BYTES_MAX)
}

/// Checks one update and gives its bytes. What is appended is found by the names of its fields, which are those of the
/// state where the update is derived.
pub(crate) fn check_update<S: GraphState>(update: &S::Update) -> Result<usize, LimitError> {
    let bytes = measure::fields(update, "update", S::FIELDS, Items::EachCounted)?;
    within("update", bytes, STATE_BYTES_MAX)
}

/// Checks what one task writes, all its updates together.
pub(crate) fn check_written(bytes: usize) -> Result<usize, LimitError> {
    within("what the task writes", bytes, STATE_BYTES_MAX)
}

/// Checks the inputs that one task sends.
pub(crate) fn check_sends(sends: &[Planned]) -> Result<(), LimitError> {
    if sends.len() > SUPERSTEP_TASKS_MAX {
        let (path, items) = ("what is sent".to_owned(), sends.len());
        return Err(LimitError::Items { path, items, items_max: SUPERSTEP_TASKS_MAX });
    }
    let mut total = 0;
    for send in sends {
        let bytes = send.input.as_ref().map_or(0, |input| input.json().len());
        if bytes > STATE_LEAF_BYTES_MAX {
            within(&format!("the input of {}", send.node), bytes, STATE_LEAF_BYTES_MAX)?;
        }
        total += bytes;
    }
    within("what is sent", total, INPUTS_BYTES_MAX).map(drop)
}

pub(crate) fn within(path: &str, bytes: usize, bytes_max: usize) -> Result<usize, LimitError> {
    if bytes <= bytes_max { Ok(bytes) } else { Err(LimitError::Bytes { path: path.to_owned(), bytes, bytes_max }) }
}

pub(crate) fn count_within(items: usize) -> Result<(), LimitError> {
    let items_max = STATE_APPEND_ITEMS_MAX;
    if items <= items_max { Ok(()) } else { Err(LimitError::Items { path: String::new(), items, items_max }) }
}

/// Whether a field of this name grows by items; a derived update writes the value that replaces a field as `=name`.
pub(crate) fn grows(fields: &[Field], name: &str) -> bool {
    let name = name.strip_prefix('=').unwrap_or(name);
    fields.iter().any(|field| field.reducer == Reducer::Append && field.name == name)
}

#[cfg(test)]
mod tests;

//! From state to what is stored, and back: deltas, digests, limits.
//!
//! Invariant: the state in memory is always the one that replaying the stored JSON gives. Values are read back before
//! they are used, so a type that does not survive JSON shows itself at once and not after a crash.

use std::sync::Arc;

use longhaul_core::{Digest, ExecutionId};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    DurableError, GraphState, NodeError, limits,
    records::{CheckpointRow, Form},
};

/// A state together with what is stored of it.
pub(crate) struct Sealed<S> {
    pub(crate) state: S,
    /// The full state, or the update that led to it.
    pub(crate) json: String,
    /// Of the state.
    pub(crate) digest: Digest,
}

pub(crate) fn seal_initial<S: GraphState>(initial: &S) -> Result<Sealed<S>, DurableError> {
    let json = serde_json::to_string(initial).map_err(Arc::new)?;
    let state: S = serde_json::from_str(&json).map_err(Arc::new)?;
    let value = serde_json::to_value(&state).map_err(Arc::new)?;
    limits::check_state(&state)?;
    Ok(Sealed { state, json, digest: digest(value) })
}

pub(crate) fn seal_update<S: GraphState>(node: &str, state: &S, update: &S::Update) -> Result<Sealed<S>, NodeError> {
    let unfit = |source| NodeError::Update { node: node.to_owned(), source: Arc::new(source) };
    let refused = |source| NodeError::Limit { node: node.to_owned(), source };
    let json = serde_json::to_string(update).map_err(unfit)?;
    limits::check_update::<S>(update).map_err(refused)?;
    let mut state = state.clone();
    state.apply(serde_json::from_str(&json).map_err(unfit)?);
    let value = serde_json::to_value(&state).map_err(unfit)?;
    limits::check_close(&state).map_err(refused)?;
    Ok(Sealed { state, json, digest: digest(value) })
}

/// The state after the last of these checkpoints, which follow each other from a full one on.
pub(crate) fn replay<S: GraphState>(execution: &ExecutionId, rows: &[CheckpointRow]) -> Result<S, DurableError> {
    let superstep = rows.last().map_or(0, |row| row.superstep);
    let diverged = || DurableError::Diverged { execution: execution.clone(), superstep };
    let mut state: Option<S> = None;
    for row in rows {
        match (row.form, &mut state) {
            (Form::Full, state) => *state = Some(parse(&row.data).ok_or_else(diverged)?),
            (Form::Delta, Some(state)) => state.apply(parse(&row.data).ok_or_else(diverged)?),
            (Form::Delta, None) => return Err(diverged()),
        }
    }
    let state = state.ok_or_else(diverged)?;
    let found = digest(serde_json::to_value(&state).map_err(Arc::new)?);
    match rows.last() {
        Some(row) if row.digest == found => Ok(state),
        Some(_) | None => Err(diverged()),
    }
}

fn parse<T: DeserializeOwned>(json: &str) -> Option<T> {
    serde_json::from_str(json).ok()
}

/// Objects are sorted first: the order of their fields is no part of a state.
fn digest(mut state: Value) -> Digest {
    state.sort_all_objects();
    Digest::of(state.to_string())
}

//! `#[derive(GraphState)]` for `longhaul-durable`, which re-exports it; see there.
//!
//! It owns the text of the generated update, and nothing of what a state means. Invariant: whatever is wrong with a
//! struct is said at the place where it is wrong.

mod expand;
mod parse;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `GraphState` for a struct and makes its update: for `Chat` the struct `ChatUpdate`, with a setter for
/// each field. The traits of serde must be derived beside it.
///
/// | field | what the setter does | how the field changes |
/// |---|---|---|
/// | (no attribute) | `.topic(value)` sets it | keeps the last value; two tasks of one superstep may not set it |
/// | `#[append]` | `.messages(items)` adds items | grows; a list, set or map |
/// | `#[reduce(merge)]` | `.scores(value)` gives a value, several times if called so | by `fn merge(&mut T, T)` |
/// | `#[reduce(merge, from = U)]` | the same | by `fn merge(&mut T, U)` |
///
/// `.overwrite_messages(value)` and `.overwrite_scores(value)` bypass the reducer: they set the whole field, and what
/// is added later in the same update is added to that.
///
/// On the struct, `#[graph_state(update = Name)]` names the update, and `#[graph_state(crate = path)]` says where
/// `longhaul_durable` is found when it is not a dependency itself.
#[proc_macro_derive(GraphState, attributes(append, reduce, graph_state))]
pub fn derive_graph_state(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    match parse::state(input) {
        Ok(state) => expand::expand(&state).into(),
        Err(error) => error.into_compile_error().into(),
    }
}

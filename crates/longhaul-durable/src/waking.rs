//! What is told when an execution can go on, or when there is another deadline to look out for.
//!
//! It owns the two channels. Invariant: whatever ends a wait from outside tells it in the same transaction.

use longhaul_store::{StoreError, Tx};

use crate::{Execution, records::family};

/// Hears that some thread can go on; its payload is the outermost execution of it. See
/// [`longhaul_store::Store::listen`].
pub const READY: &str = "durable.ready";

/// Hears that there is another deadline; no payload.
pub(crate) const DUE: &str = "durable.due";

/// Tells that a wait of this execution has ended, and gives the execution at whose thread a run goes on.
pub(crate) fn wake(tx: &mut Tx<'_>, execution: Execution) -> Result<Execution, StoreError> {
    let root = family::root(tx, execution)?;
    tx.notify(READY, root.id.as_str())?;
    Ok(root)
}

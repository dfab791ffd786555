//! What can go wrong with records and links.

use longhaul_core::RecordId;
use longhaul_store::StoreError;

/// Why a record or link could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The store failed.
    #[error("the store failed while handling a record")]
    Store(#[from] StoreError),
    /// No such record within the caller's tenant.
    #[error("there is no record {0}; `longhaul report` lists the records of a project")]
    NoSuchRecord(RecordId),
    /// A record without a summary or a source says nothing to whoever finds it.
    #[error("a record needs a {0}: say in a few words what it is and where it came from")]
    Missing(&'static str),
    /// A stored value cannot be understood: the row was changed by something else.
    #[error("record {id} has an unreadable {column}; restore the store from a backup")]
    Unreadable {
        /// The record.
        id: String,
        /// The column.
        column: &'static str,
    },
}

//! Moving memories in and out: export as lines of JSON that come back exactly, and import of these and of what others
//! keep.
//!
//! It owns the format and the order of things; rows are written by `rows`, rights checked by `access`. Invariants: RAM is
//! bounded by a page, however much there is; importing the same entry again changes nothing; an entry that cannot be
//! taken is told with its place and holds up no other.

mod export;
mod foreign;
mod import;
mod reading;
mod record;

pub use export::{ExportOptions, Exported};
pub use import::{ImportOptions, Imported, Problem};
pub use reading::Position;

use crate::MemoryError;

/// Why a transfer ended before its end. What was moved until then stays, and doing it again goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The file could not be read or written, or is no list of memories.
    #[error("the file could not be read or written")]
    Io(#[from] std::io::Error),
    /// A newer program wrote the file.
    #[error(
        "the file has version {v} of the format, this release reads up to {newest}; import it with a newer release"
    )]
    Newer {
        /// The file's version.
        v: u64,
        /// The newest that is read.
        newest: u32,
    },
    /// An entry could not be taken, and it was asked to stop there.
    #[error("{0}; what stands before it was imported")]
    Refused(Problem),
    /// Memory or its store failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

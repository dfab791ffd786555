//! Vectors in a server as well (`memory.uri`): the port, what the server lacks, and how a search uses both.
//!
//! Rows in the store stay the truth. The server has a copy of vectors that is filled in the background; what it lacks is
//! everything above a watermark (`memory_remote`), so nothing is queued that could be lost. Invariant: what a search
//! gives out was looked up in the rows of its snapshot, and every row that the server may lack is compared here.

mod port;

pub use port::{
    Ask, Batch, Capabilities, Mark, Near, Opened, RemoteError, RemoteFilter, RemoteRow, RemoteVectors, Space, Stored,
    TimeMs,
};

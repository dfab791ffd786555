//! What can go wrong with a Milvus server, told apart by what to do about it. No message holds a token.

use std::{io, path::PathBuf, time::Duration};

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum MilvusError {
    /// The address or the token cannot be used as it is written.
    #[error("{address} cannot be used as the address of a Milvus server: {problem}")]
    Address {
        /// The address, unless it may hold a secret.
        address: String,
        /// What to write instead.
        problem: String,
    },
    /// An index setting that is none.
    #[error("the index {found:?} cannot be used: expected {expected}")]
    Index {
        /// The setting as written, cut.
        found: String,
        /// What can be written.
        expected: &'static str,
    },
    /// A file for TLS cannot be read.
    #[error("cannot read the certificate authority {}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Nobody answers, the connection broke, or the server says that it is not ready. Trying again later helps.
    #[error(
        "Milvus at {address} cannot be reached for {method}: {problem}; see that the server runs and that memory.uri names it"
    )]
    Unreachable {
        /// Where.
        address: String,
        /// The call.
        method: &'static str,
        /// The transport's words.
        problem: String,
    },
    /// No answer in time. Trying again later helps.
    #[error("Milvus at {address} did not answer {method} within {} s", limit.as_secs_f32())]
    Slow {
        /// Where.
        address: String,
        /// The call.
        method: &'static str,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The server does not know the token.
    #[error(
        "Milvus at {address} does not let us in; put `user:password` or an API key into the environment variable MILVUS_TOKEN (memory.token)"
    )]
    Unauthenticated {
        /// Where.
        address: String,
    },
    /// The server has no such collection (any more).
    #[error("Milvus at {address} has no collection {collection}; it is filled again from the rows")]
    Missing {
        /// Where.
        address: String,
        /// Its name.
        collection: String,
    },
    /// The server refused for another reason.
    #[error("Milvus at {address} refused {method}: {reason} (code {code})")]
    Refused {
        /// Where.
        address: String,
        /// The call.
        method: &'static str,
        /// The server's code.
        code: i32,
        /// The server's words, cut.
        reason: String,
    },
    /// An answer that does not hold together: not Milvus, or not one we understand.
    #[error("what answers {method} at {address} makes no sense as Milvus: {problem}")]
    Garbage {
        /// Where.
        address: String,
        /// The call.
        method: &'static str,
        /// What is wrong.
        problem: String,
    },
}

impl MilvusError {
    /// Whether the same call may go well later, with nothing changed by anybody.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Slow { .. })
    }
}

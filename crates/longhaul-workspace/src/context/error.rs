//! What can go wrong with building a context pack.

use std::path::PathBuf;

use longhaul_memory::MemoryError;
use longhaul_store::StoreError;

/// Why there is no pack.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// There is nothing to search for.
    #[error("a context pack needs a goal: say in a sentence what is to be done")]
    NoGoal,
    /// No profile of this name.
    #[error(
        "there is no context profile {name:?}; there are: {} (own ones stand in longhaul.toml under [context.profiles.NAME])",
        known.join(", ")
    )]
    UnknownProfile {
        /// What was asked for.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// A profile says what none can say.
    #[error("{key} of the context profile `{profile}` must be {expected}")]
    Profile {
        /// The profile.
        profile: String,
        /// The field.
        key: String,
        /// What it may be.
        expected: String,
    },
    /// A tokenizer cannot be used.
    #[error("the tokenizer {path} cannot be used: {problem}; name a tokenizer.json, or write tokenizer = \"estimate\"", path = path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// Searching failed.
    #[error("records, conversations and memory could not be searched")]
    Memory(#[from] MemoryError),
    /// The store failed.
    #[error("the store failed while a context pack was built")]
    Store(#[from] StoreError),
}

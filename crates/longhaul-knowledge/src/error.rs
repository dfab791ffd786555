//! Why a corpus could not be made, read or changed. What is wrong with one file of many is a [`Refusal`](crate::Refusal).

use std::{io, path::PathBuf};

use longhaul_memory::MemoryError;
use longhaul_store::StoreError;

/// Why a corpus could not be made, read or changed. Nothing that was complete is lost by it.
#[derive(Debug, thiserror::Error)]
pub enum KnowledgeError {
    /// The path is not there.
    #[error("cannot read {}; name a file or a folder that is there", path.display())]
    Path {
        /// What was asked for.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A glob that means nothing.
    #[error("the pattern {glob:?} cannot be understood ({problem}); write it as in a .gitignore: *.md, docs/**")]
    Glob {
        /// The pattern.
        glob: String,
        /// What is wrong with it.
        problem: String,
    },
    /// More files than a corpus may have.
    #[error("{} has more than {files_max} files; add parts of it as corpora of their own, or name files with --include", path.display())]
    TooManyFiles {
        /// The folder.
        path: PathBuf,
        /// The limit.
        files_max: usize,
    },
    /// Not one file could be taken.
    #[error("nothing of {} can be searched: {reason}", path.display())]
    NothingToAdd {
        /// What was asked for.
        path: PathBuf,
        /// What was wrong with its files.
        reason: String,
    },
    /// A name that a corpus cannot have.
    #[error("{name:?} cannot be a corpus's name; use 1 to 64 of a-z, 0-9, `_`, `.`, `-`")]
    Name {
        /// The name as given.
        name: String,
    },
    /// No such corpus, or none that may be read.
    #[error("there is no corpus {name:?}; {}", known(there))]
    NoCorpus {
        /// The name.
        name: String,
        /// Those that may be read.
        there: Vec<String>,
    },
    /// No such version of it.
    #[error("corpus {name:?} has no version {version}; it has {there}")]
    NoVersion {
        /// The corpus.
        name: String,
        /// The version asked for.
        version: u32,
        /// Those there are.
        there: String,
    },
    /// Somebody else made it.
    #[error("corpus {name:?} belongs to {owner}; take another name, or ask them to add to it")]
    NotYours {
        /// The corpus.
        name: String,
        /// Who made it.
        owner: String,
    },
    /// Another process builds it.
    #[error("another process is adding to corpus {name:?}; wait until it is done, then run the command again")]
    Busy {
        /// The corpus.
        name: String,
    },
    /// Stopped by the caller.
    #[error(
        "stopped before version {version} of corpus {name:?} was complete; the same command goes on where it stopped"
    )]
    Stopped {
        /// The corpus.
        name: String,
        /// The version.
        version: u32,
    },
    /// A part of the program ended before its time.
    #[error("reading files was interrupted ({problem}); run the command again")]
    Interrupted {
        /// What happened.
        problem: String,
    },
    /// Memory failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn known(there: &[String]) -> String {
    if there.is_empty() {
        "there are none yet: `longhaul knowledge add PATH --corpus NAME` makes one".to_owned()
    } else {
        format!("there are: {}", there.join(", "))
    }
}

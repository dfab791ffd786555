//! What can go wrong with the cold tier. Messages say what to do next; sources are not printed.

use std::{io, path::PathBuf};

/// Why cold memory could not be read or written. The hot tier is never touched by it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ColdError {
    /// A setting of the cold place is missing or wrong.
    #[error("{what} {problem}")]
    Setting {
        /// What is wrong.
        what: &'static str,
        /// Why, and what to do.
        problem: &'static str,
    },
    /// No cold place is configured.
    #[error("no place for cold memory is configured; set memory.cold to a folder or to s3://bucket/prefix")]
    NotConfigured,
    /// The folder cannot be used.
    #[error("cannot {action} {}", path.display())]
    Folder {
        /// What was being done.
        action: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::sync::Arc<io::Error>,
    },
    /// The service does not answer, or answers with a failure of its own.
    #[error("{place} cannot be reached ({problem}); what is cold stays there and is found again once it answers")]
    Unreachable {
        /// The place, without credentials.
        place: String,
        /// What happened, shortened.
        problem: String,
    },
    /// The service refuses the credentials.
    #[error("{place} refuses the credentials; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and what the key may do")]
    Refused {
        /// The place, without credentials.
        place: String,
    },
    /// The bucket or folder is not there.
    #[error("{place} does not exist; make the bucket, or correct memory.cold")]
    NoPlace {
        /// The place, without credentials.
        place: String,
    },
    /// An object is not there.
    #[error("cold segment {key} is missing from {place}; its memories cannot be read, all others can")]
    Missing {
        /// Name of the object.
        key: String,
        /// The place, without credentials.
        place: String,
    },
    /// An object is not what was written.
    #[error("cold segment {key} is damaged ({problem}); its memories cannot be read, all others can")]
    Damaged {
        /// Name of the object.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl ColdError {
    /// Whether asking again later may help without anybody doing anything.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// Whether the whole place is out of reach, and not one object.
    pub(crate) fn is_of_the_place(&self) -> bool {
        !matches!(self, Self::Missing { .. } | Self::Damaged { .. })
    }
}

impl From<longhaul_store::s3::S3Error> for ColdError {
    fn from(error: longhaul_store::s3::S3Error) -> Self {
        Self::Setting { what: error.what, problem: error.problem }
    }
}

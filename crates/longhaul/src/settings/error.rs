//! What can be wrong with a configuration, each with the place it was written and what to do about it.
//! No message ever contains a secret's value.

use std::{fmt, io, path::PathBuf};

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// The user's own `longhaul.toml`.
    UserFile {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
    /// The `longhaul.toml` inside the project, which an agent may have written.
    ProjectFile {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
    /// A `.env` file outside the project.
    DotEnv {
        /// The file.
        path: PathBuf,
        /// Name of the variable.
        name: String,
    },
    /// The process's environment.
    Environment {
        /// Name of the variable.
        name: String,
    },
    /// The command line.
    Flag {
        /// The flag as typed: `--model`, `--set`.
        name: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "the built-in default"),
            Self::UserFile { path, line } | Self::ProjectFile { path, line } => write!(f, "{}:{line}", path.display()),
            Self::DotEnv { path, name } => write!(f, "{name} in {}", path.display()),
            Self::Environment { name } => write!(f, "environment variable {name}"),
            Self::Flag { name } => write!(f, "{name}"),
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A key that does not exist.
    #[error("{origin}: unknown key `{key}`{}; every key is listed in docs/configuration.md", nearest_hint(.nearest.as_deref()))]
    UnknownKey {
        /// Where it was written.
        origin: Origin,
        /// The key as written.
        key: String,
        /// The valid key most like it, if one is near.
        nearest: Option<String>,
    },
    /// A key that only the user may set, found in the project's own file.
    #[error(
        "{origin}: `{key}` cannot be set in a project's longhaul.toml, because the agent that works in the project could write it; \
         move it to {}, to the environment or to a flag", user_file.display()
    )]
    NotInProject {
        /// Where it was written.
        origin: Origin,
        /// The key.
        key: &'static str,
        /// The file in which it is honoured.
        user_file: PathBuf,
    },
    /// A value of the wrong shape.
    #[error("{origin}: `{key}` must be {expected}{}", found_hint(.found.as_deref()))]
    Value {
        /// Where it was written.
        origin: Origin,
        /// The key.
        key: &'static str,
        /// What would be accepted.
        expected: String,
        /// What was found; absent for a secret.
        found: Option<String>,
    },
    /// The address of a vector server that cannot be used.
    #[error("{origin}: `{key}`: {source}")]
    Server {
        /// Where it was written.
        origin: Origin,
        /// The key.
        key: &'static str,
        /// What to write instead; without what may be a secret.
        source: longhaul_milvus::MilvusError,
    },
    /// A profile of context packs that says what none can say.
    #[error("{origin}: {source}")]
    Profile {
        /// Where it was written.
        origin: Origin,
        /// What is wrong with it.
        source: longhaul_workspace::context::ContextError,
    },
    /// A file that is not TOML, or a `.env` that cannot be parsed.
    #[error("{}:{line}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A file that is there and cannot be read.
    #[error("cannot read {}; check who owns it and its permissions", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: io::Error,
    },
    /// Neither `HOME` nor the XDG folders are set.
    #[error("no home folder is known: set HOME, or give --home and LONGHAUL_CACHE")]
    NoHome,
}

fn nearest_hint(nearest: Option<&str>) -> String {
    nearest.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default()
}

fn found_hint(found: Option<&str>) -> String {
    found.map(|found| format!(", not `{found}`")).unwrap_or_default()
}

//! How the program ends. The numbers are documented in `longhaul help` and are part of the interface.

use std::{fmt, process::ExitCode};

use longhaul::{
    ErrorKind, EvalError, LonghaulError, MemoriesError, OperateError, ServingError,
    knowledge::KnowledgeError,
    memory::MemoryError,
    network::{NetworkError, refusal_error_kind},
    network_agents::AgentError,
    settings::SettingsError,
    tools::mcp::McpError,
    workspace::{review::ReviewError, sessions::SessionError},
};

/// An exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done,
    /// It tried and failed.
    Failed,
    /// What was asked makes no sense: flags, settings, a wrong folder.
    Usage,
    /// There is more to do: stopped by a limit, or features are parked.
    Unfinished,
    /// The machine lacks something; `longhaul doctor` says what.
    Environment,
    /// Ctrl-C or SIGTERM.
    Interrupted,
}

impl Exit {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unfinished => 3,
            Self::Environment => 4,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// A failure that already knows its exit code; anything else ends with [`Exit::Failed`].
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn because(exit: Exit, message: impl Into<String>) -> anyhow::Error {
        Self { exit, message: message.into() }.into()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// The exit code of an error, by what it is.
pub(crate) fn of_error(error: &anyhow::Error) -> Exit {
    if let Some(refusal) = error.downcast_ref::<Refusal>() {
        return refusal.exit;
    }
    if error.is::<SettingsError>() || error.is::<EvalError>() {
        return Exit::Usage;
    }
    let kind = error.downcast_ref::<LonghaulError>().map(LonghaulError::kind);
    let kind = kind.or_else(|| error.downcast_ref::<OperateError>().map(OperateError::kind));
    let kind = kind.or_else(|| error.downcast_ref::<MemoriesError>().map(MemoriesError::kind));
    let kind = kind.or_else(|| error.downcast_ref::<MemoryError>().map(longhaul::memory_error_kind));
    let kind = kind.or_else(|| error.downcast_ref::<ServingError>().map(ServingError::kind));
    let kind = kind.or_else(|| error.downcast_ref::<KnowledgeError>().map(of_knowledge));
    let kind = kind.or_else(|| error.downcast_ref::<SessionError>().map(longhaul::session_error_kind));
    let kind = kind.or_else(|| error.downcast_ref::<NetworkError>().map(NetworkError::kind));
    let kind = kind.or_else(|| error.downcast_ref::<AgentError>().map(AgentError::kind));
    let kind = kind.or_else(|| error.downcast_ref::<longhaul::network::Refusal>().map(refusal_error_kind));
    let kind = kind.or_else(|| error.downcast_ref::<ReviewError>().map(longhaul::review_error_kind));
    match kind.or_else(|| error.downcast_ref::<McpError>().map(of_mcp)) {
        Some(ErrorKind::Usage) => Exit::Usage,
        Some(ErrorKind::Environment) => Exit::Environment,
        Some(ErrorKind::Retry | ErrorKind::Failed) | None => Exit::Failed,
    }
}

fn of_knowledge(error: &KnowledgeError) -> ErrorKind {
    match error {
        KnowledgeError::Path { .. }
        | KnowledgeError::Glob { .. }
        | KnowledgeError::TooManyFiles { .. }
        | KnowledgeError::NothingToAdd { .. }
        | KnowledgeError::Name { .. }
        | KnowledgeError::NoCorpus { .. }
        | KnowledgeError::NoVersion { .. }
        | KnowledgeError::NotYours { .. } => ErrorKind::Usage,
        KnowledgeError::Busy { .. } => ErrorKind::Retry,
        KnowledgeError::Stopped { .. }
        | KnowledgeError::Interrupted { .. }
        | KnowledgeError::Memory(_)
        | KnowledgeError::Store(_) => ErrorKind::Failed,
    }
}

fn of_mcp(error: &McpError) -> ErrorKind {
    match error {
        McpError::NotLoopback { .. }
        | McpError::Listen { .. }
        | McpError::WeakToken { .. }
        | McpError::Server { .. } => ErrorKind::Usage,
        McpError::Handshake { .. } | McpError::Down { .. } => ErrorKind::Failed,
    }
}

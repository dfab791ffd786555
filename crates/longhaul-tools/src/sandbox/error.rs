//! Why a sandbox, a command in it or an application cannot start. Every message says what to do next.

use std::{io, path::PathBuf};

use super::CommandExit;

/// The sandbox cannot do what was asked. Nothing has run outside it: there is no fallback.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A program the sandbox is made of is not installed.
    #[error("the sandbox needs {program}, which is not installed; install it with {install}, then try again")]
    ProgramMissing {
        /// The program.
        program: String,
        /// The command that installs it.
        install: &'static str,
    },
    /// The programs are there, but this system does not let them build a sandbox.
    #[error("the sandbox does not start on this system ({detail}); {advice}")]
    Unusable {
        /// What the programs said.
        detail: String,
        /// What to change.
        advice: String,
    },
    /// A path cannot take the part it was given.
    #[error("{} cannot be used as {part}: {problem}", path.display())]
    Layout {
        /// The path.
        path: PathBuf,
        /// The part: the project folder, a toolchain …
        part: &'static str,
        /// Why not, and what to do.
        problem: &'static str,
    },
    /// A path that must stay read-only is not there, so that a command could create it.
    #[error("{} must be read-only in the sandbox but does not exist; create it first (`git init` for .git)", path.display())]
    ReadonlyMissing {
        /// The path.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The outermost program could not be run at all.
    #[error("cannot run {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The sandbox ended before the command in it began.
    #[error("the sandbox failed before the command started: {detail}; `longhaul doctor` examines it")]
    Setup {
        /// What its programs said.
        detail: String,
    },
    /// Two outlets of one command want the same port inside.
    #[error("port {port} inside the sandbox is wanted twice; give the gateway another one")]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// A gateway's client cannot be made.
    #[error("the gateway to {upstream} cannot be opened: {reason}")]
    Gateway {
        /// The service, without its path.
        upstream: String,
        /// What is wrong.
        reason: String,
    },
    /// The fallback cannot give this.
    #[error(
        "the sandbox without namespaces cannot give a command {what}; install bubblewrap, or let it work (`longhaul doctor`)"
    )]
    NeedsNamespaces {
        /// What was asked for.
        what: &'static str,
    },
    /// A command line above what one process may be given.
    #[error("the command has {bytes} bytes, above the limit of {limit}; write it to a file and run that file")]
    CommandTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A command or variable that no process can be given.
    #[error("{what} {text:?} is empty or has a character that cannot be passed; correct it")]
    Text {
        /// What it is: a command, the name of a variable …
        what: &'static str,
        /// Its text.
        text: String,
    },
}

/// The application did not come up.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The sandbox itself failed.
    #[error("the sandbox for the application cannot be used")]
    Sandbox(#[from] SandboxError),
    /// There is no script to start it with.
    #[error("there is no {script} in the project; write it: a POSIX shell script that starts the application on $PORT")]
    ScriptMissing {
        /// The script asked for.
        script: String,
    },
    /// The application ended before it listened.
    #[error("{script} ended ({exit}) before 127.0.0.1:{port} accepted a connection; its last output:\n{log}")]
    Exited {
        /// The script.
        script: String,
        /// Where it should have listened.
        port: u16,
        /// How it ended.
        exit: CommandExit,
        /// The end of its output.
        log: String,
    },
    /// The application runs but did not listen in time, and was killed.
    #[error(
        "nothing accepted a connection on 127.0.0.1:{port} within {waited_ms} ms of starting {script} (it must listen on $PORT); its last output:\n{log}"
    )]
    NotListening {
        /// The script.
        script: String,
        /// Where it should have listened.
        port: u16,
        /// How long was waited.
        waited_ms: u64,
        /// The end of its output.
        log: String,
    },
}

impl std::fmt::Display for CommandExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit {code}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
            Self::TimedOut => f.write_str("killed: out of time"),
            Self::DiskFull => f.write_str("killed: out of disk"),
            Self::OutOfMemory => f.write_str("killed: out of memory"),
        }
    }
}

//! What the harness and its helper inside the sandbox say to each other: one plan on the command line, one status line
//! at a time on standard error. Both ends are the same binary, so the words may change with any release.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::settings::{CommandExit, SandboxLimits};

/// What the helper has to do; its command follows as further arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    pub(super) mode: Mode,
    pub(super) memory_bytes_max: u64,
    pub(super) processes_max: u64,
    pub(super) file_bytes_max: u64,
    pub(super) open_files_max: u64,
    pub(super) disk_bytes_max: u64,
    /// Ports of its loopback that lead to sockets of the harness.
    pub(super) relays: Vec<Relay>,
    /// The command has standard input, and its standard error is told apart from its output.
    pub(super) is_interactive: bool,
    /// Without namespaces: what holds the command instead.
    pub(super) confine: Option<Confine>,
}

/// The boundary of a command that no namespace holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Confine {
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: PathBuf,
    /// Paths beneath which it may read and run.
    pub(super) read: Vec<PathBuf>,
    /// Paths beneath which it may do everything.
    pub(super) write: Vec<PathBuf>,
    /// TCP ports it may connect to.
    pub(super) connect: Vec<u16>,
    /// TCP ports it may listen on.
    pub(super) bind: Vec<u16>,
    /// Whether the network is the host's.
    pub(super) open_network: bool,
}

/// A port inside that leads to a socket in the folder of sockets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Relay {
    pub(super) port: u16,
    pub(super) socket: String,
}

/// What kind of thing is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Mode {
    /// A command; with `forward`, connections to this port of its loopback reach the application's socket.
    Command { forward: Option<u16> },
    /// An application on this port; connections accepted from the socket on standard input reach it.
    App { port: u16 },
}

impl Plan {
    pub(super) fn new(mode: Mode, limits: &SandboxLimits) -> Self {
        Self {
            mode,
            memory_bytes_max: limits.memory_bytes_max,
            processes_max: limits.processes_max,
            file_bytes_max: limits.file_bytes_max,
            open_files_max: limits.open_files_max,
            disk_bytes_max: limits.disk_bytes_max,
            relays: Vec::new(),
            is_interactive: false,
            confine: None,
        }
    }

    /// The same for a command that is talked to.
    pub(super) fn interactive(mut self) -> Self {
        self.is_interactive = true;
        self
    }

    /// The same with ports that lead outside.
    pub(super) fn relays(mut self, relays: &[Relay]) -> Self {
        self.relays = relays.to_vec();
        self
    }

    pub(super) fn to_argument(&self) -> String {
        serde_json::to_string(self).expect("a plan has only string keys and numbers")
    }
}

/// What the helper reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Status {
    /// The sandbox stands; the command is about to start.
    Started,
    /// The application accepts connections.
    Ready,
    /// It is over, and everything inside is being ended.
    Ended(CommandExit),
    /// The helper could not do its part.
    Failed(String),
}

const MARK: &str = "longhaul-sandbox: ";

impl Status {
    pub(super) fn to_line(&self) -> String {
        let text = match self {
            Self::Started => "started".to_owned(),
            Self::Ready => "ready".to_owned(),
            Self::Ended(CommandExit::Code(code)) => format!("exit {code}"),
            Self::Ended(CommandExit::Signal(signal)) => format!("signal {signal}"),
            Self::Ended(CommandExit::OutOfMemory) => "memory".to_owned(),
            Self::Ended(CommandExit::DiskFull) => "disk".to_owned(),
            Self::Ended(CommandExit::TimedOut) => "timeout".to_owned(),
            Self::Failed(why) => format!("failed {}", why.replace('\n', " ")),
        };
        format!("{MARK}{text}\n")
    }

    /// `None` for a line that is not the helper's: a message of bubblewrap or setpriv.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        let text = line.trim_end().strip_prefix(MARK)?;
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "started" => Some(Self::Started),
            "ready" => Some(Self::Ready),
            "exit" => rest.parse().ok().map(|code| Self::Ended(CommandExit::Code(code))),
            "signal" => rest.parse().ok().map(|signal| Self::Ended(CommandExit::Signal(signal))),
            "memory" => Some(Self::Ended(CommandExit::OutOfMemory)),
            "disk" => Some(Self::Ended(CommandExit::DiskFull)),
            "timeout" => Some(Self::Ended(CommandExit::TimedOut)),
            "failed" => Some(Self::Failed(rest.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_survives_its_line() {
        for status in [
            Status::Started,
            Status::Ready,
            Status::Ended(CommandExit::Code(3)),
            Status::Ended(CommandExit::Signal(9)),
            Status::Ended(CommandExit::OutOfMemory),
            Status::Ended(CommandExit::DiskFull),
            Status::Ended(CommandExit::TimedOut),
            Status::Failed("no port".to_owned()),
        ] {
            assert_eq!(Status::from_line(&status.to_line()), Some(status));
        }
        assert_eq!(Status::from_line("bwrap: Can't find source path"), None);
    }
}

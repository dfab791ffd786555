//! What an external agent asks of us while it works. Whoever knows the project, the sandbox and the policy answers.

use std::path::PathBuf;

use async_trait::async_trait;

use super::wire::{AgentDeed, AskedPermission};

/// The answer to a request for permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// This call, this once.
    Allow,
    /// Not this call; the agent goes on without.
    Deny,
    /// A person must say. The turn is cancelled.
    Ask,
}

/// A command that the agent wants run in a terminal of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalCommand {
    /// The program, or a line for the shell where no arguments are given.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment beside the sandbox's own.
    pub env: Vec<(String, String)>,
    /// Where it runs; the project's folder if not said.
    pub cwd: Option<PathBuf>,
    /// Most output kept, in bytes.
    pub output_bytes_max: Option<u64>,
}

/// A terminal as it is now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalState {
    /// Standard output and standard error.
    pub output: String,
    /// Whether something of the output was left out.
    pub is_truncated: bool,
    /// How the command ended: its code, or the name of a signal. Nothing while it runs.
    pub exit: Option<(Option<i32>, Option<String>)>,
}

/// Answers an agent. A failure is a text for the agent.
#[async_trait]
pub trait AgentHost: Send + Sync {
    /// May it do this?
    async fn permission(&self, asked: &AskedPermission) -> Permission;

    /// The text of a file, from line `first` (1 if not said), at most `lines_max` lines.
    async fn read_text_file(&self, path: &str, first: Option<u64>, lines_max: Option<u64>) -> Result<String, String>;

    /// Replaces or creates a file.
    async fn write_text_file(&self, path: &str, content: &str) -> Result<(), String>;

    /// Starts a command; gives the terminal's id.
    async fn create_terminal(&self, command: TerminalCommand) -> Result<String, String>;

    /// What a terminal shows; waits for the command's end first if `until_exit`.
    async fn terminal(&self, id: &str, until_exit: bool) -> Result<TerminalState, String>;

    /// Ends a terminal's command, and forgets the terminal if `release`.
    async fn end_terminal(&self, id: &str, release: bool) -> Result<(), String>;

    /// The agent did something: a call of a tool of its own has ended.
    async fn did(&self, deed: &AgentDeed);
}

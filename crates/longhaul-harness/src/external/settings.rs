//! Which agent works, and within which bounds.

use std::{path::PathBuf, time::Duration};

use longhaul_tools::sandbox::Gateway;

/// How an external agent is started and bounded. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// The program and its arguments, as they are started in the sandbox.
    pub command: Vec<String>,
    /// Folders outside the project that it reads, such as its own program's.
    pub readable: Vec<PathBuf>,
    /// Folders that come first in its `PATH`.
    pub path_first: Vec<PathBuf>,
    /// Environment beside the sandbox's own. No secrets: the agent can read it.
    pub env: Vec<(String, String)>,
    /// The longest one session may take, verification included.
    pub session_max: Duration,
    /// The longest it may say and ask nothing.
    pub silence_max: Duration,
}

impl AgentSettings {
    /// An agent with the usual bounds: two hours a session, a quarter of an hour of silence.
    #[must_use]
    pub fn new(command: Vec<String>) -> Self {
        Self {
            command,
            readable: Vec::new(),
            path_first: Vec::new(),
            env: Vec::new(),
            session_max: Duration::from_hours(2),
            silence_max: Duration::from_mins(15),
        }
    }
}

impl AgentSettings {
    /// What it is called, as in `prices`: the name of its program, or of the script that an interpreter runs.
    #[must_use]
    pub fn name(&self) -> String {
        let words = self.command.iter().filter(|word| !word.starts_with('-'));
        let names = words.filter_map(|word| std::path::Path::new(word).file_stem()?.to_str());
        let interpreters = ["node", "python3", "python", "npx", "sh", "bash", "env"];
        names.into_iter().find(|name| !interpreters.contains(name)).unwrap_or("agent").to_owned()
    }
}

/// An external agent as a component of a harness.
#[derive(Debug, Clone)]
pub struct ExternalAgent {
    /// How it is started and bounded.
    pub settings: AgentSettings,
    /// Ways to its model's service. The keys are added outside its sandbox.
    pub gateways: Vec<Gateway>,
}

//! Which agent works, and within which bounds.

use std::{path::PathBuf, time::Duration};

use super::permission::PermissionRules;

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
    /// What becomes of its requests for permission.
    pub permissions: PermissionRules,
}

impl AgentSettings {
    /// An agent with the usual bounds: two hours a session, a quarter of an hour of silence, everything allowed that the
    /// sandbox allows.
    #[must_use]
    pub fn new(command: Vec<String>) -> Self {
        Self {
            command,
            readable: Vec::new(),
            path_first: Vec::new(),
            env: Vec::new(),
            session_max: Duration::from_hours(2),
            silence_max: Duration::from_mins(15),
            permissions: PermissionRules::default(),
        }
    }
}

/// An external agent as a component of a harness.
#[derive(Debug, Clone)]
pub struct ExternalAgent {
    /// How it is started and bounded.
    pub settings: AgentSettings,
}

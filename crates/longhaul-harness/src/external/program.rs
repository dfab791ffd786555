//! The agent's program in a sandbox of its own.

use longhaul_agent::acp::{AcpClient, AcpError};
use longhaul_durable::StepError;
use longhaul_tools::sandbox::{Program, Sandbox, SandboxCommand, SandboxError};
use tokio::{
    io::BufReader,
    process::{ChildStdin, ChildStdout},
};

use super::settings::ExternalAgent;
use crate::{environment::SandboxPlace, sitting::Sitting};

/// A connected agent.
pub(super) struct Connected {
    pub(super) client: AcpClient<BufReader<ChildStdout>, ChildStdin>,
    pub(super) program: Program,
}

/// Why there is no agent to work with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAgent {
    /// The sandbox cannot be built.
    #[error("the agent's sandbox cannot be built")]
    Sandbox(#[from] SandboxError),
    /// It started and does not talk.
    #[error("the agent `{command}` cannot be worked with; its own words: {messages}")]
    Talk {
        /// Its command.
        command: String,
        /// Its standard error.
        messages: String,
        #[source]
        source: AcpError,
    },
}

/// The agent's sandbox: the project's, with what the agent reads and its way to its model.
pub(super) fn sandbox(s: &Sitting<'_>, agent: &ExternalAgent) -> Result<Sandbox, SandboxError> {
    let runtime_dir = s.harness.task_dir(&s.owner().task).join("run");
    let mut settings = (s.harness.sandbox)(SandboxPlace { project: s.project().dir, runtime_dir });
    settings.toolchains.extend(agent.settings.readable.iter().cloned());
    settings.path_first.splice(0..0, agent.settings.path_first.iter().cloned());
    Sandbox::new(settings)
}

/// Starts the agent and opens a session with it.
pub(super) async fn start(s: &Sitting<'_>, agent: &ExternalAgent, sandbox: &Sandbox) -> Result<Connected, StepError> {
    let mut command = SandboxCommand::argv(agent.settings.command.iter().cloned());
    command.env.extend(agent.settings.env.iter().cloned());
    command.gateways.extend(agent.gateways.iter().cloned());
    let mut program = sandbox.start_program(command, None).map_err(NoAgent::from)?;
    let Some((output, input)) = program.take_streams() else {
        return Err(NoAgent::from(SandboxError::Setup { detail: "the agent has no streams".to_owned() }).into());
    };
    match AcpClient::open(BufReader::new(output), input, &s.project().dir).await {
        Ok(client) => Ok(Connected { client, program }),
        Err(source) => {
            let messages = program.finish().await.messages;
            let command = agent.settings.command.join(" ");
            Err(NoAgent::Talk { command, messages: words(&messages), source }.into())
        }
    }
}

impl Connected {
    /// Ends the agent; gives its standard error.
    pub(super) async fn end(self) -> String {
        drop(self.client);
        words(&self.program.finish().await.messages)
    }
}

/// Its words without the marks of the sandbox's helper.
fn words(messages: &str) -> String {
    let lines: Vec<&str> = messages.lines().map(|line| line.strip_prefix("says: ").unwrap_or(line)).collect();
    if lines.is_empty() { "(none)".to_owned() } else { lines.join("\n") }
}

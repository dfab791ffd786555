//! `shell`: commands of the agent, always in the sandbox.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use longhaul_core::ToolSpec;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Tool, ToolOutput,
    sandbox::{AppLink, CommandExit, CommandOutput, Sandbox, SandboxCommand, SandboxError},
};

const TIMEOUT_S_DEFAULT: u64 = 120;

/// Bounds of one command. Plain data; start from [`ShellLimits::default`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShellLimits {
    /// The longest a command may run, in seconds. Commands that do not ask for more end after 120 s at most.
    pub seconds_max: u64,
    /// How much of its output the model is shown, in bytes.
    pub output_bytes_max: usize,
}

impl Default for ShellLimits {
    fn default() -> Self {
        Self { seconds_max: 1_800, output_bytes_max: 32 * 1024 }
    }
}

impl ShellLimits {
    fn seconds_default(self) -> u64 {
        TIMEOUT_S_DEFAULT.min(self.seconds_max)
    }
}

/// Where a shell finds the application that is running at the moment, if one is. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct AppSlot {
    link: Arc<Mutex<Option<AppLink>>>,
}

impl AppSlot {
    /// From now on commands reach this application, or none.
    pub fn set(&self, link: Option<AppLink>) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = link;
    }

    /// The application which commands reach now.
    #[must_use]
    pub fn get(&self) -> Option<AppLink> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The tool `shell{command, timeout_s?}`; its answer is `exit N` and the output.
#[derive(Debug, Clone)]
pub struct ShellTool {
    sandbox: Sandbox,
    app: AppSlot,
    limits: ShellLimits,
}

impl ShellTool {
    /// A shell in this sandbox, from which the application in the slot can be reached.
    #[must_use]
    pub fn new(sandbox: Sandbox, app: AppSlot) -> Self {
        Self { sandbox, app, limits: ShellLimits::default() }
    }

    /// The same shell with other bounds.
    #[must_use]
    pub fn limits(mut self, limits: ShellLimits) -> Self {
        self.limits = limits;
        self
    }
}

#[derive(Deserialize)]
struct Arguments {
    command: String,
    timeout_s: Option<u64>,
}

#[async_trait]
impl Tool for ShellTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "shell".to_owned(),
            description: "Runs a command with /bin/sh in a sandbox, in the project's folder. Only the project can be \
                          written (.git only read); there is no network, but the running application answers on \
                          http://127.0.0.1:$PORT. What is left running ends with the command."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string"},
                    "timeout_s": {
                        "type": "integer", "minimum": 1, "maximum": self.limits.seconds_max,
                        "description": format!("seconds, {} if not given", self.limits.seconds_default()),
                    },
                },
                "required": ["command"],
            }),
        }
    }

    fn changes_work_tree(&self) -> bool {
        true
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        let arguments: Arguments = match serde_json::from_value(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return ToolOutput::error(format!("wrong arguments: {error}")),
        };
        let seconds = arguments.timeout_s.unwrap_or(self.limits.seconds_default());
        let seconds = seconds.clamp(1, self.limits.seconds_max.max(1));
        let command = SandboxCommand::shell(arguments.command)
            .timeout(Duration::from_secs(seconds))
            .output_bytes_max(self.limits.output_bytes_max);
        match self.sandbox.run(command, self.app.get().as_ref()).await {
            Ok(output) => answer(output, seconds, self.limits.seconds_max),
            Err(error) => ToolOutput::error(chain(&error)),
        }
    }
}

/// A command that fails has still run: only the sandbox's own failures are errors of the tool.
fn answer(output: CommandOutput, seconds: u64, seconds_max: u64) -> ToolOutput {
    let first = match output.exit {
        CommandExit::Code(code) => format!("exit {code}"),
        // As a shell counts.
        CommandExit::Signal(signal) => format!("exit {} (signal {signal})", 128 + signal),
        CommandExit::TimedOut => {
            let next =
                if seconds < seconds_max { "give timeout_s for longer work" } else { "no command may run longer" };
            format!("exit 124 (killed after {seconds} s, with everything it started; {next})")
        }
        CommandExit::DiskFull => {
            "exit 137 (killed: it wrote more than the sandbox allows, or the disk is full; remove what is not needed)"
                .to_owned()
        }
        CommandExit::OutOfMemory => {
            "exit 137 (killed: it used more memory than the sandbox allows; process less at once)".to_owned()
        }
    };
    ToolOutput::ok(format!("{first}\n{}", output.output))
}

/// A sandbox error with its causes, for the model.
fn chain(error: &SandboxError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}

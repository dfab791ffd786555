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
const TIMEOUT_S_MAX: u64 = 1800;

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
}

impl ShellTool {
    /// A shell in this sandbox, from which the application in the slot can be reached.
    #[must_use]
    pub fn new(sandbox: Sandbox, app: AppSlot) -> Self {
        Self { sandbox, app }
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
                        "type": "integer", "minimum": 1, "maximum": TIMEOUT_S_MAX,
                        "description": format!("seconds, {TIMEOUT_S_DEFAULT} if not given"),
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
        let seconds = arguments.timeout_s.unwrap_or(TIMEOUT_S_DEFAULT).clamp(1, TIMEOUT_S_MAX);
        let command = SandboxCommand::shell(arguments.command).timeout(Duration::from_secs(seconds));
        match self.sandbox.run(command, self.app.get().as_ref()).await {
            Ok(output) => answer(output, seconds),
            Err(error) => ToolOutput::error(chain(&error)),
        }
    }
}

/// A command that fails has still run: only the sandbox's own failures are errors of the tool.
fn answer(output: CommandOutput, seconds: u64) -> ToolOutput {
    let first = match output.exit {
        CommandExit::Code(code) => format!("exit {code}"),
        // As a shell counts.
        CommandExit::Signal(signal) => format!("exit {} (signal {signal})", 128 + signal),
        CommandExit::TimedOut => {
            format!("exit 124 (killed after {seconds} s, with everything it started; give timeout_s for longer work)")
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

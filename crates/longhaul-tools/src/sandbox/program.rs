//! A program in a sandbox of its own that somebody talks to: its standard input and output are handed out, such as an
//! external agent's.
//!
//! Its standard error does not mix with its output: the helper inside passes it on line by line, marked, so that no word of
//! the program's can be taken for one of the helper's. Invariant: closing the output ends everything inside.

use std::{process::Stdio, time::Duration};

use tokio::{
    process::{Child, ChildStdin, ChildStdout},
    task::JoinHandle,
};

use super::{
    AppLink, CommandExit, Sandbox, SandboxCommand, SandboxError,
    command::Surroundings,
    plan::{Plan, Status},
    process::SandboxProcess,
};

/// How long the helper may take to end itself once the output is closed.
const FINISH_TIMEOUT: Duration = Duration::from_secs(3);

/// A running program. Dropping it, with its streams, ends it.
#[derive(Debug)]
pub struct Program {
    child: Child,
    streams: Option<(ChildStdout, ChildStdin)>,
    reported: JoinHandle<Reported>,
    /// What leads outside ends with the program.
    _surroundings: Surroundings,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramEnd {
    /// By itself, or nothing if it was ended.
    pub exit: Option<CommandExit>,
    /// The first kilobytes of its standard error, and of what the sandbox's own programs said.
    pub messages: String,
}

#[derive(Debug, Default)]
struct Reported {
    exit: Option<CommandExit>,
    failed: Option<String>,
    messages: String,
}

impl Sandbox {
    /// Starts a program whose standard input and output are pipes. The command's wall time and bound of output do not
    /// apply: whoever reads decides when it is enough.
    ///
    /// # Errors
    /// The sandbox could not be started. A program that is missing ends at once; [`Program::finish`] tells.
    pub fn start_program(&self, command: SandboxCommand, app: Option<&AppLink>) -> Result<Program, SandboxError> {
        let plan = Plan::new(self.command_mode(app), &self.inner.settings.limits).interactive();
        let (mut process, surroundings) = self.start_command(plan, &command, app, Stdio::piped())?;
        let input =
            process.take_input().ok_or_else(|| SandboxError::Setup { detail: "no standard input".to_owned() })?;
        let SandboxProcess { child, output, mut reports } = process;
        let reported = tokio::spawn(async move {
            let mut reported = Reported::default();
            while let Some(status) = reports.next().await {
                match status {
                    Status::Ended(exit) => {
                        reported.exit.get_or_insert(exit);
                    }
                    Status::Failed(why) => reported.failed = Some(why),
                    Status::Started | Status::Ready => {}
                }
            }
            reported.messages = reports.into_messages();
            reported
        });
        Ok(Program { child, streams: Some((output, input)), reported, _surroundings: surroundings })
    }
}

impl Program {
    /// The outermost of its processes.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Its standard output and input, once. Drop both before [`Program::finish`].
    pub fn take_streams(&mut self) -> Option<(ChildStdout, ChildStdin)> {
        self.streams.take()
    }

    /// Ends it, if it has not ended, and waits until everything inside has gone.
    pub async fn finish(self) -> ProgramEnd {
        let Self { mut child, streams, reported, _surroundings } = self;
        drop(streams);
        if tokio::time::timeout(FINISH_TIMEOUT, child.wait()).await.is_err() {
            // Nothing can be done about a failure here; the wait reports the end either way.
            let _ = child.kill().await;
        }
        let Reported { exit, failed, messages } = reported.await.unwrap_or_default();
        let messages = failed.unwrap_or_else(|| messages.trim().to_owned());
        ProgramEnd { exit, messages }
    }
}

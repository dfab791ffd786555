//! Runs one command in a sandbox of its own, from start to end.

use std::{process::Stdio, time::Instant};

use tokio::io::AsyncReadExt;

use super::{
    AppLink, CommandExit, CommandOutput, Sandbox, SandboxCommand, SandboxError,
    bwrap::Mount,
    network::Outlets,
    output::BothEnds,
    plan::{Mode, Plan, Status},
    process::{Reports, SandboxProcess},
};

impl Sandbox {
    /// Runs a command and waits for its end, by itself or at its wall time. Whatever it left running is ended with it.
    /// With `app`, connections to the application's port on the sandbox's loopback reach the running application.
    ///
    /// Dropping the future ends everything the command started.
    ///
    /// # Errors
    /// The sandbox or the command could not be started. A command that fails is not an error.
    pub async fn run(&self, command: SandboxCommand, app: Option<&AppLink>) -> Result<CommandOutput, SandboxError> {
        let started = Instant::now();
        let mode = Mode::Command { forward: app.map(AppLink::port) };
        // Held to the end: what leads outside ends with the command.
        let plan = Plan::new(mode, &self.inner.settings.limits);
        let (mut process, _outlets) = self.start_command(plan, &command, app, Stdio::null())?;

        let mut output = BothEnds::new(command.output_bytes_max);
        let mut reported = Reported::default();
        let streams = async {
            let (ends, ()) = tokio::join!(
                async {
                    let mut buffer = vec![0; 64 * 1024];
                    while let Ok(count @ 1..) = process.output.read(&mut buffer).await {
                        output.push(&buffer[..count]);
                    }
                },
                reported.collect(&mut process.reports),
            );
            ends
        };
        let timed_out = tokio::time::timeout(command.timeout, streams).await.is_err();
        let messages = process.finish().await;

        if let Some(detail) = reported.failed {
            return Err(SandboxError::Setup { detail });
        }
        let exit = match (reported.ended, timed_out) {
            (Some(exit), _) => exit,
            (None, false) if !reported.started => {
                return Err(SandboxError::Setup { detail: messages.trim().to_owned() });
            }
            (None, true) => CommandExit::TimedOut,
            // The helper itself was killed; only the kernel, short of memory, does that.
            (None, false) => CommandExit::OutOfMemory,
        };
        let (output, output_bytes_cut) = output.finish();
        let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(CommandOutput { exit, output, output_bytes_cut, elapsed_ms })
    }

    /// Starts the outermost process of a command, with what leads outside.
    pub(super) fn start_command(
        &self,
        mut plan: Plan,
        command: &SandboxCommand,
        app: Option<&AppLink>,
        stdin: Stdio,
    ) -> Result<(SandboxProcess, Option<Outlets>), SandboxError> {
        let settings = &self.inner.settings;
        let network = command.network.as_ref().unwrap_or(&settings.network);
        let outlets = Outlets::open(&settings.runtime_dir, network, &command.gateways)?;
        let mut env = command.env.clone();
        let mut mounts: Vec<Mount> = Vec::new();
        if let Some(app) = app {
            env.push(("PORT".to_owned(), app.port().to_string()));
            mounts.push(app.mount());
        }
        if let Some(outlets) = &outlets {
            plan = plan.relays(outlets.relays());
            // A command's own variables go before the sandbox's.
            env.splice(0..0, outlets.env());
            mounts.push(outlets.mount());
        }
        let (program, args) = self.command_line(&plan, &command.argv, mounts, env, network)?;
        Ok((SandboxProcess::start(program, args, stdin)?, outlets))
    }
}

#[derive(Default)]
struct Reported {
    started: bool,
    ended: Option<CommandExit>,
    failed: Option<String>,
}

impl Reported {
    async fn collect(&mut self, reports: &mut Reports) {
        while let Some(status) = reports.next().await {
            match status {
                Status::Started => self.started = true,
                Status::Ended(exit) => self.ended = Some(exit),
                Status::Failed(why) => self.failed = Some(why),
                Status::Ready => {}
            }
        }
    }
}

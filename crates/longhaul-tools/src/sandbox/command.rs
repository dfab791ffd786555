//! Runs one command in a sandbox of its own, from start to end.

use std::{process::Stdio, time::Instant};

use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use super::{
    AppLink, CommandExit, CommandOutput, Inside, Outermost, Sandbox, SandboxCommand, SandboxError, SandboxKind,
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
        let mode = self.command_mode(app);
        // Held to the end: what leads outside ends with the command.
        let plan = Plan::new(mode, &self.inner.settings.limits);
        let (mut process, _surroundings) = self.start_command(plan, &command, app, Stdio::null())?;

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

    /// Starts the outermost process of a command, with what has to live as long as it.
    pub(super) fn start_command(
        &self,
        mut plan: Plan,
        command: &SandboxCommand,
        app: Option<&AppLink>,
        stdin: Stdio,
    ) -> Result<(SandboxProcess, Surroundings), SandboxError> {
        let settings = &self.inner.settings;
        let network = command.network.as_ref().unwrap_or(&settings.network);
        let has_namespaces = self.kind() != SandboxKind::Landlock;
        let outlets = Outlets::open(&settings.runtime_dir, network, &command.gateways)?;
        if !has_namespaces && outlets.is_some() {
            // Its ports would be the host's: every user of the machine could use them.
            return Err(SandboxError::NeedsNamespaces { what: "a list of hosts or a gateway" });
        }
        let mut env = command.env.clone();
        let mut mounts: Vec<Mount> = Vec::new();
        if let Some(app) = app {
            env.push(("PORT".to_owned(), app.port().to_string()));
            mounts.extend(has_namespaces.then(|| app.mount()));
        }
        if let Some(outlets) = &outlets {
            plan = plan.relays(outlets.relays());
            // A command's own variables go before the sandbox's.
            env.splice(0..0, outlets.env());
            mounts.push(outlets.mount());
        }
        let inside = Inside { argv: &command.argv, extra: mounts, env, network, app_port: app.map(AppLink::port) };
        let Outermost { program, args, scratch } = self.command_line(plan, inside)?;
        let process = SandboxProcess::start(program, args, stdin)?;
        Ok((process, Surroundings { _outlets: outlets, _scratch: scratch }))
    }

    /// The mode of a command that may reach this application.
    pub(super) fn command_mode(&self, app: Option<&AppLink>) -> Mode {
        // Without namespaces the application listens where the command can see it.
        let forward = app.filter(|_| self.kind() != SandboxKind::Landlock).map(AppLink::port);
        Mode::Command { forward }
    }
}

/// What has to live as long as a command.
#[derive(Debug)]
pub(super) struct Surroundings {
    _outlets: Option<Outlets>,
    _scratch: Option<TempDir>,
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
                // The first word counts: what is killed above a limit ends by a signal afterwards.
                Status::Ended(exit) => {
                    self.ended.get_or_insert(exit);
                }
                Status::Failed(why) => self.failed = Some(why),
                Status::Ready => {}
            }
        }
    }
}

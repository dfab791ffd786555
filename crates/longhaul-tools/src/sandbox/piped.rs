//! A command in the sandbox that is talked to while it runs: an agent, a server of tools.
//!
//! It ends by itself, at its wall time, with [`Piped::stop`], or when the [`Piped`] is dropped; everything it started
//! ends with it, and so does what led outside.

use std::{
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    process::ChildStdin,
    sync::watch,
    task::JoinHandle,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    AppLink, CommandExit, Sandbox, SandboxCommand, SandboxError,
    network::Outlets,
    output::Tail,
    plan::{Mode, Status},
    process::SandboxProcess,
};

/// What is on its way from the command at a time, in bytes; then it waits.
const ON_THE_WAY_BYTES_MAX: usize = 64 * 1024;

/// A running command. Dropping it ends it.
#[derive(Debug)]
pub struct Piped {
    input: Option<ChildStdin>,
    output: Option<DuplexStream>,
    said: Arc<Mutex<Tail>>,
    state: watch::Receiver<State>,
    supervisor: JoinHandle<()>,
    stop: DropGuard,
}

/// How a piped command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PipedEnd {
    /// It ran and ended like this.
    Exit(CommandExit),
    /// It was stopped by us.
    Stopped,
    /// The sandbox failed before it began; this is what its programs said.
    NotStarted(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Starting,
    Running,
    Ended(PipedEnd),
}

impl Sandbox {
    /// Starts a command that is talked to. [`SandboxCommand::timeout`] bounds its whole life;
    /// [`SandboxCommand::output_bytes_max`] how much of its standard error is kept.
    ///
    /// # Errors
    /// The sandbox or what leads outside could not be started. A program that does not exist ends with exit 127.
    pub async fn open(&self, command: SandboxCommand, app: Option<&AppLink>) -> Result<Piped, SandboxError> {
        let mode = Mode::Piped { forward: app.map(AppLink::port) };
        let (mut process, outlets) = self.start_command(mode, &command, app, Stdio::piped())?;
        let input = process.input();
        let (output, near) = tokio::io::duplex(ON_THE_WAY_BYTES_MAX);
        let stop = CancellationToken::new();
        let (report, mut state) = watch::channel(State::Starting);
        let said = Arc::new(Mutex::new(Tail::new(command.output_bytes_max)));
        let watcher = Watcher { said: said.clone(), report, stop: stop.clone(), _outlets: outlets };
        let supervisor = tokio::spawn(watcher.watch(process, near, command.timeout));
        // The supervisor reports an end in any case.
        let first = state.wait_for(|state| *state != State::Starting).await.map(|state| state.clone());
        if let Ok(State::Ended(PipedEnd::NotStarted(detail))) = first {
            return Err(SandboxError::Setup { detail });
        }
        Ok(Piped { input, output: Some(output), said, state, supervisor, stop: stop.drop_guard() })
    }
}

impl Piped {
    /// Its standard input and output, once. Closing the input tells it that nothing more comes.
    pub fn take(&mut self) -> Option<(ChildStdin, DuplexStream)> {
        Some((self.input.take()?, self.output.take()?))
    }

    /// At most the last lines of its standard error.
    #[must_use]
    pub fn said(&self, lines_max: usize) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).lines(lines_max)
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<PipedEnd> {
        match &*self.state.borrow() {
            State::Ended(end) => Some(end.clone()),
            State::Starting | State::Running => None,
        }
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> PipedEnd {
        let state = self.state.wait_for(|state| matches!(state, State::Ended(_))).await;
        match state.map(|state| state.clone()) {
            Ok(State::Ended(end)) => end,
            // The runtime is being shut down, which ends the command as well.
            Ok(State::Starting | State::Running) | Err(_) => PipedEnd::Stopped,
        }
    }

    /// Ends it, with everything it started, and waits until all of it has gone.
    pub async fn stop(self) {
        drop(self.stop);
        // The supervisor only fails if the runtime is being shut down, which ends the command as well.
        let _ = self.supervisor.await;
    }
}

struct Watcher {
    said: Arc<Mutex<Tail>>,
    report: watch::Sender<State>,
    stop: CancellationToken,
    _outlets: Option<Outlets>,
}

impl Watcher {
    async fn watch(self, mut process: SandboxProcess, mut near: DuplexStream, timeout: Duration) {
        let (mut started, mut exit, mut failed) = (false, None, None);
        let streams = async {
            tokio::join!(
                async {
                    let mut buffer = vec![0; 16 * 1024];
                    while let Ok(count @ 1..) = process.output.read(&mut buffer).await {
                        // Nobody may be reading any more; the command may still have work to do.
                        let _ = near.write_all(&buffer[..count]).await;
                    }
                    let _ = near.shutdown().await;
                },
                async {
                    while let Some(status) = process.reports.next().await {
                        match status {
                            Status::Started => {
                                started = true;
                                self.report.send_replace(State::Running);
                            }
                            Status::Ended(how) => exit = Some(how),
                            Status::Failed(why) => failed = Some(why),
                            Status::Said(line) => {
                                let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
                                said.push(line.as_bytes());
                                said.push(b"\n");
                            }
                            Status::Ready => {}
                        }
                    }
                },
            );
        };
        let cut = tokio::select! {
            done = tokio::time::timeout(timeout, streams) => done.err().map(|_| PipedEnd::Exit(CommandExit::TimedOut)),
            () = self.stop.cancelled() => Some(PipedEnd::Stopped),
        };
        let messages = process.finish().await;
        let end = match (failed, exit, cut) {
            (Some(why), ..) => PipedEnd::NotStarted(why),
            (None, Some(exit), _) => PipedEnd::Exit(exit),
            (None, None, Some(cut)) => cut,
            (None, None, None) if !started => PipedEnd::NotStarted(messages.trim().to_owned()),
            // The helper itself was killed; only the kernel, short of memory, does that.
            (None, None, None) => PipedEnd::Exit(CommandExit::OutOfMemory),
        };
        self.report.send_replace(State::Ended(end));
    }
}

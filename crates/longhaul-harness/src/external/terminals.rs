//! Terminals that an agent asks for: each a command in a sandbox of its own. Ended with the session.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use longhaul_agent::acp::{TerminalCommand, TerminalState};
use longhaul_tools::sandbox::{CommandExit, CommandOutput, Sandbox, SandboxCommand};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
};

/// Terminals of one session.
const TERMINALS_MAX: usize = 64;

pub(super) struct Terminals {
    sandbox: Sandbox,
    wall_time: Duration,
    output_bytes_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Dropping it ends every command.
    running: JoinSet<()>,
    known: HashMap<String, Terminal>,
    made: usize,
}

struct Terminal {
    state: watch::Receiver<Option<TerminalState>>,
    abort: AbortHandle,
}

impl Terminals {
    pub(super) fn new(sandbox: Sandbox, wall_time: Duration, output_bytes_max: usize) -> Self {
        Self { sandbox, wall_time, output_bytes_max, inner: Mutex::default() }
    }

    pub(super) fn create(&self, wanted: TerminalCommand) -> Result<String, String> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.known.len() >= TERMINALS_MAX {
            return Err(format!("there are {TERMINALS_MAX} terminals already; release some"));
        }
        let bytes = wanted.output_bytes_max.and_then(|bytes| usize::try_from(bytes).ok());
        let mut command = command(&wanted, self.sandbox.project())?
            .timeout(self.wall_time)
            .output_bytes_max(bytes.unwrap_or(self.output_bytes_max).min(self.output_bytes_max));
        command.env.extend(wanted.env);
        let (report, state) = watch::channel(None);
        let sandbox = self.sandbox.clone();
        let abort = inner.running.spawn(async move {
            let state = match sandbox.run(command, None).await {
                Ok(output) => ended(output),
                Err(error) => {
                    TerminalState { output: error.to_string(), is_truncated: false, exit: Some((Some(126), None)) }
                }
            };
            // The agent may have gone.
            let _ = report.send(Some(state));
        });
        inner.made += 1;
        let id = format!("terminal-{}", inner.made);
        inner.known.insert(id.clone(), Terminal { state, abort });
        Ok(id)
    }

    pub(super) async fn state(&self, id: &str, until_exit: bool) -> Result<TerminalState, String> {
        let mut state = {
            let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.known.get(id).map(|terminal| terminal.state.clone()).ok_or_else(|| unknown(id))?
        };
        if until_exit {
            // An error says that the command was ended without a result.
            let _ = state.wait_for(Option::is_some).await;
        }
        let known = state.borrow().clone();
        Ok(match known {
            Some(state) => state,
            None if state.has_changed().is_err() => {
                TerminalState { exit: Some((None, Some("SIGKILL".to_owned()))), ..TerminalState::default() }
            }
            None => TerminalState::default(),
        })
    }

    pub(super) fn end(&self, id: &str, release: bool) -> Result<(), String> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let terminal = inner.known.get(id).ok_or_else(|| unknown(id))?;
        terminal.abort.abort();
        if release {
            inner.known.remove(id);
        }
        Ok(())
    }

    /// Ends every command.
    pub(super) fn end_all(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).running.abort_all();
    }
}

fn unknown(id: &str) -> String {
    format!("there is no terminal {}", id.chars().take(80).collect::<String>())
}

/// The command line, in its folder. Without arguments the command is a line for the shell, as editors take it.
fn command(wanted: &TerminalCommand, project: &Path) -> Result<SandboxCommand, String> {
    let folder = wanted.cwd.as_deref().unwrap_or(project);
    let folder = folder.to_str().ok_or("the folder's name is not UTF-8")?;
    let mut argv = vec!["/bin/sh", "-c", r#"cd -- "$1" && shift && exec "$@""#, "sh", folder];
    if wanted.args.is_empty() {
        argv.extend(["/bin/sh", "-c", &wanted.command]);
    } else {
        argv.push(&wanted.command);
        argv.extend(wanted.args.iter().map(String::as_str));
    }
    Ok(SandboxCommand::argv(argv))
}

fn ended(output: CommandOutput) -> TerminalState {
    let exit = match output.exit {
        CommandExit::Code(code) => (Some(code), None),
        CommandExit::Signal(signal) => (None, Some(format!("signal {signal}"))),
        CommandExit::TimedOut => (Some(124), None),
        CommandExit::OutOfMemory | CommandExit::DiskFull => (None, Some("SIGKILL".to_owned())),
    };
    TerminalState { output: output.output, is_truncated: output.output_bytes_cut > 0, exit: Some(exit) }
}

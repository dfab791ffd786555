//! One running sandbox, seen from outside: its streams, and how it is ended.
//!
//! The invariant: when [`SandboxProcess::finish`] returns, nothing runs inside any more. The helper inside ends itself
//! (and with it its process namespace) once nobody reads its standard output; the kernel lets its parent go only after
//! every process of the namespace has gone. Only if that fails is the chain of parents killed from outside.

use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, ChildStderr, ChildStdout, Command},
};

use super::{SandboxError, plan::Status, spawner};

/// How long the helper inside may take to end itself before it is killed from outside.
const FINISH_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest line of a status or a message of the sandbox's programs, in bytes.
const LINE_BYTES_MAX: u64 = 4096;

pub(super) struct SandboxProcess {
    child: Child,
    pub(super) output: ChildStdout,
    pub(super) reports: Reports,
}

impl SandboxProcess {
    /// Starts the outermost process; must be called within a tokio runtime.
    pub(super) async fn start(program: PathBuf, args: Vec<OsString>, stdin: Stdio) -> Result<Self, SandboxError> {
        let mut command = Command::new(&program);
        command.args(args).env_clear().current_dir("/").stdin(stdin).kill_on_drop(true);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawn_error = |source| SandboxError::Spawn { program: program.clone(), source };
        let mut child = spawner::spawn(command).await.map_err(spawn_error)?;
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(spawn_error(std::io::Error::other("its output is not connected")));
        };
        Ok(Self { child, output, reports: Reports { lines: BufReader::new(errors), messages: String::new() } })
    }

    /// Ends it, if it has not ended, and waits until everything inside has gone. Gives what its programs said.
    pub(super) async fn finish(self) -> String {
        let Self { mut child, output, reports } = self;
        drop(output);
        if tokio::time::timeout(FINISH_TIMEOUT, child.wait()).await.is_err() {
            // Nothing can be done about a failure here; `wait` reports the end either way.
            let _ = child.kill().await;
        }
        reports.messages
    }
}

/// The status lines of the helper, and whatever else came the same way.
pub(super) struct Reports {
    lines: BufReader<ChildStderr>,
    messages: String,
}

impl Reports {
    /// The next status, or `None` when the sandbox has ended. Not cancel safe: a cancelled call may lose a line.
    pub(super) async fn next(&mut self) -> Option<Status> {
        loop {
            let mut line = Vec::new();
            let read = (&mut self.lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
            if !matches!(read, Ok(1..)) {
                return None;
            }
            let line = String::from_utf8_lossy(&line);
            match Status::from_line(&line) {
                Some(status) => return Some(status),
                None if self.messages.len() < LINE_BYTES_MAX as usize => self.messages.push_str(&line),
                None => {}
            }
        }
    }
}

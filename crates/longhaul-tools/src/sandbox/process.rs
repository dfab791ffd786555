//! One running sandbox, seen from outside: its streams, and how it is ended.
//!
//! The invariant: when [`SandboxProcess::finish`] returns, nothing runs inside any more, and when a [`SandboxProcess`]
//! is dropped, or this whole process is killed, everything inside ends by itself. The one mechanism for all three is the
//! pipe of standard output: when its reading end closes, the helper inside, which is process 1 there and can be neither
//! stopped nor killed from inside, ends; the kernel then ends its whole namespace, and lets the parents of the helper go
//! only after that.
//!
//! Bubblewrap's own `--die-with-parent` is not used: a parent killed in the first moments, before it has released its
//! child, leaves that child waiting for ever (bubblewrap 0.8; seen here as an ordinary user).

use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

use super::{SandboxError, plan::Status};

/// How long the helper inside may take to end itself before its parent is killed, and the helper with it.
const FINISH_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest line of a status or a message of the sandbox's programs, in bytes.
const LINE_BYTES_MAX: u64 = 4096;

pub(super) struct SandboxProcess {
    pub(super) child: Child,
    pub(super) output: ChildStdout,
    pub(super) reports: Reports,
}

impl SandboxProcess {
    /// Starts the outermost process; must be called within a tokio runtime.
    pub(super) fn start(program: PathBuf, args: Vec<OsString>, stdin: Stdio) -> Result<Self, SandboxError> {
        let mut command = Command::new(&program);
        command.args(args).env_clear().current_dir("/").stdin(stdin);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawn_error = |source| SandboxError::Spawn { program: program.clone(), source };
        let mut child = command.spawn().map_err(spawn_error)?;
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(spawn_error(std::io::Error::other("its output is not connected")));
        };
        Ok(Self { child, output, reports: Reports { lines: BufReader::new(errors), messages: String::new() } })
    }

    /// Its standard input, if it was started with a pipe there.
    pub(super) fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
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
    /// What came beside the statuses.
    pub(super) fn into_messages(self) -> String {
        self.messages
    }

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

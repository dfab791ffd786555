//! One run of a person's command: as the user, outside the sandbox, with a notice on its standard input, within bounds.

use std::{
    io,
    process::Stdio,
    sync::{Arc, Mutex},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
};

use super::Hook;
use crate::sitting::lock;

/// What is kept of what it says of a failure; the rest is read and dropped.
const SAID_BYTES_MAX: usize = 2_048;

/// Runs it; tells why it did not take the notice.
pub(super) async fn run(hook: &Hook, notice: &str) -> Result<(), String> {
    let Some((program, args)) = hook.command.split_first() else { return Err("the command is empty".to_owned()) };
    let mut command = Command::new(program);
    command.args(args).current_dir(&hook.dir).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    for variable in &hook.hidden {
        command.env_remove(variable);
    }
    let child = command.spawn().map_err(|error| format!("{program} cannot be run: {error}"))?;
    let mut tree = Tree(child);
    let said = Arc::new(Mutex::new(Vec::new()));
    let listening = tree.0.stderr.take().map(|stream| tokio::spawn(listen(stream, said.clone())));
    let status = tokio::time::timeout(hook.limits.time, tree.finish(notice)).await;
    if let Some(listening) = listening {
        // What it started may hold the stream open for ever.
        listening.abort();
    }
    match status {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("{status}: {}", String::from_utf8_lossy(&lock(&said)).trim())),
        Ok(Err(error)) => Err(format!("it was lost: {error}")),
        Err(_) => Err(format!("it did not end within {} s", hook.limits.time.as_secs_f32())),
    }
}

/// The command with what it started; ended together when nobody waits any more.
struct Tree(Child);

impl Tree {
    async fn finish(&mut self, notice: &str) -> io::Result<std::process::ExitStatus> {
        if let Some(mut input) = self.0.stdin.take() {
            // A command need not read what it is told.
            if let Err(error) = input.write_all(notice.as_bytes()).await {
                tracing::debug!(%error, "the command does not read its input");
            }
        }
        self.0.wait().await
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Without an id it has ended and its number may be somebody else's.
        let group = self.0.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::debug!(%error, "a command that did not end could not be ended");
        }
    }
}

async fn listen(mut stream: impl AsyncRead + Unpin, said: Arc<Mutex<Vec<u8>>>) {
    let mut part = [0; 1_024];
    while let Ok(read @ 1..) = stream.read(&mut part).await {
        let mut said = lock(&said);
        let room = SAID_BYTES_MAX.saturating_sub(said.len());
        said.extend(part.iter().take(read.min(room)));
    }
}

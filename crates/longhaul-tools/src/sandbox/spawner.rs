//! Starts the outermost sandbox process from one thread that lives as long as this process.
//!
//! `--die-with-parent` asks the kernel for a signal when the *thread* that started the process ends. Worker threads of
//! an async runtime come and go, and would take running applications with them.

use std::{
    io,
    sync::{OnceLock, mpsc},
    thread,
};

use tokio::{
    process::{Child, Command},
    runtime::Handle,
    sync::oneshot,
};

struct Job {
    command: Command,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

static JOBS: OnceLock<mpsc::Sender<Job>> = OnceLock::new();

/// Spawns a command; must be called within a tokio runtime.
pub(super) async fn spawn(command: Command) -> io::Result<Child> {
    let (reply, answer) = oneshot::channel();
    let stopped = || io::Error::other("the thread that starts sandboxes has stopped");
    jobs().send(Job { command, runtime: Handle::current(), reply }).map_err(|_| stopped())?;
    answer.await.map_err(|_| stopped())?
}

fn jobs() -> &'static mpsc::Sender<Job> {
    JOBS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Job>();
        // If the thread cannot be made, the receiver is dropped and every `spawn` reports it.
        let _ = thread::Builder::new().name("sandbox-spawner".to_owned()).spawn(move || {
            for mut job in receiver {
                let _runtime = job.runtime.enter();
                // When the caller has gone away, dropping the child kills it.
                let _ = job.reply.send(job.command.spawn());
            }
        });
        sender
    })
}

//! The application that is being built, running in a sandbox of its own, with its port reachable from outside.
//!
//! The way in: a listener on the host's loopback, a Unix socket made by the harness, the helper inside (which got the
//! listening socket as standard input), the application's port. The folder of the socket is never writable inside.

use std::{
    fs, io,
    net::Ipv4Addr,
    os::fd::OwnedFd,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream, UnixStream},
    sync::{Semaphore, watch},
    task::JoinHandle,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    AppError, AppSpec, CommandExit, Inside, Network, Outermost, Sandbox, SandboxError, SandboxKind,
    bwrap::{APP_FOLDER, DATA_FOLDER, Mount},
    file_owner, io_error,
    network::SocketFolder,
    output::Tail,
    plan::{Mode, Plan, Status},
    process::SandboxProcess,
};

/// Name of the socket in its folder, outside and inside.
pub(super) const SOCKET_NAME: &str = "app.sock";
/// Connections to one application at a time; more wait.
const CONNECTIONS_MAX: usize = 256;
/// Between two tries to accept a connection when the system refuses.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// How a command's sandbox reaches a running application. Cheap to clone; useless, but harmless, once it has ended.
#[derive(Debug, Clone)]
pub struct AppLink {
    port: u16,
    socket: Arc<SocketFolder>,
}

impl AppLink {
    /// The port on which the application listens inside.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn mount(&self) -> Mount {
        Mount::readonly(self.socket.path(), APP_FOLDER)
    }
}

/// A running application. Dropping it ends it.
#[derive(Debug)]
pub struct App {
    link: AppLink,
    port_outside: u16,
    log: Arc<Mutex<Tail>>,
    state: watch::Receiver<State>,
    supervisor: JoinHandle<()>,
    stop: DropGuard,
    /// Where it writes aside, if that is a folder of the host's.
    _scratch: Option<TempDir>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Booting,
    Running,
    Ended { exit: Option<CommandExit>, started: bool, detail: String },
}

impl Sandbox {
    /// Starts an application and waits until its port accepts connections.
    ///
    /// # Errors
    /// [`AppError`], with the end of the application's output: no script, an early end, or nothing that listens. In
    /// each case nothing is left running.
    pub async fn start_app(&self, spec: AppSpec) -> Result<App, AppError> {
        if !self.project().join(&spec.script).is_file() {
            return Err(AppError::ScriptMissing { script: spec.script });
        }
        let started = Instant::now();
        let mut app = self.spawn_app(&spec).await?;
        let booted = async { app.state.wait_for(|state| *state != State::Booting).await.map(|state| state.clone()) };
        let state = match tokio::time::timeout(spec.boot_timeout, booted).await {
            Ok(Ok(state)) => state,
            Ok(Err(_)) | Err(_) => State::Booting,
        };
        let (script, port) = (spec.script, app.link.port);
        match state {
            State::Running => Ok(app),
            State::Booting => {
                let log = app.log_tail(60);
                app.stop().await;
                let waited_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                Err(AppError::NotListening { script, port, waited_ms, log })
            }
            State::Ended { started: false, detail, .. } => Err(SandboxError::Setup { detail }.into()),
            State::Ended { exit, .. } => {
                let log = app.log_tail(60);
                Err(AppError::Exited { script, port, exit: exit.unwrap_or(CommandExit::OutOfMemory), log })
            }
        }
    }

    async fn spawn_app(&self, spec: &AppSpec) -> Result<App, SandboxError> {
        let runtime_dir = &self.inner.settings.runtime_dir;
        let folder = SocketFolder::new(runtime_dir, "app-")?;
        let listener = folder.bind(SOCKET_NAME)?;
        let port = if self.kind() == SandboxKind::Landlock { free_port(runtime_dir)? } else { spec.port };
        let link = AppLink { port, socket: Arc::new(folder) };
        let mut env = spec.env.clone();
        env.push(("PORT".to_owned(), port.to_string()));
        let mut mounts = Vec::new();
        if let Some(data) = &spec.data_dir {
            let mount = data_mount(data)?;
            let seen = if self.kind() == SandboxKind::Landlock { &mount.host } else { &mount.inside };
            env.push(("DATA_DIR".to_owned(), seen.display().to_string()));
            mounts.push(mount);
        }
        let plan = Plan::new(Mode::App { port }, &self.inner.settings.limits);
        // A script without the executable bit or without a first line that names a shell is still a script.
        let boot = r#"if [ -x "$0" ]; then exec "$0"; else exec /bin/sh "$0"; fi"#;
        let argv = ["/bin/sh", "-c", boot, &format!("./{}", spec.script)].map(str::to_owned);
        let inside = Inside { argv: &argv, extra: mounts, env, network: &Network::LoopbackOnly, app_port: Some(port) };
        let Outermost { program, args, scratch } = self.command_line(plan, inside)?;

        let outside = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let outside = outside.map_err(|source| io_error("listen on 127.0.0.1 for", runtime_dir, source))?;
        let port_outside =
            outside.local_addr().map_err(|source| io_error("find the port for", runtime_dir, source))?.port();
        let process = SandboxProcess::start(program, args, Stdio::from(OwnedFd::from(listener)))?;

        let stop = CancellationToken::new();
        let (report, state) = watch::channel(State::Booting);
        let log = Arc::new(Mutex::new(Tail::new(spec.log_bytes_max)));
        let supervisor = tokio::spawn(supervise(process, log.clone(), report, stop.clone()));
        tokio::spawn(forward(outside, link.socket.clone(), stop.clone()));
        Ok(App { link, port_outside, log, state, supervisor, stop: stop.drop_guard(), _scratch: scratch })
    }
}

impl App {
    /// Where it is reached from outside: `http://127.0.0.1:PORT`, the port chosen by the system.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port_outside)
    }

    /// How commands in the sandbox reach it.
    #[must_use]
    pub fn link(&self) -> AppLink {
        self.link.clone()
    }

    /// At most the last `lines_max` lines of its standard output and standard error.
    #[must_use]
    pub fn log_tail(&self, lines_max: usize) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).lines(lines_max)
    }

    /// Whether anything of it still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        *self.state.borrow() == State::Running
    }

    /// How it ended by itself, if it did.
    #[must_use]
    pub fn exit(&self) -> Option<CommandExit> {
        match &*self.state.borrow() {
            State::Ended { exit, .. } => *exit,
            State::Booting | State::Running => None,
        }
    }

    /// Ends it, with everything it started, and waits until all of it has gone.
    pub async fn stop(self) {
        drop(self.stop);
        // The supervisor only fails if the runtime is being shut down, which ends the application as well.
        let _ = self.supervisor.await;
    }
}

async fn supervise(
    mut process: SandboxProcess,
    log: Arc<Mutex<Tail>>,
    report: watch::Sender<State>,
    stop: CancellationToken,
) {
    let (mut started, mut exit, mut failed) = (false, None, None);
    let streams = async {
        tokio::join!(
            async {
                let mut buffer = vec![0; 16 * 1024];
                while let Ok(count @ 1..) = process.output.read(&mut buffer).await {
                    log.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..count]);
                }
            },
            async {
                while let Some(status) = process.reports.next().await {
                    match status {
                        Status::Started => started = true,
                        Status::Ready => drop(report.send_replace(State::Running)),
                        Status::Ended(how) => {
                            exit.get_or_insert(how);
                        }
                        Status::Failed(why) => failed = Some(why),
                    }
                }
            },
        );
    };
    tokio::select! {
        () = streams => {}
        () = stop.cancelled() => {}
    }
    let messages = process.finish().await;
    let started = started && failed.is_none();
    let detail = failed.unwrap_or_else(|| messages.trim().to_owned());
    report.send_replace(State::Ended { exit, started, detail });
    stop.cancel();
}

/// Carries connections from the host's loopback to the application's socket.
async fn forward(listener: TcpListener, socket: Arc<SocketFolder>, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // A moment without file descriptors, which nothing announces the end of.
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let (socket, stop) = (socket.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                // Either side may break off; the other then sees its connection end.
                _ = carry(stream, &socket) => {}
            }
            drop(slot);
        });
    }
}

async fn carry(mut outside: TcpStream, socket: &SocketFolder) -> io::Result<()> {
    outside.set_nodelay(true)?;
    let mut inside = UnixStream::connect(socket.socket(SOCKET_NAME)).await?;
    tokio::io::copy_bidirectional(&mut outside, &mut inside).await?;
    Ok(())
}

/// A port of the host's loopback that nobody listens on at the moment.
fn free_port(runtime_dir: &std::path::Path) -> Result<u16, SandboxError> {
    let bound = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|source| io_error("find a free port for", runtime_dir, source))
}

/// The application's data folder, made if missing and given to the sandbox's user.
fn data_mount(data: &std::path::Path) -> Result<Mount, SandboxError> {
    fs::create_dir_all(data).map_err(|source| io_error("create", data, source))?;
    let data = data.canonicalize().map_err(|source| io_error("find", data, source))?;
    if let Some((uid, gid)) = file_owner() {
        std::os::unix::fs::chown(&data, Some(uid.as_raw()), Some(gid.as_raw()))
            .map_err(|source| io_error("change the owner of", &data, source))?;
    }
    Ok(Mount { host: data, inside: DATA_FOLDER.into(), writable: true, readonly: Vec::new() })
}

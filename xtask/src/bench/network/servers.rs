//! A network of either side, started on loopback from one `network.yaml`, and killed by its id at the end.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};

/// A server that is not there by then does not come.
const START_MAX: Duration = Duration::from_secs(60);

/// Whose program.
#[derive(Debug, Clone)]
pub(super) enum Side {
    /// Ours.
    Ours(PathBuf),
    /// The reference's, in its environment.
    Reference(PathBuf),
}

impl Side {
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Ours(_))
    }

    fn command(&self, folder: &Path) -> Command {
        match self {
            Self::Ours(program) => {
                let mut command = Command::new(program);
                command.args(["network", "start"]).arg(folder).env("LONGHAUL_HOME", folder.join("home"));
                command
            }
            Self::Reference(environment) => {
                let mut command = Command::new(environment.join("bin/openagents"));
                command.args(["network", "start"]).arg(folder).env("HOME", folder).current_dir(folder);
                command
            }
        }
    }
}

/// The reference's environment below the cache; installs it.
pub(super) fn reference(root: &Path) -> anyhow::Result<PathBuf> {
    let status = Command::new(root.join("scripts/peers.sh")).arg("openagents").status().context("scripts/peers.sh")?;
    ensure!(status.success(), "scripts/peers.sh openagents fails");
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    Ok(cache.context("no cache folder: set HOME")?.join("longhaul/peers/openagents-0.9.3.post20"))
}

/// A network that runs.
pub(super) struct Network {
    child: Child,
    side: Side,
    folder: tempfile::TempDir,
    pub(super) address: SocketAddr,
    /// From the start of the program to its first answer.
    pub(super) started_ms: f64,
}

impl Network {
    pub(super) fn start(side: &Side) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("network-").tempdir()?;
        let (http, grpc) = (free_port()?, free_port()?);
        fs::write(folder.path().join("network.yaml"), settings(http, grpc, side.is_ours()))?;
        let address = SocketAddr::from(([127, 0, 0, 1], http));
        let (child, started_ms) = spawn(side, folder.path(), address)?;
        Ok(Self { child, side: side.clone(), folder, address, started_ms })
    }

    /// SIGKILL, and the same folder served again.
    pub(super) fn kill_and_restart(mut self) -> anyhow::Result<Self> {
        self.kill()?;
        let (child, started_ms) = spawn(&self.side, self.folder.path(), self.address)?;
        self.child = child;
        self.started_ms = started_ms;
        Ok(self)
    }

    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("kill")?;
        self.child.wait().context("wait")?;
        Ok(())
    }

    /// Resident memory, MB.
    pub(super) fn resident_mb(&self) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kb: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
        Ok(kb / 1_024.0)
    }

    /// The database of ours.
    pub(super) fn database(&self) -> anyhow::Result<PathBuf> {
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.file_name().is_some_and(|name| name == "longhaul.db") {
                    return Ok(path);
                }
            }
        }
        bail!("the network has no longhaul.db in its folder")
    }

    pub(super) fn is_ours(&self) -> bool {
        self.side.is_ours()
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.kill(); // it may have ended
    }
}

fn spawn(side: &Side, folder: &Path, address: SocketAddr) -> anyhow::Result<(Child, f64)> {
    let log = fs::File::create(folder.join("server.log"))?;
    let begun = Instant::now();
    let mut command = side.command(folder);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut child = command.spawn().with_context(|| format!("{side:?}"))?;
    while begun.elapsed() < START_MAX {
        if healthy(address) {
            return Ok((child, begun.elapsed().as_secs_f64() * 1_000.0));
        }
        if let Some(status) = child.try_wait()? {
            bail!("the server ended with {status}: {}", fs::read_to_string(folder.join("server.log"))?);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    bail!("the server did not answer: {}", fs::read_to_string(folder.join("server.log"))?)
}

fn healthy(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let asked = format!("GET /api/health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    stream.write_all(asked.as_bytes()).is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.starts_with("HTTP/1.1 200")
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// The documented schema; what bounds a single client is raised for both.
fn settings(http: u16, grpc: u16, ours: bool) -> String {
    // Ours has WebSocket, MCP and A2A on its HTTP port in any case.
    let (limits, libp2p) = if ours {
        (
            "  rate_limit: {events_per_second: 1000000, burst: 1000000}\n",
            "\n  - type: libp2p\n    config: {host: 127.0.0.1, port: 0}",
        )
    } else {
        ("", "")
    };
    format!(
        "network:\n  name: Bench\n  mode: centralized\n  node_id: bench-net-1\n  initialized: true\n  transports:\n  \
         - type: http\n    config: {{host: 127.0.0.1, port: {http}}}\n  - type: grpc\n    config: {{host: 127.0.0.1, port: {grpc}}}{libp2p}\n  \
         manifest_transport: http\n  recommended_transport: http\n  default_agent_group: guest\n  requires_password: false\n  \
         max_connections: 5000\n  message_queue_size: 1000000\n{limits}  agent_groups:\n    guest: {{description: guests}}\n  mods:\n  \
         - name: openagents.mods.workspace.messaging\n    enabled: true\n    config:\n      default_channels:\n      - {{name: general, description: all}}\n"
    )
}

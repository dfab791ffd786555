//! A private Milvus server: milvus-lite or the full standalone one, as `scripts/peers.sh` installs them.
//!
//! It owns the server's folder, ports, starting, killing, pausing and wiping; not what is stored there. Invariant: however
//! the test process ends, SIGKILL included, its server ends and its folder goes. The full server listens on every
//! address of the machine (it cannot be told otherwise) for as long as the tests last.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::{fs::DirBuilderExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use crate::{TestbedError, cluster::random_hex};

const READY_LIMIT: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Ports that the full server wants to itself beside those of its configuration file: HTTP health, etcd twice.
const OTHER_PORTS: usize = 3;

/// Orders come line by line; the end of the input ends everything. The server is killed, never asked: asked it takes
/// its time, and what a test wants is a crash.
const KEEPER: &str = r#"
dir=$1; shift
server=
stop() { if [ -n "$server" ]; then kill -CONT "$server" 2>/dev/null; kill -KILL "$server" 2>/dev/null; wait "$server" 2>/dev/null; server=; fi; }
while read -r order; do
    case $order in
        start) cd "$dir"; "$@" </dev/null >>"$dir/server.log" 2>&1 & server=$!; echo "testbed: $server" ;;
        kill) stop; echo "testbed: stopped" ;;
        pause) kill -STOP "$server"; echo "testbed: paused" ;;
        resume) kill -CONT "$server"; echo "testbed: resumed" ;;
        look) if kill -0 "$server" 2>/dev/null; then echo "testbed: runs"; else echo "testbed: gone"; fi ;;
    esac
done
stop
cd / && rm -rf "$dir"
"#;

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MilvusKind {
    /// milvus-lite 3.2.2, in Python.
    Lite,
    /// Milvus 2.3.5, standalone.
    Full,
}

/// What the full server is started with; milvus-lite knows none of it.
#[derive(Debug, Clone, Default)]
pub struct MilvusOptions {
    /// Lets in only who has a token: `root:Milvus`.
    pub authorization: bool,
    /// Certificate and key (PEM files): speaks TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// A server of this process, on loopback ports of its own.
#[derive(Debug)]
pub struct MilvusServer {
    kind: MilvusKind,
    dir: PathBuf,
    port: u16,
    health_port: u16,
    tls: bool,
    keeper: Child,
    orders: Option<ChildStdin>,
    said: Receiver<String>,
}

impl MilvusServer {
    /// Starts a server in a new folder under the system's temporary folder and waits until it answers.
    ///
    /// # Errors
    /// [`TestbedError::NoMilvus`] when `scripts/peers.sh` was not run; others when the machine refuses.
    pub fn start(kind: MilvusKind) -> Result<Self, TestbedError> {
        Self::start_with(kind, &MilvusOptions::default())
    }

    /// As [`Self::start`], with options.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(kind: MilvusKind, options: &MilvusOptions) -> Result<Self, TestbedError> {
        let mut tries = 0;
        loop {
            match Self::try_start(kind, options) {
                // Somebody else may have taken a port between our look and the server's.
                Err(TestbedError::NotReady { .. }) if tries < 2 => tries += 1,
                started => return started,
            }
        }
    }

    fn try_start(kind: MilvusKind, options: &MilvusOptions) -> Result<Self, TestbedError> {
        let home = home(kind)?;
        let dir = std::env::temp_dir().join(format!("longhaul-milvus-{}", random_hex()?));
        fs::DirBuilder::new().mode(0o700).create(&dir).map_err(|source| io(&dir, source))?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", KEEPER, "testbed-keeper"]).arg(&dir);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C.UTF-8").env("HOME", &dir);
        let (port, health_port) = match kind {
            MilvusKind::Lite => {
                let ports = free_ports(1)?;
                let data = dir.join("data");
                command.arg(home.join("bin/milvus-lite")).arg("server").arg("--data-dir").arg(data);
                command.args(["--host", "127.0.0.1", "--port", &ports[0].to_string()]);
                (ports[0], ports[0])
            }
            MilvusKind::Full => {
                let (port, health_port) = configure(&home.join("server"), &dir, options)?;
                let server = home.join("server");
                command.arg(server.join("milvus")).args(["run", "standalone"]);
                command.env("LD_LIBRARY_PATH", &server).env("DEPLOY_MODE", "STANDALONE");
                command.env("METRICS_PORT", health_port.to_string()).env("MILVUS_RUN_DIR", dir.join("run"));
                (port, health_port)
            }
        };
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A group of its own: Ctrl-C ends the tests, and the closing pipe ends the server.
        command.process_group(0);
        let mut keeper = command.spawn().map_err(|source| TestbedError::Run { program: "sh".to_owned(), source })?;
        let (send, said) = mpsc::channel();
        if let Some(lines) = keeper.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(lines).lines().map_while(Result::ok) {
                    let _ = send.send(line);
                }
            });
        }
        let orders = keeper.stdin.take();
        let mut server = Self { kind, dir, port, health_port, tls: options.tls.is_some(), keeper, orders, said };
        server.start_again()?;
        Ok(server)
    }

    /// `http://127.0.0.1:PORT`; `https://localhost:PORT` when it speaks TLS.
    #[must_use]
    pub fn uri(&self) -> String {
        if self.tls { format!("https://localhost:{}", self.port) } else { format!("http://127.0.0.1:{}", self.port) }
    }

    /// Kills it, as a crash would. Returns when it is gone.
    ///
    /// # Errors
    /// [`TestbedError::NotReady`].
    pub fn kill(&mut self) -> Result<(), TestbedError> {
        self.order("kill", "testbed: stopped").map(drop)
    }

    /// Stops its processor time: connections stay, answers do not come.
    ///
    /// # Errors
    /// [`TestbedError::NotReady`].
    pub fn pause(&mut self) -> Result<(), TestbedError> {
        self.order("pause", "testbed: paused").map(drop)
    }

    /// Goes on after [`Self::pause`].
    ///
    /// # Errors
    /// [`TestbedError::NotReady`].
    pub fn resume(&mut self) -> Result<(), TestbedError> {
        self.order("resume", "testbed: resumed").map(drop)
    }

    /// Starts a killed server on the same ports and waits until it answers.
    ///
    /// # Errors
    /// [`TestbedError::NotReady`].
    pub fn start_again(&mut self) -> Result<(), TestbedError> {
        self.order("start", "testbed: ")?;
        let started = Instant::now();
        while started.elapsed() < READY_LIMIT {
            if self.answers() {
                return Ok(());
            }
            if self.order("look", "testbed: ")? == "testbed: gone" {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Err(TestbedError::NotReady { seconds: READY_LIMIT.as_secs(), log: self.log() })
    }

    /// Kills it and removes everything it has stored.
    ///
    /// # Errors
    /// [`TestbedError::Io`].
    pub fn wipe(&mut self) -> Result<(), TestbedError> {
        self.kill()?;
        let data = self.dir.join("data");
        fs::remove_dir_all(&data).and_then(|()| fs::create_dir(&data)).map_err(|source| io(&data, source))
    }

    fn answers(&self) -> bool {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.health_port));
        let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else { return false };
        match self.kind {
            MilvusKind::Lite => true,
            MilvusKind::Full => {
                let mut answer = String::new();
                let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                let asked = stream.write_all(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n");
                asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.trim_end().ends_with("OK")
            }
        }
    }

    /// Gives an order and waits for the line that says that it is done.
    fn order(&mut self, order: &str, done: &str) -> Result<String, TestbedError> {
        if let Some(orders) = &mut self.orders {
            writeln!(orders, "{order}")
                .map_err(|source| TestbedError::Run { program: "the keeper".to_owned(), source })?;
        }
        while let Ok(line) = self.said.recv_timeout(READY_LIMIT) {
            if line.contains(done) {
                return Ok(line);
            }
        }
        Err(TestbedError::NotReady { seconds: READY_LIMIT.as_secs(), log: self.log() })
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.dir.join("server.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for MilvusServer {
    fn drop(&mut self) {
        drop(self.orders.take());
        // The keeper ends once the server has; there is nothing to do about a keeper that was killed.
        let _ = self.keeper.wait();
    }
}

/// Where `scripts/peers.sh` puts a server.
fn home(kind: MilvusKind) -> Result<PathBuf, TestbedError> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache"))).unwrap_or_default();
    let name = match kind {
        MilvusKind::Lite => "milvus-lite-3.2.2",
        MilvusKind::Full => "milvus-2.3.5",
    };
    let home = cache.join("longhaul/peers").join(name);
    if home.join(".whole").is_file() { Ok(home) } else { Err(TestbedError::NoMilvus { home }) }
}

/// Fills the server's own template in: folders below `dir`, free ports, loopback where it can be told. Gives the ports
/// of gRPC and of health.
fn configure(server: &Path, dir: &Path, options: &MilvusOptions) -> Result<(u16, u16), TestbedError> {
    let template = server.join("config.yaml.template");
    let template = fs::read_to_string(&template).map_err(|source| io(&template, source))?;
    let wanted = template.matches("_port(int)").count();
    let mut ports = free_ports(wanted + OTHER_PORTS)?;
    let mut other = || ports.pop().unwrap_or_default();
    let (health, etcd, etcd_peer) = (other(), other(), other());
    let mut proxy = 0;
    let mut config = String::new();
    let mut section = String::new();
    for line in template.lines() {
        if !line.starts_with([' ', '#']) {
            section = line.trim_end_matches(':').to_owned();
        }
        let line = match line.split_once("{{").and_then(|(before, rest)| Some((before, rest.split_once("}}")?))) {
            Some((before, (variable, after))) => {
                let (name, default) = variable.split_once(':').unwrap_or((variable, ""));
                let name = name.split('(').next().unwrap_or_default().trim();
                let value = match name {
                    "etcd_port" => etcd.to_string(),
                    "etcd_log_path" => dir.join("etcd.log").display().to_string(),
                    "system_log_path" => dir.join("logs").display().to_string(),
                    "etcd_data_dir" => dir.join("data/etcd").display().to_string(),
                    "local_storage_dir" => dir.join("data").display().to_string(),
                    "rocksmq_data_dir" => dir.join("data/rocksmq").display().to_string(),
                    "authorization_enabled" => options.authorization.to_string(),
                    "tls_mode" => u8::from(options.tls.is_some()).to_string(),
                    "server_pem_path" | "server_key_path" => tls_file(name, options),
                    name if name.ends_with("_port") => {
                        let port = ports.pop().unwrap_or_default();
                        if name == "proxy_port" {
                            proxy = port;
                        }
                        port.to_string()
                    }
                    _ => default.trim().to_owned(),
                };
                format!("{before}{value}{after}")
            }
            None if line.starts_with("  ip:") => "  ip: 127.0.0.1".to_owned(),
            None => line.to_owned(),
        };
        config.push_str(&line);
        config.push('\n');
        if section == "etcd" && line.trim_start().starts_with("rootPath:") {
            config.push_str(&format!("  config:\n    path: {}\n", dir.join("configs/etcd.yaml").display()));
        }
    }
    let etcd = format!(
        "name: default\ndata-dir: {}\nlisten-client-urls: http://127.0.0.1:{etcd}\nadvertise-client-urls: \
         http://127.0.0.1:{etcd}\nlisten-peer-urls: http://127.0.0.1:{etcd_peer}\ninitial-advertise-peer-urls: \
         http://127.0.0.1:{etcd_peer}\ninitial-cluster: default=http://127.0.0.1:{etcd_peer}\n",
        dir.join("data/etcd").display()
    );
    let configs = dir.join("configs");
    let write = |name: &str, text: &str| fs::write(configs.join(name), text).map_err(|source| io(&configs, source));
    for folder in ["configs", "logs", "data"] {
        fs::create_dir(dir.join(folder)).map_err(|source| io(dir, source))?;
    }
    write("milvus.yaml", &config)?;
    write("etcd.yaml", &etcd)?;
    fs::copy(server.join("glog.conf"), configs.join("glog.conf")).map_err(|source| io(server, source))?;
    Ok((proxy, health))
}

fn tls_file(name: &str, options: &MilvusOptions) -> String {
    let Some((certificate, key)) = &options.tls else { return "none".to_owned() };
    if name == "server_pem_path" { certificate.display().to_string() } else { key.display().to_string() }
}

/// Ports that were free a moment ago, all different.
fn free_ports(count: usize) -> Result<Vec<u16>, TestbedError> {
    let bound: Result<Vec<TcpListener>, _> = (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect();
    let ports = bound.and_then(|bound| bound.iter().map(|free| Ok(free.local_addr()?.port())).collect());
    ports.map_err(|source| TestbedError::Run { program: "bind to 127.0.0.1".to_owned(), source })
}

fn io(path: &Path, source: std::io::Error) -> TestbedError {
    TestbedError::Io { path: path.to_owned(), source }
}

//! The server process, behind a small shell that outlives us by a moment.
//!
//! It owns the shell's orders and the server's log; not what is in the databases. Invariant: the shell stops the server
//! and removes its folder as soon as the pipe from us closes, and the pipe closes whatever way we end.

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpListener},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

/// Why a server could not be had.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// Debian's server programs are not installed.
    #[error("no PostgreSQL server programs are in {}/*/bin: run scripts/setup.sh, or apt-get install postgresql", .root.display())]
    NotInstalled {
        /// Where they were looked for.
        root: PathBuf,
    },
    /// The server refuses to run as root, and there is no ordinary account to run it as.
    #[error("PostgreSQL does not run as root, and /etc/passwd has neither an account postgres nor nobody")]
    NoAccount,
    /// A Milvus server is not installed.
    #[error("there is no Milvus server in {}: run scripts/peers.sh", .home.display())]
    NoMilvus {
        /// Where it was looked for.
        home: PathBuf,
    },
    /// A program could not be run.
    #[error("cannot run {program}")]
    Run {
        /// Its name.
        program: String,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// A program failed.
    #[error("{program} failed: {output}")]
    Failed {
        /// Its name.
        program: String,
        /// What it said last.
        output: String,
    },
    /// A file or folder could not be made.
    #[error("cannot make {}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// The server did not say that it is ready.
    #[error("the server was not ready within {seconds} s; it said: {log}")]
    NotReady {
        /// How long it was waited for.
        seconds: u64,
        /// The last lines of its log.
        log: String,
    },
}

const ROOT: &str = "/usr/lib/postgresql";
const READY_S_MAX: u64 = 60;

/// Orders come line by line; the end of the input ends everything. `QUIT` is PostgreSQL's immediate stop: nothing is
/// flushed, as in a crash, and the next start recovers from the log.
const KEEPER: &str = r#"
bin=$1 dir=$2
server=
stop() { if [ -n "$server" ]; then kill -"$1" "$server" 2>/dev/null; wait "$server" 2>/dev/null; server=; fi; }
while read -r order; do
    case $order in
        start) "$bin/postgres" -D "$dir/data" </dev/null & server=$! ;;
        immediate) stop QUIT; echo "testbed: stopped" >&2 ;;
        fast) stop INT; echo "testbed: stopped" >&2 ;;
    esac
done
stop QUIT
cd / && rm -rf "$dir"
"#;

/// A server that was started at least once.
#[derive(Debug)]
pub(crate) struct Server {
    keeper: Child,
    /// Orders; closing it ends the server.
    orders: Option<ChildStdin>,
    /// The server's log, line by line.
    log: Receiver<String>,
}

impl Server {
    /// Makes a cluster in `dir`, which is removed at the end, and starts it on a free port of 127.0.0.1.
    pub(crate) fn start(bin: &Path, dir: &Path, password: &str) -> Result<(Self, u16), TestbedError> {
        let account = account()?;
        let secret = dir.join("password");
        fs::write(&secret, password).map_err(|source| TestbedError::Io { path: secret.clone(), source })?;
        if let Some((uid, gid)) = account {
            for path in [dir, &secret] {
                std::os::unix::fs::chown(path, Some(uid), Some(gid))
                    .map_err(|source| TestbedError::Io { path: path.to_owned(), source })?;
            }
        }
        let data = dir.join("data");
        // Without syncing: what initdb writes need not survive a power cut. The server itself syncs every commit.
        let initdb = as_account(account, &bin.join("initdb"))
            .args(["--no-sync", "--no-locale", "--encoding=UTF8", "--username=longhaul", "--auth=scram-sha-256"])
            .arg(format!("--pwfile={}", secret.display()))
            .arg("--pgdata")
            .arg(&data)
            .current_dir("/")
            .output();
        succeeded("initdb", initdb)?;

        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|free| free.local_addr())
            .map_err(|source| TestbedError::Run { program: "bind to 127.0.0.1".to_owned(), source })?
            .port();
        let conf = data.join("postgresql.conf");
        // No socket in the file system: loopback with a password is the only way in.
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\nfsync = on\n\
             synchronous_commit = on\nmax_connections = 120\nshared_buffers = 32MB\nlog_min_messages = warning\n\
             cluster_name = 'longhaul-testbed'\n"
        );
        fs::OpenOptions::new()
            .append(true)
            .open(&conf)
            .and_then(|mut file| file.write_all(settings.as_bytes()))
            .map_err(|source| TestbedError::Io { path: conf, source })?;

        let mut keeper = as_account(account, Path::new("/bin/sh"));
        keeper.args(["-c", KEEPER, "testbed-keeper"]).arg(bin).arg(dir).current_dir("/");
        // A group of its own: Ctrl-C ends the tests, and the closing pipe ends the server.
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let mut keeper = keeper.spawn().map_err(|source| TestbedError::Run { program: "sh".to_owned(), source })?;
        let (send, log) = mpsc::channel();
        if let Some(lines) = keeper.stderr.take() {
            // Ends with the pipe. A server whose log nobody reads would stop at a full pipe.
            std::thread::spawn(move || {
                for line in BufReader::new(lines).lines().map_while(Result::ok) {
                    let _ = send.send(line);
                }
            });
        }
        let mut server = Self { orders: keeper.stdin.take(), keeper, log };
        server.order("start", "ready to accept connections")?;
        Ok((server, port))
    }

    /// Gives an order and waits for the line of the log that says that it is done.
    pub(crate) fn order(&mut self, order: &str, done: &str) -> Result<(), TestbedError> {
        if let Some(orders) = &mut self.orders {
            writeln!(orders, "{order}")
                .map_err(|source| TestbedError::Run { program: "the keeper".to_owned(), source })?;
        }
        let mut said = Vec::new();
        while let Ok(line) = self.log.recv_timeout(Duration::from_secs(READY_S_MAX)) {
            if line.contains(done) {
                return Ok(());
            }
            said.push(line);
        }
        Err(TestbedError::NotReady { seconds: READY_S_MAX, log: said.join("\n") })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.orders.take());
        // The keeper ends once the server has; there is nothing to do about a keeper that was killed.
        let _ = self.keeper.wait();
    }
}

/// The newest server programs that Debian's packages have installed.
pub(crate) fn programs() -> Result<PathBuf, TestbedError> {
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let entries = fs::read_dir(ROOT).into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .filter(|path| path.join("bin/initdb").is_file() && path.join("bin/postgres").is_file())
        .max_by_key(version)
        .map(|path| path.join("bin"))
        .ok_or_else(|| TestbedError::NotInstalled { root: ROOT.into() })
}

/// As root: the account to run the server as, because it refuses to run as root. Otherwise: ourselves.
fn account() -> Result<Option<(u32, u32)>, TestbedError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of = |name: &str| {
        let mut fields = accounts.lines().map(|line| line.split(':')).find(|line| line.clone().next() == Some(name))?;
        Some((fields.nth(2)?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    of("postgres").or_else(|| of("nobody")).map(Some).ok_or(TestbedError::NoAccount)
}

fn as_account(account: Option<(u32, u32)>, program: &Path) -> Command {
    let mut command = match account {
        None => Command::new(program),
        Some((uid, gid)) => {
            let mut command = Command::new("setpriv");
            command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".to_owned()]);
            command.arg("--").arg(program);
            command
        }
    };
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
    command
}

/// The program's output, if it went well.
pub(crate) fn succeeded(program: &str, ran: io::Result<std::process::Output>) -> Result<String, TestbedError> {
    let output = ran.map_err(|source| TestbedError::Run { program: program.to_owned(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(TestbedError::Failed { program: program.to_owned(), output: said })
}

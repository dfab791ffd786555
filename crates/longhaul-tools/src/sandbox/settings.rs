//! What a sandbox is told: settings, limits, commands and applications. Plain data, no behaviour beyond defaults.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use super::network::{Gateway, HostRule};

/// Everything a [`super::Sandbox`] needs to know.
#[derive(Debug, Clone)]
pub struct SandboxSettings {
    /// The project folder: visible inside at its own path, and the only host folder that commands can write.
    pub project: PathBuf,
    /// A folder of the harness outside the project, for sockets and the stub files of `/etc`. Created if missing.
    pub runtime_dir: PathBuf,
    /// The program that acts as the helper inside the sandbox.
    pub init: SandboxInit,
    /// Paths beneath the project which commands can read but not change. Each must exist before anything runs, or a
    /// command could create it. `.git` by default.
    pub readonly: Vec<PathBuf>,
    /// Host paths outside the project that commands may read, such as a toolchain under a home folder. `/usr` is
    /// always there.
    pub toolchains: Vec<PathBuf>,
    /// Folders put before `/usr/local/bin:/usr/bin:/bin` in `PATH`.
    pub path_first: Vec<PathBuf>,
    /// Bounds on what a command uses.
    pub limits: SandboxLimits,
    /// What commands reach. An application always has loopback only.
    pub network: Network,
    /// How the sandbox may be built.
    pub builder: SandboxBuilder,
    /// The bubblewrap program; found on `PATH` when `None`.
    pub bwrap: Option<PathBuf>,
}

impl SandboxSettings {
    /// The defaults for a project.
    #[must_use]
    pub fn new(project: impl Into<PathBuf>, runtime_dir: impl Into<PathBuf>, init: SandboxInit) -> Self {
        Self {
            project: project.into(),
            runtime_dir: runtime_dir.into(),
            init,
            readonly: vec![PathBuf::from(".git")],
            toolchains: Vec::new(),
            path_first: Vec::new(),
            limits: SandboxLimits::default(),
            network: Network::LoopbackOnly,
            builder: SandboxBuilder::Any,
            bwrap: None,
        }
    }
}

/// The program, with its leading arguments, that calls [`super::init_main`] with what follows them.
#[derive(Debug, Clone)]
pub struct SandboxInit {
    /// The executable; it is made visible inside, read-only, so it must run with the host's `/usr` alone.
    pub program: PathBuf,
    /// What makes it act as the helper, such as a hidden subcommand.
    pub args: Vec<String>,
}

/// Bounds on one sandbox: one command, or one application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxLimits {
    /// Private memory of any one process, and of all processes together, in bytes. Above it everything is killed.
    pub memory_bytes_max: u64,
    /// Processes and threads alive at once.
    pub processes_max: u64,
    /// Largest file a process may write, in bytes.
    pub file_bytes_max: u64,
    /// Open files of one process.
    pub open_files_max: u64,
    /// By how much a command may lessen what is free on the project's disk, in bytes. Looked at ten times a second; what
    /// others write meanwhile counts, too.
    pub disk_bytes_max: u64,
    /// Size of each of the private `/tmp`, `/dev/shm` and home folder, in bytes. They live in memory.
    pub scratch_bytes_max: u64,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            memory_bytes_max: 4096 * MIB,
            processes_max: 512,
            file_bytes_max: 1024 * MIB,
            open_files_max: 4096,
            disk_bytes_max: 16 * 1024 * MIB,
            scratch_bytes_max: 512 * MIB,
        }
    }
}

/// What commands in the sandbox can reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// A loopback of their own, on which only the running application's port answers.
    LoopbackOnly,
    /// The same, and through a proxy on it (`HTTP_PROXY`, `HTTPS_PROXY`) the hosts that these rules name.
    Allow(Vec<HostRule>),
    /// The host's network, **with every service on the host's loopback**. For downloads that a user asked for.
    Host,
}

/// How a sandbox may be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxBuilder {
    /// With bubblewrap; where that does not work, with Landlock.
    #[default]
    Any,
    /// With bubblewrap or not at all.
    Bubblewrap,
    /// With Landlock, which bounds less.
    Landlock,
}

/// How the sandbox is built here; `longhaul doctor` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    /// We are an ordinary user: bubblewrap as that user.
    User,
    /// We are root: mounts are staged as root, then everything runs as [`super::SANDBOX_UID`].
    RootStaged,
    /// We are root without the right to mount (in a container): [`super::SANDBOX_UID`] from the start, so the
    /// project must be in folders which every user may enter.
    RootDirect,
    /// No namespaces: Landlock and a filter of system calls. Commands see which processes the machine runs, cannot make
    /// new entries in the project's top folder, and reach neither lists of hosts nor gateways. As root everything runs
    /// as [`super::SANDBOX_UID`], so the project must be in folders which every user may enter.
    Landlock,
}

/// Longest argument list of a command, in bytes.
pub const COMMAND_BYTES_MAX: usize = 96 * 1024;

/// A command to run in the sandbox.
#[derive(Debug, Clone)]
pub struct SandboxCommand {
    /// Program and arguments; the program is found on the sandbox's `PATH`.
    pub argv: Vec<String>,
    /// Wall time, after which everything it started is killed.
    pub timeout: Duration,
    /// Most output kept, in bytes: its beginning and its end.
    pub output_bytes_max: usize,
    /// Environment beside the sandbox's own.
    pub env: Vec<(String, String)>,
    /// What this command reaches, instead of what [`SandboxSettings::network`] says.
    pub network: Option<Network>,
    /// Services outside that it reaches on ports of its loopback, without the secrets they want.
    pub gateways: Vec<Gateway>,
}

impl SandboxCommand {
    /// A program with arguments; two minutes, 32 KiB of output.
    #[must_use]
    pub fn argv(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            timeout: Duration::from_mins(2),
            output_bytes_max: 32 * 1024,
            env: Vec::new(),
            network: None,
            gateways: Vec::new(),
        }
    }

    /// A line for `/bin/sh`; two minutes, 32 KiB of output.
    #[must_use]
    pub fn shell(line: impl Into<String>) -> Self {
        Self::argv(["/bin/sh".to_owned(), "-c".to_owned(), line.into()])
    }

    /// Sets the wall time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the most output kept, in bytes.
    #[must_use]
    pub fn output_bytes_max(mut self, bytes: usize) -> Self {
        self.output_bytes_max = bytes;
        self
    }

    /// Adds a variable to the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets what it reaches, instead of what the sandbox's settings say.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = Some(network);
        self
    }

    /// Adds a service that it reaches on a port of its loopback.
    #[must_use]
    pub fn gateway(mut self, gateway: Gateway) -> Self {
        self.gateways.push(gateway);
        self
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandExit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Killed at its wall time.
    TimedOut,
    /// Killed above [`SandboxLimits::memory_bytes_max`].
    OutOfMemory,
    /// Killed above [`SandboxLimits::disk_bytes_max`], or because next to nothing was left.
    DiskFull,
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    /// How it ended.
    pub exit: CommandExit,
    /// Standard output and standard error in the order they were written; bytes that are not UTF-8 are replaced.
    pub output: String,
    /// Bytes left out of the middle of `output`, where a line says so.
    pub output_bytes_cut: u64,
    /// Wall time, with the start of the sandbox.
    pub elapsed_ms: u64,
}

impl CommandOutput {
    /// Whether it ended by itself with status 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.exit == CommandExit::Code(0)
    }
}

/// An application to start in a sandbox of its own.
#[derive(Debug, Clone)]
pub struct AppSpec {
    /// The script that boots it, relative to the project.
    pub script: String,
    /// The port it listens on inside, given to it as `PORT`.
    pub port: u16,
    /// A host folder outside the project for its data: bound read-write, given to it as `DATA_DIR`. Without one,
    /// `DATA_DIR` is unset and the application keeps its data in the project.
    pub data_dir: Option<PathBuf>,
    /// Environment beside that.
    pub env: Vec<(String, String)>,
    /// How long it may take until the port accepts a connection.
    pub boot_timeout: Duration,
    /// Most of its output kept, in bytes: the end.
    pub log_bytes_max: usize,
}

impl Default for AppSpec {
    /// `init.sh` on port 8000, 30 seconds to boot, 64 KiB of log.
    fn default() -> Self {
        Self {
            script: "init.sh".to_owned(),
            port: 8000,
            data_dir: None,
            env: Vec::new(),
            boot_timeout: Duration::from_secs(30),
            log_bytes_max: 64 * 1024,
        }
    }
}

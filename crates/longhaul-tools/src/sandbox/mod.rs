//! The sandbox in which commands of an agent and the application it builds run (Linux, bubblewrap).
//!
//! It owns the boundary: what is visible inside, as whom, for how long and how much. It does not decide what may be
//! run (inside, anything may). Its invariants:
//! - Nothing ever runs outside for want of a sandbox: what cannot be built is an error which says what to install.
//! - Inside there is no root, no capability, no host file but `/usr`, the project and what the settings name; only the
//!   project (without its read-only parts) keeps what is written.
//! - No network but the sandbox's own loopback; through it a command reaches the application's port, the hosts that the
//!   settings name and the gateways it was given, and nothing else.
//! - When the process that holds a [`Sandbox`] ends, however it ends, everything inside ends.

mod app;
mod bwrap;
mod command;
mod error;
mod freeze;
mod init;
mod landlock;
mod network;
mod output;
mod ownership;
mod plan;
mod probe;
mod process;
mod program;
mod settings;

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

pub use app::{App, AppLink};
pub use error::{AppError, SandboxError};
pub use init::init_main;
pub use network::{Gateway, GatewayError, HeaderSecret, HostRule, HostRuleError};
pub use ownership::SANDBOX_UID;
pub(crate) use ownership::file_owner;
pub use program::{Program, ProgramEnd};
pub use settings::{
    AppSpec, COMMAND_BYTES_MAX, CommandExit, CommandOutput, Network, SandboxBuilder, SandboxCommand, SandboxInit,
    SandboxKind, SandboxLimits, SandboxSettings,
};

use bwrap::{Builder, Layout, Mount};
use plan::Plan;

/// Folders of the host which the sandbox makes itself, so that no project or toolchain can be there.
const RESERVED: [&str; 8] = ["/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sys", "/usr"];
const PATH_LAST: &str = "/usr/local/bin:/usr/bin:/bin";

/// A sandbox around one project. Cheap to clone; each command and each application gets its own namespaces.
#[derive(Debug, Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: SandboxSettings,
    builder: Builder,
    init: PathBuf,
}

impl Sandbox {
    /// Checks the settings, and that a sandbox can be built on this system.
    ///
    /// # Errors
    /// [`SandboxError::ProgramMissing`] and [`SandboxError::Unusable`] when this system has none, [`SandboxError::Layout`]
    /// for paths that cannot take their part.
    pub fn new(mut settings: SandboxSettings) -> Result<Self, SandboxError> {
        let builder = probe::builder(settings.builder, settings.bwrap.as_deref())?;
        settings.project = folder(&settings.project, "the project folder")?;
        if settings.project.components().count() < 3 {
            let problem =
                "it is too near the root of the file system; use a folder of its own, such as /srv/app/project";
            return Err(SandboxError::Layout { path: settings.project, part: "the project folder", problem });
        }
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&settings.runtime_dir)
            .map_err(|source| io_error("create", &settings.runtime_dir, source))?;
        settings.runtime_dir = folder(&settings.runtime_dir, "the runtime folder")?;
        if matches!(builder.kind, SandboxKind::RootDirect | SandboxKind::Landlock) && file_owner().is_some() {
            // Nothing is staged: the sandbox's user passes through it, without seeing what else is there.
            fs::set_permissions(&settings.runtime_dir, fs::Permissions::from_mode(0o711))
                .map_err(|source| io_error("open", &settings.runtime_dir, source))?;
        }
        if settings.runtime_dir.starts_with(&settings.project) {
            let problem = "it is inside the project, where commands could change it; choose one outside";
            return Err(SandboxError::Layout { path: settings.runtime_dir, part: "the runtime folder", problem });
        }
        for path in &mut settings.toolchains {
            *path = folder(path, "a toolchain")?;
            if settings.project.starts_with(&path) {
                let problem = "it contains the project; name a narrower folder";
                return Err(SandboxError::Layout { path: path.clone(), part: "a toolchain", problem });
            }
        }
        for path in &settings.readonly {
            if path.components().any(|part| !matches!(part, Component::Normal(_))) || path.as_os_str().is_empty() {
                let problem = "it must be a plain path relative to the project";
                return Err(SandboxError::Layout { path: path.clone(), part: "a read-only path", problem });
            }
        }
        let init =
            settings.init.program.canonicalize().map_err(|source| io_error("find", &settings.init.program, source))?;
        write_etc(&settings.runtime_dir)?;
        Ok(Self { inner: Arc::new(Inner { settings, builder, init }) })
    }

    /// How sandboxes are built on this system, after really building one.
    ///
    /// # Errors
    /// What is missing and how to get it.
    pub fn probe(how: SandboxBuilder) -> Result<SandboxKind, SandboxError> {
        Ok(probe::builder(how, None)?.kind)
    }

    /// Hands the project's files to the user whom commands run as, except what is read-only in the sandbox. To be
    /// called before the first command, and whenever git or the harness wrote files. Does nothing unless we are root.
    ///
    /// # Errors
    /// [`SandboxError::Io`] when an owner cannot be changed.
    pub fn prepare_project(&self) -> Result<(), SandboxError> {
        ownership::hand_over(self.project(), &self.inner.settings.readonly)
    }

    /// The project folder, without symbolic links; it has the same path inside.
    #[must_use]
    pub fn project(&self) -> &Path {
        &self.inner.settings.project
    }

    /// How this sandbox is built.
    #[must_use]
    pub fn kind(&self) -> SandboxKind {
        self.inner.builder.kind
    }

    /// The outermost command line for a plan and what it runs, with what has to live as long as it.
    fn command_line(&self, mut plan: Plan, command: Inside<'_>) -> Result<Outermost, SandboxError> {
        let settings = &self.inner.settings;
        check_text(command.argv, &command.env)?;
        let scratch = if self.inner.builder.kind == SandboxKind::Landlock {
            let scratch = landlock::scratch(&settings.runtime_dir)?;
            plan.confine = Some(landlock::confine(landlock::Wanted {
                project: &settings.project,
                readonly: &self.readonly_parts()?,
                toolchains: &settings.toolchains,
                extra: &command.extra,
                path: search_path(&settings.path_first),
                env: command.env.clone(),
                network: command.network,
                scratch: scratch.path(),
                mode: &plan.mode,
                app_port: command.app_port,
            })?);
            Some(scratch)
        } else {
            None
        };
        let helper = match scratch {
            Some(_) => self.inner.init.clone(),
            None => PathBuf::from(bwrap::INIT_PATH),
        };
        let mut inside: Vec<OsString> = vec![helper.into()];
        inside.extend(settings.init.args.iter().map(OsString::from));
        inside.push(plan.to_argument().into());
        inside.extend(command.argv.iter().map(OsString::from));
        if scratch.is_some() {
            let (program, args) = self.inner.builder.unmounted(inside);
            return Ok(Outermost { program, args, scratch });
        }
        let mut mounts = vec![
            Mount::readonly(settings.runtime_dir.join("etc/passwd"), "/etc/passwd"),
            Mount::readonly(settings.runtime_dir.join("etc/group"), "/etc/group"),
            Mount::readonly(settings.runtime_dir.join("etc/hosts"), "/etc/hosts"),
            Mount::readonly(settings.runtime_dir.join("etc/nsswitch.conf"), "/etc/nsswitch.conf"),
        ];
        mounts.extend(settings.toolchains.iter().map(|path| Mount::readonly(path, path)));
        mounts.push(Mount {
            host: settings.project.clone(),
            inside: settings.project.clone(),
            writable: true,
            readonly: self.readonly_parts()?,
        });
        // Last, so that no project can hide them.
        mounts.push(Mount::readonly(&self.inner.init, bwrap::INIT_PATH));
        mounts.extend(command.extra);
        let (program, args) = self.inner.builder.command_line(&Layout {
            mounts,
            env: command.env,
            path: search_path(&settings.path_first),
            cwd: &settings.project,
            host_network: *command.network == Network::Host,
            scratch_bytes_max: settings.limits.scratch_bytes_max,
            argv: inside,
        });
        Ok(Outermost { program, args, scratch: None })
    }

    /// The read-only parts of the project, each there and no symbolic link.
    fn readonly_parts(&self) -> Result<Vec<PathBuf>, SandboxError> {
        for part in &self.inner.settings.readonly {
            let path = self.project().join(part);
            let kind = fs::symlink_metadata(&path).map_err(|_| SandboxError::ReadonlyMissing { path: path.clone() })?;
            if kind.is_symlink() {
                let problem = "it is a symbolic link, which cannot be made read-only; put the real file there";
                return Err(SandboxError::Layout { path, part: "a read-only path", problem });
            }
        }
        Ok(self.inner.settings.readonly.clone())
    }
}

/// What runs inside, and with what.
struct Inside<'a> {
    argv: &'a [String],
    /// Folders and sockets beside those of every sandbox.
    extra: Vec<Mount>,
    env: Vec<(String, String)>,
    network: &'a Network,
    /// The application's port, if it may be reached.
    app_port: Option<u16>,
}

/// The process to start.
struct Outermost {
    program: PathBuf,
    args: Vec<OsString>,
    /// Where it writes aside, if that is a folder of the host's.
    scratch: Option<tempfile::TempDir>,
}

fn search_path(first: &[PathBuf]) -> OsString {
    let mut path = OsString::new();
    for folder in first {
        path.push(folder);
        path.push(":");
    }
    path.push(PATH_LAST);
    path
}

fn check_text(argv: &[String], env: &[(String, String)]) -> Result<(), SandboxError> {
    let bytes: usize = argv.iter().map(|word| word.len() + 1).sum();
    if bytes > COMMAND_BYTES_MAX {
        return Err(SandboxError::CommandTooLong { bytes, limit: COMMAND_BYTES_MAX });
    }
    if argv.first().is_none_or(String::is_empty) {
        return Err(SandboxError::Text { what: "the command", text: String::new() });
    }
    if let Some(word) = argv.iter().find(|word| word.contains('\0')) {
        return Err(SandboxError::Text { what: "the argument", text: word.clone() });
    }
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(SandboxError::Text { what: "the name of the variable", text: name.clone() });
        }
        if value.contains('\0') {
            return Err(SandboxError::Text { what: "the value of the variable", text: name.clone() });
        }
    }
    Ok(())
}

fn folder(path: &Path, part: &'static str) -> Result<PathBuf, SandboxError> {
    let real = path.canonicalize().map_err(|source| io_error("find", path, source))?;
    let problem = if !real.is_dir() {
        "it is not a folder"
    } else if real.parent().is_none() {
        "it is the whole file system; name a folder of its own"
    } else if RESERVED.iter().any(|reserved| real.starts_with(reserved)) || real.starts_with("/run/longhaul") {
        "the sandbox has its own there; choose another place"
    } else {
        return Ok(real);
    };
    Err(SandboxError::Layout { path: real, part, problem })
}

/// The few files of `/etc` that programs expect. The same for every sandbox, so that writing them twice is harmless.
fn write_etc(runtime_dir: &Path) -> Result<(), SandboxError> {
    let uid = if file_owner().is_some() { SANDBOX_UID } else { rustix::process::geteuid().as_raw() };
    let gid = if file_owner().is_some() { SANDBOX_UID } else { rustix::process::getegid().as_raw() };
    let files = [
        (
            "passwd",
            format!("agent:x:{uid}:{gid}:agent:/home/agent:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
        ),
        ("group", format!("agent:x:{gid}:\nnogroup:x:65534:\n")),
        ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n".to_owned()),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned()),
    ];
    let folder = runtime_dir.join("etc");
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(&folder)
        .map_err(|source| io_error("create", &folder, source))?;
    for (name, content) in files {
        let path = folder.join(name);
        if fs::read(&path).is_ok_and(|known| known == content.as_bytes()) {
            continue;
        }
        write_readable(&folder, &path, content.as_bytes()).map_err(|source| io_error("write", &path, source))?;
    }
    Ok(())
}

/// Writes a file that everyone may read, whatever the umask, without ever showing half of it.
fn write_readable(folder: &Path, path: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn io_error(action: &'static str, path: &Path, source: std::io::Error) -> SandboxError {
    SandboxError::Io { action, path: path.to_owned(), source }
}

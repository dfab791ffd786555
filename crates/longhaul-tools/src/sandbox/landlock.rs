//! The fallback where bubblewrap cannot work: no namespaces, but Landlock and a filter of system calls. Pure but for looking
//! at which entries the project has.
//!
//! What it does less: commands see the names and command lines of the machine's processes; the top folder of the project
//! takes no new entries from them (a right given there would hold for `.git`, too); they listen on no port but the
//! application's, which other users of the machine can reach; there are no lists of hosts and no gateways; what they
//! write is bounded file by file only.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{
    SandboxError, bwrap,
    bwrap::Mount,
    file_owner, io_error,
    plan::{Confine, Mode},
    settings::Network,
};

/// Files beside `/usr` that programs look at; all are readable by everybody.
const READ: [&str; 22] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/net/core/somaxconn",
    "/proc/sys/kernel/ngroups_max",
    "/proc/sys/kernel/cap_last_cap",
    "/dev/urandom",
];
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/tty"];

/// A folder for what a command writes aside, gone with it.
pub(super) fn scratch(runtime_dir: &Path) -> Result<TempDir, SandboxError> {
    let fail = |source| io_error("make a folder in", runtime_dir, source);
    let folder = tempfile::Builder::new().prefix("scratch-").tempdir_in(runtime_dir).map_err(fail)?;
    let own = |path: &Path| -> io::Result<()> {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        match file_owner() {
            Some((uid, gid)) => std::os::unix::fs::chown(path, Some(uid.as_raw()), Some(gid.as_raw())),
            None => Ok(()),
        }
    };
    for name in ["tmp", "home"] {
        let path = folder.path().join(name);
        fs::create_dir(&path).and_then(|()| own(&path)).map_err(fail)?;
    }
    own(folder.path()).map_err(fail)?;
    Ok(folder)
}

/// What one command is confined to.
pub(super) struct Wanted<'a> {
    pub(super) project: &'a Path,
    pub(super) readonly: &'a [PathBuf],
    pub(super) toolchains: &'a [PathBuf],
    pub(super) extra: &'a [Mount],
    pub(super) path: OsString,
    pub(super) env: Vec<(String, String)>,
    pub(super) network: &'a Network,
    pub(super) scratch: &'a Path,
    pub(super) mode: &'a Mode,
    /// The port of the application that a command may connect to.
    pub(super) app_port: Option<u16>,
}

pub(super) fn confine(wanted: Wanted<'_>) -> Result<Confine, SandboxError> {
    let mut read: Vec<PathBuf> = READ.iter().chain(&bwrap::ETC_SHARED).map(PathBuf::from).collect();
    read.extend(wanted.toolchains.iter().cloned());
    read.push(wanted.project.to_owned());
    let mut write: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
    write.push(wanted.scratch.to_owned());
    let fail = |source| io_error("look at", wanted.project, source);
    writable(wanted.project, Path::new(""), wanted.readonly, &mut write).map_err(fail)?;
    for mount in wanted.extra {
        if mount.writable { &mut write } else { &mut read }.push(mount.host.clone());
    }
    let (connect, bind) = match wanted.mode {
        Mode::App { port } => (vec![*port], vec![*port]),
        Mode::Command { .. } => (wanted.app_port.into_iter().collect(), Vec::new()),
    };
    let text = |path: PathBuf| path.display().to_string();
    let mut env = bwrap::environment(&wanted.path, &text(wanted.scratch.join("home")));
    env.retain(|(name, _)| name != "TMPDIR");
    env.push(("TMPDIR".to_owned(), text(wanted.scratch.join("tmp"))));
    env.extend(wanted.env);
    Ok(Confine {
        env,
        cwd: wanted.project.to_owned(),
        read,
        write,
        connect,
        bind,
        open_network: *wanted.network == Network::Host,
    })
}

/// The parts of a folder that may be written as a whole: all of it, or, around what is read-only, its other entries.
fn writable(project: &Path, at: &Path, readonly: &[PathBuf], found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(project.join(at))? {
        let entry = entry?;
        let path = at.join(entry.file_name());
        // A link's target is judged where it is.
        if readonly.contains(&path) || entry.file_type()?.is_symlink() {
            continue;
        }
        if readonly.iter().any(|part| part.starts_with(&path)) {
            writable(project, &path, readonly, found)?;
        } else {
            found.push(project.join(&path));
        }
    }
    Ok(())
}

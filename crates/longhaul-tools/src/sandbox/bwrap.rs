//! The command line that builds a sandbox. Pure: a layout in, arguments out; nothing is looked at or run here.
//!
//! As root there are two layers. The outer bubblewrap, as root, only makes a private view of the host in which every
//! folder the sandbox needs is bound under `/tmp` (the sandbox's user could not enter `/root`); `setpriv` then drops
//! to [`SANDBOX_UID`] with no capabilities and no way back; the inner bubblewrap is the sandbox proper. As an ordinary
//! user there is the inner one alone.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use super::{ownership::SANDBOX_UID, settings::SandboxKind};

/// Where the helper's program is, inside.
pub(super) const INIT_PATH: &str = "/run/longhaul/init";
/// Where the folder of the application's socket is, inside a command's sandbox.
pub(super) const APP_FOLDER: &str = "/run/longhaul/app";
/// Where the sockets that lead outside are, inside a command's sandbox.
pub(super) const NET_FOLDER: &str = "/run/longhaul/net";
/// Where the application's data folder is, inside its sandbox.
pub(super) const DATA_FOLDER: &str = "/run/longhaul/data";
/// Home of the commands, in memory.
const HOME: &str = "/home/agent";
/// Where the outer layer binds what the inner layer needs.
const STAGE: &str = "/tmp";

/// Parts of the host's `/etc` that programs need and that hold no secret.
pub(super) const ETC_SHARED: [&str; 7] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];
/// Links of a merged `/usr`, or the folders themselves on older systems.
const USR_LINKS: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// A host path made visible inside.
#[derive(Debug, Clone)]
pub(super) struct Mount {
    pub(super) host: PathBuf,
    pub(super) inside: PathBuf,
    pub(super) writable: bool,
    /// Paths beneath it, relative, that are read-only although it is writable.
    pub(super) readonly: Vec<PathBuf>,
}

impl Mount {
    pub(super) fn readonly(host: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> Self {
        Self { host: host.into(), inside: inside.into(), writable: false, readonly: Vec::new() }
    }
}

/// Programs and host facts which a sandbox is built from.
#[derive(Debug, Clone)]
pub(super) struct Builder {
    pub(super) kind: SandboxKind,
    pub(super) bwrap: PathBuf,
    pub(super) setpriv: PathBuf,
    /// Where each of [`USR_LINKS`] leads on the host, if it is a link; `None` if it does not exist.
    pub(super) usr_links: Vec<(&'static str, PathBuf)>,
}

/// One sandbox to build.
#[derive(Debug, Clone)]
pub(super) struct Layout<'a> {
    pub(super) mounts: Vec<Mount>,
    pub(super) env: Vec<(String, String)>,
    pub(super) path: OsString,
    pub(super) cwd: &'a Path,
    /// Whether the host's network is inside, instead of a loopback alone.
    pub(super) host_network: bool,
    pub(super) scratch_bytes_max: u64,
    /// What runs inside.
    pub(super) argv: Vec<OsString>,
}

impl Builder {
    /// The names looked up for [`Builder::usr_links`].
    pub(super) fn usr_link_names() -> impl Iterator<Item = &'static str> {
        USR_LINKS.into_iter()
    }

    /// Program and arguments of the outermost process.
    pub(super) fn command_line(&self, layout: &Layout<'_>) -> (PathBuf, Vec<OsString>) {
        match self.kind {
            SandboxKind::User => {
                let sources: Vec<PathBuf> = layout.mounts.iter().map(|mount| mount.host.clone()).collect();
                (self.bwrap.clone(), self.inner(layout, &sources))
            }
            SandboxKind::RootDirect => {
                let sources: Vec<PathBuf> = layout.mounts.iter().map(|mount| mount.host.clone()).collect();
                let mut args = drop_privileges();
                args.push(self.bwrap.clone().into());
                args.extend(self.inner(layout, &sources));
                (self.setpriv.clone(), args)
            }
            SandboxKind::RootStaged => (self.bwrap.clone(), self.staged(layout)),
            SandboxKind::Landlock => unreachable!("nothing is mounted without namespaces"),
        }
    }

    /// Program and arguments of a helper without namespaces around it.
    pub(super) fn unmounted(&self, mut inside: Vec<OsString>) -> (PathBuf, Vec<OsString>) {
        if self.setpriv.as_os_str().is_empty() {
            let args = inside.split_off(1);
            return (inside.swap_remove(0).into(), args);
        }
        let mut args = drop_privileges();
        args.extend(inside);
        (self.setpriv.clone(), args)
    }

    fn staged(&self, layout: &Layout<'_>) -> Vec<OsString> {
        let mut args = words(["--dev-bind", "/", "/", "--tmpfs", STAGE]);
        let mut sources = Vec::new();
        for (index, mount) in layout.mounts.iter().enumerate() {
            let source = Path::new(STAGE).join(index.to_string());
            args.push(if mount.writable { "--bind" } else { "--ro-bind" }.into());
            args.push(mount.host.clone().into());
            args.push(source.clone().into());
            sources.push(source);
        }
        args.push("--".into());
        args.push(self.setpriv.clone().into());
        args.extend(drop_privileges());
        args.push(self.bwrap.clone().into());
        args.extend(self.inner(layout, &sources));
        args
    }

    fn inner(&self, layout: &Layout<'_>, sources: &[PathBuf]) -> Vec<OsString> {
        let mut args = words([
            "--unshare-all",
            "--unshare-user",
            "--disable-userns",
            "--new-session",
            "--as-pid-1",
            "--clearenv",
            "--cap-drop",
            "ALL",
            "--hostname",
            "sandbox",
        ]);
        if layout.host_network {
            args.push("--share-net".into());
        }
        args.extend(words(["--ro-bind", "/usr", "/usr"]));
        for (name, target) in &self.usr_links {
            let inside = format!("/{name}");
            if target.as_os_str().is_empty() {
                args.extend([OsString::from("--ro-bind"), inside.clone().into(), inside.into()]);
            } else {
                args.extend([OsString::from("--symlink"), target.clone().into(), inside.into()]);
            }
        }
        for path in ETC_SHARED {
            args.extend(words(["--ro-bind-try", path, path]));
        }
        if layout.host_network {
            args.extend(words(["--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf"]));
        }
        let size = layout.scratch_bytes_max.to_string();
        args.extend(words(["--proc", "/proc", "--dev", "/dev"]));
        for scratch in ["/dev/shm", "/tmp", HOME] {
            args.extend(words(["--perms", "1777", "--size", &size, "--tmpfs", scratch]));
        }
        for (mount, source) in layout.mounts.iter().zip(sources) {
            bind(&mut args, mount.writable, source, &mount.inside);
            for part in &mount.readonly {
                bind(&mut args, false, &source.join(part), &mount.inside.join(part));
            }
        }
        args.extend(words(["--remount-ro", "/dev", "--remount-ro", "/"]));
        for (name, value) in environment(&layout.path, HOME).iter().chain(&layout.env) {
            args.extend(words(["--setenv", name, value]));
        }
        args.extend([OsString::from("--chdir"), layout.cwd.into(), "--".into()]);
        args.extend(layout.argv.iter().cloned());
        args
    }
}

/// The variables of every command, with its own home.
pub(super) fn environment(path: &OsStr, home: &str) -> Vec<(String, String)> {
    // Inside, the project's `.git` may belong to another user than the commands; git would refuse to read it.
    let own = [
        ("HOME", home),
        ("USER", "agent"),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", "/tmp"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "safe.directory"),
        ("GIT_CONFIG_VALUE_0", "*"),
    ];
    let mut env = vec![("PATH".to_owned(), path.to_string_lossy().into_owned())];
    env.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    env
}

pub(super) fn drop_privileges() -> Vec<OsString> {
    let uid = SANDBOX_UID.to_string();
    words([
        "--reuid",
        &uid,
        "--regid",
        &uid,
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
        "--no-new-privs",
        "--",
    ])
}

fn bind(args: &mut Vec<OsString>, writable: bool, source: &Path, inside: &Path) {
    args.extend([
        OsString::from(if writable { "--bind" } else { "--ro-bind" }),
        source.as_os_str().to_owned(),
        inside.as_os_str().to_owned(),
    ]);
}

fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.into_iter().map(|word| OsStr::new(word).to_owned()).collect()
}

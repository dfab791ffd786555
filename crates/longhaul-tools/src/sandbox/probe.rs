//! Whether a sandbox can be built here. Really builds one; a success is remembered for the life of the process.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use super::{
    SandboxError,
    bwrap::{Builder, Layout},
    init::confinable,
    settings::{SandboxBuilder, SandboxKind},
};

const INSTALL_BWRAP: &str = "`sudo apt-get install bubblewrap` (Debian, Ubuntu), `sudo dnf install bubblewrap` (Fedora) or `sudo pacman -S bubblewrap` (Arch)";
const INSTALL_SETPRIV: &str = "`apt-get install util-linux` (Debian, Ubuntu) or `dnf install util-linux` (Fedora)";

static WORKING: Mutex<Vec<Builder>> = Mutex::new(Vec::new());

/// The builder for this system, after one sandbox was built with it.
pub(super) fn builder(how: SandboxBuilder, bwrap: Option<&Path>) -> Result<Builder, SandboxError> {
    match how {
        SandboxBuilder::Bubblewrap => namespaces(bwrap),
        SandboxBuilder::Landlock => landlock(),
        SandboxBuilder::Any => namespaces(bwrap).or_else(|first| {
            let fallback = landlock().map_err(|_| first)?;
            tracing::warn!("bubblewrap does not work here; commands are held by Landlock, which bounds less");
            Ok(fallback)
        }),
    }
}

/// The fallback, if this kernel has what it needs.
fn landlock() -> Result<Builder, SandboxError> {
    let root = rustix::process::geteuid().is_root();
    let setpriv = if root { find(None, "setpriv", INSTALL_SETPRIV)? } else { PathBuf::new() };
    confinable().map_err(|detail| SandboxError::Unusable {
        detail,
        advice: "without bubblewrap, Linux 6.12 or newer with Landlock is needed".to_owned(),
    })?;
    Ok(Builder { kind: SandboxKind::Landlock, bwrap: PathBuf::new(), setpriv, usr_links: Vec::new() })
}

fn namespaces(bwrap: Option<&Path>) -> Result<Builder, SandboxError> {
    let bwrap = find(bwrap, "bwrap", INSTALL_BWRAP)?;
    if let Some(known) =
        WORKING.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|known| known.bwrap == bwrap)
    {
        return Ok(known.clone());
    }
    let builder = probe(bwrap)?;
    WORKING.lock().unwrap_or_else(PoisonError::into_inner).push(builder.clone());
    Ok(builder)
}

fn probe(bwrap: PathBuf) -> Result<Builder, SandboxError> {
    let root = rustix::process::geteuid().is_root();
    let setpriv = if root { find(None, "setpriv", INSTALL_SETPRIV)? } else { PathBuf::new() };
    let kinds: &[SandboxKind] =
        if root { &[SandboxKind::RootStaged, SandboxKind::RootDirect] } else { &[SandboxKind::User] };
    let mut first_failure = None;
    for kind in kinds {
        let builder = Builder { kind: *kind, bwrap: bwrap.clone(), setpriv: setpriv.clone(), usr_links: usr_links() };
        match try_build(&builder) {
            Ok(()) => return Ok(builder),
            Err(error) => {
                first_failure.get_or_insert(error);
            }
        }
    }
    Err(first_failure.unwrap_or_else(|| unusable("no way to build one is known".to_owned())))
}

fn try_build(builder: &Builder) -> Result<(), SandboxError> {
    let layout = Layout {
        mounts: Vec::new(),
        env: Vec::new(),
        path: OsString::from("/usr/bin:/bin"),
        cwd: Path::new("/"),
        host_network: false,
        scratch_bytes_max: 1024 * 1024,
        argv: vec![OsString::from("true")],
    };
    let (program, args) = builder.command_line(&layout);
    let output = Command::new(&program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| SandboxError::Spawn { program: program.clone(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let detail = said.lines().next().unwrap_or("it ended without a word").to_owned();
    Err(unusable(format!("{detail}; {}", output.status)))
}

fn unusable(detail: String) -> SandboxError {
    let said = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let advice = if said("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        "AppArmor forbids user namespaces: allow them with \
         `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or install your system's profile for bwrap"
    } else if said("/proc/sys/user/max_user_namespaces") == "0" {
        "user namespaces are switched off: `sudo sysctl user.max_user_namespaces=10000`"
    } else if said("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
        "user namespaces are switched off: `sudo sysctl kernel.unprivileged_userns_clone=1`"
    } else if Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists() {
        "this is a container which forbids namespaces: start it with `--security-opt seccomp=unconfined \
         --security-opt apparmor=unconfined`, or run on the host"
    } else {
        "bubblewrap 0.8 or newer and user namespaces are needed: try `bwrap --unshare-all --ro-bind / / true`"
    };
    SandboxError::Unusable { detail, advice: advice.to_owned() }
}

fn find(configured: Option<&Path>, name: &str, install: &'static str) -> Result<PathBuf, SandboxError> {
    let missing = |program: String| SandboxError::ProgramMissing { program, install };
    if let Some(path) = configured {
        return path.canonicalize().map_err(|_| missing(path.display().to_string()));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/bin", "/bin", "/usr/sbin"].map(PathBuf::from))
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| missing(name.to_owned()))
}

/// How `/bin` and its like look on this system; an empty target stands for a folder of its own.
fn usr_links() -> Vec<(&'static str, PathBuf)> {
    Builder::usr_link_names()
        .filter_map(|name| {
            let path = Path::new("/").join(name);
            let kind = fs::symlink_metadata(&path).ok()?;
            Some((name, if kind.is_symlink() { fs::read_link(&path).ok()? } else { PathBuf::new() }))
        })
        .collect()
}

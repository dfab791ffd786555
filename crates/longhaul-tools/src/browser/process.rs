//! The browser's process: which program, as which user, with which flags, and how it ends. It speaks to it only through
//! a pipe on the process's descriptors 3 and 4, so no debugging port exists that anything else could reach.
//!
//! Invariant: no Chromium outlives us: it ends itself when the pipe closes, which the kernel does for us even after
//! SIGKILL. Its folder is removed with it, or by the next start.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::{
    fs::{FlockOperation, Gid, Uid},
    process::{Pid, Signal, kill_process_group},
};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStderr, Command},
};

use super::{BrowserSettings, error::BrowserError, wire::Wire};

/// The user as which Chromium runs when we are root: Chromium refuses its own sandbox to root.
const NOBODY: u32 = 65534;
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const FOLDER_PREFIX: &str = "longhaul-browser-";
/// Age from which a folder without a lock is nobody's: a start makes its lock within moments.
const LOCKLESS_AGE: Duration = Duration::from_mins(1);
/// Hands the pipe over as descriptors 3 and 4 and keeps the browser's chatter out of it.
const HAND_OVER: &str = r#"exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null"#;
const OUTPUT_BYTES_MAX: usize = 4 * 1024;

const FLAGS: &[&str] = &[
    "--remote-debugging-pipe",
    "--no-first-run",
    // Its own first window would load a page of a hundred files that nobody looks at.
    "--no-startup-window",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-search-engine-choice-screen",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-background-timer-throttling",
    "--disable-ipc-flooding-protection",
    // The last four are pages of the browser's own window: without them a profile costs half the processor time.
    "--disable-features=Translate,MediaRouter,OptimizationHints,AutofillServerCommunication,DialMediaRouteProvider,\
     WebUIOmniboxPopup,WebUIOmniboxAimPopup,PreloadTopChromeWebUI,PreloadTopChromeWebUILessNavigations",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--hide-scrollbars",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-pings",
    "--password-store=basic",
    "--use-mock-keychain",
    // No name resolves but this machine's, and no datagram leaves it: pages reach their application and nothing else.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost , EXCLUDE ::1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy",
    "--disable-quic",
];

/// A running Chromium and its folder.
pub(super) struct Process {
    pub(super) program: PathBuf,
    pub(super) wire: Wire,
    pub(super) folder: Folder,
    child: Mutex<Option<Child>>,
    /// The browser leads a group of its own, to which its helpers belong.
    group: Option<Pid>,
}

impl Process {
    /// Starts Chromium; it answers nothing yet.
    pub(super) fn start(settings: &BrowserSettings) -> Result<(Self, Output), BrowserError> {
        let program = find(settings.program.as_deref())?;
        let folder = Folder::make()?;
        let mut command = command(&program, &folder, settings);
        let spawn_error = |source| BrowserError::Spawn { program: program.clone(), source };
        let mut child = command.spawn().map_err(spawn_error)?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(spawn_error(io::Error::other("no pipe to it")));
        };
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let wire = Wire::new(stdin, stdout, settings.call_timeout);
        Ok((Self { program, wire, folder, child: Mutex::new(Some(child)), group }, Output::collect(stderr)))
    }

    /// Ends it with all of its helpers and removes its folder. Nothing in a profile is worth an orderly end.
    pub(super) async fn end(&self) {
        self.wire.close();
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut child) = child {
            self.kill_group();
            let _ = child.wait().await; // how it ended is our own doing
        }
        self.folder.remove();
        // A helper that is still dying may write into the folder once more.
        let mut again = tokio::time::interval(Duration::from_millis(5));
        for _ in 0..20 {
            again.tick().await;
            if !self.folder.path.exists() {
                return;
            }
            self.folder.remove();
        }
    }

    fn kill_group(&self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL); // nobody may be left in it
        }
    }

    /// The process's number, while it runs.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(Child::id)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let running = self.child.get_mut().unwrap_or_else(PoisonError::into_inner).is_some();
        if running {
            self.kill_group(); // while the child is ours its number cannot belong to anybody else
        }
    }
}

pub(super) fn find(configured: Option<&Path>) -> Result<PathBuf, BrowserError> {
    let runs = |path: &Path| fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    let folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let on_path = |name: &Path| folders.iter().map(|folder| folder.join(name)).find(|path| runs(path));
    let found = match configured {
        Some(path) if path.components().count() > 1 => runs(path).then(|| path.to_owned()),
        Some(name) => on_path(name),
        None => PROGRAMS.iter().find_map(|name| on_path(Path::new(name))),
    };
    found.ok_or_else(|| BrowserError::NotFound {
        looked_for: configured.map_or_else(|| PROGRAMS.join(", "), |path| path.display().to_string()),
    })
}

fn command(program: &Path, folder: &Folder, settings: &BrowserSettings) -> Command {
    let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|path| Path::new(path).exists());
    let mut words: Vec<OsString> = Vec::new();
    if let Some(setpriv) = setpriv.filter(|_| is_root()) {
        words.push(setpriv.into());
        words.extend([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")].map(OsString::from));
        words.extend(["--clear-groups", "--no-new-privs"].map(OsString::from));
    }
    words.extend(["/bin/sh", "-c", HAND_OVER, "sh"].map(OsString::from));
    words.push(program.into());
    words.push(format!("--user-data-dir={}", folder.path.join("profile").display()).into());
    words.extend(FLAGS.iter().map(OsString::from));
    if !settings.headed {
        words.push("--headless=new".into());
    }
    if settings.no_sandbox || (is_root() && setpriv.is_none()) {
        words.push("--no-sandbox".into());
    }
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env_clear()
        .env("HOME", &folder.path)
        .env("TMPDIR", &folder.path)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LANG", "C.UTF-8")
        .current_dir(&folder.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0) // Ctrl-C in a terminal ends us, and we end it
        .kill_on_drop(true);
    if settings.headed {
        for name in ["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
    }
    command
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The end of what the browser writes to its standard error, for the message when it does not start.
#[derive(Clone)]
pub(super) struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    fn collect(mut stderr: ChildStderr) -> Self {
        let output = Self(Arc::default());
        let kept = output.0.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..read]);
                let surplus = kept.len().saturating_sub(OUTPUT_BYTES_MAX);
                kept.drain(..surplus);
            }
        });
        output
    }

    /// The last lines, without the chatter about buses that no headless machine has.
    pub(super) fn tail(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        let lines: Vec<&str> =
            text.lines().filter(|line| !line.contains("/dbus/") && !line.trim().is_empty()).collect();
        let tail = lines[lines.len().saturating_sub(4)..].join(" | ");
        if tail.is_empty() { "it wrote nothing".to_owned() } else { tail }
    }
}

/// A folder of the browser's own: profile, home and files to upload. Its lock is held as long as we live.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    lock: Mutex<Option<fs::File>>,
}

impl Folder {
    fn make() -> Result<Self, BrowserError> {
        let parent = std::env::temp_dir();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| BrowserError::Folder { path, source }
        };
        let made = tempfile::Builder::new()
            .prefix(FOLDER_PREFIX)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&parent)
            .map_err(failed(&parent))?;
        let path = made.keep();
        // Locked before it has its name, so that no sweep of another start takes it for one that was left behind.
        let lock = fs::File::create(path.join("lock.new")).map_err(failed(&path))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(io::Error::from)
            .map_err(failed(&path))?;
        fs::rename(path.join("lock.new"), path.join("lock")).map_err(failed(&path))?;
        give(&path).map_err(failed(&path))?;
        sweep(&parent, &path);
        Ok(Self { path, lock: Mutex::new(Some(lock)) })
    }

    /// A new file or folder in it that the browser's user owns.
    pub(super) fn adopt(path: &Path) -> io::Result<()> {
        give(path)
    }

    fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path); // what a dying helper process still writes is swept by the next start
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.remove();
    }
}

fn give(path: &Path) -> io::Result<()> {
    if is_root() {
        rustix::fs::chown(path, Some(Uid::from_raw(NOBODY)), Some(Gid::from_raw(NOBODY)))?;
    }
    Ok(())
}

/// Removes folders whose owner has gone without doing so (SIGKILL): those whose lock is free, and those that a dying
/// browser made again after they had been removed, which have no lock.
fn sweep(parent: &Path, ours: &Path) {
    let Ok(now) = fs::symlink_metadata(ours).and_then(|m| m.modified()) else { return };
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(FOLDER_PREFIX)) {
        let path = entry.path();
        let Ok(folder) = fs::symlink_metadata(&path) else { continue };
        let me = rustix::process::geteuid().as_raw();
        if path == ours || !folder.is_dir() || (folder.uid() != me && !(is_root() && folder.uid() == NOBODY)) {
            continue;
        }
        let abandoned = match fs::symlink_metadata(path.join("lock")) {
            Ok(lock) => lock.is_file() && lock.uid() == me && is_free(&path.join("lock")),
            Err(_) => {
                let age = folder.modified().ok().and_then(|then| now.duration_since(then).ok());
                age.is_some_and(|age| age > LOCKLESS_AGE)
            }
        };
        if abandoned {
            let _ = fs::remove_dir_all(&path); // another start may be sweeping too
        }
    }
}

fn is_free(lock: &Path) -> bool {
    let opened = fs::File::open(lock);
    opened.is_ok_and(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

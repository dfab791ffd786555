//! Opens files beneath the project folder and nowhere else, while commands may be changing the tree.
//!
//! The kernel resolves every path in one call (`openat2`) that refuses `..` above the folder, absolute paths and
//! symbolic links; checking first and opening afterwards could be raced by a command. Symbolic links are refused even
//! when they stay inside, because one could lead into `.git`.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RawMode, ResolveFlags},
    io::Errno,
};

use super::FILE_BYTES_MAX;
use crate::sandbox::file_owner;

/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 1024;

/// Why a path cannot be used. The messages are for the model.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("the path is empty; give one relative to the project, such as src/app.py")]
    Empty,
    #[error("{0} is outside the project; give a path relative to the project's folder, without `..`")]
    Outside(String),
    #[error("{0} is inside .git, which only the harness changes; use `shell` with git commands to look at the history")]
    Git(String),
    #[error("{0} leads through a symbolic link, which the file tools do not follow; name the real file")]
    Symlink(String),
    #[error("there is no {0}; `list_files` shows what there is")]
    Missing(String),
    #[error("{0} is a folder; name a file in it (`list_files` shows them)")]
    Folder(String),
    #[error("{0} is not a folder")]
    NotFolder(String),
    #[error("{0} is not a regular file (a device, pipe or socket)")]
    Special(String),
    #[error("{path} has {bytes} bytes, above the limit of {FILE_BYTES_MAX}; use `shell` with head, tail or grep")]
    TooLarge { path: String, bytes: u64 },
    #[error("the path has {0} bytes, above the limit of {PATH_BYTES_MAX}")]
    TooLong(usize),
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: String, source: io::Error },
}

impl From<FileError> for String {
    fn from(error: FileError) -> Self {
        error.to_string()
    }
}

/// The project folder, held open.
#[derive(Debug)]
pub(super) struct ProjectRoot {
    folder: OwnedFd,
    temporary: AtomicU64,
}

/// A path that names nothing outside the project by its words alone; the kernel checks the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProjectPath(PathBuf);

impl ProjectPath {
    /// Parses a model's path. `.` and the empty path stand for the project itself if `folder` allows it.
    pub(super) fn parse(text: &str) -> Result<Self, FileError> {
        if text.is_empty() || text.contains('\0') {
            return Err(FileError::Empty);
        }
        if text.len() > PATH_BYTES_MAX {
            return Err(FileError::TooLong(text.len()));
        }
        let mut path = PathBuf::new();
        for component in Path::new(text).components() {
            match component {
                Component::CurDir => {}
                Component::Normal(name) if name == ".git" => return Err(FileError::Git(text.to_owned())),
                Component::Normal(name) => path.push(name),
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(FileError::Outside(text.to_owned()));
                }
            }
        }
        Ok(Self(path))
    }

    pub(super) fn project() -> Self {
        Self(PathBuf::new())
    }

    pub(super) fn shown(&self) -> String {
        if self.0.as_os_str().is_empty() { ".".to_owned() } else { self.0.display().to_string() }
    }

    pub(super) fn join(&self, name: &std::ffi::OsStr) -> Self {
        Self(self.0.join(name))
    }

    fn or_dot(&self) -> &Path {
        if self.0.as_os_str().is_empty() { Path::new(".") } else { &self.0 }
    }
}

impl ProjectRoot {
    pub(super) fn open(project: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { folder: rustix::fs::open(project, flags, Mode::empty())?, temporary: AtomicU64::new(0) })
    }

    /// The same for a folder whose place others may change: no part of its path may be a symbolic link.
    pub(super) fn open_without_links(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat2(rustix::fs::CWD, folder, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        Ok(Self { folder, temporary: AtomicU64::new(0) })
    }

    /// The whole content of a regular file, and its permission bits.
    pub(super) fn read(&self, path: &ProjectPath) -> Result<(Vec<u8>, Mode), FileError> {
        // Without NONBLOCK, opening a pipe would wait for a writer for ever.
        let file = self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, "open")?;
        let stat = rustix::fs::fstat(&file).map_err(|error| io_error("look at", path, error))?;
        regular_file(path, stat.st_mode)?;
        let bytes = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if bytes > FILE_BYTES_MAX {
            return Err(FileError::TooLarge { path: path.shown(), bytes });
        }
        let mut content = Vec::new();
        // The file may be growing.
        let mut reader = File::from(file).take(FILE_BYTES_MAX + 1);
        reader.read_to_end(&mut content).map_err(|source| FileError::Io {
            action: "read",
            path: path.shown(),
            source,
        })?;
        if content.len() as u64 > FILE_BYTES_MAX {
            return Err(FileError::TooLarge { path: path.shown(), bytes: content.len() as u64 });
        }
        Ok((content, Mode::from_raw_mode(stat.st_mode)))
    }

    /// Replaces or creates a regular file, whole or not at all; keeps its permission bits; makes missing folders.
    pub(super) fn write(&self, path: &ProjectPath, content: &[u8]) -> Result<(), FileError> {
        if content.len() as u64 > FILE_BYTES_MAX {
            return Err(FileError::TooLarge { path: path.shown(), bytes: content.len() as u64 });
        }
        let Some(name) = path.0.file_name() else { return Err(FileError::Folder(path.shown())) };
        let parent = ProjectPath(path.0.parent().unwrap_or(Path::new("")).to_owned());
        let folder = self.make_folders(&parent)?;
        let mode = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                regular_file(path, stat.st_mode)?;
                Mode::from_raw_mode(stat.st_mode)
            }
            Err(Errno::NOENT) => Mode::from_raw_mode(new_file_mode(content)),
            Err(error) => return Err(io_error("look at", path, error)),
        };
        let number = self.temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = format!(".longhaul-{}-{number}.tmp", std::process::id());
        let written = self
            .write_temporary(&folder, &temporary, content, mode)
            .and_then(|()| rustix::fs::renameat(&folder, &temporary, &folder, name).map_err(io::Error::from));
        written.map_err(|source| {
            // What stands in the way of removing it stood in the way of writing it, and is reported.
            let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
            FileError::Io { action: "write", path: path.shown(), source }
        })
    }

    fn write_temporary(&self, folder: &OwnedFd, name: &str, content: &[u8], mode: Mode) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?);
        file.write_all(content)?;
        if let Some((uid, gid)) = file_owner() {
            rustix::fs::fchown(&file, Some(uid), Some(gid))?;
        }
        // After the owner, whose change clears bits; set-user-id bits are never kept.
        rustix::fs::fchmod(&file, mode & Mode::from_raw_mode(0o777))?;
        Ok(())
    }

    /// Opens a folder, making what is missing of it one level after the other.
    fn make_folders(&self, path: &ProjectPath) -> Result<OwnedFd, FileError> {
        let mut at = ProjectPath::project();
        let mut open = self.folder(&at)?;
        for name in &path.0 {
            at = at.join(name);
            open = match self.folder(&at) {
                Err(FileError::Missing(_)) => {
                    match rustix::fs::mkdirat(&open, name, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(io_error("make the folder", &at, error)),
                    }
                    let made = self.folder(&at)?;
                    if let Some((uid, gid)) = file_owner() {
                        rustix::fs::fchown(&made, Some(uid), Some(gid))
                            .map_err(|error| io_error("make the folder", &at, error))?;
                    }
                    made
                }
                other => other?,
            };
        }
        Ok(open)
    }

    /// Opens a folder of the project.
    pub(super) fn folder(&self, path: &ProjectPath) -> Result<OwnedFd, FileError> {
        match self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY, "open") {
            Err(FileError::Io { source, .. }) if source.raw_os_error() == Some(Errno::NOTDIR.raw_os_error()) => {
                Err(FileError::NotFolder(path.shown()))
            }
            other => other,
        }
    }

    fn resolve(&self, path: &ProjectPath, flags: OFlags, action: &'static str) -> Result<OwnedFd, FileError> {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // BENEATH answers AGAIN when a rename elsewhere raced it; a few tries always suffice in practice.
        for _ in 0..16 {
            match rustix::fs::openat2(&self.folder, path.or_dot(), flags | OFlags::CLOEXEC, Mode::empty(), how) {
                Ok(file) => return Ok(file),
                Err(Errno::AGAIN) => {}
                Err(Errno::LOOP) => return Err(FileError::Symlink(path.shown())),
                Err(Errno::XDEV) => return Err(FileError::Outside(path.shown())),
                Err(Errno::NOENT) => return Err(FileError::Missing(path.shown())),
                Err(Errno::NXIO) => return Err(FileError::Special(path.shown())),
                Err(error) => return Err(io_error(action, path, error)),
            }
        }
        Err(io_error(action, path, Errno::AGAIN))
    }
}

fn regular_file(path: &ProjectPath, mode: RawMode) -> Result<(), FileError> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(FileError::Folder(path.shown())),
        FileType::Symlink => Err(FileError::Symlink(path.shown())),
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => {
            Err(FileError::Special(path.shown()))
        }
    }
}

/// A new script can be run at once; anything else cannot.
fn new_file_mode(content: &[u8]) -> RawMode {
    if content.starts_with(b"#!") { 0o755 } else { 0o644 }
}

fn io_error(action: &'static str, path: &ProjectPath, error: Errno) -> FileError {
    FileError::Io { action, path: path.shown(), source: error.into() }
}

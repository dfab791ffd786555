//! What an agent can leave in its folder that git on the host must not meet, found and cleared away before git looks.
//!
//! It owns the walk through the project's folder; what git does afterwards is `git`'s. Invariant: no step of the walk
//! follows a symbolic link or leaves the folder, whatever runs in the sandbox meanwhile, and its cost is bounded by
//! what is there, however deep or odd.

use std::{
    ffi::{CStr, CString, OsStr},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

/// Largest file that is committed or kept in a snapshot, in bytes: what the usual hosts of repositories take.
pub(crate) const FILE_BYTES_MAX: u64 = 100 * 1024 * 1024;
/// Folders nested deeper are removed: no tool makes them, and git and the kernel have bounds of their own.
const DEPTH_MAX: usize = 200;
/// Longest path beneath the project, in bytes; git gives up near 4,096 with the folder's own.
const PATH_BYTES_MAX: usize = 3_000;
/// Most paths that one walk tells of.
const TOLD_MAX: usize = 200;

/// What one walk found.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// What was removed, with the reason.
    pub(crate) removed: Vec<(String, &'static str)>,
    /// Files that git is not to read, relative to the folder: too large, or sockets.
    pub(crate) left_out: Vec<LeftOut>,
}

/// A file that is neither committed nor kept in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Where it is, relative to the folder.
    pub(crate) path: PathBuf,
    /// How large it is; 0 for what has no size.
    pub(crate) bytes: u64,
}

/// Walks through the folder, removes what git must not meet and names what it must not read. What is beneath `kept` is
/// somebody else's and left alone.
///
/// # Errors
/// When the folder cannot be read, or something in it cannot be removed.
pub(crate) fn look(folder: &Path, kept: &[PathBuf]) -> io::Result<Looked> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let root = match rustix::fs::open(folder, flags, Mode::empty()) {
        Err(rustix::io::Errno::ACCESS) => {
            rustix::fs::chmod(folder, Mode::RWXU)?;
            rustix::fs::open(folder, flags, Mode::empty())?
        }
        other => other?,
    };
    let device = rustix::fs::fstat(&root)?.st_dev;
    let mut walk = Walk { kept, device, looked: Looked::default() };
    walk.folder(root.as_fd(), Path::new(""), 0)?;
    Ok(walk.looked)
}

/// Removes a folder with everything in it, however deep it is and whoever may read it.
///
/// # Errors
/// When something in it cannot be removed.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(parent, flags, Mode::empty())?;
    remove(parent.as_fd(), &CString::new(name.as_bytes())?, FileType::Directory)
}

struct Walk<'a> {
    kept: &'a [PathBuf],
    device: u64,
    looked: Looked,
}

impl Walk<'_> {
    fn folder(&mut self, folder: BorrowedFd<'_>, at: &Path, depth: usize) -> io::Result<()> {
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") || (depth == 0 && name.to_bytes() == b".git") {
                continue;
            }
            let path = at.join(OsStr::from_bytes(name.to_bytes()));
            if self.kept.contains(&path) {
                continue;
            }
            // A command may be changing the folder meanwhile: what has gone is no error.
            match self.entry(folder, name, &path, depth) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn entry(&mut self, folder: BorrowedFd<'_>, name: &CStr, path: &Path, depth: usize) -> io::Result<()> {
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if stat.st_dev != self.device {
            return Ok(());
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        if let Some(why) = unwanted(name, path, kind, depth) {
            remove(folder, name, kind)?;
            if self.looked.removed.len() < TOLD_MAX {
                self.looked.removed.push((path.to_string_lossy().into_owned(), why));
            }
            return Ok(());
        }
        make_readable(folder, name, kind, &stat)?;
        match kind {
            FileType::Directory => {
                let inner = open_folder(folder, name)?;
                self.folder(inner.as_fd(), path, depth + 1)
            }
            FileType::RegularFile => {
                let bytes = u64::try_from(stat.st_size).unwrap_or_default();
                if bytes > FILE_BYTES_MAX {
                    self.looked.left_out.push(LeftOut { path: path.to_owned(), bytes });
                }
                Ok(())
            }
            FileType::Socket => {
                self.looked.left_out.push(LeftOut { path: path.to_owned(), bytes: 0 });
                Ok(())
            }
            FileType::Symlink
            | FileType::Fifo
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Ok(()),
        }
    }
}

/// Why git must not meet this, if it must not.
fn unwanted(name: &CStr, path: &Path, kind: FileType, depth: usize) -> Option<&'static str> {
    let bytes = name.to_bytes();
    if bytes.eq_ignore_ascii_case(b".git") {
        // git on the host looks into them, and their configuration can name programs to run: a way out of the sandbox.
        return Some("a repository inside the project, removed");
    }
    if bytes.eq_ignore_ascii_case(b"git~1") {
        return Some("another system's name of a repository, removed");
    }
    if kind == FileType::Symlink && bytes.eq_ignore_ascii_case(b".gitmodules") {
        return Some("a link that git refuses to commit, removed");
    }
    if matches!(kind, FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice) {
        // Whoever opens a pipe waits for its other end, and git cannot commit one.
        return Some("a pipe or device, removed");
    }
    if kind == FileType::Directory && depth >= DEPTH_MAX || path.as_os_str().len() > PATH_BYTES_MAX {
        return Some("nested too deeply for git, removed");
    }
    None
}

/// Gives the owner the right to read what an ordinary user could otherwise neither commit nor clear away.
fn make_readable(folder: BorrowedFd<'_>, name: &CStr, kind: FileType, stat: &Stat) -> io::Result<()> {
    let wanted = match kind {
        FileType::Directory => Mode::RWXU,
        FileType::RegularFile => Mode::RUSR,
        FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => return Ok(()),
    };
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.contains(wanted) {
        return Ok(());
    }
    // Through a descriptor that follows nothing: the name may have become a link since.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&held)?.st_mode) != kind {
        return Ok(());
    }
    let through = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
    Ok(rustix::fs::chmod(through.as_str(), mode | wanted)?)
}

fn open_folder(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?)
}

fn remove(folder: BorrowedFd<'_>, name: &CStr, kind: FileType) -> io::Result<()> {
    if kind != FileType::Directory {
        return Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?);
    }
    // Folders found inside are first moved beside the one being removed, so that no depth is too deep for it.
    let mut waiting = vec![name.to_owned()];
    let mut moved = 0_u32;
    while let Some(next) = waiting.pop() {
        let stat = rustix::fs::statat(folder, next.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?;
        make_readable(folder, &next, FileType::from_raw_mode(stat.st_mode), &stat)?;
        let inner = open_folder(folder, &next)?;
        for entry in Dir::read_from(&inner)? {
            let entry = entry?;
            let found = entry.file_name();
            if matches!(found.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = rustix::fs::statat(&inner, found, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                moved += 1;
                let beside = CString::new(format!(".longhaul-removed-{}-{moved}", std::process::id()))?;
                rustix::fs::renameat(&inner, found, folder, beside.as_c_str())?;
                waiting.push(beside);
            } else {
                rustix::fs::unlinkat(&inner, found, AtFlags::empty())?;
            }
        }
        rustix::fs::unlinkat(folder, next.as_c_str(), AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn reasons(looked: &Looked) -> Vec<&str> {
        let mut all: Vec<&str> = looked.removed.iter().map(|(path, _)| path.as_str()).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn nested_repositories_pipes_and_links_go_and_everything_else_stays() {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        for folder in [".git", "sub/deep/.git", "other", "vendor/lib", "x/.GIT"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("sub/deep/.git/config"), "[core]\nfsmonitor = touch /tmp/x\n").unwrap();
        fs::write(at("other/.git"), "gitdir: /elsewhere\n").unwrap();
        fs::write(at("vendor/lib/.git"), "gitdir: ../../.git/modules/lib\n").unwrap();
        fs::write(at("kept"), "text").unwrap();
        symlink("/etc", at("link")).unwrap();
        symlink("kept", at(".gitmodules")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let looked = look(place.path(), &[PathBuf::from("vendor/lib")]).unwrap();
        assert_eq!(reasons(&looked), [".gitmodules", "other/.git", "pipe", "sub/deep/.git", "x/.GIT"]);
        for stays in [".git", "kept", "vendor/lib/.git", "link", "sub/deep"] {
            assert!(at(stays).symlink_metadata().is_ok(), "{stays}");
        }
        assert!(look(place.path(), &[PathBuf::from("vendor/lib")]).unwrap().removed.is_empty());
    }

    #[test]
    fn folders_nested_without_end_are_removed_and_large_files_left_out() {
        let place = tempfile::tempdir().unwrap();
        let mut at = rustix::fs::open(place.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..6_000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "d", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        let large = fs::File::create(place.path().join("large")).unwrap();
        large.set_len(FILE_BYTES_MAX + 1).unwrap();
        let looked = look(place.path(), &[]).unwrap();
        assert_eq!(looked.removed.len(), 1);
        assert_eq!(looked.left_out, [LeftOut { path: "large".into(), bytes: FILE_BYTES_MAX + 1 }]);
        assert!(look(place.path(), &[]).unwrap().removed.is_empty());
    }
}

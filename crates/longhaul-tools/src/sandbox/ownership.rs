//! Who owns the files of the project when the harness is root: commands run as [`SANDBOX_UID`] and must be able to
//! change what the harness or git wrote.
//!
//! The invariant: only the project's own tree changes hands; no symbolic link is followed, no mount is crossed, nothing
//! that is read-only in the sandbox is touched. The top folder keeps its owner and gives its group the right to write,
//! so that the user's own git goes on trusting it.

use std::{
    ffi::{CStr, OsStr},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid};

use super::SandboxError;

/// The user and group of everything in the sandbox when the harness is root. Free on Debian, Fedora and Arch, without a
/// passwd entry, and below 65,536 so that it exists in containers too.
pub const SANDBOX_UID: u32 = 64_177;

/// Folders nested deeper than this are left alone.
const DEPTH_MAX: usize = 128;

/// The owner that files of the project need, or `None` when we are an ordinary user and own them anyway.
pub(crate) fn file_owner() -> Option<(Uid, Gid)> {
    rustix::process::geteuid().is_root().then(|| (Uid::from_raw(SANDBOX_UID), Gid::from_raw(SANDBOX_UID)))
}

/// Hands the project's tree to the sandbox's user, except what is read-only there. Does nothing as an ordinary user.
pub(super) fn hand_over(project: &Path, readonly: &[PathBuf]) -> Result<(), SandboxError> {
    let Some((uid, gid)) = file_owner() else { return Ok(()) };
    let fail = |source: rustix::io::Errno| SandboxError::Io {
        action: "change the owner of",
        path: project.to_owned(),
        source: source.into(),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let root = rustix::fs::open(project, flags, Mode::empty()).map_err(fail)?;
    let stat = rustix::fs::fstat(&root).map_err(fail)?;
    let mode = Mode::from_raw_mode(stat.st_mode) | Mode::RWXG;
    if stat.st_gid != gid.as_raw() {
        rustix::fs::fchown(&root, None, Some(gid)).map_err(fail)?;
    }
    if Mode::from_raw_mode(stat.st_mode) != mode {
        rustix::fs::fchmod(&root, mode).map_err(fail)?;
    }
    let walk = Walk { uid, gid, device: stat.st_dev, readonly };
    walk.folder(root.as_fd(), Path::new(""), 0).map_err(|source| SandboxError::Io {
        action: "change the owner of files in",
        path: project.to_owned(),
        source,
    })
}

struct Walk<'a> {
    uid: Uid,
    gid: Gid,
    device: u64,
    readonly: &'a [PathBuf],
}

impl Walk<'_> {
    fn folder(&self, folder: BorrowedFd<'_>, at: &Path, depth: usize) -> io::Result<()> {
        if depth > DEPTH_MAX {
            return Ok(());
        }
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let path = at.join(OsStr::from_bytes(name.to_bytes()));
            if self.readonly.contains(&path) {
                continue;
            }
            // Commands may be changing the tree meanwhile: what has gone is no error.
            match self.entry(folder, name, &path, depth) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn entry(&self, folder: BorrowedFd<'_>, name: &CStr, path: &Path, depth: usize) -> io::Result<()> {
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if stat.st_dev != self.device {
            return Ok(());
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        // A file with a second name may be shared with a place outside the project.
        let shared = kind == FileType::RegularFile && stat.st_nlink > 1;
        if !shared && (stat.st_uid != self.uid.as_raw() || stat.st_gid != self.gid.as_raw()) {
            rustix::fs::chownat(folder, name, Some(self.uid), Some(self.gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if kind == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let inner: OwnedFd = rustix::fs::openat(folder, name, flags, Mode::empty())?;
            self.folder(inner.as_fd(), path, depth + 1)?;
        }
        Ok(())
    }
}

//! A folder of Unix sockets that is bound read-only into a sandbox.

use std::{
    fs,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{fs::PermissionsExt, net::UnixListener},
    },
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::sandbox::{SandboxError, io_error};

/// The folder. Its sockets are used through the open folder, so that their paths are always short enough.
#[derive(Debug)]
pub(in crate::sandbox) struct SocketFolder {
    folder: TempDir,
    open: OwnedFd,
}

impl SocketFolder {
    pub(in crate::sandbox) fn new(runtime_dir: &Path, prefix: &str) -> Result<Self, SandboxError> {
        let fail = |action| move |source| io_error(action, runtime_dir, source);
        let folder =
            tempfile::Builder::new().prefix(prefix).tempdir_in(runtime_dir).map_err(fail("make a folder in"))?;
        // The runtime folder above it keeps other users out; the sandbox's user must be able to enter this one.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).map_err(fail("open a folder in"))?;
        let open = OwnedFd::from(fs::File::open(folder.path()).map_err(fail("open a folder in"))?);
        Ok(Self { folder, open })
    }

    /// A new socket that everybody who can enter the folder may connect to.
    pub(in crate::sandbox) fn bind(&self, name: &str) -> Result<UnixListener, SandboxError> {
        let fail = |action| move |source| io_error(action, self.folder.path(), source);
        let listener = UnixListener::bind(self.socket(name)).map_err(fail("make a socket in"))?;
        fs::set_permissions(self.folder.path().join(name), fs::Permissions::from_mode(0o666))
            .map_err(fail("open a socket in"))?;
        Ok(listener)
    }

    /// Where a socket is reached by this process.
    pub(in crate::sandbox) fn socket(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.open.as_raw_fd()))
    }

    pub(in crate::sandbox) fn path(&self) -> &Path {
        self.folder.path()
    }
}

//! The node's key, which makes its peer id: a file in the network's folder that nobody else may read.
//!
//! Invariant: the file never exists with other rights than its owner's, and a key that is there is never replaced, as
//! agents know the node by it.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use libp2p::identity::Keypair;

use crate::Libp2pError;

/// The file in the network's folder.
pub(crate) const FILE: &str = "libp2p.key";

/// The key of the node whose folder this is; made where there is none. Blocks.
pub(crate) fn load(folder: &Path) -> Result<Keypair, Libp2pError> {
    let path = folder.join(FILE);
    let failed = |source: io::Error| Libp2pError::Key { path: path.clone(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    match made {
        Ok(mut file) => {
            let key = Keypair::generate_ed25519();
            let bytes = key.to_protobuf_encoding().map_err(|error| failed(io::Error::other(error)))?;
            file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)?;
            Ok(key)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut file = fs::File::open(&path).map_err(failed)?;
            let mode = file.metadata().map_err(failed)?.permissions().mode();
            if mode & 0o077 != 0 {
                return Err(Libp2pError::KeyReadable { path });
            }
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(failed)?;
            Keypair::from_protobuf_encoding(&bytes).map_err(|error| failed(io::Error::other(error)))
        }
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_stays_and_nobody_else_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = load(folder.path()).unwrap();
        let path = folder.path().join(FILE);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(load(folder.path()).unwrap().public(), first.public());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(load(folder.path()), Err(Libp2pError::KeyReadable { .. })));
    }
}

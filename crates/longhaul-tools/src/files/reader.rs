//! Reads texts beneath a folder that others may write to, under the same rules as the file tools.

use std::{io, path::Path};

use super::root::{FileError, ProjectPath, ProjectRoot};

/// A folder, held open. Its own path holds no symbolic link.
#[derive(Debug)]
pub(crate) struct FolderReader(ProjectRoot);

/// Why there is no text.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// There is no such file.
    Missing,
    /// It cannot be used, and why.
    Unusable(String),
}

impl FolderReader {
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        ProjectRoot::open_without_links(folder).map(Self)
    }

    /// A text of at most so many bytes.
    pub(crate) fn text(&self, name: &str, bytes_max: usize) -> Result<String, ReadError> {
        let unusable = |error: FileError| match error {
            FileError::Missing(_) => ReadError::Missing,
            other => ReadError::Unusable(other.into()),
        };
        let path = ProjectPath::parse(name).map_err(unusable)?;
        let (content, _) = self.0.read(&path).map_err(unusable)?;
        if content.len() > bytes_max {
            return Err(ReadError::Unusable(format!("it has {} bytes, above the limit of {bytes_max}", content.len())));
        }
        String::from_utf8(content).map_err(|_| ReadError::Unusable("it is not text in UTF-8".to_owned()))
    }
}

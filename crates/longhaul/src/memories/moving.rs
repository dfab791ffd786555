//! Export to a file and import from one, with `-` for the terminal's streams.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
};

use longhaul_memory::{ExportOptions, Exported, ImportOptions, Imported, TransferError};

use super::{Memories, MemoriesError};

/// Bytes read and written at a time.
const BUFFER_BYTES: usize = 256 * 1024;

impl Memories {
    /// Exports into a file that does not exist yet, or to standard output for `None`. An export that fails leaves no file
    /// of this name.
    ///
    /// # Errors
    /// [`MemoriesError::File`]; those of memory.
    pub async fn export(
        &self,
        to: Option<&Path>,
        options: &ExportOptions,
        progress: impl FnMut(Exported) + Send,
    ) -> Result<Exported, MemoriesError> {
        let Some(path) = to else {
            let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
            let done = self.memory.export(&self.scope, options, &mut out, progress).await;
            return done.map_err(|error| failed("write", Path::new("standard output"), error));
        };
        let write = |source| MemoriesError::File { action: "write", path: path.to_owned(), source };
        if path.exists() {
            return Err(write(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is such a file already; name a new one",
            )));
        }
        // The name appears when the file is whole.
        let part = part_of(path);
        let file = File::create(&part).map_err(write)?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
        let written = self.memory.export(&self.scope, options, &mut out, progress).await;
        let written = written.map_err(|error| failed("write", path, error));
        let done = match written {
            Ok(done) => finish(out, &part, path).map(|()| done).map_err(write),
            Err(error) => Err(error),
        };
        if done.is_err() {
            let _ = std::fs::remove_file(&part); // what failed is told; this is only tidying
        }
        done
    }

    /// Imports from a file, or from standard input for `None`.
    ///
    /// # Errors
    /// [`MemoriesError::File`], [`MemoriesError::Transfer`]; those of memory.
    pub async fn import(
        &self,
        from: Option<&Path>,
        options: &ImportOptions,
        progress: impl FnMut(&Imported) + Send,
    ) -> Result<Imported, MemoriesError> {
        let (name, done) = match from {
            None => {
                let input = BufReader::with_capacity(BUFFER_BYTES, io::stdin());
                ("standard input".into(), self.memory.import(&self.scope, options, input, progress).await)
            }
            Some(path) => {
                let read = |source| MemoriesError::File { action: "read", path: path.to_owned(), source };
                let file = File::open(path).map_err(read)?;
                let input = BufReader::with_capacity(BUFFER_BYTES, file);
                (path.to_owned(), self.memory.import(&self.scope, options, input, progress).await)
            }
        };
        done.map_err(|error| failed("read", &name, error))
    }
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}

fn finish(mut out: BufWriter<File>, part: &Path, path: &Path) -> io::Result<()> {
    out.flush()?;
    out.get_ref().sync_all()?;
    std::fs::rename(part, path)
}

fn failed(action: &'static str, path: &Path, error: TransferError) -> MemoriesError {
    match error {
        TransferError::Io(source) => MemoriesError::File { action, path: path.to_owned(), source },
        TransferError::Memory(error) => error.into(),
        error @ (TransferError::Newer { .. } | TransferError::Refused(_)) => MemoriesError::Transfer(error),
    }
}

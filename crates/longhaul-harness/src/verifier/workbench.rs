//! The project that is verified, where no page is: its files, read as they are, and its programs, run in the sandbox.
//! Invariant: no path leads out of the project, also not through a symbolic link that its maker left there.

use std::path::{Path, PathBuf};

use longhaul_tools::{
    files,
    sandbox::{CommandOutput, Sandbox, SandboxCommand, SandboxError},
};

/// A project's folder, with the sandbox around it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Workbench {
    folder: PathBuf,
    sandbox: Option<Sandbox>,
}

impl Workbench {
    /// The project of this sandbox.
    #[must_use]
    pub fn new(sandbox: Sandbox) -> Self {
        Self { folder: sandbox.project().to_owned(), sandbox: Some(sandbox) }
    }

    /// A folder in which nothing can be run.
    #[must_use]
    pub fn of_files(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), sandbox: None }
    }

    /// The content of a file; `None` when there is none.
    pub(super) fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        files::read_whole(&self.folder, path)
    }

    /// A file's content as text.
    pub(super) fn text(&self, path: &str) -> Result<String, String> {
        let content = self.read(path)?.ok_or_else(|| format!("there is no {path}"))?;
        String::from_utf8(content).map_err(|_| format!("{path} is not text in UTF-8"))
    }

    /// The names in a folder, sorted.
    pub(super) fn names(&self, path: &str) -> Result<Vec<String>, String> {
        files::names(&self.folder, path)
    }

    /// Runs a command; `None` when there is no sandbox to run it in.
    pub(super) async fn run(&self, command: SandboxCommand) -> Option<Result<CommandOutput, SandboxError>> {
        match &self.sandbox {
            Some(sandbox) => Some(sandbox.run(command, None).await),
            None => None,
        }
    }
}

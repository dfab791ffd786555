//! Tools for the files of the project: read, write, edit, list, search.
//!
//! They run in the harness, outside the sandbox, so every path goes through `ProjectRoot`. The invariant: no path leads
//! outside the project, through a symbolic link, into `.git`, or to anything but a regular file or folder.

mod edit;
mod list;
mod plain;
mod read;
mod reader;
mod root;
mod search;

use std::{io, path::Path, sync::Arc};

use longhaul_core::ToolSpec;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Tool, ToolOutput};

pub use plain::ProjectFiles;
pub(crate) use reader::{FolderReader, ReadError};
use root::ProjectRoot;

/// Largest file which the tools read, edit or write, in bytes.
pub const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Longest text of a file, listing or search result handed to the model at once, in bytes.
pub const SHOWN_BYTES_MAX: usize = 48 * 1024;

/// `read_file`, `write_file`, `edit_file`, `list_files` and `search_files` for the project in this folder.
///
/// When we are root, files they write belong to [`crate::sandbox::SANDBOX_UID`], so that commands can change them.
///
/// # Errors
/// The folder cannot be opened.
pub fn tools(project: &Path) -> io::Result<Vec<Arc<dyn Tool>>> {
    let root = Arc::new(ProjectRoot::open(project)?);
    Ok(vec![
        Arc::new(read::ReadFile(root.clone())),
        Arc::new(edit::WriteFile(root.clone())),
        Arc::new(edit::EditFile(root.clone())),
        Arc::new(list::ListFiles(root.clone())),
        Arc::new(search::SearchFiles(root)),
    ])
}

/// The content of a file of the project; `None` when there is none. For whoever judges the project's files.
///
/// # Errors
/// Why it cannot be read: outside the project, through a symbolic link, a folder, larger than [`FILE_BYTES_MAX`].
pub fn read_whole(project: &Path, path: &str) -> Result<Option<Vec<u8>>, String> {
    let opened = ProjectRoot::open(project).map_err(|error| format!("the project cannot be opened: {error}"))?;
    match opened.read(&root::ProjectPath::parse(path)?) {
        Ok((content, _)) => Ok(Some(content)),
        Err(root::FileError::Missing(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The names in a folder of the project, sorted.
///
/// # Errors
/// As for [`read_whole`]; also when there is no such folder.
pub fn names(project: &Path, path: &str) -> Result<Vec<String>, String> {
    let opened = ProjectRoot::open(project).map_err(|error| format!("the project cannot be opened: {error}"))?;
    let folder = opened.folder(&root::ProjectPath::parse(path)?)?;
    let entries = rustix::fs::Dir::read_from(&folder).map_err(|error| format!("{path} cannot be listed: {error}"))?;
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "." && name != "..")
        .collect();
    names.sort_unstable();
    Ok(names)
}

fn spec(name: &str, description: &str, parameters: Value) -> ToolSpec {
    ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters }
}

/// Runs the blocking body of a tool where it holds nobody up. `Err` is for the model.
async fn blocking<A, F>(root: &Arc<ProjectRoot>, arguments: Value, body: F) -> ToolOutput
where
    A: DeserializeOwned + Send + 'static,
    F: FnOnce(&ProjectRoot, A) -> Result<String, String> + Send + 'static,
{
    let root = root.clone();
    let work = move || {
        let arguments = serde_json::from_value(arguments).map_err(|error| format!("wrong arguments: {error}"))?;
        body(&root, arguments)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(text)) => ToolOutput::ok(text),
        Ok(Err(problem)) => ToolOutput::error(problem),
        Err(_) => ToolOutput::error("the tool stopped in the middle; this is a fault of longhaul, try another way"),
    }
}

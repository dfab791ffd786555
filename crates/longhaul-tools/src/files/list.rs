//! `list_files`, and the walk over the project's tree which `search_files` shares.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    sync::Arc,
};

use async_trait::async_trait;
use longhaul_core::ToolSpec;
use rustix::fs::{AtFlags, Dir, FileType};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    SHOWN_BYTES_MAX, blocking,
    root::{FileError, ProjectPath, ProjectRoot},
    spec,
};
use crate::{Tool, ToolOutput};

/// Folders of tools and dependencies: named, but not looked into unless asked for by name.
const CLOSED: [&str; 6] = ["node_modules", "__pycache__", ".venv", "venv", "target", ".mypy_cache"];
const DEPTH_DEFAULT: usize = 3;
/// Most entries in one listing.
const ENTRIES_MAX: usize = 500;

pub(super) struct ListFiles(pub(super) Arc<ProjectRoot>);

#[derive(Deserialize)]
struct Arguments {
    path: Option<String>,
    depth: Option<usize>,
}

#[async_trait]
impl Tool for ListFiles {
    fn spec(&self) -> ToolSpec {
        spec(
            "list_files",
            "Lists files and folders of the project with their sizes, three levels deep unless told otherwise.",
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "a folder, relative to the project; default: the project"},
                    "depth": {"type": "integer", "minimum": 1, "maximum": 20, "description": "levels"},
                },
            }),
        )
    }

    fn changes_work_tree(&self) -> bool {
        false
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        blocking(&self.0, arguments, list).await
    }
}

fn list(root: &ProjectRoot, arguments: Arguments) -> Result<String, String> {
    let top = match arguments.path.as_deref() {
        None | Some("") => ProjectPath::project(),
        Some(path) => ProjectPath::parse(path)?,
    };
    let depth = arguments.depth.unwrap_or(DEPTH_DEFAULT);
    let mut lines = String::new();
    let (mut count, mut more) = (0, false);
    walk(root, &top, depth, &mut |entry| {
        if count == ENTRIES_MAX || lines.len() > SHOWN_BYTES_MAX {
            more = true;
            return false;
        }
        count += 1;
        lines.push_str(&entry.line());
        lines.push('\n');
        true
    })?;
    let rest = if more { "; there are more: list a folder by its path, or with a smaller depth" } else { "" };
    let noun = if count == 1 { "entry" } else { "entries" };
    Ok(format!("listed {} ({count} {noun}{rest})\n{lines}", top.shown()))
}

/// One file or folder met on a walk.
pub(super) struct Entry {
    pub(super) path: ProjectPath,
    pub(super) kind: FileType,
    pub(super) bytes: u64,
    closed: bool,
}

impl Entry {
    fn line(&self) -> String {
        let path = self.path.shown();
        match self.kind {
            FileType::Directory if self.closed => format!("{path}/ (not listed; name it to look inside)"),
            FileType::Directory => format!("{path}/"),
            FileType::RegularFile => format!("{path} ({} bytes)", self.bytes),
            FileType::Symlink => format!("{path} (symbolic link)"),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => format!("{path} (not a regular file)"),
        }
    }
}

/// Visits what is below a folder, each folder in the order of its names, until `visit` says no.
pub(super) fn walk(
    root: &ProjectRoot,
    top: &ProjectPath,
    depth: usize,
    visit: &mut dyn FnMut(&Entry) -> bool,
) -> Result<bool, FileError> {
    let folder = root.folder(top)?;
    let failed = |error: rustix::io::Errno| FileError::Io { action: "list", path: top.shown(), source: error.into() };
    let mut names: Vec<OsString> = Vec::new();
    for entry in Dir::read_from(&folder).map_err(failed)? {
        let name = OsStr::from_bytes(entry.map_err(failed)?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." && name != ".git" {
            names.push(name);
        }
    }
    names.sort();
    for name in names {
        // It may have gone meanwhile.
        let Ok(stat) = rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let closed = kind == FileType::Directory && CLOSED.iter().any(|known| name == *known);
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let entry = Entry { path: top.join(&name), kind, bytes, closed };
        if !visit(&entry) {
            return Ok(false);
        }
        if kind == FileType::Directory && !closed && depth > 1 {
            match walk(root, &entry.path, depth - 1, visit) {
                Ok(true) | Err(FileError::Missing(_)) => {}
                Ok(false) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(true)
}

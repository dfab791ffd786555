//! `search_files`.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ToolSpec;
use regex::{Regex, RegexBuilder};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    FILE_BYTES_MAX, blocking,
    list::walk,
    root::{FileError, ProjectPath, ProjectRoot},
    spec,
};
use crate::{Tool, ToolOutput};

/// Most matching lines shown.
const MATCHES_MAX: usize = 100;
/// Most bytes of one line shown.
const LINE_BYTES_MAX: usize = 300;
/// Most bytes read by one search.
const READ_BYTES_MAX: u64 = 256 * 1024 * 1024;
const DEPTH_MAX: usize = 20;

pub(super) struct SearchFiles(pub(super) Arc<ProjectRoot>);

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
}

#[async_trait]
impl Tool for SearchFiles {
    fn spec(&self) -> ToolSpec {
        spec(
            "search_files",
            "Finds lines that match a regular expression (Rust syntax) in the text files of the project.",
            json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "such as def \\w+_user; (?i) ignores case"},
                    "path": {"type": "string", "description": "a file or folder, relative to the project; default: all"},
                },
                "required": ["pattern"],
            }),
        )
    }

    fn changes_work_tree(&self) -> bool {
        false
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        blocking(&self.0, arguments, search).await
    }
}

fn search(root: &ProjectRoot, arguments: Arguments) -> Result<String, String> {
    let regex = RegexBuilder::new(&arguments.pattern).size_limit(1024 * 1024).build().map_err(|error| {
        format!("the pattern is not a regular expression: {error}; escape special characters with \\")
    })?;
    let top = match arguments.path.as_deref() {
        None | Some("") => ProjectPath::project(),
        Some(path) => ProjectPath::parse(path)?,
    };
    let mut found = Found { regex, lines: String::new(), matches: 0, files: 0, read_bytes: 0, more: false };
    let walked = walk(root, &top, DEPTH_MAX, &mut |entry| {
        if entry.kind != FileType::RegularFile || entry.bytes > FILE_BYTES_MAX {
            return true;
        }
        // A file that cannot be read is not found in; the search goes on.
        root.read(&entry.path).map_or(true, |(content, _)| found.look(&entry.path, content))
    });
    match walked {
        Ok(_) => {}
        Err(FileError::NotFolder(_)) => {
            let (content, _) = root.read(&top)?;
            found.look(&top, content);
        }
        Err(error) => return Err(error.into()),
    }
    let Found { lines, matches, files, more, .. } = found;
    let rest = if more { "; there are more: use a narrower pattern or path" } else { "" };
    Ok(format!("found {matches} matching lines in {files} files{rest}\n{lines}"))
}

struct Found {
    regex: Regex,
    lines: String,
    matches: usize,
    files: usize,
    read_bytes: u64,
    more: bool,
}

impl Found {
    /// Looks through one file; whether to go on.
    fn look(&mut self, path: &ProjectPath, content: Vec<u8>) -> bool {
        self.read_bytes += content.len() as u64;
        let before = self.matches;
        if let Ok(text) = String::from_utf8(content)
            && !text.contains('\0')
        {
            for (index, line) in text.lines().enumerate().filter(|(_, line)| self.regex.is_match(line)) {
                if self.matches == MATCHES_MAX {
                    self.more = true;
                    break;
                }
                self.matches += 1;
                let shown = &line[..line.floor_char_boundary(LINE_BYTES_MAX)];
                let mark = if shown.len() < line.len() { "…" } else { "" };
                self.lines.push_str(&format!("{}:{}: {shown}{mark}\n", path.shown(), index + 1));
            }
        }
        self.files += usize::from(self.matches > before);
        self.more |= self.read_bytes > READ_BYTES_MAX;
        !self.more
    }
}

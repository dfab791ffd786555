//! `read_file`.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ToolSpec;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    SHOWN_BYTES_MAX, blocking,
    root::{ProjectPath, ProjectRoot},
    spec,
};
use crate::{Tool, ToolOutput};

pub(super) struct ReadFile(pub(super) Arc<ProjectRoot>);

#[derive(Deserialize)]
struct Arguments {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        spec(
            "read_file",
            "Reads a text file of the project. Gives whole lines; for long files say where to start and how many lines.",
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "relative to the project"},
                    "offset": {"type": "integer", "minimum": 1, "description": "first line, from 1"},
                    "limit": {"type": "integer", "minimum": 1, "description": "number of lines"},
                },
                "required": ["path"],
            }),
        )
    }

    fn changes_work_tree(&self) -> bool {
        false
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        blocking(&self.0, arguments, read).await
    }
}

fn read(root: &ProjectRoot, arguments: Arguments) -> Result<String, String> {
    let path = ProjectPath::parse(&arguments.path)?;
    let (content, _) = root.read(&path)?;
    let text = text_of(&path, content)?;
    Ok(show(&path, &text, arguments.offset.unwrap_or(1), arguments.limit.unwrap_or(usize::MAX)))
}

/// The content as text; a binary file is said to be one.
pub(super) fn text_of(path: &ProjectPath, content: Vec<u8>) -> Result<String, String> {
    let bytes = content.len();
    let binary = |what: &str| format!("{} is not a text file ({what}, {bytes} bytes)", path.shown());
    if content.contains(&0) {
        return Err(binary("it contains zero bytes"));
    }
    String::from_utf8(content).map_err(|_| binary("it is not UTF-8"))
}

fn show(path: &ProjectPath, text: &str, first: usize, limit: usize) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let total = lines.len();
    let mut shown = String::new();
    let mut count = 0;
    for line in lines.iter().skip(first - 1).take(limit) {
        if shown.len() + line.len() > SHOWN_BYTES_MAX {
            break;
        }
        shown.push_str(line);
        count += 1;
    }
    let path = path.shown();
    if count == 0 && total >= first && limit > 0 {
        let line = lines[first - 1];
        let kept = line.floor_char_boundary(SHOWN_BYTES_MAX);
        return format!(
            "read {path} (line {first} of {total}, its first {kept} of {} bytes; use `shell` to see the rest)\n{}",
            line.len(),
            &line[..kept]
        );
    }
    let last = first + count - 1;
    let heading = if count == total {
        format!("read {path} ({total} lines)")
    } else if count == 0 {
        format!("read {path} (no lines from {first} on; it has {total} lines)")
    } else if last == total {
        format!("read {path} (lines {first}-{last} of {total})")
    } else {
        format!("read {path} (lines {first}-{last} of {total}; go on with offset {})", last + 1)
    };
    format!("{heading}\n{shown}")
}

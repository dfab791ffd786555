//! `write_file` and `edit_file`.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ToolSpec;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    blocking,
    read::text_of,
    root::{ProjectPath, ProjectRoot},
    spec,
};
use crate::{Tool, ToolOutput};

pub(super) struct WriteFile(pub(super) Arc<ProjectRoot>);
pub(super) struct EditFile(pub(super) Arc<ProjectRoot>);

#[derive(Deserialize)]
struct Write {
    path: String,
    content: String,
}

#[derive(Deserialize)]
struct Edit {
    path: String,
    old: String,
    new: String,
    all: Option<bool>,
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        spec(
            "write_file",
            "Creates a file of the project or replaces the whole of it; missing folders are made. A new file that \
             starts with #! becomes executable. To change part of a file use edit_file.",
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "relative to the project"},
                    "content": {"type": "string", "description": "the whole new content"},
                },
                "required": ["path", "content"],
            }),
        )
    }

    fn changes_work_tree(&self) -> bool {
        true
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        blocking(&self.0, arguments, write).await
    }
}

#[async_trait]
impl Tool for EditFile {
    fn spec(&self) -> ToolSpec {
        spec(
            "edit_file",
            "Replaces a piece of text in a file of the project. `old` must be exactly what the file has, and occur once \
             unless `all` is true.",
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "relative to the project"},
                    "old": {"type": "string", "description": "the exact text to replace, with its white space"},
                    "new": {"type": "string", "description": "what to put there"},
                    "all": {"type": "boolean", "description": "replace every occurrence"},
                },
                "required": ["path", "old", "new"],
            }),
        )
    }

    fn changes_work_tree(&self) -> bool {
        true
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        blocking(&self.0, arguments, edit).await
    }
}

fn write(root: &ProjectRoot, arguments: Write) -> Result<String, String> {
    let path = ProjectPath::parse(&arguments.path)?;
    root.write(&path, arguments.content.as_bytes())?;
    Ok(format!("wrote {} ({} bytes)", path.shown(), arguments.content.len()))
}

fn edit(root: &ProjectRoot, arguments: Edit) -> Result<String, String> {
    let path = ProjectPath::parse(&arguments.path)?;
    let Edit { old, new, all, .. } = arguments;
    if old.is_empty() {
        return Err("\"old\" is empty; give the text to replace, or use write_file for a whole file".to_owned());
    }
    if old == new {
        return Err("\"old\" and \"new\" are the same; nothing would change".to_owned());
    }
    let (content, _) = root.read(&path)?;
    let text = text_of(&path, content)?;
    let count = text.matches(&old).count();
    let shown = path.shown();
    match count {
        0 => return Err(format!("{shown} does not contain \"old\"{}", hint(&text, &old))),
        2.. if all != Some(true) => {
            return Err(format!(
                "{shown} contains \"old\" {count} times; give more of the text around the one you mean, or set \"all\""
            ));
        }
        _ => {}
    }
    root.write(&path, text.replace(&old, &new).as_bytes())?;
    let noun = if count == 1 { "replacement" } else { "replacements" };
    Ok(format!("edited {shown} ({count} {noun})"))
}

/// What is probably wrong with a text that was not found.
fn hint(text: &str, old: &str) -> String {
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    if squeeze(text).contains(&squeeze(old)) {
        return "; it differs in white space only: copy the text from read_file exactly".to_owned();
    }
    let first = old.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match text.lines().position(|line| line.trim() == first) {
        Some(index) if !first.is_empty() => {
            format!("; its first line is at line {}, but what follows differs: read the file there", index + 1)
        }
        _ => "; read the file again, it may have changed".to_owned(),
    }
}

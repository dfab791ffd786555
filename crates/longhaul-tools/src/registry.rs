//! The tool port and the registry: what a tool is, which tools there are, and how a model's call reaches one.
//!
//! It does not decide whether a call is allowed (policy) and does not record it (durable). Its invariant: whatever a
//! model writes as a call, the answer is a [`ToolOutput`] of bounded size which says what was wrong and what to do.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use longhaul_core::{ToolCall, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    policy::{Action, Reach},
    schema,
};

/// Longest text a tool hands to a model, in bytes. Tools bound themselves with advice of their own; this is the net.
pub const TOOL_TEXT_BYTES_MAX: usize = 64 * 1024;
/// Longest arguments accepted from a model, in bytes.
pub const TOOL_ARGUMENTS_BYTES_MAX: usize = 512 * 1024;

/// Something an agent can do.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What the model is told: name, use, and the JSON Schema its arguments are checked against.
    fn spec(&self) -> ToolSpec;

    /// Whether a call may change files of the project, so that whoever guards files must look afterwards.
    fn changes_work_tree(&self) -> bool;

    /// What a client may tell its user about the tool before it is called. The cautious answer unless a tool says more.
    fn hints(&self) -> ToolHints {
        ToolHints::default()
    }

    /// How the tool stands to the outside world: what a policy needs to know of it.
    fn standing(&self) -> ToolStanding {
        ToolStanding::OWN
    }

    /// Carries out one call. The arguments have passed the check against [`Tool::spec`].
    async fn call(&self, arguments: Value) -> ToolOutput;
}

/// How a tool stands to the world outside of the sandbox. Said by whoever made the tool, never by a server or a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolStanding {
    /// How far a call reaches.
    pub reach: Reach,
    /// Where the text of its answers comes from, if that is outside.
    pub answers_from: Option<&'static str>,
    /// What becomes of a call that no rule names.
    pub unnamed: Action,
}

impl ToolStanding {
    /// A tool of ours that works in the sandbox and the project.
    pub const OWN: Self = Self { reach: Reach::Inside, answers_from: None, unnamed: Action::Allow };
}

/// What a call of a tool may do, for clients that ask their user by it. Hints for showing; no policy rests on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolHints {
    /// A few words for people, where the name is not enough.
    pub title: Option<String>,
    /// A call changes nothing.
    pub read_only: bool,
    /// A call may remove or overwrite something.
    pub destructive: bool,
    /// The same call again changes nothing more.
    pub idempotent: bool,
    /// A call reaches systems outside this machine.
    pub open_world: bool,
}

impl Default for ToolHints {
    /// A tool of which nothing is known may do anything.
    fn default() -> Self {
        Self { title: None, read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

impl ToolHints {
    /// A tool that only looks at what this machine keeps.
    #[must_use]
    pub fn reads(title: &str) -> Self {
        let title = Some(title.to_owned());
        Self { title, read_only: true, destructive: false, idempotent: true, open_world: false }
    }

    /// A tool that adds to what this machine keeps and takes nothing away.
    #[must_use]
    pub fn adds(title: &str) -> Self {
        Self { read_only: false, idempotent: false, ..Self::reads(title) }
    }

    /// A tool that removes or overwrites what this machine keeps; the same call again changes nothing more.
    #[must_use]
    pub fn changes(title: &str) -> Self {
        Self { read_only: false, destructive: true, ..Self::reads(title) }
    }
}

/// What a call gives back to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// For the model: starts with a plain word which says what happened.
    pub text: String,
    /// Whether the call failed; the text then says what to do next.
    pub is_error: bool,
    /// Files that belong to the result, such as a screenshot.
    pub attachments: Vec<Attachment>,
    /// The same result for programs, where a tool has one: an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
}

impl ToolOutput {
    /// The call did what it should.
    #[must_use]
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false, attachments: Vec::new(), structured: None }
    }

    /// The call failed; `text` says why and what to do, and gets the prefix `error: `.
    #[must_use]
    pub fn error(text: impl fmt::Display) -> Self {
        Self { text: format!("error: {text}"), is_error: true, attachments: Vec::new(), structured: None }
    }

    /// Adds the result as an object for programs.
    #[must_use]
    pub fn with_structured(mut self, structured: Value) -> Self {
        self.structured = Some(structured);
        self
    }

    /// Adds a file.
    #[must_use]
    pub fn with_attachment(mut self, attachment: Attachment) -> Self {
        self.attachments.push(attachment);
        self
    }
}

/// A file that belongs to a tool's result. In JSON its bytes are base64.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// File name with its extension: `page.png`.
    pub name: String,
    /// Media type: `image/png`.
    pub media_type: String,
    /// Content.
    #[serde(with = "base64_bytes")]
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field("name", &self.name)
            .field("media_type", &self.media_type)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

mod base64_bytes {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Why a set of tools cannot be a registry.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Two tools share a name.
    #[error("two tools are called {name}; give each its own name")]
    Duplicate {
        /// The shared name.
        name: String,
    },
    /// A tool's schema is outside the subset which [`ToolRegistry::call`] checks.
    #[error("the arguments schema of tool {name} cannot be checked: {problem}")]
    Schema {
        /// The tool.
        name: String,
        /// The place in the schema and what is wrong there.
        problem: String,
    },
}

/// The tools of one agent, in the order they are shown to the model. Cheap to clone.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    entries: Arc<Vec<Entry>>,
}

#[derive(Clone)]
struct Entry {
    spec: ToolSpec,
    tool: Arc<dyn Tool>,
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|entry| &entry.spec.name)).finish()
    }
}

impl ToolRegistry {
    /// A registry of these tools.
    ///
    /// # Errors
    /// Two tools of one name, or a schema with a keyword which the check of arguments does not know.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, RegistryError> {
        let mut entries: Vec<Entry> = Vec::new();
        for tool in tools {
            let spec = tool.spec();
            if entries.iter().any(|entry| entry.spec.name == spec.name) {
                return Err(RegistryError::Duplicate { name: spec.name });
            }
            schema::check_schema(&spec.parameters)
                .map_err(|problem| RegistryError::Schema { name: spec.name.clone(), problem })?;
            entries.push(Entry { spec, tool });
        }
        Ok(Self { entries: Arc::new(entries) })
    }

    /// What the model is told about every tool.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.entries.iter().map(|entry| entry.spec.clone()).collect()
    }

    /// Every tool as clients are told of it, in the order they are shown.
    pub fn described(&self) -> impl Iterator<Item = (&ToolSpec, ToolHints)> {
        self.entries.iter().map(|entry| (&entry.spec, entry.tool.hints()))
    }

    /// Refuses a name that no tool has, with the names there are.
    ///
    /// # Errors
    /// The sentence for whoever asked.
    pub fn check_name(&self, name: &str) -> Result<(), String> {
        if self.find(name).is_some() { Ok(()) } else { Err(self.unknown_tool(name)) }
    }

    /// Whether a call of this name may change files of the project. An unknown tool changes nothing.
    #[must_use]
    pub fn changes_work_tree(&self, name: &str) -> bool {
        self.find(name).is_some_and(|entry| entry.tool.changes_work_tree())
    }

    /// How the tool of this name stands to the outside world. An unknown tool reaches nothing: it is not carried out.
    #[must_use]
    pub fn standing(&self, name: &str) -> ToolStanding {
        self.find(name).map_or(ToolStanding::OWN, |entry| entry.tool.standing())
    }

    /// Checks and carries out a model's call. Never fails: what is wrong with the call is told to the model.
    pub async fn call(&self, call: &ToolCall) -> ToolOutput {
        let Some(entry) = self.find(&call.name) else {
            return ToolOutput::error(self.unknown_tool(&call.name));
        };
        let arguments = match schema::parse_arguments(&entry.spec, &call.arguments) {
            Ok(arguments) => arguments,
            Err(problem) => return ToolOutput::error(problem),
        };
        let mut output = entry.tool.call(arguments).await;
        if let Some(cut) = cut_text(&mut output.text, TOOL_TEXT_BYTES_MAX) {
            output.text.push_str(&format!("\n[{cut} bytes cut; ask for a smaller part]"));
        }
        output
    }

    fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.spec.name == name)
    }

    fn unknown_tool(&self, name: &str) -> String {
        let names: Vec<&str> = self.entries.iter().map(|entry| entry.spec.name.as_str()).collect();
        let shown: String = name.chars().take(80).collect();
        let hint = schema::nearest(name, names.iter().copied())
            .map_or_else(String::new, |near| format!(" did you mean {near}?"));
        format!("there is no tool {shown:?};{hint} the tools are: {}", names.join(", "))
    }
}

/// Shortens a text to at most `bytes_max` bytes at a character boundary; gives the number of bytes cut, if any.
pub(crate) fn cut_text(text: &mut String, bytes_max: usize) -> Option<usize> {
    if text.len() <= bytes_max {
        return None;
    }
    let kept = text.floor_char_boundary(bytes_max);
    let cut = text.len() - kept;
    text.truncate(kept);
    Some(cut)
}

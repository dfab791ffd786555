//! The cassette file: TOML in, entries out, every problem with its line.
//!
//! The format is documented in `docs/cassettes.md`; a change of what a key means needs a new
//! format version, a new optional key does not.
//! Invariant: a [`Cassette`] that exists has unique ids, no unknown keys and no two entries of which one is selected
//! whenever the other is.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use toml::Spanned;

use crate::Finish;

/// The format this crate reads.
const FORMAT: i64 = 1;
/// Largest cassette file.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// A written story of replies: the one stand-in for a language model.
#[derive(Debug, Clone)]
pub struct Cassette {
    pub(crate) title: String,
    pub(crate) request: Option<String>,
    pub(crate) model: String,
    /// Further names under which it is served; `*` is any.
    pub(crate) aliases: Vec<String>,
    /// Requests longer than this are refused, as a service with such a window does.
    pub(crate) window_tokens: Option<u64>,
    pub(crate) entries: Vec<Entry>,
}

/// One reply, with what selects it and what it requires.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) line: usize,
    pub(crate) prompt: Vec<String>,
    pub(crate) turn: usize,
    /// Whether it answers any turn for which no other entry is.
    pub(crate) otherwise: bool,
    pub(crate) require: Vec<Requirement>,
    pub(crate) reply: String,
    /// What the model thinks before it answers, where a protocol shows that.
    pub(crate) reasoning: Option<String>,
    /// Whether the reasoning is served without its text, as services do with what they do not show.
    pub(crate) reasoning_hidden: bool,
    pub(crate) calls: Vec<Call>,
    pub(crate) finish: Finish,
    pub(crate) fault: Option<Fault>,
}

/// A text that the request must contain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Requirement {
    #[serde(rename = "in")]
    pub(crate) place: Place,
    pub(crate) text: String,
}

/// Where a required text must stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    System,
    Prompt,
    Tool,
    Last,
    Any,
}

/// A tool call of the reply; `arguments` as they go over the wire.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) arguments: String,
    pub(crate) offered: bool,
}

/// A failure to be served, for tests of whoever asks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    pub(crate) status: Option<u16>,
    pub(crate) retry_after: Option<u64>,
    #[serde(default)]
    pub(crate) cut: bool,
    #[serde(default)]
    pub(crate) delay_ms: u64,
    #[serde(default)]
    pub(crate) chunk_delay_ms: u64,
    pub(crate) times: Option<u32>,
}

/// Something wrong, or suspicious, in a cassette file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line in the file, from 1.
    pub line: usize,
    /// The entry it is about.
    pub entry: Option<String>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.entry {
            Some(entry) => write!(f, "line {} (entry {entry:?}): {}", self.line, self.message),
            None => write!(f, "line {}: {}", self.line, self.message),
        }
    }
}

/// Why a file is not a cassette.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The file cannot be read.
    #[error("cannot read the cassette {}; check the path", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is too large.
    #[error("the cassette {} has {bytes} bytes; at most {bytes_max} are read, split the story", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// Another format version.
    #[error(
        "{file} is a cassette of format {found}, this version reads format {FORMAT}; set `cassette = {FORMAT}` or use a matching version"
    )]
    Version {
        /// The file's name.
        file: String,
        /// What it says.
        found: i64,
    },
    /// Not TOML, or not of the format; one problem, with its line.
    #[error("{file}: {problem}")]
    Syntax {
        /// The file's name.
        file: String,
        /// What and where.
        problem: Problem,
    },
    /// Entries that contradict each other or themselves; all problems, each with its line.
    #[error("{file}: {}", list(problems))]
    Invalid {
        /// The file's name.
        file: String,
        /// What and where.
        problems: Vec<Problem>,
    },
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ")
}

impl Cassette {
    /// Reads a cassette file.
    ///
    /// # Errors
    /// See [`CassetteError`].
    pub fn load(path: &Path) -> Result<Self, CassetteError> {
        let failed = |source| CassetteError::Io { path: path.to_owned(), source };
        let bytes = std::fs::metadata(path).map_err(failed)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(CassetteError::TooLarge { path: path.to_owned(), bytes, bytes_max: FILE_BYTES_MAX });
        }
        Self::parse(&std::fs::read_to_string(path).map_err(failed)?, &path.display().to_string())
    }

    /// Reads a cassette from its text; `file` is its name in errors.
    ///
    /// # Errors
    /// [`CassetteError::Version`], [`CassetteError::Syntax`] or [`CassetteError::Invalid`].
    pub fn parse(text: &str, file: &str) -> Result<Self, CassetteError> {
        let raw: FileToml = toml::from_str(text).map_err(|error| unreadable(text, file, &error))?;
        if raw.cassette != FORMAT {
            return Err(CassetteError::Version { file: file.to_owned(), found: raw.cassette });
        }
        let mut problems = Vec::new();
        let lines = LineStarts::of(text);
        let entries: Vec<Entry> = raw.entry.into_iter().map(|entry| entry.checked(&lines, &mut problems)).collect();
        if entries.is_empty() {
            let message = "no `[[entry]]`: there is nothing to reply".to_owned();
            problems.push(Problem { line: 1, entry: None, message });
        }
        problems.extend(super::select::contradictions(&entries));
        if !problems.is_empty() {
            return Err(CassetteError::Invalid { file: file.to_owned(), problems });
        }
        Ok(Self {
            title: raw.title,
            request: raw.request,
            model: raw.model.unwrap_or_else(|| "cassette".to_owned()),
            aliases: raw.aliases,
            window_tokens: raw.window_tokens,
            entries,
        })
    }

    /// The story's title.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The request that the story answers, if it states one.
    #[must_use]
    pub fn request(&self) -> Option<&str> {
        self.request.as_deref()
    }

    /// The name under which the story is served as a model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Whether a request for this model is for this story.
    pub(crate) fn plays(&self, model: &str) -> bool {
        self.model == model || self.aliases.iter().any(|alias| alias == model || alias == "*")
    }

    /// The ids of all entries, in the file's order.
    pub fn entry_ids(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.iter().map(|entry| entry.id.as_str())
    }

    /// What is legal but probably a mistake: entries that no conversation can reach, or that check nothing.
    #[must_use]
    pub fn lint(&self) -> Vec<Problem> {
        super::select::suspicions(&self.entries)
    }
}

/// Why a text could not be read. A newer format may well have keys that this one does not know, so it is told as such.
fn unreadable(text: &str, file: &str, error: &toml::de::Error) -> CassetteError {
    let file = file.to_owned();
    match toml::from_str::<VersionToml>(text) {
        Ok(VersionToml { cassette }) if cassette != FORMAT => CassetteError::Version { file, found: cassette },
        Ok(_) | Err(_) => {
            let line = error.span().map_or(1, |span| LineStarts::of(text).line_of(span.start));
            let message = error.message().replace('\n', " ");
            CassetteError::Syntax { file, problem: Problem { line, entry: None, message } }
        }
    }
}

#[derive(Deserialize)]
struct VersionToml {
    cassette: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileToml {
    cassette: i64,
    title: String,
    request: Option<String>,
    model: Option<String>,
    window_tokens: Option<u64>,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    entry: Vec<EntryToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryToml {
    id: Spanned<String>,
    #[serde(default)]
    prompt: Vec<String>,
    #[serde(default)]
    turn: usize,
    #[serde(default)]
    require: Vec<Requirement>,
    #[serde(default)]
    otherwise: bool,
    reply: Option<String>,
    reasoning: Option<String>,
    #[serde(default)]
    reasoning_hidden: bool,
    #[serde(default)]
    call: Vec<CallToml>,
    finish: Option<Finish>,
    fault: Option<Fault>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallToml {
    tool: String,
    arguments: Option<toml::Table>,
    arguments_text: Option<String>,
    #[serde(default = "yes")]
    offered: bool,
}

fn yes() -> bool {
    true
}

impl EntryToml {
    fn checked(self, lines: &LineStarts, problems: &mut Vec<Problem>) -> Entry {
        let line = lines.line_of(self.id.span().start);
        let id = self.id.into_inner();
        let mut report = |message: &str| {
            problems.push(Problem { line, entry: Some(id.clone()), message: message.to_owned() });
        };
        if id.trim().is_empty() {
            report("its `id` is empty; give it a name");
        }
        if self.prompt.iter().any(String::is_empty) || self.require.iter().any(|needed| needed.text.is_empty()) {
            report("an empty text in `prompt` or `require` is in every request; remove it or write what is meant");
        }
        if self.reply.as_ref().is_none_or(String::is_empty) && self.call.is_empty() {
            report("it has neither a `reply` nor a `[[entry.call]]`; a model always says or does something");
        }
        if self.otherwise && (self.turn > 0 || !self.require.is_empty()) {
            report("an entry with `otherwise` answers any turn and requires nothing; remove its `turn` and `require`");
        }
        if self.reasoning_hidden && self.reasoning.is_none() {
            report("`reasoning_hidden` hides nothing; write the `reasoning` or remove it");
        }
        if self.call.iter().any(|call| call.tool.is_empty()) {
            report("a call names no `tool`");
        }
        if self.call.iter().any(|call| call.arguments.is_some() && call.arguments_text.is_some()) {
            report("a call has both `arguments` and `arguments_text`; keep one");
        }
        if let Some(message) = self.fault.as_ref().and_then(Fault::problem) {
            report(message);
        }
        let finish = if self.call.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        Entry {
            line,
            prompt: self.prompt,
            turn: self.turn,
            otherwise: self.otherwise,
            require: self.require,
            reply: self.reply.unwrap_or_default(),
            reasoning: self.reasoning,
            reasoning_hidden: self.reasoning_hidden,
            calls: self.call.into_iter().map(CallToml::written).collect(),
            finish: self.finish.unwrap_or(finish),
            fault: self.fault,
            id,
        }
    }
}

impl CallToml {
    fn written(self) -> Call {
        let arguments = self.arguments_text.unwrap_or_else(|| {
            serde_json::Value::Object(self.arguments.unwrap_or_default().into_iter().map(json_entry).collect())
                .to_string()
        });
        Call { tool: self.tool, arguments, offered: self.offered }
    }
}

fn json_entry((key, value): (String, toml::Value)) -> (String, serde_json::Value) {
    (key, json(value))
}

/// A TOML value as JSON; a date becomes its text, a number that JSON cannot write becomes null.
fn json(value: toml::Value) -> serde_json::Value {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(truth) => truth.into(),
        toml::Value::Datetime(date) => date.to_string().into(),
        toml::Value::Array(values) => values.into_iter().map(json).collect(),
        toml::Value::Table(table) => serde_json::Value::Object(table.into_iter().map(json_entry).collect()),
    }
}

impl Fault {
    /// How often it strikes before the entry is served as written.
    pub(crate) fn times(&self) -> u32 {
        self.times.unwrap_or(1)
    }

    fn problem(&self) -> Option<&'static str> {
        if self.status.is_some_and(|status| !(400..600).contains(&status)) {
            return Some("`fault.status` must be from 400 to 599");
        }
        if self.status.is_some() && (self.cut || self.chunk_delay_ms > 0) {
            return Some("`fault` has a `status` and something about a stream; an error has no stream, keep one");
        }
        if self.retry_after.is_some() && self.status.is_none() {
            return Some("`fault.retry_after` needs a `fault.status`");
        }
        let does_nothing = self.status.is_none() && !self.cut && self.delay_ms == 0 && self.chunk_delay_ms == 0;
        (does_nothing || self.times() == 0).then_some("`fault` does nothing; give it a `status`, `cut`, or a delay")
    }
}

/// Where each line of a text begins.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn of(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    /// The line, from 1, in which the byte at `offset` stands.
    fn line_of(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset)
    }
}

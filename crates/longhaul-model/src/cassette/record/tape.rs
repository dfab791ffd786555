//! What was heard, as the text of a cassette. No I/O.
//!
//! Invariant: each entry is selected by the request that it was recorded from and, as far as their first messages
//! differ, by no other.

use std::fmt::Write as _;

use longhaul_core::ToolCall;
use serde_json::Value;

use crate::{Finish, cassette::conversation::Conversation, service::Answer};

/// The longest text that selects an entry, characters; a first message is often pages long.
const SELECTS_CHARS_MAX: usize = 200;

/// The answers so far.
#[derive(Debug)]
pub(super) struct Tape {
    title: String,
    model: Option<String>,
    aliases: Vec<String>,
    heard: Vec<HeardAnswer>,
}

#[derive(Debug)]
struct HeardAnswer {
    prompt: String,
    turn: usize,
    content: String,
    reasoning: Option<String>,
    calls: Vec<ToolCall>,
    finish: Finish,
}

impl Tape {
    pub(super) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), model: None, aliases: Vec::new(), heard: Vec::new() }
    }

    /// Adds an answer. Of two to the same question the later one stays: a client that asks again has not had the first.
    pub(super) fn add(&mut self, asked: &Conversation, answer: Answer) {
        match &self.model {
            None => self.model = Some(asked.model.clone()),
            Some(known) if *known != asked.model && !self.aliases.contains(&asked.model) => {
                self.aliases.push(asked.model.clone());
            }
            Some(_) => {}
        }
        let inferred = if answer.calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        let heard = HeardAnswer {
            prompt: asked.prompt.clone(),
            turn: asked.turn,
            reasoning: told(&answer.reasoning),
            content: answer.content,
            calls: answer.calls,
            finish: answer.finish.unwrap_or(inferred),
        };
        self.heard.retain(|other| other.prompt != heard.prompt || other.turn != heard.turn);
        self.heard.push(heard);
    }

    /// How many answers there are.
    pub(super) fn len(&self) -> usize {
        self.heard.len()
    }

    /// The cassette.
    pub(super) fn text(&self) -> String {
        let mut out = format!("cassette = 1\ntitle = {}\n", quoted(&self.title));
        if let Some(first) = self.heard.iter().find(|heard| heard.turn == 0) {
            let line: String =
                first.prompt.lines().next().unwrap_or_default().chars().take(SELECTS_CHARS_MAX).collect();
            let _ = writeln!(out, "request = {}", quoted(&line));
        }
        if let Some(model) = &self.model {
            let _ = writeln!(out, "model = {}", quoted(model));
        }
        if !self.aliases.is_empty() {
            let _ = writeln!(out, "aliases = [{}]", list(&self.aliases));
        }
        for (index, heard) in self.heard.iter().enumerate() {
            self.entry(&mut out, index, heard);
        }
        out
    }

    fn entry(&self, out: &mut String, index: usize, heard: &HeardAnswer) {
        let _ = writeln!(out, "\n[[entry]]\nid = \"r{:04}\"\nprompt = [{}]", index + 1, list(&self.selects(heard)));
        if heard.turn > 0 {
            let _ = writeln!(out, "turn = {}", heard.turn);
        }
        if let Some(reasoning) = &heard.reasoning {
            let _ = writeln!(out, "reasoning = {}", quoted(reasoning));
        }
        if !heard.content.is_empty() || heard.calls.is_empty() {
            // An answer without a word cannot be written down; a service does not give it twice either.
            let content = if heard.content.is_empty() { "(nothing)" } else { &heard.content };
            let _ = writeln!(out, "reply = {}", quoted(content));
        }
        let usual = if heard.calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        if heard.finish != usual {
            let finish = serde_json::to_value(heard.finish).unwrap_or_default();
            let _ = writeln!(out, "finish = {}", quoted(finish.as_str().unwrap_or("stop")));
        }
        for call in &heard.calls {
            let _ = writeln!(out, "[[entry.call]]\ntool = {}", quoted(&call.name));
            match table(&call.arguments) {
                Some(fields) => {
                    let _ = write!(out, "[entry.call.arguments]\n{fields}");
                }
                None => {
                    let _ = writeln!(out, "arguments_text = {}", quoted(&call.arguments));
                }
            }
        }
    }

    /// Lines of the first message that select it: its first, and one for each other conversation that has those too.
    fn selects(&self, heard: &HeardAnswer) -> Vec<String> {
        let mut lines = heard.prompt.split_inclusive('\n').filter(|line| !line.trim().is_empty());
        let mut chosen: Vec<String> = lines.next().map(shortened).into_iter().collect();
        let others = self.heard.iter().map(|other| other.prompt.as_str()).filter(|other| *other != heard.prompt);
        for other in others {
            if chosen.iter().all(|text| other.contains(text.as_str())) {
                let telling = lines.clone().map(shortened).find(|line| !other.contains(line.as_str()));
                chosen.push(telling.unwrap_or_else(|| heard.prompt.clone()));
            }
        }
        chosen.dedup();
        chosen
    }
}

fn shortened(line: &str) -> String {
    line.chars().take(SELECTS_CHARS_MAX).collect()
}

/// The reasoning that a service let be read.
fn told(blocks: &[Value]) -> Option<String> {
    let texts = blocks.iter().flat_map(|block| {
        let summary = block.get("summary").and_then(Value::as_array).into_iter().flatten();
        let parts = summary.filter_map(|part| part.get("text")?.as_str());
        block.get("thinking").and_then(Value::as_str).into_iter().chain(parts)
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    (!text.is_empty()).then_some(text)
}

fn list(texts: &[String]) -> String {
    texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ")
}

/// A text of TOML; one of several lines is written as such.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Arguments as lines of a table, if reading them gives the same arguments; TOML has no null, for one.
fn table(arguments: &str) -> Option<String> {
    let json: serde_json::Map<String, Value> = serde_json::from_str(arguments).ok()?;
    let lines = json.iter().map(|(name, value)| {
        let value = toml::Value::try_from(value).ok()?;
        Some(format!("{} = {value}\n", quoted(name)))
    });
    let text: String = lines.collect::<Option<_>>()?;
    let read: toml::Table = toml::from_str(&text).ok()?;
    (serde_json::to_value(read).ok()? == Value::Object(json)).then_some(text)
}

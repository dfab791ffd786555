//! Which entry answers a conversation, and whether the conversation has what the entry requires. No I/O.
//!
//! Invariant: selection looks at the request alone (first user message and number of assistant messages), so a run that
//! was killed asks again and gets the same reply.

use std::collections::HashMap;

use super::{
    conversation::Conversation,
    file::{Cassette, Entry, Place, Problem, Requirement},
    protocol::Protocol,
    reply::call_id,
};

/// How many entries an error names as near misses.
const NEAREST_MAX: usize = 3;

/// Why a request gets no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Miss {
    /// No entry is for it.
    NoEntry(String),
    /// More than one is.
    Ambiguous(String),
    /// An entry is, but the request lacks what it requires.
    Requirement(String),
    /// It is longer than the cassette's window.
    TooLong(String),
}

impl Cassette {
    /// The entry that answers this conversation.
    pub(crate) fn select(&self, asked: &Conversation) -> Result<&Entry, Miss> {
        if let Some(window) = self.window_tokens.filter(|window| asked.prompt_tokens() > *window) {
            return Err(Miss::TooLong(format!(
                "this model's maximum context length is {window} tokens; the messages have {}",
                asked.prompt_tokens()
            )));
        }
        let fits = |otherwise: bool| {
            let of_kind = self.entries.iter().filter(move |entry| entry.otherwise == otherwise);
            of_kind.filter(move |entry| (otherwise || entry.turn == asked.turn) && selects(entry, asked))
        };
        let otherwise = fits(false).next().is_none();
        let mut selected = fits(otherwise);
        let Some(entry) = selected.next() else {
            return Err(Miss::NoEntry(self.no_entry(asked)));
        };
        let others: Vec<String> = selected.map(place_in_file).collect();
        if !others.is_empty() {
            let message = format!(
                "more than one cassette entry answers turn {} of the conversation that starts with {:?}: {} and {}; \
                 make their `prompt` texts exclude each other",
                asked.turn,
                asked.first_line(),
                place_in_file(entry),
                others.join(", ")
            );
            return Err(Miss::Ambiguous(message));
        }
        let missing = unmet(entry, asked);
        if missing.is_empty() { Ok(entry) } else { Err(Miss::Requirement(missing.join("; "))) }
    }

    fn no_entry(&self, asked: &Conversation) -> String {
        let mut near: Vec<(usize, usize, &Entry)> = self
            .entries
            .iter()
            .map(|entry| (lacking(entry, asked).count(), entry.turn.abs_diff(asked.turn), entry))
            .collect();
        near.sort_by_key(|(lacking, turns, _)| (*lacking, *turns));
        let near: Vec<String> = near
            .into_iter()
            .take(NEAREST_MAX)
            .map(|(_, _, entry)| {
                let lacking: Vec<String> = lacking(entry, asked).map(|text| format!("{text:?}")).collect();
                let lacks =
                    if lacking.is_empty() { String::new() } else { format!(", prompt lacks {}", lacking.join(", ")) };
                format!("{} (turn {}{lacks})", place_in_file(entry), entry.turn)
            })
            .collect();
        format!(
            "no cassette entry answers turn {} of the conversation that starts with {:?}; nearest: {}",
            asked.turn,
            asked.first_line(),
            near.join(", ")
        )
    }
}

fn place_in_file(entry: &Entry) -> String {
    format!("{:?} at line {}", entry.id, entry.line)
}

fn lacking<'a>(entry: &'a Entry, asked: &'a Conversation) -> impl Iterator<Item = &'a String> {
    entry.prompt.iter().filter(|text| !asked.prompt.contains(text.as_str()))
}

fn selects(entry: &Entry, asked: &Conversation) -> bool {
    lacking(entry, asked).next().is_none()
}

fn unmet(entry: &Entry, asked: &Conversation) -> Vec<String> {
    let texts = entry.require.iter().filter(|needed| !is_met(needed, asked)).map(|needed| {
        format!(
            "cassette entry {} requires {:?} in {}, which has it not: {:?}",
            place_in_file(entry),
            needed.text,
            needed.place.in_words(),
            excerpt(&asked.texts_in(needed.place).join("\n"))
        )
    });
    let tools = entry.calls.iter().filter(|call| call.offered && !asked.tools.contains(&call.tool)).map(|call| {
        format!(
            "cassette entry {} calls the tool {:?}, which the request does not offer (it offers: {}); \
             write `offered = false` in the call if that is meant",
            place_in_file(entry),
            call.tool,
            asked.tools.join(", ")
        )
    });
    texts.chain(tools).chain(schema_unmet(entry, asked)).collect()
}

/// A service that was given a schema answers JSON, or calls a tool, or refuses.
fn schema_unmet(entry: &Entry, asked: &Conversation) -> Option<String> {
    let asks = asked.answer_schema.is_some() && entry.calls.is_empty() && entry.finish == crate::Finish::Stop;
    let error = serde_json::from_str::<serde_json::Value>(&entry.reply).err().filter(|_| asks)?;
    let place = place_in_file(entry);
    Some(format!("the request asks for JSON after a schema, and the reply of cassette entry {place} is none: {error}"))
}

impl Cassette {
    /// What is wrong with the reasoning that came back: a service takes it only as it gave it, and wants it before the
    /// results of the calls that it led to.
    pub(crate) fn reasoning_lost(&self, protocol: Protocol, asked: &Conversation) -> Option<String> {
        let turns = asked.open_turns.iter().filter(|_| asked.thinks);
        turns.into_iter().find_map(|turn| {
            let entry = self.entries.iter().find(|entry| {
                let ids = ["toolu", "call"].map(|kind| call_id(kind, entry, 0));
                entry.reasoning.is_some() && turn.call_ids.iter().any(|id| ids.contains(id))
            })?;
            protocol.reasoning_problem(entry, turn)
        })
    }
}

fn is_met(needed: &Requirement, asked: &Conversation) -> bool {
    asked.texts_in(needed.place).iter().any(|text| text.contains(&needed.text))
}

impl Place {
    fn in_words(self) -> &'static str {
        match self {
            Self::System => "the system prompt",
            Self::Prompt => "the first user message",
            Self::Tool => "the last tool results",
            Self::Last => "the last message",
            Self::Any => "the whole request",
        }
    }
}

/// The start and the end of a text: what is missing is usually looked for there.
fn excerpt(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= 600 {
        return text.to_owned();
    }
    let part = |characters: &[char]| characters.iter().collect::<String>();
    format!("{} … {}", part(&characters[..300]), part(&characters[characters.len() - 300..]))
}

/// Duplicate ids, and pairs of entries of which one is selected whenever the other is.
pub(crate) fn contradictions(entries: &[Entry]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut lines: HashMap<&str, usize> = HashMap::new();
    let mut turns: HashMap<(bool, usize), Vec<&Entry>> = HashMap::new();
    for entry in entries {
        let problem = |message| Problem { line: entry.line, entry: Some(entry.id.clone()), message };
        if let Some(first) = lines.insert(&entry.id, entry.line) {
            problems.push(problem(format!("its id is used already at line {first}; ids are unique")));
        }
        let same_turn = turns.entry((entry.otherwise, entry.turn)).or_default();
        if let Some(other) = same_turn.iter().find(|other| covers(other, entry) || covers(entry, other)) {
            let (id, line) = (&other.id, other.line);
            problems.push(problem(format!(
                "ambiguous with {id:?} at line {line}: both are for turn {} and a request that selects one always \
                 selects the other; make a `prompt` text longer (`\"# Coding session 1\\n\"` is not in \
                 `# Coding session 12`) or change a turn",
                entry.turn
            )));
        }
        same_turn.push(entry);
    }
    problems
}

/// Whether every request that selects `narrow` (by its prompt texts) also selects `wide`.
fn covers(wide: &Entry, narrow: &Entry) -> bool {
    wide.prompt.iter().all(|text| narrow.prompt.iter().any(|longer| longer.contains(text.as_str())))
}

/// Entries that no conversation reaches, and those that check nothing where there is something to check.
pub(crate) fn suspicions(entries: &[Entry]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for entry in entries {
        let mut report =
            |message: String| problems.push(Problem { line: entry.line, entry: Some(entry.id.clone()), message });
        if entry.otherwise {
            continue;
        }
        if entry.prompt.is_empty() {
            report(format!("it has no `prompt`, so it answers turn {} of any conversation", entry.turn));
        }
        let before = |other: &&Entry| {
            !other.otherwise && other.turn + 1 == entry.turn && (covers(other, entry) || covers(entry, other))
        };
        match entries.iter().find(before) {
            None if entry.turn > 0 => report(format!(
                "no entry with such a `prompt` answers turn {}, so turn {} is never reached",
                entry.turn - 1,
                entry.turn
            )),
            Some(earlier) if earlier.calls.is_empty() && earlier.finish == crate::Finish::Stop => {
                report(format!("{:?} before it calls no tool, so the conversation usually ends there", earlier.id))
            }
            Some(_) | None => {}
        }
        if entry.turn == 0 && entry.require.iter().any(|needed| needed.place == Place::Tool) {
            report("it requires a tool result at turn 0, when there is none yet".to_owned());
        }
    }
    problems
}

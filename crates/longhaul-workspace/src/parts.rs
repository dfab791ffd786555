//! A record's text, cut for the index: parts that a search can show, at the borders of paragraphs and sentences.
//!
//! Works on characters of any language. Invariant: no part is longer than [`PART_CHARS_MAX`] and the tail that is too
//! short to stand alone; parts put together are the text, but for white space at their borders.

use longhaul_core::{RecordId, TaskId, limits::INDEXED_TEXT_BYTES_MAX};
use longhaul_memory::{Kind as MemoryKind, NewMemory, Prepared, Source};
use serde_json::{Map, json};

use crate::{Kind, WorkspaceError, access, staged::About};

/// Aim of a part's length.
pub(crate) const PART_CHARS_MAX: usize = 1_800;
/// A rest of up to this length stays with the part before it.
const TAIL_CHARS_MAX: usize = 600;

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    /// Where it begins, in bytes.
    pub(crate) from: usize,
    pub(crate) text: &'a str,
}

/// The rows of the index for a record: its summary with the beginning of its text, then the rest, part by part.
pub(crate) fn prepare(
    task: &TaskId,
    id: &RecordId,
    about: &About,
    text: &str,
) -> Result<Vec<Prepared>, WorkspaceError> {
    let parts = cut(text);
    let first = parts.first().map_or(Part { from: 0, text: "" }, |part| *part);
    let rest = parts.iter().skip(1).copied();
    let all = std::iter::once(first).chain(rest).enumerate().map(|(number, part)| {
        let mut content = match (number, part.text.is_empty()) {
            (0, true) => about.summary.clone(),
            (0, false) => format!("{}\n\n{}", about.summary, part.text),
            _ => part.text.to_owned(),
        };
        // A database that takes text to its end cannot hold one.
        if content.contains('\0') {
            content = content.replace('\0', "\u{FFFD}");
        }
        // Within an object: what stands at the top would be a column that queries can filter by.
        let place = json!({ "part": number, "from": part.from, "name": about.name });
        let memory = NewMemory {
            namespace: access::partition_of(task),
            tags: vec![about.kind.as_str().to_owned()],
            meta: Map::from_iter([("at".to_owned(), place)]),
            task: Some(task.clone()),
            thread: Some(id.to_string()),
            expires_at: about.expires_at,
            ..NewMemory::new(&about.collection, memory_kind(&about.kind), source_of(&about.source), content)
        };
        memory.prepare().map_err(WorkspaceError::from)
    });
    all.collect()
}

/// How fast a kind of record fades in a ranking.
fn memory_kind(kind: &Kind) -> MemoryKind {
    match kind {
        Kind::Observation | Kind::Evidence => MemoryKind::Episode,
        Kind::Artifact | Kind::Note | Kind::Own(_) => MemoryKind::Note,
        Kind::Decision => MemoryKind::Decision,
        Kind::Checkpoint => MemoryKind::Progress,
    }
}

/// Whose words they are, by the first word of a record's source. What is not known is from outside.
#[must_use]
pub fn source_of(source: &str) -> Source {
    let word = source.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("").to_ascii_lowercase();
    match word.as_str() {
        "harness" | "verifier" | "longhaul" => Source::Harness,
        "agent" | "model" => Source::Agent,
        "user" => Source::User,
        "tool" => Source::Tool,
        _ => Source::Outside,
    }
}

/// Cuts a text where its sense lets go of it, as late as a part's length allows.
pub(crate) fn cut(text: &str) -> Vec<Part<'_>> {
    let text = &text[..floor(text, INDEXED_TEXT_BYTES_MAX)];
    let (mut parts, mut from) = (Vec::new(), 0);
    while from < text.len() {
        let rest = &text[from..];
        let end = match nth_char(rest, PART_CHARS_MAX + TAIL_CHARS_MAX) {
            None => rest.len(),
            Some(_) => border(&rest[..nth_char(rest, PART_CHARS_MAX).unwrap_or(rest.len())]),
        };
        push(&mut parts, text, from, from + end);
        from += end;
    }
    parts
}

fn push<'a>(parts: &mut Vec<Part<'a>>, text: &'a str, from: usize, end: usize) {
    let piece = &text[from..end];
    let trimmed = piece.trim_start();
    let from = from + (piece.len() - trimmed.len());
    if !trimmed.trim_end().is_empty() {
        parts.push(Part { from, text: trimmed.trim_end() });
    }
}

/// The last good place to cut in the second half of a window: behind a paragraph, a line, a sentence, a word; its end if
/// there is none.
fn border(window: &str) -> usize {
    let half = floor(window, window.len() / 2);
    let second = &window[half..];
    let behind = |found: Option<usize>, length: usize| found.map(|at| half + at + length);
    let sentence = || {
        let mut last = None;
        let mut chars = second.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let is_end = match c {
                '。' | '！' | '？' | '｡' | '।' | '؟' => true,
                '.' | '!' | '?' | ';' | '…' => chars.peek().is_none_or(|(_, next)| next.is_whitespace()),
                _ => false,
            };
            if is_end {
                last = Some(at + c.len_utf8());
            }
        }
        last.map(|at| half + at)
    };
    let word = || {
        let space = second.char_indices().rev().find(|(_, c)| c.is_whitespace());
        space.map(|(at, c)| half + at + c.len_utf8())
    };
    behind(second.rfind("\n\n"), 2)
        .or_else(|| behind(second.rfind('\n'), 1))
        .or_else(sentence)
        .or_else(word)
        .unwrap_or(window.len())
}

/// Where the character of this number begins, if the text has so many.
fn nth_char(text: &str, number: usize) -> Option<usize> {
    if text.len() <= number {
        return None;
    }
    text.char_indices().nth(number).map(|(at, _)| at)
}

/// The greatest border of a character that is not behind this byte.
fn floor(text: &str, byte: usize) -> usize {
    if byte >= text.len() {
        return text.len();
    }
    (0..=byte).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{PART_CHARS_MAX, TAIL_CHARS_MAX, cut};

    #[test]
    fn parts_end_where_the_sense_does() {
        let english = "A sentence of some length that says one thing. ".repeat(100);
        let chinese = "这是一个句子，说明一件事情。".repeat(300);
        let lines = "one line of a log without an end\n".repeat(200);
        for (text, ends) in [(&english, '.'), (&chinese, '。'), (&lines, 'd')] {
            let parts = cut(text);
            assert!(parts.len() > 2);
            for part in &parts {
                assert!(part.text.ends_with(ends), "{:?}", part.text);
                assert!(text[part.from..].starts_with(part.text));
            }
        }
        assert_eq!(cut(&"x".repeat(PART_CHARS_MAX + TAIL_CHARS_MAX)).len(), 1);
        assert_eq!(cut("").len() + cut(" \n ").len(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn nothing_is_lost_and_no_part_is_too_long(
            text in proptest::collection::vec("[a-z。、.! \n港口é🦀]{0,80}", 0..120)
        ) {
            let text = text.concat();
            let parts = cut(&text);
            let mut at = 0;
            for part in &parts {
                prop_assert!(part.text.chars().count() <= PART_CHARS_MAX + TAIL_CHARS_MAX);
                prop_assert!(text[at..part.from].trim().is_empty());
                at = part.from + part.text.len();
            }
            prop_assert!(text[at..].trim().is_empty());
        }
    }
}

//! User memory as a part of a prompt: blocks like XML, bounded, the same text for the same entries.
//!
//! Invariant: nothing that an entry says can end its block or begin another one: every `<`, `>` and `&` of it is
//! written as a reference, and an entry is one line.

use std::fmt::Write as _;

use super::block::{Block, Entry, Origin};

/// How much of a prompt user memory may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderLimits {
    /// Most characters, the marks included; below 200 nothing is shown.
    pub chars_max: usize,
    /// Most tokens, estimated: four ASCII characters, or one other character, are one token.
    pub tokens_max: usize,
}

impl Default for RenderLimits {
    fn default() -> Self {
        Self { chars_max: 8_000, tokens_max: 2_500 }
    }
}

/// User memory as it goes into a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The text; empty when there is nothing to show.
    pub text: String,
    /// Entries that are in it.
    pub shown: usize,
    /// Entries for which there was no room.
    pub left_out: usize,
}

/// Fewest characters in which blocks make sense.
const CHARS_MIN: usize = 200;
/// What the outer marks and the line about what was left out take at most.
const FRAME: &str =
    "<user_memory>\n(0000 entries more: `memory_user_edits` with the command `list` shows them)\n</user_memory>\n";

/// Renders entries. Where not all fit, what people wrote themselves goes first, then what was said most recently.
#[must_use]
pub(crate) fn render<'a>(entries: impl IntoIterator<Item = &'a Entry>, limits: RenderLimits) -> Rendered {
    let mut entries: Vec<&Entry> = entries.into_iter().collect();
    let all = entries.len();
    if all == 0 || limits.chars_max < CHARS_MIN {
        return Rendered { text: String::new(), shown: 0, left_out: all };
    }
    entries.sort_by_key(|entry| {
        (entry.origin == Origin::Implicit, std::cmp::Reverse(entry.updated_at), entry.block as u8, entry.id)
    });
    let (mut room, mut shown): (Room, Vec<&Entry>) = (Room::new(limits), Vec::new());
    for entry in entries {
        let line = line(entry);
        let opened = shown.iter().any(|other| other.block == entry.block);
        let marks = if opened { String::new() } else { marks(entry.block) };
        if room.take(&line, &marks) {
            shown.push(entry);
        }
    }
    let left_out = all - shown.len();
    Rendered { text: written(&shown, left_out), shown: shown.len(), left_out }
}

fn written(shown: &[&Entry], left_out: usize) -> String {
    if shown.is_empty() {
        return String::new();
    }
    let mut text = "<user_memory>\n".to_owned();
    for block in Block::ALL {
        let mut of_block: Vec<&&Entry> = shown.iter().filter(|entry| entry.block == *block).collect();
        if of_block.is_empty() {
            continue;
        }
        of_block.sort_by_key(|entry| entry.id);
        let _ = writeln!(text, "<{block}>");
        for entry in of_block {
            text.push_str(&line(entry));
        }
        let _ = writeln!(text, "</{block}>");
    }
    if left_out > 0 {
        let _ = writeln!(text, "({left_out} entries more: `memory_user_edits` with the command `list` shows them)");
    }
    text.push_str("</user_memory>\n");
    text
}

fn marks(block: Block) -> String {
    format!("<{block}>\n</{block}>\n")
}

fn line(entry: &Entry) -> String {
    format!("- {}: {}\n", entry.id, escaped(&entry.text))
}

/// What is left of the limits.
struct Room {
    chars: usize,
    tokens: usize,
}

impl Room {
    fn new(limits: RenderLimits) -> Self {
        let frame = (FRAME.chars().count(), tokens(FRAME));
        Self { chars: limits.chars_max.saturating_sub(frame.0), tokens: limits.tokens_max.saturating_sub(frame.1) }
    }

    /// Takes room for both texts, or for none.
    fn take(&mut self, line: &str, marks: &str) -> bool {
        let chars = line.chars().count() + marks.chars().count();
        let needed = tokens(line) + tokens(marks);
        if chars > self.chars || needed > self.tokens {
            return false;
        }
        self.chars -= chars;
        self.tokens -= needed;
        true
    }
}

fn tokens(text: &str) -> usize {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    ascii.div_ceil(4) + text.chars().filter(|c| !c.is_ascii()).count()
}

/// A text in which nothing is a mark: it can stand between marks of a prompt and neither end them nor make others.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // They look like the marks, and a model may take them for such.
            '\u{ff1c}' | '\u{fe64}' => out.push_str("&lt;"),
            '\u{ff1e}' | '\u{fe65}' => out.push_str("&gt;"),
            other if other.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use longhaul_core::TimeMs;
    use proptest::prelude::*;

    use super::*;
    use crate::user::block::EntryId;

    fn entry(id: u32, block: Block, text: &str, origin: Origin, at: i64) -> Entry {
        Entry {
            id: EntryId(id),
            block,
            text: text.to_owned(),
            slot: None,
            origin,
            threads: Default::default(),
            created_at: TimeMs(at),
            updated_at: TimeMs(at),
        }
    }

    #[test]
    fn blocks_come_in_their_order_and_entries_by_number() {
        let entries = [
            entry(3, Block::Preferences, "I prefer short answers", Origin::Implicit, 9),
            entry(2, Block::Identity, "我叫安娜", Origin::Explicit, 5),
            entry(1, Block::Preferences, "I like <b>tea</b> & cake", Origin::Explicit, 1),
        ];
        let rendered = render(&entries, RenderLimits::default());
        let expected = "<user_memory>\n<identity>\n- u2: 我叫安娜\n</identity>\n<preferences>\n\
                        - u1: I like &lt;b&gt;tea&lt;/b&gt; &amp; cake\n- u3: I prefer short answers\n</preferences>\n\
                        </user_memory>\n";
        assert_eq!(rendered, Rendered { text: expected.to_owned(), shown: 3, left_out: 0 });
        assert_eq!(render(&[], RenderLimits::default()).text, "");
    }

    #[test]
    fn what_people_wrote_has_room_first_and_the_rest_is_counted() {
        let mut entries: Vec<Entry> = (1..40)
            .map(|n| entry(n, Block::Other, &format!("an implicit thing {n}"), Origin::Implicit, i64::from(n)))
            .collect();
        entries.push(entry(40, Block::Other, "said by the user", Origin::Explicit, 0));
        let rendered = render(&entries, RenderLimits { chars_max: 400, tokens_max: 10_000 });
        assert!(rendered.text.chars().count() <= 400 && rendered.left_out > 0, "{rendered:?}");
        assert!(rendered.text.contains("said by the user") && rendered.text.contains("an implicit thing 39"));
        assert!(rendered.text.contains(&format!("({} entries more", rendered.left_out)));
    }

    proptest! {
        #[test]
        fn no_text_ends_its_block_and_no_limit_is_passed(
            texts in prop::collection::vec("\\PC{1,80}|</?(user_memory|other)>.{0,20}", 1..20),
            chars_max in 0_usize..3_000, tokens_max in 0_usize..800,
        ) {
            let entries: Vec<Entry> = texts.iter().zip(1..)
                .map(|(text, n)| entry(n, Block::Other, text, Origin::Explicit, 0)).collect();
            let rendered = render(&entries, RenderLimits { chars_max, tokens_max });
            prop_assert!(rendered.text.chars().count() <= chars_max && tokens(&rendered.text) <= tokens_max);
            prop_assert_eq!(rendered.shown + rendered.left_out, entries.len());
            let marks = rendered.text.matches('<').count();
            prop_assert_eq!(marks, if rendered.shown > 0 { 4 } else { 0 });
            let lines = rendered.text.lines().filter(|line| line.starts_with("- u")).count();
            prop_assert_eq!(lines, rendered.shown);
        }
    }
}

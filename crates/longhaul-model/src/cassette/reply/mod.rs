//! An entry written as a service writes an answer, one file a protocol. No I/O.
//!
//! Text comes in several pieces and so do a call's arguments, so that a client which cannot join them does not pass.

pub(crate) mod chat;
pub(crate) mod messages;
pub(crate) mod responses;

use base64::{Engine, prelude::BASE64_STANDARD};
use longhaul_core::Digest;

use super::file::Entry;
use crate::estimate_tokens;

/// Pieces are at least this long, and a long text has about [`PIECES`] of them.
const PIECE_CHARS_MIN: usize = 8;
const PIECES: usize = 48;

/// Stable, since a replayed conversation must be the same to the byte; unique within a conversation by the entry's id.
/// Of letters that every protocol takes.
pub(crate) fn call_id(kind: &str, entry: &Entry, index: usize) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
    format!("{kind}_{}_{index}", entry.id.chars().map(plain).collect::<String>())
}

/// What proves that reasoning came from here and is unchanged; a real service signs it.
pub(crate) fn signature(reasoning: &str) -> String {
    BASE64_STANDARD.encode(Digest::of(reasoning).to_string())
}

/// How many tokens the entry's answer has, with its reasoning if that was served.
fn answer_tokens(entry: &Entry, thinks: bool) -> u64 {
    let calls = entry.calls.iter().map(|call| 8 + estimate_tokens(&call.tool) + estimate_tokens(&call.arguments));
    let reasoning = if thinks { estimate_tokens(entry.reasoning.as_deref().unwrap_or_default()) } else { 0 };
    reasoning + estimate_tokens(&entry.reply) + calls.sum::<u64>()
}

fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let piece_chars = characters.len().div_ceil(PIECES).max(PIECE_CHARS_MIN.min(characters.len().div_ceil(2))).max(1);
    characters.chunks(piece_chars).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_several_and_join_to_the_text() {
        for text in ["", "a", "ab", "你好，世界", &"a long text 长 ".repeat(1_000)] {
            let pieces = pieces(text);
            assert_eq!(pieces.concat(), text);
            assert!(pieces.len() <= PIECES && (text.chars().count() < 2 || pieces.len() > 1), "{}", pieces.len());
        }
    }
}

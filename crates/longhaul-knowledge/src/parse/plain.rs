//! Text without marks: paragraphs by blank lines, underlined headings, rows of cells, and code.

use crate::block::{Block, BlockKind, Document, Place};

/// Prose in paragraphs. A line underlined with `===` or `---` is a heading, as in reStructuredText.
pub(super) fn prose(text: &str) -> Document {
    let mut document = Document::default();
    for (first, lines) in paragraphs(text) {
        let mut rest = &lines[..];
        let mut at = first;
        if let [title, mark, ..] = rest
            && let Some(level) = underline(title, mark)
        {
            let heading = Block::new(BlockKind::Heading(level), title.trim(), Place::Lines(at, at + 1));
            if level == 1 && document.blocks.is_empty() {
                document.title = Some(heading.text.clone());
            }
            document.blocks.push(heading);
            rest = &rest[2..];
            at += 2;
        }
        push(&mut document, BlockKind::Prose, rest, at);
    }
    document
}

/// Code and configuration: pieces between blank lines, as they stand.
pub(super) fn code(text: &str) -> Document {
    let mut document = Document::default();
    for (first, lines) in paragraphs(text) {
        push(&mut document, BlockKind::Code, &lines, first);
    }
    document
}

/// Rows of cells; the first row is the head.
pub(super) fn cells(text: &str, divider: char) -> Document {
    let lines: Vec<&str> = text.lines().collect();
    let head = usize::from(lines.first().is_some_and(|line| line.contains(divider)));
    let mut document = Document::default();
    push(&mut document, BlockKind::Table { head }, &lines, 1);
    document
}

fn push(document: &mut Document, kind: BlockKind, lines: &[&str], first: u32) {
    let count = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    if count > 0 {
        let place = Place::Lines(first, first.saturating_add(count - 1));
        document.blocks.push(Block::new(kind, lines.join("\n"), place));
    }
}

/// Groups of lines between blank ones, each with the number of its first line.
fn paragraphs(text: &str) -> Vec<(u32, Vec<&str>)> {
    let mut found: Vec<(u32, Vec<&str>)> = Vec::new();
    let mut open = false;
    for (number, line) in (1_u32..).zip(text.lines()) {
        let line = line.trim_end();
        if line.is_empty() {
            open = false;
            continue;
        }
        match found.last_mut() {
            Some((_, lines)) if open => lines.push(line),
            Some(_) | None => found.push((number, vec![line])),
        }
        open = true;
    }
    found
}

fn underline(title: &str, mark: &str) -> Option<u8> {
    let level = match mark.chars().next()? {
        '=' | '#' => 1,
        '-' => 2,
        '~' | '^' | '\'' | '"' => 3,
        _ => return None,
    };
    let long_enough = mark.chars().count() >= 3 && mark.chars().count() * 2 >= title.chars().count();
    (long_enough && mark.chars().all(|char| mark.starts_with(char)) && title.chars().any(char::is_alphanumeric))
        .then_some(level)
}

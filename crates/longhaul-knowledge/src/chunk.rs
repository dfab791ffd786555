//! Divides a document into chunks by its structure: a chunk lies within one section, says under which headings it stands,
//! and fits the embedder's window.
//!
//! Invariant: every line of the document's text is in a chunk, in order; the same document and bound give the same
//! chunks. Text is repeated only where a single paragraph had to be divided (its last sentence) and as a table's head.

use crate::{
    block::{Block, BlockKind, Document, Place},
    tokens,
};

/// Tokens of the headings in front of a chunk.
const PATH_TOKENS_MAX: usize = 48;
/// A repeated sentence may take this part of the window.
const OVERLAP_PART: usize = 6;

/// A piece of a document, small enough to be embedded whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The document's title and the headings above, outermost first.
    pub path: Vec<String>,
    /// The text, as in the document.
    pub text: String,
    /// Where it stands.
    pub place: Place,
    /// The name of the nearest heading for links, where it has one.
    pub anchor: Option<String>,
}

impl Chunk {
    /// What is searched: the headings in a line of their own, then the text.
    #[must_use]
    pub fn searched(&self) -> String {
        let path = self.path_line();
        if path.is_empty() { self.text.clone() } else { format!("{path}\n\n{}", self.text) }
    }

    /// The headings in one line: `Guide › Install › Linux`.
    #[must_use]
    pub fn path_line(&self) -> String {
        self.path.join(" › ")
    }
}

/// Divides a document into chunks of at most about `tokens_max` tokens, headings included.
#[must_use]
pub fn chunks(document: &Document, tokens_max: usize) -> Vec<Chunk> {
    let mut work = Work { tokens_max: tokens_max.max(32), title: document.title.clone(), ..Work::default() };
    for block in &document.blocks {
        match block.kind {
            BlockKind::Heading(level) => work.heading(level, block),
            BlockKind::Prose | BlockKind::Lines | BlockKind::Code | BlockKind::Table { .. } => work.body(block),
        }
    }
    work.end_section(0);
    work.done
}

struct Heading {
    level: u8,
    text: String,
    place: Place,
    anchor: Option<String>,
    /// Whether a chunk or a lower heading stands below it.
    used: bool,
}

#[derive(Default)]
struct Work {
    tokens_max: usize,
    title: Option<String>,
    headings: Vec<Heading>,
    /// What the chunk under way holds.
    text: String,
    tokens: usize,
    place: Option<Place>,
    last: Option<BlockKind>,
    done: Vec<Chunk>,
}

impl Work {
    fn heading(&mut self, level: u8, block: &Block) {
        self.end_section(level);
        if let Some(above) = self.headings.last_mut() {
            above.used = true;
        }
        let (text, anchor) = (one_line(&block.text), block.anchor.clone());
        self.headings.push(Heading { level, text, place: block.place, anchor, used: false });
    }

    /// Ends the chunk under way and the sections that a heading of this level ends.
    fn end_section(&mut self, level: u8) {
        self.flush();
        while let Some(heading) = self.headings.pop_if(|heading| heading.level >= level) {
            // A heading with nothing below it is all there is to find of its section.
            if !heading.used {
                let (text, place) = (heading.text.clone(), heading.place);
                self.push(text, place, heading.anchor.clone());
            }
        }
    }

    fn body(&mut self, block: &Block) {
        let room = self.room();
        let tokens = tokens::estimate(&block.text);
        if tokens > room {
            self.flush();
            for (text, place) in divided(block, room) {
                self.add(block.kind, &text, place, room);
            }
            return;
        }
        self.add(block.kind, &block.text, block.place, room);
    }

    fn add(&mut self, kind: BlockKind, text: &str, place: Place, room: usize) {
        let tokens = tokens::estimate(text);
        if self.tokens + tokens > room {
            self.flush();
        }
        if !self.text.is_empty() {
            let together = kind == BlockKind::Lines && self.last == Some(BlockKind::Lines);
            self.text.push_str(if together { "\n" } else { "\n\n" });
        }
        self.text.push_str(text);
        self.tokens += tokens;
        self.last = Some(kind);
        self.place = Some(self.place.map_or(place, |first| first.to(place)));
    }

    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.tokens = 0;
        self.last = None;
        let Some(place) = self.place.take() else { return };
        if let Some(heading) = self.headings.last_mut() {
            heading.used = true;
        }
        let anchor = self.headings.iter().rev().find_map(|heading| heading.anchor.clone());
        self.push(text, place, anchor);
    }

    fn push(&mut self, text: String, place: Place, anchor: Option<String>) {
        if !text.trim().is_empty() {
            self.done.push(Chunk { path: self.path(), text, place, anchor });
        }
    }

    /// Title and headings; where they are too long the middle is left out.
    fn path(&self) -> Vec<String> {
        let title = self.title.as_deref().map(one_line);
        let first_is_title = self.headings.first().is_some_and(|heading| Some(&heading.text) == title.as_ref());
        let mut path: Vec<String> = title.filter(|_| !first_is_title).into_iter().collect();
        path.extend(self.headings.iter().map(|heading| heading.text.clone()));
        while path.len() > 2 && path_tokens(&path) > PATH_TOKENS_MAX {
            path.remove(path.len() / 2);
        }
        for part in &mut path {
            cut(part, PATH_TOKENS_MAX / 2);
        }
        path
    }

    /// Tokens left for a chunk's text below these headings.
    fn room(&self) -> usize {
        self.tokens_max.saturating_sub(path_tokens(&self.path())).max(self.tokens_max / 2)
    }
}

fn path_tokens(path: &[String]) -> usize {
    path.iter().map(|part| tokens::estimate(part) + 1).sum()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cut(text: &mut String, tokens_max: usize) {
    if tokens::estimate(text) <= tokens_max {
        return;
    }
    while tokens::estimate(text) > tokens_max && text.pop().is_some() {}
    text.push('…');
}

/// The parts of a block that is larger than a chunk.
fn divided(block: &Block, room: usize) -> Vec<(String, Place)> {
    match block.kind {
        BlockKind::Table { head } => by_lines(block, room, head),
        BlockKind::Code | BlockKind::Lines => by_lines(block, room, 0),
        BlockKind::Prose | BlockKind::Heading(_) => by_sentences(block, room),
    }
}

/// Whole lines as far as they fit, each part under the same head.
fn by_lines(block: &Block, room: usize, head: usize) -> Vec<(String, Place)> {
    let lines: Vec<&str> = block.text.lines().collect();
    let head_text = lines[..head.min(lines.len())].join("\n");
    let head_tokens = tokens::estimate(&head_text);
    // A head that leaves no room for rows is not repeated.
    let head = if head_tokens * 2 > room { 0 } else { head.min(lines.len()) };
    let room = if head == 0 { room } else { room - head_tokens };
    let mut parts: Vec<(String, Place)> = Vec::new();
    let (mut text, mut used, mut first) = (String::new(), 0, head);
    let mut close = |text: &mut String, first: usize, last: usize| {
        let body = std::mem::take(text);
        if !body.trim().is_empty() {
            let whole = if head == 0 { body } else { format!("{head_text}\n{body}") };
            parts.push((whole, lines_of(block, first, last)));
        }
    };
    for (index, line) in lines.iter().enumerate().skip(head) {
        for piece in hard_cut(line, room) {
            let tokens = tokens::estimate(piece);
            if used + tokens > room && !text.is_empty() {
                close(&mut text, first, index.saturating_sub(1).max(first));
                (used, first) = (0, index);
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(piece);
            used += tokens;
        }
    }
    close(&mut text, first, lines.len().saturating_sub(1).max(first));
    parts
}

/// Whole sentences as far as they fit; the last one of a part begins the next, if it is short.
fn by_sentences(block: &Block, room: usize) -> Vec<(String, Place)> {
    let pieces: Vec<&str> = sentences(&block.text).into_iter().flat_map(|sentence| hard_cut(sentence, room)).collect();
    let start = block.text.as_ptr() as usize;
    let line_at = |piece: &str, at_end: bool| {
        let offset = piece.as_ptr() as usize - start;
        let until = if at_end { offset + piece.trim_end().len() } else { offset };
        block.text[..until].matches('\n').count()
    };
    let mut parts = Vec::new();
    let (mut first, mut index, mut used) = (0, 0, 0);
    while index < pieces.len() {
        let tokens = tokens::estimate(pieces[index]);
        if used + tokens > room && index > first {
            parts.push((first, index));
            let repeated = tokens::estimate(pieces[index - 1]);
            let repeats = index - 1 > first && repeated * OVERLAP_PART <= room && repeated + tokens <= room;
            first = if repeats { index - 1 } else { index };
            used = if repeats { repeated } else { 0 };
        }
        used += tokens;
        index += 1;
    }
    parts.push((first, pieces.len()));
    let part = |(from, to): (usize, usize)| {
        let text = pieces[from..to].concat().trim().to_owned();
        let lines = (line_at(pieces[from], false), line_at(pieces[to - 1], true));
        (!text.is_empty()).then(|| (text, lines_of(block, lines.0, lines.1)))
    };
    parts.into_iter().filter(|(from, to)| from < to).filter_map(part).collect()
}

/// A text divided after the ends of sentences and after line breaks that end a paragraph; nothing is lost.
fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let end = at + char.len_utf8();
        let ends = match char {
            '。' | '！' | '？' | '．' | '；' => true,
            '.' | '!' | '?' | ';' => chars.peek().is_none_or(|(_, next)| next.is_whitespace()),
            '\n' => chars.peek().is_some_and(|(_, next)| *next == '\n'),
            _ => false,
        };
        if ends {
            found.push(&text[start..end]);
            start = end;
        }
    }
    if start < text.len() {
        found.push(&text[start..]);
    }
    found
}

/// A piece that is too long even alone, cut between words or, where there are none, between characters.
fn hard_cut(text: &str, room: usize) -> Vec<&str> {
    if tokens::estimate(text) <= room {
        return vec![text];
    }
    let mut found = Vec::new();
    let (mut start, mut last_space) = (0, None);
    for (at, char) in text.char_indices() {
        let end = at + char.len_utf8();
        // Counting afresh at every character would be quadratic; a token has at most so many bytes.
        if end - start >= room && tokens::estimate(&text[start..end]) > room {
            let to = last_space.filter(|space| *space > start).unwrap_or(at).max(start + 1);
            let to = text.ceil_char_boundary(to);
            found.push(&text[start..to]);
            start = to;
            last_space = None;
        }
        if char.is_whitespace() {
            last_space = Some(end);
        }
    }
    if start < text.len() {
        found.push(&text[start..]);
    }
    found
}

/// The place of some lines of a block, counted from 0 within it.
fn lines_of(block: &Block, first: usize, last: usize) -> Place {
    let shift = |by: usize| u32::try_from(by).unwrap_or(u32::MAX);
    match block.place {
        Place::Lines(start, end) => {
            let from = start.saturating_add(shift(first)).min(end);
            Place::Lines(from, start.saturating_add(shift(last)).clamp(from, end))
        }
        pages @ Place::Pages(..) => pages,
    }
}

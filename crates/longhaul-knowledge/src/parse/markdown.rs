//! Markdown through `pulldown-cmark`: its parts keep their source, so that lines can be cited and code stays code.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::block::{Block, BlockKind, Document, Place};

pub(super) fn parse(text: &str) -> Document {
    let options = Options::ENABLE_TABLES | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS | Options::ENABLE_TASKLISTS;
    let lines = Lines::of(text);
    let mut document = Document::default();
    // Depth within parts that are taken whole; a heading's words as they come.
    let (mut depth, mut heading) = (0_usize, None::<String>);
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    match &tag {
                        Tag::Heading { .. } => heading = Some(String::new()),
                        Tag::MetadataBlock(_) => document.title = front_title(&text[range]),
                        other => push(&mut document, &lines, kind(other), &text[range.clone()], range.start),
                    }
                }
                depth += 1;
            }
            Event::End(end) => {
                depth = depth.saturating_sub(1);
                if let (TagEnd::Heading(level), Some(words)) = (end, heading.take_if(|_| depth == 0)) {
                    let level = level as u8;
                    if level == 1 && document.title.is_none() && !words.trim().is_empty() {
                        document.title = Some(words.trim().to_owned());
                    }
                    let source = text[range.clone()].trim_end();
                    let place = lines.place(range.start, range.start + source.len());
                    document.blocks.push(Block::new(BlockKind::Heading(level), words.trim(), place));
                }
            }
            Event::Text(words) | Event::Code(words) | Event::InlineMath(words) | Event::DisplayMath(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some(heading) = &mut heading {
                    heading.push(' ');
                }
            }
            Event::Html(_)
            | Event::InlineHtml(_)
            | Event::FootnoteReference(_)
            | Event::Rule
            | Event::TaskListMarker(_) => {}
        }
    }
    document
}

fn push(document: &mut Document, lines: &Lines, kind: BlockKind, source: &str, start: usize) {
    let trimmed = source.trim_end();
    let comment = trimmed.trim_start().starts_with("<!--") && trimmed.ends_with("-->");
    if !trimmed.trim().is_empty() && !comment {
        document.blocks.push(Block::new(kind, trimmed, lines.place(start, start + trimmed.len())));
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "another library's enum, which may grow: what is new is prose")]
fn kind(tag: &Tag<'_>) -> BlockKind {
    match tag {
        Tag::CodeBlock(_) | Tag::HtmlBlock => BlockKind::Code,
        Tag::List(_) | Tag::BlockQuote(_) => BlockKind::Lines,
        Tag::Table(_) => BlockKind::Table { head: 2 },
        _ => BlockKind::Prose,
    }
}

/// `title: …` of a front matter.
fn front_title(source: &str) -> Option<String> {
    let line = source.lines().find_map(|line| line.strip_prefix("title:"))?;
    let title = line.trim().trim_matches(['"', '\'']).trim();
    (!title.is_empty()).then(|| title.to_owned())
}

/// Where lines begin, to tell the line of a byte.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    pub(super) fn line(&self, offset: usize) -> u32 {
        u32::try_from(self.0.partition_point(|start| *start <= offset) + 1).unwrap_or(u32::MAX)
    }

    /// From the line of the first byte to that of the last one before `end`.
    pub(super) fn place(&self, start: usize, end: usize) -> Place {
        Place::Lines(self.line(start), self.line(end.max(start + 1) - 1))
    }
}

//! HTML through html5ever (by way of `scraper`): the main content of a page as blocks, without navigation and scripts.
//!
//! Places are lines of the source, found by the words themselves, as the tree does not keep them: near, and never
//! before the last one.

use scraper::{ElementRef, Html, Node, Selector};

use super::markdown::Lines;
use crate::block::{Block, BlockKind, Document};

/// Parts that are not content.
const SKIPPED: [&str; 17] = [
    "script", "style", "noscript", "template", "nav", "footer", "aside", "form", "button", "svg", "iframe", "head",
    "select", "dialog", "canvas", "audio", "video",
];
/// Elements that begin a block of their own.
const BLOCKS: [&str; 27] = [
    "p",
    "div",
    "section",
    "article",
    "main",
    "header",
    "ul",
    "ol",
    "dl",
    "table",
    "pre",
    "blockquote",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "figure",
    "figcaption",
    "details",
    "summary",
    "address",
    "hr",
    "body",
    "dd",
    "dt",
];
/// Deepest nesting that is followed.
const DEPTH_MAX: usize = 200;

pub(super) fn parse(source: &str) -> Document {
    let tree = Html::parse_document(source);
    let mut walk =
        Walk { source, lines: Lines::of(source), cursor: 0, document: Document::default(), inline: String::new() };
    walk.document.title = first(&tree, "title").map(|title| words(title)).filter(|title| !title.is_empty());
    if let Some(root) = content_root(&tree) {
        walk.children(root, 0);
        walk.flush();
    }
    walk.document
}

/// The page's main content if it says which it is, else its body.
fn content_root(tree: &Html) -> Option<ElementRef<'_>> {
    let whole = tree.root_element().text().map(str::len).sum::<usize>();
    let marked = ["main", "[role=main]", "article"].into_iter().find_map(|selector| {
        let element = first(tree, selector)?;
        // A teaser in an <article> is not the page.
        let own = element.text().map(str::len).sum::<usize>();
        (own * 4 > whole).then_some(element)
    });
    marked.or_else(|| first(tree, "body")).or_else(|| Some(tree.root_element()))
}

fn first<'a>(tree: &'a Html, selector: &str) -> Option<ElementRef<'a>> {
    let selector = Selector::parse(selector).ok()?;
    tree.select(&selector).next()
}

struct Walk<'a> {
    source: &'a str,
    lines: Lines,
    /// Byte of the source up to which blocks were found.
    cursor: usize,
    document: Document,
    /// Text between block elements, as it comes.
    inline: String,
}

impl Walk<'_> {
    fn children(&mut self, element: ElementRef<'_>, depth: usize) {
        for child in element.children() {
            match child.value() {
                Node::Text(text) => self.inline.push_str(text),
                Node::Element(_) => {
                    if let Some(element) = ElementRef::wrap(child) {
                        self.element(element, depth + 1);
                    }
                }
                Node::Document
                | Node::Fragment
                | Node::Doctype(_)
                | Node::Comment(_)
                | Node::ProcessingInstruction(_) => {}
            }
        }
    }

    fn element(&mut self, element: ElementRef<'_>, depth: usize) {
        let name = element.value().name();
        let hidden = element.attr("hidden").is_some() || element.attr("aria-hidden") == Some("true");
        if SKIPPED.contains(&name) || hidden || depth > DEPTH_MAX {
            return;
        }
        if !BLOCKS.contains(&name) {
            if name == "br" {
                self.inline.push('\n');
            }
            self.children(element, depth);
            return;
        }
        self.flush();
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = name.as_bytes()[1] - b'0';
                let text = words(element);
                let anchor = element.attr("id").map(str::to_owned).or_else(|| inner_id(element));
                self.push(BlockKind::Heading(level), text, anchor);
            }
            "pre" => self.push(BlockKind::Code, element.text().collect::<String>().trim_end().to_owned(), None),
            "ul" | "ol" => {
                let mut text = String::new();
                list(element, 0, &mut text);
                self.push(BlockKind::Lines, text.trim_end().to_owned(), None);
            }
            "table" => {
                let (text, head) = table(element);
                self.push(BlockKind::Table { head }, text, None);
            }
            _ => {
                self.children(element, depth);
                self.flush();
            }
        }
    }

    /// Ends the paragraph under way.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.inline);
        let lines: Vec<String> = text.split('\n').map(collapsed).collect();
        let text = if lines.len() > 1 { collapsed(&text) } else { lines.concat() };
        self.push(BlockKind::Prose, text, None);
    }

    fn push(&mut self, kind: BlockKind, text: String, anchor: Option<String>) {
        if text.trim().is_empty() {
            return;
        }
        let start = self.find(text.split(|char: char| !char.is_alphanumeric()).find(|word| word.len() > 1));
        let last = text.rsplit(|char: char| !char.is_alphanumeric()).find(|word| word.len() > 1);
        let from = self.cursor.max(start);
        // The last word is looked for behind as much source as the text itself must take.
        let behind = (from + text.len() / 2).min(self.source.len());
        self.cursor = self.source.floor_char_boundary(behind);
        let end = self.find(last).max(from);
        self.cursor = end;
        let place = self.lines.place(from, end + 1);
        self.document.blocks.push(Block { kind, text, place, anchor });
    }

    /// The byte at which a word next stands in the source; where it is written otherwise, the last place known.
    fn find(&self, word: Option<&str>) -> usize {
        let window =
            &self.source[self.cursor..self.source.ceil_char_boundary((self.cursor + 20_000).min(self.source.len()))];
        word.and_then(|word| window.find(word)).map_or(self.cursor, |at| self.cursor + at)
    }
}

fn words(element: ElementRef<'_>) -> String {
    // Signs that many generators hang at headings for linking.
    collapsed(&element.text().collect::<String>()).trim_end_matches(['¶', '#', '§']).trim_end().to_owned()
}

fn inner_id(element: ElementRef<'_>) -> Option<String> {
    element.descendent_elements().find_map(|inner| inner.attr("id").map(str::to_owned))
}

fn collapsed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A list as lines, each level two spaces further in.
fn list(element: ElementRef<'_>, depth: usize, text: &mut String) {
    if depth > 20 {
        return;
    }
    for item in element.child_elements().filter(|item| item.value().name() == "li") {
        let mut own = String::new();
        let mut inner = Vec::new();
        own_text(item, &mut own, &mut inner, 0);
        text.push_str(&format!("{}- {}\n", "  ".repeat(depth), collapsed(&own)));
        for nested in inner {
            list(nested, depth + 1, text);
        }
    }
}

/// The text of an item without that of the lists within it, which are handed back.
fn own_text<'a>(element: ElementRef<'a>, own: &mut String, inner: &mut Vec<ElementRef<'a>>, depth: usize) {
    for child in element.children() {
        if let Node::Text(text) = child.value() {
            own.push_str(text);
        } else if let Some(child) = ElementRef::wrap(child) {
            match child.value().name() {
                "ul" | "ol" => inner.push(child),
                name if SKIPPED.contains(&name) || depth > DEPTH_MAX => {}
                _ => {
                    own.push(' ');
                    own_text(child, own, inner, depth + 1);
                }
            }
        }
    }
}

/// A table as rows of cells between bars, and how many lines its head has.
fn table(element: ElementRef<'_>) -> (String, usize) {
    let mut lines = Vec::new();
    let mut head = 0;
    for row in element.descendent_elements().filter(|row| row.value().name() == "tr") {
        let cells: Vec<ElementRef<'_>> =
            row.child_elements().filter(|cell| matches!(cell.value().name(), "td" | "th")).collect();
        if cells.is_empty() {
            continue;
        }
        if lines.is_empty() && cells.iter().all(|cell| cell.value().name() == "th") {
            head = 1;
        }
        let texts: Vec<String> = cells.iter().map(|cell| collapsed(&cell.text().collect::<String>())).collect();
        lines.push(format!("| {} |", texts.join(" | ")));
    }
    (lines.join("\n"), head)
}

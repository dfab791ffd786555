//! PDF through `pdf-extract`: the text of each page in paragraphs, without what stands at the edge of every page.
//!
//! That library panics on what it does not know, so it works on a thread of its own, whose panics are answers here and
//! not messages to the user. A page it cannot read is tried with the simpler extraction of `lopdf` beneath it.
//! Invariant: whatever the bytes are, there is an answer within [`TIME_MAX`].

use std::{
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::{Once, mpsc},
    thread,
    time::Duration,
};

use pdf_extract::{Document as Pdf, PlainTextOutput, decode_text_string, output_doc_page};

use super::Refusal;
use crate::{
    block::{Block, BlockKind, Document, Place},
    tokens::is_wide,
};

/// Longest time for one file; a book of 200 pages takes seconds.
const TIME_MAX: Duration = Duration::from_secs(120);
const PAGES_MAX: usize = 20_000;
/// Fonts and forms may be nested deeply; the library follows them by recursion.
const STACK_BYTES: usize = 64 * 1024 * 1024;
const THREAD: &str = "longhaul-pdf";

pub(super) fn parse(bytes: &[u8]) -> Result<Document, Refusal> {
    quiet_panics_of_this_thread_name();
    let broken = |problem: &str| Refusal::BrokenPdf { problem: problem.chars().take(200).collect() };
    let (sender, answer) = mpsc::channel();
    let bytes = bytes.to_vec();
    let work = move || {
        let read = catch_unwind(AssertUnwindSafe(|| read(&bytes)));
        let _ = sender.send(read); // nobody waits for what took too long
    };
    let spawned = thread::Builder::new().name(THREAD.to_owned()).stack_size(STACK_BYTES).spawn(work);
    spawned.map_err(|error| broken(&error.to_string()))?;
    match answer.recv_timeout(TIME_MAX) {
        Ok(Ok(document)) => document,
        Ok(Err(_panic)) => Err(broken("its structure makes no sense")),
        Err(_) => Err(broken("reading it takes too long")),
    }
}

/// Installed once, on top of what is there: panics of other threads are told as before.
fn quiet_panics_of_this_thread_name() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if thread::current().name() != Some(THREAD) {
                before(panic);
            }
        }));
    });
}

fn read(bytes: &[u8]) -> Result<Document, Refusal> {
    let mut pdf = Pdf::load_mem(bytes).map_err(|error| {
        let problem = error.to_string();
        let locked = ["decrypt", "password", "encrypt"].iter().any(|word| problem.to_lowercase().contains(word));
        if locked { Refusal::Encrypted } else { Refusal::BrokenPdf { problem: problem.chars().take(200).collect() } }
    })?;
    // Many are encrypted with the empty password, which only forbids printing and the like.
    if pdf.is_encrypted() && pdf.decrypt("").is_err() {
        return Err(Refusal::Encrypted);
    }
    let numbers: Vec<u32> = pdf.get_pages().into_keys().take(PAGES_MAX).collect();
    if numbers.is_empty() {
        return Err(Refusal::BrokenPdf { problem: "it has no pages".to_owned() });
    }
    let mut pages: Vec<Vec<String>> = numbers.iter().map(|number| paragraphs(&page(&pdf, *number))).collect();
    if pages.iter().all(Vec::is_empty) {
        return Err(Refusal::Scanned { pages: pages.len() });
    }
    drop_edges(&mut pages);
    let blocks = numbers.iter().zip(pages).flat_map(|(number, paragraphs)| {
        paragraphs.into_iter().map(|text| Block::new(BlockKind::Prose, text, Place::Pages(*number, *number)))
    });
    Ok(Document { title: title(&pdf), blocks: blocks.collect() })
}

fn page(pdf: &Pdf, number: u32) -> String {
    let laid_out = catch_unwind(AssertUnwindSafe(|| {
        let mut text = String::new();
        output_doc_page(pdf, &mut PlainTextOutput::new(&mut text), number).ok().map(|()| text)
    }));
    let laid_out = laid_out.ok().flatten().filter(|text| !text.trim().is_empty());
    let simple = || catch_unwind(AssertUnwindSafe(|| pdf.extract_text(&[number]).ok())).ok().flatten();
    laid_out.or_else(simple).unwrap_or_default()
}

fn title(pdf: &Pdf) -> Option<String> {
    let info = pdf.trailer.get(b"Info").ok()?;
    let (_, info) = pdf.dereference(info).ok()?;
    let title = decode_text_string(info.as_dict().ok()?.get(b"Title").ok()?).ok()?;
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    // Programs put a file's name there, or a word that says nothing.
    let says_something = !title.is_empty() && !title.eq_ignore_ascii_case("untitled") && !title.contains(".tex");
    says_something.then_some(title)
}

/// Paragraphs of a page: lines between blank ones, joined, words that were divided at the end of a line made whole.
fn paragraphs(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines().map(|line| plain_letters(line.trim())) {
        if line.is_empty() {
            open = false;
            continue;
        }
        match found.last_mut() {
            Some(paragraph) if open => join(paragraph, &line),
            Some(_) | None => found.push(line),
        }
        open = true;
    }
    found
}

fn join(paragraph: &mut String, line: &str) {
    let (last, next) = (paragraph.chars().next_back(), line.chars().next());
    let divided = paragraph.ends_with('-')
        && paragraph.chars().rev().nth(1).is_some_and(char::is_alphabetic)
        && next.is_some_and(char::is_lowercase);
    if divided {
        paragraph.pop();
    } else if !(last.is_some_and(is_wide) && next.is_some_and(is_wide)) {
        paragraph.push('\n');
    }
    paragraph.push_str(line);
}

/// Ligatures as the letters they stand for, and no control characters.
fn plain_letters(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    for char in line.chars() {
        match char {
            'ﬀ' => plain.push_str("ff"),
            'ﬁ' => plain.push_str("fi"),
            'ﬂ' => plain.push_str("fl"),
            'ﬃ' => plain.push_str("ffi"),
            'ﬄ' => plain.push_str("ffl"),
            'ﬅ' | 'ﬆ' => plain.push_str("st"),
            char if char.is_control() => plain.push(' '),
            char => plain.push(char),
        }
    }
    plain.trim().to_owned()
}

/// Removes what stands first or last on most pages: running heads, page numbers.
fn drop_edges(pages: &mut [Vec<String>]) {
    if pages.len() < 4 {
        return;
    }
    let shape = |text: &String| -> String { text.chars().filter(|char| !char.is_numeric()).take(120).collect() };
    for last in [false, true] {
        let edge = |page: &Vec<String>| if last { page.last().map(shape) } else { page.first().map(shape) };
        let mut counts = std::collections::HashMap::<String, usize>::new();
        for edge in pages.iter().filter_map(edge) {
            *counts.entry(edge).or_default() += 1;
        }
        for page in pages.iter_mut().filter(|page| page.len() > 1) {
            if edge(page).is_some_and(|edge| counts[&edge] * 3 > counts.values().sum::<usize>()) {
                if last { drop(page.pop()) } else { drop(page.remove(0)) }
            }
        }
    }
}

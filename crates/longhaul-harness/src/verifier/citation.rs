//! Whether a document says where each of its claims is from. Every paragraph of it must cite a source that is stored,
//! and what it quotes must stand there. Pure: sources are asked for by key.
//!
//! A citation is `[@KEY]`, also several as `[@A; @B, p. 3]`. Headings, lists of links, code, tables, pictures, and what
//! stands under a heading such as References or Sources claim nothing; every other paragraph and list entry does.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_tools::browser::fold;

use crate::checks::CitationCheck;

/// Shortest text in quotation marks, in characters, that must stand in a source: shorter ones are single words.
const QUOTE_CHARS_MIN: usize = 12;
/// Headings under which nothing is claimed.
const REFERENCES: [&str; 8] =
    ["references", "sources", "bibliography", "works cited", "literature", "further reading", "참고문헌", "출처"];

/// Asks for a source by its key: `None` when there is none.
pub(super) type Source<'a> = dyn Fn(&str) -> Option<Result<String, String>> + 'a;

/// Holds the document against its sources.
pub(super) fn hold(check: &CitationCheck, document: &str, source: &Source<'_>) -> Result<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut cited = BTreeSet::new();
    let claims = claims(document);
    if claims.is_empty() {
        return Err("it claims nothing: there is no paragraph".to_owned());
    }
    for (number, claim) in &claims {
        let at = |why: String| format!("line {number}: {why} in {:?}", claim.chars().take(120).collect::<String>());
        let keys = keys(claim);
        if keys.is_empty() {
            return Err(at("no source is cited".to_owned()));
        }
        for key in &keys {
            if !texts.contains_key(key) {
                match source(key) {
                    None => return Err(at(format!("the source {key:?} is not stored in {}", check.sources))),
                    Some(Err(why)) => return Err(at(format!("the source {key:?} cannot be read: {why}"))),
                    Some(Ok(text)) if text.trim().is_empty() => return Err(at(format!("the source {key:?} is empty"))),
                    Some(Ok(text)) => texts.insert(key.clone(), plain(&text)),
                };
            }
            cited.insert(key.clone());
        }
        let quotes = quotations(claim);
        if check.quotes && quotes.is_empty() {
            return Err(at("nothing is quoted".to_owned()));
        }
        for quote in quotes {
            let wanted = plain(&quote);
            if !keys.iter().any(|key| texts.get(key).is_some_and(|text| text.contains(&wanted))) {
                return Err(at(format!("the quotation {quote:?} does not stand in {}", keys.join(", "))));
            }
        }
    }
    if cited.len() < check.at_least {
        return Err(format!("it cites {} source(s), expected at least {}", cited.len(), check.at_least));
    }
    Ok(format!("{} paragraphs of {} cite {} stored source(s)", claims.len(), check.path, cited.len()))
}

/// Paragraphs and list entries that claim something, each with the line where it begins.
fn claims(document: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut open, mut code, mut references) = (false, false, false);
    for (number, line) in document.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            (code, open) = (!code, false);
            continue;
        }
        if let Some(heading) = line.strip_prefix('#') {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            references = REFERENCES.iter().any(|word| heading.trim_end_matches(':') == *word);
            open = false;
            continue;
        }
        let silent = line.is_empty()
            || line.starts_with('|')
            || line.starts_with("![")
            || line.starts_with("<!--")
            || line.chars().all(|c| matches!(c, '-' | '*' | '_' | '=' | ' '));
        if code || references || silent {
            open = false;
            continue;
        }
        let entry = ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark)).or_else(|| numbered(line));
        match (entry, found.last_mut().filter(|_| open)) {
            (None, Some((_, claim))) => {
                claim.push(' ');
                claim.push_str(line);
            }
            (entry, _) => found.push((number + 1, entry.unwrap_or(line).to_owned())),
        }
        open = true;
    }
    found
}

/// What follows `1. ` or `1) `.
fn numbered(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == line.len() {
        return None;
    }
    rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))
}

/// The keys of the citations in a paragraph, each once.
fn keys(claim: &str) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for group in claim.split('[').skip(1).filter_map(|rest| rest.split(']').next()) {
        for word in group.split([';', ',', ' ']).filter_map(|word| word.trim().strip_prefix('@')) {
            let key = word.trim_end_matches(['.', ':']).to_owned();
            if !key.is_empty() && !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys
}

/// Texts in quotation marks that are long enough to be a quotation.
fn quotations(claim: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (open, close) in [('"', '"'), ('“', '”'), ('「', '」'), ('«', '»')] {
        let mut rest = claim;
        while let Some(begin) = rest.find(open) {
            let inside = &rest[begin + open.len_utf8()..];
            let Some(end) = inside.find(close) else { break };
            let quote = inside[..end].trim();
            if quote.chars().count() >= QUOTE_CHARS_MIN {
                found.push(quote.to_owned());
            }
            rest = &inside[end + close.len_utf8()..];
        }
    }
    found
}

/// A text as it is compared: white space folded, marks that printers vary made the same, capitals aside.
fn plain(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| match c {
            '“' | '”' | '«' | '»' => '"',
            '‘' | '’' => '\'',
            '–' | '—' | '\u{2212}' => '-',
            c => c,
        })
        .collect();
    let text = fold(&text).to_lowercase();
    text.trim_end_matches(['.', ',', '…']).to_owned()
}

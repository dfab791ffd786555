//! A time that somebody mentions in a sentence: "that project last month", "上个月那个项目", "was wir vor zwei Wochen besprachen".
//!
//! Invariant: only what surely is a time is taken for one. A word that also means something else ("may", "hier") and an
//! amount that does not reach back ("it took 2 weeks") stay in the sentence.

use longhaul_core::TimeMs;
use unicode_normalization::UnicodeNormalization;

use super::{Period, Reading, Zone, fold, period, words, words::Unit};

/// Words of one expression of time at most.
const WORDS_MAX: usize = 6;
/// Characters of one expression in a script without spaces at most.
const UNSPACED_CHARS_MAX: usize = 12;
/// Characters of a sentence that are looked through.
const CHARS_MAX: usize = 2_000;

/// A time in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// What it means.
    pub period: Period,
    /// The words that say so.
    pub words: String,
    /// The sentence without them.
    pub rest: String,
}

/// The time that a sentence mentions, if it mentions one; of several the first. What is "two weeks ago" to people is
/// about then: a week before and after it belong to it.
#[must_use]
pub fn mentioned(sentence: &str, now: TimeMs, zone: &Zone) -> Option<Mention> {
    let sentence: String = sentence.nfkc().take(CHARS_MAX).map(|c| if c == '’' { '\'' } else { c }).collect();
    let reading = Reading { now, zone };
    in_words(&sentence, &reading).or_else(|| in_characters(&sentence, &reading))
}

/// Among words with spaces between them.
fn in_words(sentence: &str, reading: &Reading<'_>) -> Option<Mention> {
    let words = spaced(sentence);
    for from in 0..words.len() {
        for to in (from + 1..=words.len().min(from + WORDS_MAX)).rev() {
            let text = &sentence[words[from].0..words[to - 1].1];
            let before = from.checked_sub(1).map(|at| sentence[words[at].0..words[at].1].to_lowercase());
            let Some(found) = meant(text, before.as_deref(), reading) else { continue };
            let (found, begins) = match before.as_deref().and_then(|word| open_ended(word, found)) {
                Some(open) => (open, words[from - 1].0),
                None => (found, words[from].0),
            };
            return Some(mention(sentence, begins, words[to - 1].1, found));
        }
    }
    None
}

/// The words of a sentence as byte ranges, without the marks around them.
fn spaced(sentence: &str) -> Vec<(usize, usize)> {
    let mut words = Vec::new();
    let mut at = 0;
    for word in sentence.split_inclusive(char::is_whitespace) {
        let is_mark = |c: char| !c.is_alphanumeric();
        let bare = word.trim_matches(is_mark);
        if !bare.is_empty() {
            let begins = at + word.len() - word.trim_start_matches(is_mark).len();
            let bare = bare.strip_suffix("'s").unwrap_or(bare);
            words.push((begins, begins + bare.len()));
        }
        at += word.len();
    }
    words
}

/// Among the characters of a script that puts no spaces between words.
fn in_characters(sentence: &str, reading: &Reading<'_>) -> Option<Mention> {
    let places: Vec<(usize, char)> = sentence.char_indices().collect();
    let end = |at: usize| places.get(at).map_or(sentence.len(), |(byte, _)| *byte);
    for from in 0..places.len() {
        for to in (from + 2..=places.len().min(from + UNSPACED_CHARS_MAX)).rev() {
            let (first, last) = (places[from].1, places[to - 1].1);
            if !(is_unspaced(last) && (is_unspaced(first) || first.is_ascii_digit())) {
                continue;
            }
            // A number is taken whole.
            if first.is_ascii_digit() && from.checked_sub(1).is_some_and(|at| places[at].1.is_ascii_digit()) {
                continue;
            }
            let text = &sentence[end(from)..end(to)];
            if let Some(found) = meant(text, None, reading) {
                return Some(mention(sentence, end(from), end(to), found));
            }
        }
    }
    None
}

fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}')
}

fn mention(sentence: &str, from: usize, to: usize, period: Period) -> Mention {
    let rest = format!("{} {}", &sentence[..from], &sentence[to..]);
    let rest = rest.split_whitespace().collect::<Vec<_>>().join(" ");
    Mention { period, words: sentence[from..to].to_owned(), rest }
}

/// What a piece of a sentence means, if it surely means a time.
fn meant(text: &str, before: Option<&str>, reading: &Reading<'_>) -> Option<Period> {
    let folded = fold(text).ok()?;
    if folded.contains("..") || words::amount(&folded).is_some() || is_ambiguous(&folded, before) {
        return None;
    }
    if let Some(around) = around(&folded, reading) {
        return Some(around);
    }
    period(&folded, reading.now, reading.zone).ok()
}

/// Words that name a time and something else, and numbers that may be a year.
fn is_ambiguous(folded: &str, before: Option<&str>) -> bool {
    const IN: [&str; 10] = ["in", "of", "from", "since", "during", "before", "im", "en", "nel", "в"];
    const WORDS: [&str; 12] =
        ["may", "march", "mar", "sat", "sun", "dec", "jan", "now", "hier", "august", "지금", "現在"];
    let is_introduced = before.is_some_and(|word| IN.contains(&word));
    let is_number = folded.bytes().all(|byte| byte.is_ascii_digit());
    let is_year = is_number && (1970..=2100).contains(&folded.parse::<i32>().unwrap_or_default());
    match (is_number, WORDS.contains(&folded)) {
        (true, _) => !(is_year && is_introduced),
        (_, true) => !is_introduced || folded == "hier" || folded == "now",
        (false, false) => folded.chars().count() < 2,
    }
}

/// "Two weeks ago", as people mean it.
fn around(folded: &str, reading: &Reading<'_>) -> Option<Period> {
    const AGO: [&str; 13] =
        [" ago", "前", "以前", "之前", " 전", "전", " fa", " atrás", " назад", "vor ", "il y a ", "hace ", "há "];
    let says_ago = AGO.iter().any(|word| folded.ends_with(word) || (word.ends_with(' ') && folded.starts_with(word)));
    let (count, unit) = words::amount_back(folded).filter(|_| says_ago)?;
    let (slack, slack_unit) = match unit {
        Unit::Minute => (30, Unit::Minute),
        Unit::Hour => (3, Unit::Hour),
        Unit::Day => (1, Unit::Day),
        Unit::Week => (7, Unit::Day),
        Unit::Month => (20, Unit::Day),
        Unit::Year => (6, Unit::Month),
    };
    let at = TimeMs(reading.shifted(-count, unit)?);
    let there = Reading { now: at, zone: reading.zone };
    let (since, until) = (there.shifted(-slack, slack_unit)?, there.shifted(slack, slack_unit)?);
    Some(Period { since: Some(TimeMs(since)), until: Some(TimeMs(until)) })
}

/// "Since last week", "before monday": what the word before a time makes of it.
fn open_ended(word: &str, found: Period) -> Option<Period> {
    match word {
        "since" | "seit" | "depuis" | "desde" | "da" | "с" => Some(Period { since: found.since, until: None }),
        "before" | "until" | "till" | "bis" | "avant" => Some(Period { since: None, until: found.since }),
        _ => None,
    }
}

//! Finding what is worth keeping in what a user says, by rules that need no model.
//!
//! It reads one sentence at a time: what the user says of themselves, asks to be kept or forgotten, or sets as a rule for
//! answers. The patterns of each language stand in `patterns`. Invariant: nothing is found in a text that is not the
//! user's own: quotations, code, forwarded mail and marked documents are taken out first, and the caller passes no text
//! of another source ([`super::observe`] sees to that).

mod patterns;
mod sentences;

use std::sync::LazyLock;

use regex::Regex;

use super::block::{Block, ENTRY_CHARS_MAX, Slot, plain};
use patterns::{About, Cut, PATTERNS, THIRD_PERSON};

/// Most things found in one turn.
const FOUND_MAX: usize = 16;

/// Something a rule has found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// Name of the rule.
    pub(crate) rule: &'static str,
    /// What to do with it.
    pub(crate) wish: Wish,
    /// 0 to 1: how sure it is that this is meant to last.
    pub(crate) confidence: f32,
    /// The sentence it was found in.
    pub(crate) quote: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Wish {
    Keep {
        block: Block,
        text: String,
        slot: Option<Slot>,
    },
    /// What is known of this should go.
    Forget {
        text: String,
    },
}

/// What a text is about, where a rule knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) block: Block,
    pub(crate) slot: Option<Slot>,
}

struct Compiled {
    rule: &'static patterns::Rule,
    regex: Regex,
}

/// A pattern that does not compile is left out; a test sees to it that there is none.
fn compiled(rules: impl Iterator<Item = &'static patterns::Rule>) -> Vec<Compiled> {
    let compile = |rule: &'static patterns::Rule| Some(Compiled { rule, regex: Regex::new(rule.pattern).ok()? });
    rules.filter_map(compile).collect()
}

static RULES: LazyLock<Vec<Compiled>> = LazyLock::new(|| compiled(PATTERNS.iter().copied().flatten()));
static ABOUT_USER: LazyLock<Vec<Compiled>> = LazyLock::new(|| compiled(THIRD_PERSON.iter()));

/// What is worth keeping in one turn of the user.
pub(crate) fn found_in(turn: &str) -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for sentence in sentences::own_sentences(turn) {
        if !sentences::speaks_plainly(&sentence) {
            continue;
        }
        let doubt = if sentences::is_hedged(&sentence) { 0.35 } else { 0.0 };
        for mut found in in_sentence(&sentence) {
            found.confidence -= doubt;
            if !all.iter().any(|known| known.wish == found.wish) {
                all.push(found);
            }
        }
        if all.len() >= FOUND_MAX {
            all.truncate(FOUND_MAX);
            break;
        }
    }
    all
}

fn in_sentence(sentence: &str) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut taken: Vec<std::ops::Range<usize>> = Vec::new();
    for Compiled { rule, regex } in RULES.iter() {
        for captures in regex.captures_iter(sentence) {
            let (Some(whole), Some(value)) = (captures.get(0), captures.name("v")) else { continue };
            // The first rule that reads a part of the sentence has it.
            if taken.iter().any(|range| range.start < whole.end() && whole.start() < range.end) {
                continue;
            }
            let kept = cut(value.as_str(), rule.cut);
            if kept.is_empty() || sentences::says_nothing(kept) {
                continue;
            }
            // A value that was cut short leaves the rest of the sentence to other rules.
            let end =
                if kept.len() < value.as_str().trim_end().len() { value.start() + kept.len() } else { whole.end() };
            let text = shortened(sentence[whole.start()..end].trim());
            let key = captures.name("k").map(|key| key.as_str());
            let Some(wish) = wish(rule, text, kept, key) else { continue };
            let keeps_inner = matches!(rule.about, About::Kept);
            taken.push(whole.start()..end);
            match inner(keeps_inner, kept) {
                // "Remember that my name is Anna" is about the name, and surely meant to last.
                Some(mut within) => {
                    within.iter_mut().for_each(|f| f.confidence = f.confidence.max(rule.confidence));
                    found.extend(within);
                }
                None => {
                    found.push(Found { rule: rule.name, wish, confidence: rule.confidence, quote: shortened(sentence) })
                }
            }
        }
    }
    found
}

fn inner(keeps_inner: bool, kept: &str) -> Option<Vec<Found>> {
    if !keeps_inner {
        return None;
    }
    let within: Vec<Found> =
        in_sentence(kept).into_iter().filter(|found| matches!(found.wish, Wish::Keep { .. })).collect();
    (!within.is_empty()).then_some(within)
}

fn wish(rule: &patterns::Rule, text: String, value: &str, key: Option<&str>) -> Option<Wish> {
    if matches!(rule.about, About::Forgotten) {
        return Some(Wish::Forget { text: value.to_owned() });
    }
    let text = if matches!(rule.about, About::Kept) { shortened(value) } else { text };
    Some(Wish::Keep { block: rule.block, text, slot: slot(rule, value, key)? })
}

/// The slot of a value. `None` when the value is none the rule can use; `Some(None)` when it has no slot.
fn slot(rule: &patterns::Rule, value: &str, key: Option<&str>) -> Option<Option<Slot>> {
    let value = plain(value);
    let of = |attribute: String, value: &str| Some(Some(Slot { attribute, value: value.to_owned() }));
    let sign = |positive: bool| if positive { "+" } else { "-" };
    if value.is_empty() {
        return None;
    }
    match rule.about {
        About::Single(attribute) => of(attribute.to_owned(), &value),
        About::Keyed(prefix) => of(format!("{prefix}:{}", plain(key?)), &value),
        About::Many(prefix) => of(format!("{prefix}:{value}"), "+"),
        About::Taste(likes) => of(format!("taste:{}", patterns::bare(&value)), sign(likes)),
        About::Habit(does) => of(format!("habit:{}", patterns::bare(&value)), sign(does)),
        About::Choice => match patterns::choice(&value) {
            Some((better, worse)) => {
                let mut both = [better.as_str(), worse.as_str()];
                both.sort_unstable();
                of(format!("choice:{}|{}", both[0], both[1]), &better)
            }
            None => of(format!("taste:{}", patterns::bare(&value)), "+"),
        },
        About::Kept | About::Forgotten => Some(None),
    }
}

/// What an explicit text is about: the same rules as for what is said, and those for texts about "the user".
pub(crate) fn slot_of(text: &str) -> Option<Known> {
    for Compiled { rule, regex } in RULES.iter().chain(ABOUT_USER.iter()) {
        if matches!(rule.about, About::Kept | About::Forgotten) {
            continue;
        }
        let Some(captures) = regex.captures(text) else { continue };
        let (Some(whole), Some(value)) = (captures.get(0), captures.name("v")) else { continue };
        // A text that says more than the rule reads is about more than the rule knows.
        let kept = cut(value.as_str(), rule.cut);
        let around = text.len() - whole.len() + (value.as_str().trim_end().len() - kept.len());
        if kept.is_empty() || around > 12 || sentences::says_nothing(kept) {
            continue;
        }
        let key = captures.name("k").map(|key| key.as_str());
        if let Some(slot) = slot(rule, kept, key) {
            return Some(Known { block: rule.block, slot });
        }
    }
    None
}

/// A turn without what is not the user's own: quotations, code, forwarded mail.
pub(crate) fn own_words(turn: &str) -> String {
    sentences::own_sentences(turn).join("\n")
}

/// Whether a user's words ask in so many words that something be kept or forgotten.
pub(crate) fn asks_to_remember(turn: &str) -> bool {
    sentences::own_sentences(turn).iter().any(|sentence| {
        let asks = |compiled: &&Compiled| matches!(compiled.rule.about, About::Kept | About::Forgotten);
        RULES.iter().filter(asks).any(|compiled| compiled.regex.is_match(sentence))
    })
}

/// The part of a value that the rule wants, without what follows it in the sentence.
fn cut(value: &str, how: Cut) -> &str {
    let ends: &[&str] = match how {
        Cut::Name => patterns::NAME_ENDS,
        Cut::Clause => patterns::CLAUSE_ENDS,
        Cut::Whole => &[],
    };
    let lower = value.to_ascii_lowercase();
    let end = ends.iter().filter_map(|end| lower.find(end)).min().unwrap_or(value.len());
    value[..end].trim_matches(|c: char| c.is_whitespace() || ".,;:!。，、；：！".contains(c))
}

fn shortened(text: &str) -> String {
    text.chars().take(ENTRY_CHARS_MAX).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests;

//! Whether two features are one: by their words, normalised, and by what their checks do. No model is asked, so that the
//! same plan is always judged the same.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::features::Definition;

/// Words that say nothing of what a feature is.
const EMPTY: &[&str] = &[
    "a",
    "an",
    "the",
    "to",
    "of",
    "in",
    "on",
    "at",
    "is",
    "are",
    "be",
    "been",
    "can",
    "could",
    "should",
    "must",
    "will",
    "user",
    "users",
    "that",
    "this",
    "it",
    "its",
    "and",
    "or",
    "with",
    "for",
    "by",
    "as",
    "there",
    "then",
    "also",
    "has",
    "have",
    "correctly",
    "properly",
    "successfully",
];
/// Above this the descriptions are nearly the same.
const DESCRIPTIONS_ALIKE: f64 = 0.7;
/// Above this the sentences are too.
const SENTENCES_ALIKE: f64 = 0.8;
/// Above this the texts and names in the checks are too.
const LITERALS_ALIKE: f64 = 0.9;

/// What of a feature is compared.
#[derive(Debug)]
pub(super) struct Profile {
    description: BTreeSet<String>,
    sentences: BTreeSet<String>,
    literals: BTreeSet<String>,
    /// The checks as printed, without the numbers of the sentences.
    checks: String,
}

impl Profile {
    pub(super) fn of(feature: &Definition) -> Self {
        let mut literals = BTreeSet::new();
        let mut printed = String::new();
        for check in &feature.checks {
            strings_of(&check.to_json(), &mut literals);
            printed.push_str(&check.to_string());
            printed.push('\n');
        }
        Self {
            description: words(&feature.description),
            sentences: words(&feature.steps.join(" ")),
            literals,
            checks: printed,
        }
    }

    /// Why the two are one feature, if they are.
    pub(super) fn twin_of(&self, other: &Self) -> Option<&'static str> {
        if self.checks == other.checks {
            return Some("is verified by the very same checks as");
        }
        if !self.description.is_empty() && self.description == other.description {
            return Some("says the same as");
        }
        let nearly = alike(&self.description, &other.description) >= DESCRIPTIONS_ALIKE
            && alike(&self.sentences, &other.sentences) >= SENTENCES_ALIKE;
        // "… ascending" and "… descending" differ on both sides: one feature only if the checks do the same things too.
        let one_sided =
            self.description.is_subset(&other.description) || other.description.is_subset(&self.description);
        (nearly && (one_sided || alike(&self.literals, &other.literals) >= LITERALS_ALIKE))
            .then_some("says nearly the same as")
    }
}

/// The part of their words that two texts share.
fn alike(a: &BTreeSet<String>, b: &BTreeSet<String>) -> f64 {
    let all = a.union(b).count();
    if all == 0 { 1.0 } else { a.intersection(b).count() as f64 / all as f64 }
}

/// The words of a text that say something: small letters, without endings. Scripts without spaces give pairs of
/// characters.
pub(super) fn words(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for piece in text.split(|c: char| !c.is_alphanumeric()).filter(|piece| !piece.is_empty()) {
        let mut wide: Vec<char> = Vec::new();
        let mut narrow = String::new();
        for c in piece.chars() {
            if is_unspaced(c) {
                add_word(&mut found, &narrow);
                narrow.clear();
                wide.push(c);
            } else {
                add_pairs(&mut found, &wide);
                wide.clear();
                narrow.extend(c.to_lowercase());
            }
        }
        add_word(&mut found, &narrow);
        add_pairs(&mut found, &wide);
    }
    found
}

fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

fn add_word(found: &mut BTreeSet<String>, word: &str) {
    if !word.is_empty() && !EMPTY.contains(&word) {
        found.insert(stem(word).to_owned());
    }
}

fn add_pairs(found: &mut BTreeSet<String>, run: &[char]) {
    if run.len() == 1 {
        found.insert(run.iter().collect());
    }
    for pair in run.windows(2) {
        found.insert(pair.iter().collect());
    }
}

/// Without the commonest English ending; three letters stay.
fn stem(word: &str) -> &str {
    for ending in ["ing", "ed", "es", "s", "e"] {
        if let Some(rest) = word.strip_suffix(ending)
            && rest.len() >= 3
            && word.is_ascii()
            && !(ending == "s" && rest.ends_with('s'))
        {
            return rest;
        }
    }
    word
}

/// Every text within a JSON value, with the numbers as they are printed; the words of the format itself are left out.
pub(super) fn strings_of(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            into.insert(folded(text));
        }
        Value::Number(number) => {
            into.insert(number.to_string());
        }
        Value::Array(items) => items.iter().for_each(|item| strings_of(item, into)),
        Value::Object(fields) => {
            let said = fields.iter().filter(|(name, _)| !matches!(name.as_str(), "step" | "check" | "action" | "role"));
            said.for_each(|(_, value)| strings_of(value, into));
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// A text with white space folded and in small letters.
pub(super) fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::planning::parse_batch;

    /// A feature whose sentences and checks speak of `what`.
    fn feature(description: &str, what: &str) -> Definition {
        let planned = json!({"features": [{
            "id": "F01", "category": "c", "description": description,
            "steps": ["Open the page", format!("Click '{what}'"), format!("Verify that '{what}' is shown in the list")],
            "checks": [
                {"step": 1, "check": "goto", "path": "/"},
                {"step": 2, "check": "act", "action": "click", "target": {"role": "button", "name": what}},
                {"step": 3, "check": "expect", "target": {"role": "listitem", "text": what}, "visible": true},
            ],
        }]});
        parse_batch(&planned, &[]).unwrap().remove(0)
    }

    fn twins(a: (&str, &str), b: (&str, &str)) -> bool {
        Profile::of(&feature(a.0, a.1)).twin_of(&Profile::of(&feature(b.0, b.1))).is_some()
    }

    #[test]
    fn the_same_in_other_words_is_found_and_a_sibling_is_not() {
        let new_chat = ("New chat button creates a fresh conversation", "New chat");
        for again in [
            "The 'New chat' button creates a fresh conversation.",
            "new chat buttons create fresh conversations",
            "A fresh conversation is created by the new-chat button",
        ] {
            assert!(twins(new_chat, (again, "Start")), "{again}");
        }
        assert!(twins(("A note can be pinned", "Pin"), ("Notes have something to pin them", "Pin")), "the same checks");
        assert!(twins(("添加待办事项", "a"), ("添加待办事项。", "b")));
        for (one, other) in [
            (
                "Sorting the invoice table by its customer column ascending",
                "Sorting the invoice table by its customer column descending",
            ),
            ("Delete a conversation", "Rename a conversation"),
            ("The theme can be dark and survives a reload", "The theme can be light and survives a reload"),
            ("Export the table as CSV", "Export the table as JSON"),
            ("显示还有几件事", "添加待办事项"),
        ] {
            assert!(!twins((one, "one thing"), (other, "another matter")), "{one} / {other}");
        }
    }
}

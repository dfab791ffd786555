//! Whether a feature's sentences can be verified, and whether its checks carry out what the sentences say. The checks by
//! themselves are judged in `checks/`; here they are held against the words.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    batch::PlanError,
    words::{folded, strings_of, words},
};
use crate::checks::Check;

/// Checks that do something and observe nothing.
const DOING: &[&str] = &["goto", "act", "remember", "reload", "restart_app", "permission"];
/// How a sentence begins its verification.
const VERIFYING: &[&str] = &[
    "verify",
    "verifies",
    "check that",
    "check whether",
    "check if",
    "ensure",
    "make sure",
    "confirm that",
    "expect that",
    "see that",
    "assert",
    "prüfe",
    "überprüfe",
    "stelle sicher",
    "vérifie",
    "verifica",
    "comprueba",
];
/// The same in scripts without spaces, where the word also names buttons: only at the beginning.
const VERIFYING_AT_THE_BEGINNING: &[&str] = &["验证", "驗證", "确认", "確認", "检查", "檢查", "확인"];
/// Praise that nobody can see on a screen.
const VAGUE: &[&str] = &[
    "correctly",
    "properly",
    "appropriately",
    "as expected",
    "works fine",
    "works well",
    "looks good",
    "looks nice",
    "looks right",
    "user-friendly",
    "user friendly",
    "intuitive",
    "is nice",
    "seamless",
    "seamlessly",
    "robust",
    "sensible",
    "正常工作",
    "工作正常",
    "正确工作",
    "没有问题",
];
/// What a visible element alone does not show.
const CONCRETE: &[&str] =
    &["text", "contains", "value", "count", "url", "hidden", "focused", "enabled", "checked", "title", "message"];
/// Content words that a description needs beside its praise.
const DESCRIPTION_WORDS_MIN: usize = 2;
/// Words of a description that name nothing in particular.
const NOTHING_IN_PARTICULAR: &[&str] =
    &["everything", "all", "app", "application", "page", "feature", "work", "works", "functions", "function"];

/// What of the feature cannot be verified; `place` is the feature's place in the arguments.
pub(super) fn unverifiable(place: &str, description: &str, steps: &[String], checks: &[Check]) -> Vec<PlanError> {
    let mut found = Vec::new();
    let praise = without_praise(description);
    let mut said = words(&praise);
    for word in NOTHING_IN_PARTICULAR.iter().flat_map(|empty| words(empty)) {
        said.remove(&word);
    }
    if praise.len() < description.len() && said.len() < DESCRIPTION_WORDS_MIN {
        found.push(PlanError::at(
            format!("{place}.description"),
            format!("{description:?} says nothing that can be seen; say what a user does and what then happens"),
        ));
    }
    let printed: Vec<(usize, Value)> = checks.iter().map(|check| (check.step, check.to_json())).collect();
    let mut literals = BTreeSet::new();
    printed.iter().for_each(|(_, check)| strings_of(check, &mut literals));
    for (index, sentence) in steps.iter().enumerate() {
        let own: Vec<&Value> = printed.iter().filter(|(step, _)| *step == index + 1).map(|(_, check)| check).collect();
        if let Some(message) = sentence_fault(sentence, &own, &literals) {
            found.push(PlanError::at(format!("{place}.steps[{index}]"), message));
        }
    }
    found
}

fn sentence_fault(sentence: &str, own: &[&Value], literals: &BTreeSet<String>) -> Option<String> {
    let small = folded(sentence);
    let observing: Vec<&&Value> = own.iter().filter(|check| observes(check)).collect();
    let verifies = VERIFYING.iter().any(|word| small.split(word).nth(1).is_some_and(starts_a_word))
        || VERIFYING_AT_THE_BEGINNING.iter().any(|word| small.starts_with(word));
    if verifies && observing.is_empty() && !own.is_empty() {
        let kinds: BTreeSet<&str> = own.iter().map(|check| kind(check)).collect();
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
        return Some(format!(
            "{sentence:?} verifies something, but its checks only do something ({kinds}); give it an expect of what a user \
             then sees"
        ));
    }
    if without_praise(&small).len() < small.len() && !observing.iter().any(|check| concrete(check)) {
        return Some(format!(
            "{sentence:?} is praise, not something to see; name the text, the number or the state that shows it, in the \
             sentence and in its checks"
        ));
    }
    if !verifies {
        return None;
    }
    let missing = quoted(sentence).into_iter().find(|wanted| {
        !literals
            .iter()
            .any(|known| known.contains(wanted.as_str()) || (known.len() > 2 && wanted.contains(known.as_str())))
    })?;
    Some(format!(
        "{sentence:?} names '{missing}', but no check of the feature does; checks must say what the sentences say"
    ))
}

fn starts_a_word(rest: &str) -> bool {
    rest.chars().next().is_none_or(|c| !c.is_alphanumeric() || !c.is_ascii())
}

fn kind(check: &Value) -> &str {
    check.get("check").and_then(Value::as_str).unwrap_or_default()
}

fn observes(check: &Value) -> bool {
    !DOING.contains(&kind(check))
}

/// Whether a check asks for more than that something is there.
fn concrete(check: &Value) -> bool {
    if kind(check) != "expect" {
        return true;
    }
    let says = |value: &Value| CONCRETE.iter().any(|field| value.get(field).is_some());
    says(check) || check.get("target").is_some_and(|target| target.get("text").is_some())
}

/// The text without its praise.
fn without_praise(text: &str) -> String {
    let mut rest = folded(text);
    for praise in VAGUE {
        rest = rest.replace(praise, "");
    }
    rest
}

/// Texts in quotation marks, folded. An apostrophe is none.
fn quoted(sentence: &str) -> Vec<String> {
    const PAIRS: [(char, char); 6] = [('\'', '\''), ('"', '"'), ('“', '”'), ('‘', '’'), ('「', '」'), ('『', '』')];
    let chars: Vec<char> = sentence.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let opens = PAIRS.iter().find(|(open, _)| *open == chars[at]);
        let after_word = at > 0 && chars[at - 1].is_alphanumeric() && chars[at - 1].is_ascii();
        let Some((_, close)) = opens.filter(|_| !after_word) else {
            at += 1;
            continue;
        };
        let ends = (at + 1..chars.len())
            .find(|end| chars[*end] == *close && chars.get(end + 1).is_none_or(|next| !next.is_ascii_alphanumeric()));
        let Some(end) = ends else { break };
        let text: String = chars[at + 1..end].iter().collect();
        let text = folded(text.trim_end_matches(['…', '.']));
        if text.chars().count() > 1 {
            found.push(text);
        }
        at = end + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::checks::parse_feature_checks;

    /// The faults of a feature whose second sentence is this one, with these checks for it.
    fn faults(sentence: &str, checks: Value) -> String {
        let steps = ["Open the page".to_owned(), sentence.to_owned(), "Verify that the total is shown".to_owned()];
        let mut all = vec![json!({"step": 1, "check": "goto", "path": "/"})];
        all.extend(checks.as_array().unwrap().iter().cloned());
        all.push(json!({"step": 3, "check": "expect", "target": {"role": "status"}, "visible": true}));
        let checks = parse_feature_checks(&json!(all), &steps).unwrap();
        let found = unverifiable("features[4]", "The page counts clicks", &steps, &checks);
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn sentences_that_nobody_can_verify_are_refused_with_their_place() {
        let click = json!({"step": 2, "check": "act", "action": "click", "target": {"role": "button", "name": "Add"}});
        let seen = json!({"step": 2, "check": "expect", "target": {"role": "button", "name": "Add"}, "visible": true});
        let said = json!({"step": 2, "check": "expect", "target": {"role": "status"}, "text": "1 click"});
        assert_eq!(faults("Click 'Add'", json!([click])), "");
        assert_eq!(faults("Verify that the button's label is 'Add'", json!([seen])), "");
        assert_eq!(faults("Click 'Add' and verify that it says '1 click'", json!([click, said])), "");
        assert_eq!(faults("Verify that adding works correctly: it says '1 click'", json!([click, said])), "");
        assert_eq!(faults("验证显示“1 click”", json!([click, said])), "");
        assert_eq!(faults("点击确认按钮", json!([click])), "");
        for (sentence, checks, expected) in [
            ("Verify that the total grew", json!([click]), "its checks only do something (act)"),
            ("验证总数增加了", json!([click]), "its checks only do something (act)"),
            ("Verify that the button works correctly", json!([seen]), "is praise"),
            ("The button looks nice", json!([seen]), "is praise"),
            ("Verify that the list shows 'buy bread'", json!([click, said]), "names 'buy bread'"),
        ] {
            let refusal = faults(sentence, checks);
            assert!(refusal.starts_with("features[4].steps[1]: "), "{refusal}");
            assert!(refusal.contains(expected), "{refusal}");
        }
    }

    #[test]
    fn a_description_of_nothing_but_praise_is_refused() {
        for (description, refused) in [
            ("Everything works correctly", true),
            ("The app is user-friendly", true),
            ("Dates sort correctly in the table", false),
        ] {
            assert_eq!(!unverifiable("f", description, &[], &[]).is_empty(), refused, "{description}");
        }
    }

    #[test]
    fn quotation_marks_are_told_from_apostrophes() {
        assert_eq!(quoted("Verify that Lantern's answer says 'Let's go' and \"more\""), ["let's go", "more"]);
        assert_eq!(quoted("users' notes and the page's title"), Vec::<String>::new());
    }
}

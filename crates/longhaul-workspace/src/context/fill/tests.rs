//! Packing holds its promises for any candidates, budget and counter.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{Estimator, context::pack::Found};

/// Counters of very different kinds: by bytes, by characters, by words, and one whose parts do not add up.
#[derive(Debug, Clone, Copy)]
enum Odd {
    Bytes,
    Chars,
    Words,
    Squares,
}

impl TokenCounter for Odd {
    fn count(&self, text: &str) -> u64 {
        match self {
            Self::Bytes => text.len() as u64,
            Self::Chars => text.chars().count() as u64,
            Self::Words => text.split_whitespace().count() as u64,
            Self::Squares => (text.len() as u64).pow(2) / 100,
        }
    }

    fn name(&self) -> String {
        format!("{self:?}")
    }
}

fn candidate(id: &str, text: &str, relevance: f32) -> Candidate {
    Candidate {
        id: id.to_owned(),
        origin: Origin::Record,
        kind: "note".to_owned(),
        label: Label::of("tool:test"),
        summary: format!("about {id}"),
        text: text.to_owned(),
        whole: true,
        digest: None,
        at: TimeMs(1_000),
        task: None,
        score: Score { total: 0.0, relevance, kind: 1.0, origin: 1.0, recency: 1.0, found: Found::Search },
    }
}

fn packed(candidates: Vec<Candidate>, budget: u64) -> Filled {
    fill(candidates, &Profile::auto(), budget, &Estimator, TimeMs(1_000))
}

/// A text of different words.
fn prose(seed: usize, words: usize) -> String {
    (0..words).map(|n| format!("w{}", (seed * 7_919 + n * 104_729) % 1_000_003)).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_best_come_first_and_the_rest_is_named() {
    let candidates =
        (0..20).map(|n| candidate(&format!("rec_{n:02}"), &prose(n, 100), 1.0 - n as f32 / 40.0)).collect();
    let filled = packed(candidates, 1_500);
    let items: Vec<&str> = filled.items.iter().map(|item| item.id.as_str()).collect();
    assert!(items.len() > 2 && items.is_sorted(), "{items:?}");
    assert_eq!(filled.items.len() + filled.omitted.len(), 20);
    assert!(filled.omitted.iter().all(|omitted| matches!(omitted.reason, Reason::Budget { .. })));
    assert!((1_000..=1_500).contains(&filled.used_tokens), "{}", filled.used_tokens);
}

#[test]
fn an_enormous_item_is_cut_and_leaves_room_for_others() {
    let text = "A paragraph of some words, with an end.\n\n".repeat(20_000);
    let filled = packed(vec![candidate("rec_a", &text, 1.0), candidate("rec_b", &prose(1, 50), 0.9)], 1_000);
    assert_eq!(filled.items.len(), 2);
    let cut = &filled.items[0];
    assert!(!cut.whole && cut.text.ends_with("with an end.") && cut.tokens <= 350, "{} tokens", cut.tokens);
    // In one word without any place to end.
    let filled = packed(vec![candidate("rec_a", &"漢".repeat(300_000), 1.0)], 1_000);
    assert!(filled.items[0].text.chars().count() > 100 && filled.used_tokens <= 1_000);
}

#[test]
fn nothing_fits_into_nothing() {
    for budget in [0, 1, 30, 60] {
        let filled = packed(vec![candidate("rec_a", &prose(1, 200), 1.0)], budget);
        assert_eq!((filled.items.len(), filled.omitted.len(), filled.used_tokens), (0, 1, 0), "{budget}");
    }
}

#[test]
fn what_the_profile_does_not_want_and_what_is_too_far_off_is_named() {
    let mut profiles = super::super::profile::Profiles::default();
    profiles.add_written("mine", [("kinds", "secret=0"), ("relevance_least", "0.5")]).unwrap();
    let mut unwanted = candidate("rec_a", "one", 1.0);
    unwanted.kind = "secret".to_owned();
    let all = vec![unwanted, candidate("rec_b", "two words", 0.8), candidate("rec_c", "three other words", 0.3)];
    let filled = fill(all, profiles.get("mine").unwrap(), 1_000, &Estimator, TimeMs(0));
    let reasons: Vec<(&str, &Reason)> = filled.omitted.iter().map(|of| (of.id.as_str(), &of.reason)).collect();
    assert_eq!(filled.items.len(), 1);
    assert!(reasons.contains(&("rec_a", &Reason::Unwanted)), "{reasons:?}");
    assert!(reasons.iter().any(|(id, reason)| *id == "rec_c" && matches!(reason, Reason::Relevance { .. })));
}

#[test]
fn an_owner_takes_more_than_its_share_only_of_what_nobody_else_wants() {
    let messages = || {
        (0..30).map(|n| Candidate { origin: Origin::Message, ..candidate(&format!("msg_{n:02}"), &prose(n, 60), 1.0) })
    };
    let of_messages = |filled: &Filled| -> u64 {
        filled.items.iter().filter(|of| of.origin == Origin::Message).map(|of| of.tokens).sum()
    };
    let records = (0..30).map(|n| candidate(&format!("rec_{n:02}"), &prose(100 + n, 60), 0.5));
    let filled = packed(messages().chain(records).collect(), 2_000);
    assert!(of_messages(&filled) <= 800, "{}", of_messages(&filled));
    assert!(filled.omitted.iter().any(|of| matches!(of.reason, Reason::Share { tokens_max: 800, .. })));

    let filled = packed(messages().chain([candidate("rec_a", &prose(99, 60), 0.5)]).collect(), 2_000);
    assert!(filled.items.iter().any(|item| item.id == "rec_a"));
    assert!((1_200..=2_000).contains(&of_messages(&filled)), "{}", of_messages(&filled));
}

#[test]
fn duplicates_stand_once_and_name_the_one_that_stays() {
    let digest = Some(Digest::of("x"));
    let twin = |id, relevance| Candidate { digest, ..candidate(id, &prose(1, 50), relevance) };
    let near = candidate("rec_c", &format!("{} more", prose(1, 50)), 0.7);
    let filled = packed(vec![twin("rec_a", 1.0), twin("rec_b", 0.9), near, candidate("rec_a", "again", 0.1)], 2_000);
    assert_eq!(filled.items.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(), ["rec_a"]);
    let reasons: Vec<String> = filled.omitted.iter().map(|of| format!("{}: {}", of.id, of.reason)).collect();
    assert_eq!(reasons, ["rec_b: same content as rec_a", "rec_c: 98 % of it is in rec_a"]);
}

#[test]
fn a_profile_may_want_the_order_of_time() {
    let profile = Profile { order: Order::Time, half_life_days: None, ..Profile::auto() };
    let at = |id, at, relevance| Candidate { at: TimeMs(at), ..candidate(id, &prose(at as usize, 30), relevance) };
    let filled = fill(
        vec![at("rec_a", 30, 1.0), at("rec_b", 10, 0.5), at("rec_c", 20, 0.9)],
        &profile,
        5_000,
        &Estimator,
        TimeMs(40),
    );
    assert_eq!(filled.items.iter().map(|item| item.at.0).collect::<Vec<_>>(), [10, 20, 30]);
}

#[test]
fn a_text_is_cut_where_something_ends() {
    for (text, bytes, expected) in [
        ("short", 10, "short"),
        ("One sentence. Another one.", 20, "One sentence."),
        ("First paragraph.\n\nSecond one. And more", 30, "First paragraph."),
        ("words without an end anywhere", 18, "words without an"),
        ("第一句话。第二句话。第三句话", 32, "第一句话。第二句话。"),
        ("ééééé", 3, "é"),
        ("abc", 0, ""),
    ] {
        assert_eq!(shortened(text, bytes), expected, "{text}");
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ,.\n]{0,400}",
        "[\u{4E00}-\u{4E80}。，]{0,200}",
        "[\u{3041}-\u{3096}\u{AC00}-\u{AC50} ]{0,200}",
        "(\u{1F980}|\u{1F469}\u{200D}\u{1F4BB}|x){0,100}",
        "(?s)(<item-|</item-|\n|\\PC){0,60}",
        Just("九".repeat(4_000)),
        Just("word ".repeat(3_000)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn a_pack_is_never_over_its_budget_and_names_every_candidate(
        texts in prop::collection::vec((any_text(), 0.0_f32..1.0, 0_i64..100, 0_usize..3), 0..12),
        budget in prop_oneof![Just(0_u64), 0_u64..200, 0_u64..20_000, Just(u64::MAX)],
        counter in prop_oneof![Just(Odd::Bytes), Just(Odd::Chars), Just(Odd::Words), Just(Odd::Squares)],
        profile in prop_oneof![Just(Profile::auto()), Just(Profile::research()), Just(Profile::document_review()),
                               Just(Profile { order: Order::Time, ..Profile::software_dev() })],
    ) {
        let origins = [Origin::Record, Origin::Message, Origin::Memory];
        let candidates: Vec<Candidate> = texts.iter().enumerate().map(|(n, (text, relevance, at, origin))| Candidate {
            at: TimeMs(*at), origin: origins[*origin], ..candidate(&format!("rec_{n}"), text, *relevance)
        }).collect();
        let filled = fill(candidates, &profile, budget, &counter, TimeMs(200));
        let rendered = fence::render(&filled.items);
        let used = if rendered.is_empty() { 0 } else { counter.count(&rendered) };
        prop_assert!(used <= budget, "{used} of {budget}");
        prop_assert_eq!(used, filled.used_tokens);
        let named: Vec<&str> = filled.items.iter().map(|item| item.id.as_str())
            .chain(filled.omitted.iter().map(|of| of.id.as_str())).collect();
        prop_assert_eq!(named.len(), texts.len());
        prop_assert_eq!(named.iter().collect::<BTreeSet<_>>().len(), texts.len());
        for item in &filled.items {
            let number: usize = item.id[4..].parse().unwrap();
            let text = &texts[number].0;
            prop_assert!(text.starts_with(&item.text) && (item.whole == (item.text.len() == text.len())));
        }
    }
}

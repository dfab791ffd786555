//! What scores and importance come to, by examples and for any input.

use proptest::prelude::*;

use super::{LegWeights, RankSettings, Raw, Rule, Scale, Standing, score};
use crate::{Kind, Source};

const DAY: i64 = 86_400_000;

fn standing(kind: Kind, source: Source) -> Standing {
    Standing {
        kind,
        source,
        is_action: false,
        is_temporary: false,
        pinned: false,
        stated: 0.5,
        age_ms: 0,
        unused_ms: None,
        uses: 0.0,
    }
}

fn full() -> (Scale, Raw) {
    let raw = Raw { words: 1.0, words_around: Some(1.0), meaning: Some(1.0), meaning_around: Some(1.0) };
    (Scale::new(&LegWeights::default(), (1.0, 1.0), true, [raw].iter()), raw)
}

fn total(standing: &Standing) -> (f32, Rule) {
    let (scale, raw) = full();
    let (total, explain) = score(&RankSettings::default(), &scale, raw, standing);
    (total, explain.importance.rule)
}

#[test]
fn a_week_old_file_that_is_edited_all_day_counts_as_recent() {
    let quiet = Standing { age_ms: 7 * DAY, ..standing(Kind::Episode, Source::User) };
    let edited = Standing { unused_ms: Some(0), uses: 40.0, ..quiet };
    let fresh = standing(Kind::Episode, Source::User);
    let (settings, (scale, raw)) = (RankSettings::default(), full());
    let importance = |standing| score(&settings, &scale, raw, standing).1.importance;
    assert_eq!((importance(&edited).rule, importance(&edited).value), (Rule::Recency, importance(&fresh).value));
    assert!(importance(&edited).value > importance(&quiet).value);
    let read_weekly = Standing { unused_ms: Some(60 * DAY), uses: 100.0, age_ms: 300 * DAY, ..quiet };
    assert_eq!(importance(&read_weekly).rule, Rule::Frequency);
    assert!(importance(&read_weekly).value > 0.7);
}

#[test]
fn an_old_decision_outranks_fresh_chatter_that_was_stated_unimportant() {
    let decision = Standing { age_ms: 100 * DAY, stated: 0.1, ..standing(Kind::Decision, Source::User) };
    let chatter = Standing { age_ms: 21 * DAY, ..standing(Kind::Episode, Source::Agent) };
    assert!(total(&decision).0 > total(&chatter).0);
    assert_eq!((total(&decision).1, total(&chatter).1), (Rule::Said, Rule::Stated));
    let (scale, raw) = full();
    let importance = score(&RankSettings::default(), &scale, raw, &decision).1.importance;
    assert!((importance.value - 0.6).abs() < 1e-6, "{importance:?}");
    let action =
        Standing { is_action: true, ..Standing { age_ms: 100 * DAY, ..standing(Kind::Episode, Source::User) } };
    assert_eq!(total(&action).1, Rule::Said);
    assert_ne!(total(&Standing { source: Source::Tool, ..action }).1, Rule::Said);
}

#[test]
fn a_cache_file_stays_below_a_configuration_however_often_it_changes() {
    let config = Standing { age_ms: 200 * DAY, ..standing(Kind::Note, Source::Tool) };
    let cache = Standing { is_temporary: true, uses: 10_000.0, stated: 1.0, ..standing(Kind::Note, Source::Tool) };
    let (settings, (scale, raw)) = (RankSettings::default(), full());
    let value = |standing| score(&settings, &scale, raw, standing).1.importance.value;
    assert!(value(&config) > value(&cache) && value(&cache) <= settings.temporary_cap);
    let of_user = Standing { is_action: true, source: Source::User, ..cache };
    assert_eq!(total(&of_user).1, Rule::Temporary, "an action on a temporary file is one");
    assert_eq!(total(&Standing { pinned: true, ..cache }), (1.0, Rule::Pinned));
}

#[test]
fn old_progress_fades_to_a_floor_and_facts_and_pins_do_not() {
    let decay = |settings: &RankSettings, kind, days, pinned| {
        let (scale, raw) = full();
        let standing = Standing { age_ms: days * DAY, pinned, ..standing(kind, Source::Agent) };
        score(settings, &scale, raw, &standing).1.decay.factor
    };
    let settings = RankSettings::default();
    assert_eq!(decay(&settings, Kind::Progress, 0, false), 1.0);
    assert!((decay(&settings, Kind::Progress, 30, false) - 0.8).abs() < 1e-6);
    assert!((decay(&settings, Kind::Progress, 3_650, false) - 0.6).abs() < 1e-3);
    assert_eq!(decay(&settings, Kind::Fact, 3_650, false), 1.0);
    assert_eq!(decay(&settings, Kind::Progress, 3_650, true), 1.0);
    let told: RankSettings = serde_json::from_str(r#"{"half_lives": {"fact": 10.0, "progress": null}}"#).unwrap();
    assert!((decay(&told, Kind::Fact, 10, false) - 0.8).abs() < 1e-6);
    assert_eq!(decay(&told, Kind::Progress, 3_650, false), 1.0);
    assert_eq!(decay(&told, Kind::Episode, 30, false), decay(&settings, Kind::Episode, 30, false));
}

#[test]
fn settings_out_of_range_are_named() {
    assert!(RankSettings::default().check().is_ok());
    let none = LegWeights { words: 0.0, words_around: 0.0, meaning: 0.0, meaning_around: 0.0 };
    let wrong = [
        RankSettings { importance_share: 1.5, ..RankSettings::default() },
        RankSettings { decay_share: f32::NAN, ..RankSettings::default() },
        RankSettings { recency_half_life_days: 0.0, ..RankSettings::default() },
        RankSettings { legs: none, ..RankSettings::default() },
    ];
    let told: Vec<String> = wrong.iter().map(|settings| settings.check().unwrap_err().to_string()).collect();
    for (told, name) in told.iter().zip(["importance_share", "decay_share", "recency_half_life", "sum of rank.legs"]) {
        assert!(told.contains(name), "{told}");
    }
    let unknown = serde_json::from_str::<RankSettings>(r#"{"half_live": {}}"#).unwrap_err().to_string();
    assert!(unknown.contains("half_live"), "{unknown}");
}

#[test]
fn a_poor_best_match_does_not_look_perfect() {
    let raw = Raw { words: 0.2, words_around: None, meaning: Some(0.07), meaning_around: None };
    let scale = Scale::new(&LegWeights::default(), (10.0, 0.0), true, [raw].iter());
    let (legs, relevance) = scale.fused(raw);
    assert!((legs[0].share - 0.2).abs() < 1e-6 && (legs[2].share - 0.2).abs() < 1e-6, "{legs:?}");
    assert!((relevance - 0.2).abs() < 1e-6);
}

#[test]
fn without_a_vector_words_decide_and_nothing_is_won_by_waiting() {
    let with = |meaning| Raw { words: 1.0, words_around: None, meaning, meaning_around: None };
    let candidates = [with(Some(0.9)), with(Some(0.1)), with(None)];
    let scale = Scale::new(&LegWeights::default(), (1.0, 0.0), true, candidates.iter());
    let relevance = candidates.map(|raw| scale.fused(raw).1);
    assert!(relevance[0] > relevance[2] && relevance[2] > relevance[1], "{relevance:?}");
    let words_alone = Scale::new(&LegWeights::default(), (1.0, 0.0), false, candidates.iter());
    assert!(candidates.iter().all(|raw| (words_alone.fused(*raw).1 - 1.0).abs() < 1e-6));
}

#[test]
fn an_explanation_reads_the_same_in_every_version() {
    let (scale, raw) = full();
    let (_, explain) = score(&RankSettings::default(), &scale, raw, &standing(Kind::Fact, Source::User));
    let printed = serde_json::to_value(explain).unwrap();
    assert_eq!(printed["words"]["raw"], 1.0);
    assert_eq!(printed["importance"]["rule"], "recency");
    let mut names: Vec<&String> = printed.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(
        names,
        ["decay", "importance", "meaning", "meaning_around", "relevance", "words", "words_around"],
        "a field of the public explanation was renamed"
    );
    assert_eq!(serde_json::from_value::<super::Explain>(printed).unwrap(), explain);
}

fn raws() -> impl Strategy<Value = Raw> {
    let cosine = || proptest::option::of(-1_f32..1.0);
    (0_f32..100.0, proptest::option::of(0_f32..100.0), cosine(), cosine())
        .prop_map(|(words, words_around, meaning, meaning_around)| Raw { words, words_around, meaning, meaning_around })
}

proptest! {
    #[test]
    fn a_score_is_from_0_to_1_and_is_what_its_explanation_adds_up_to(
        candidates in proptest::collection::vec(raws(), 1..8), bounds in (0_f32..1e6, 0_f32..1e6), is_hybrid in any::<bool>(),
        stated in -1_f32..2.0, age_ms in any::<i64>(), unused_ms in proptest::option::of(any::<i64>()), uses in any::<f32>(),
    ) {
        let settings = RankSettings::default();
        let scale = Scale::new(&settings.legs, bounds, is_hybrid, candidates.iter());
        let standing = Standing { stated, age_ms, unused_ms, uses, ..standing(Kind::Note, Source::Agent) };
        for raw in candidates {
            let (total, explain) = score(&settings, &scale, raw, &standing);
            prop_assert!((0.0..=1.0).contains(&total), "{}", total);
            let legs = [explain.words, explain.words_around, explain.meaning, explain.meaning_around];
            let relevance: f32 = legs.iter().map(|leg| leg.weight * leg.share).sum();
            prop_assert!((total - relevance * explain.importance.factor * explain.decay.factor).abs() < 1e-5);
            prop_assert!((legs.iter().map(|leg| leg.weight).sum::<f32>() - 1.0).abs() < 1e-5);
        }
    }
}

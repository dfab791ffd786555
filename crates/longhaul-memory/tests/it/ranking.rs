//! What ranking does beyond words and meaning: context, dates, importance, age, settings; and how it is judged.

use longhaul_core::TimeMs;
use longhaul_memory::{
    HalfLives, Kind, LegWeights, NewMemory, Query, RankSettings, Rule, Source, TAG_CACHE,
    eval::{Question, evaluate},
};

use crate::place::{Place, contents, note};

const DAY: i64 = 86_400_000;

fn said(thread: &str, text: &str) -> NewMemory {
    NewMemory { thread: Some(thread.to_owned()), ..NewMemory::new("talk", Kind::Episode, Source::User, text) }
}

#[tokio::test]
async fn an_answer_is_found_by_the_words_of_the_question_before_it() {
    let place = Place::by_words().await;
    for (thread, text) in [
        ("monday", "Which city did the offsite go to in the end?"),
        ("monday", "Lisbon, everybody voted for the sea"),
        ("tuesday", "The printer is out of toner again"),
        ("tuesday", "Order two cartridges then"),
    ] {
        place.memory.add(&place.scope, said(thread, text)).await.unwrap();
    }
    let query = Query::new("city of the offsite", 10);
    let recall = place.memory.search(&place.scope, &query).await.unwrap();
    assert_eq!(contents(&recall).len(), 2, "{recall:#?}");
    let answer = recall.hits.iter().find(|hit| hit.item.content.starts_with("Lisbon")).unwrap();
    assert!(answer.explain.words.share == 0.0 && answer.explain.words_around.share > 0.0, "{answer:?}");
    let without = Query { context: false, ..query.clone() };
    let recall = place.memory.search(&place.scope, &without).await.unwrap();
    assert_eq!(contents(&recall), ["Which city did the offsite go to in the end?"]);
    let other_thread = Query { thread: Some("tuesday".to_owned()), ..query };
    assert!(place.memory.search(&place.scope, &other_thread).await.unwrap().hits.is_empty());
}

#[tokio::test]
async fn a_memory_is_found_by_the_day_on_which_it_happened() {
    let place = Place::by_words().await;
    // 8 May and 8 June 2023, a Monday and a Thursday.
    for (day, text) in [(19_485, "we tried the blue logo"), (19_516, "we tried the green logo")] {
        let memory = NewMemory { happened_at: Some(TimeMs(day * DAY + 1)), ..note(text) };
        place.memory.add(&place.scope, memory).await.unwrap();
    }
    for query in ["logo of 8 May 2023", "logo of that Monday", "2023-05-08 logo", "2023年5月8日 logo"] {
        assert_eq!(place.found(query, 1).await, ["we tried the blue logo"], "{query}");
    }
    assert_eq!(place.found("logo in june", 1).await, ["we tried the green logo"]);
}

#[tokio::test]
async fn what_is_used_moves_up_and_says_why() {
    let place = Place::by_words().await;
    let ids = place.remember(&["deploy runbook of the shop", "deploy runbook of the blog"]).await;
    place.clock.advance_days(60);
    let first = place.search("deploy runbook", 2).await;
    assert!(
        first.hits[0].item.id == ids[1] && first.hits.iter().all(|hit| hit.explain.importance.rule == Rule::Stated)
    );
    for _ in 0..20 {
        place.memory.note_used(&place.scope, &ids[..1]).await.unwrap();
    }
    place.clock.advance_days(30);
    let hits = place.search("deploy runbook", 2).await.hits;
    let importance = hits[0].explain.importance;
    assert!(hits[0].item.id == ids[0] && importance.rule == Rule::Frequency, "{hits:#?}");
    assert!(importance.frequency > 0.7 && importance.recency < 0.1, "{importance:?}");
}

#[tokio::test]
async fn a_cache_file_ranks_below_a_configuration_and_a_pin_above_all() {
    let place = Place::by_words().await;
    let file = |text: &str, tags: &[&str], pinned| NewMemory {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        pinned,
        ..note(text)
    };
    for memory in [
        file("changed the settings of proxy ux", &[], false),
        file("changed the settings of proxy uy", &[TAG_CACHE], false),
        file("changed the settings of proxy uz", &[], true),
    ] {
        place.memory.add(&place.scope, memory).await.unwrap();
    }
    let recall = place.search("settings of proxy", 3).await;
    let found: Vec<(char, Rule)> = recall
        .hits
        .iter()
        .map(|hit| (hit.item.content.chars().next_back().unwrap(), hit.explain.importance.rule))
        .collect();
    assert_eq!(found, [('z', Rule::Pinned), ('x', Rule::Recency), ('y', Rule::Temporary)]);
}

#[tokio::test]
async fn settings_decide_how_kinds_fade_and_are_checked() {
    let place = Place::by_words().await;
    place.remember(&["the staging server moved"]).await;
    place.clock.advance_days(10);
    let decay = || async { place.search("staging", 1).await.hits[0].explain.decay };
    assert_eq!(decay().await.half_life_days, Some(180.0));
    let half_lives = HalfLives([(Kind::Note, Some(10.0))].into());
    place.memory.rank_by(RankSettings { half_lives, ..RankSettings::default() }).unwrap();
    let faded = decay().await;
    assert!(faded.half_life_days == Some(10.0) && (faded.factor - 0.8).abs() < 1e-3, "{faded:?}");

    let broken = RankSettings { decay_share: 2.0, ..RankSettings::default() };
    let refused = place.memory.rank_by(broken).unwrap_err().to_string();
    assert!(refused.contains("rank.decay_share"), "{refused}");
    assert_eq!(decay().await, faded, "what was refused changes nothing");
}

#[tokio::test]
async fn legs_that_are_switched_off_do_not_weigh() {
    let place = Place::with_model().await;
    place.remember(&["JWT refresh token: rotated at each use", "user interface texts are kept in one file"]).await;
    let legs = LegWeights { words: 1.0, words_around: 0.0, meaning: 0.0, meaning_around: 0.0 };
    place.memory.rank_by(RankSettings { legs, ..RankSettings::default() }).unwrap();
    let recall = place.search("user authentication", 5).await;
    assert_eq!(contents(&recall), ["user interface texts are kept in one file"]);
    assert_eq!(recall.hits[0].explain.meaning.weight, 0.0);
}

#[tokio::test]
async fn a_query_that_the_model_cannot_read_is_searched_for_by_its_words() {
    let place = Place::with_model().await;
    place.remember(&["侧栏有新建会话按钮", "数据库里有两个表"]).await;
    let recall = place.search("新建会话按钮在哪里", 1).await;
    assert!(format!("{:?}", recall.mode).contains("script"), "{:?}", recall.mode);
    assert_eq!(contents(&recall), ["侧栏有新建会话按钮"]);
    let recall = place.search("Где кнопка нового разговора?", 1).await;
    assert_eq!(recall.mode, longhaul_memory::Mode::Hybrid);
}

#[tokio::test]
async fn evaluation_counts_what_was_found_at_which_place() {
    let place = Place::by_words().await;
    let ids = place.remember(&["red kettle", "blue kettle in the attic", "green door"]).await;
    let asked = [
        Question::new("green door", [ids[2].clone()]),
        Question::new("kettle", [ids[0].clone(), ids[1].clone()]),
        Question::new("submarine", [ids[0].clone()]),
        Question::new("never counted", []),
    ];
    let report = evaluate(&place.memory, &place.scope, &asked, &Query::new("", 10)).await.unwrap();
    let fused = &report.fused;
    assert_eq!((fused.questions, report.words.questions, report.meaning.questions), (3, 3, 0));
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(fused.recall_at(1).unwrap(), 0.5) && close(fused.recall_at(5).unwrap(), 2.0 / 3.0), "{fused:?}");
    assert!(close(fused.reciprocal_rank, 2.0 / 3.0), "{fused:?}");
}

//! What is found, in which order, and why.

use longhaul_core::TimeMs;
use longhaul_memory::{Condition, Kind, MemoryError, Mode, NewMemory, Op, Query, Source};
use serde_json::json;

use crate::place::{Place, contents, note};

const PROJECT: &[&str] = &[
    "JWT refresh token: rotated at each use, fifteen minutes",
    "login session handling: cookie with HttpOnly and SameSite",
    "The conversation list is sorted by the time of the last message",
    "Files are uploaded in chunks of one megabyte with a progress bar",
    "Markdown in replies is rendered on the server, code blocks are highlighted",
    "The sidebar can be collapsed; its width is kept in local storage",
    "Messages are streamed with server-sent events",
    "SQLite holds conversations and messages, one table each",
    "Dark mode follows the system's preference",
    "Deleting a conversation asks for confirmation first",
    "User interface texts are kept in one file",
    "The build takes forty seconds; caching node_modules halves it",
];

#[tokio::test]
async fn meaning_finds_what_shares_no_word() {
    let place = Place::with_model().await;
    place.remember(PROJECT).await;
    let recall = place.search("user authentication", 4).await;
    let found = contents(&recall);
    assert_eq!(recall.mode, Mode::Hybrid);
    assert!(found.contains(&PROJECT[0].to_owned()) && found.contains(&PROJECT[1].to_owned()), "{recall:#?}");
    let token = recall.hits.iter().find(|hit| hit.item.content == PROJECT[0]).unwrap();
    assert_eq!(token.explain.words.raw, Some(0.0));
    assert!(token.explain.meaning.raw.unwrap() > 0.1, "{token:?}");
}

#[tokio::test]
async fn a_score_is_the_sum_of_its_explanation_and_hits_are_sorted_by_it() {
    let place = Place::with_model().await;
    place.remember(PROJECT).await;
    let recall = place.search("which table holds the messages of a conversation", 10).await;
    assert!(recall.hits.len() > 3 && recall.hits.is_sorted_by(|a, b| a.score >= b.score));
    for hit in &recall.hits {
        let parts = hit.explain;
        let legs = [parts.words, parts.words_around, parts.meaning, parts.meaning_around];
        let relevance: f32 = legs.iter().map(|leg| leg.weight * leg.share).sum();
        let expected = relevance * parts.importance.factor * parts.decay.factor;
        assert!((hit.score - expected).abs() < 1e-5, "{hit:?}");
    }
    assert_eq!(recall.hits[0].item.content, PROJECT[7]);
    assert_eq!((recall.considered, recall.unembedded), (PROJECT.len(), 0));
}

#[tokio::test]
async fn inflected_words_find_each_other() {
    let place = Place::by_words().await;
    place.remember(PROJECT).await;
    assert_eq!(place.found("uploading a file", 1).await, [PROJECT[3]]);
    assert_eq!(place.found("COLLAPSING sidebars", 1).await, [PROJECT[5]]);
}

#[tokio::test]
async fn chinese_japanese_and_korean_are_found_by_parts_of_words() {
    let place = Place::by_words().await;
    let texts = [
        "侧栏有新建会话按钮",
        "消息按时间排序",
        "ログイン画面でパスワードを再設定できる",
        "メッセージは時刻順に並ぶ",
        "사용자는 대화를 삭제할 수 있다",
        "메시지는 시간순으로 정렬된다",
    ];
    place.remember(&texts).await;
    for (query, expected) in
        [("会话", 0), ("排序", 1), ("パスワード", 2), ("時刻", 3), ("대화 삭제", 4), ("메시지", 5), ("ﾛｸﾞｲﾝ", 2)]
    {
        assert_eq!(place.found(query, 1).await, [texts[expected]], "{query}");
    }
    assert!(place.found("数据库", 5).await.is_empty());
}

#[tokio::test]
async fn a_memory_is_found_by_words_at_commit_and_by_meaning_once_embedded() {
    let place = Place::with_model().await;
    place.memory.add(&place.scope, note(PROJECT[1])).await.unwrap();
    let recall = place.search("session", 5).await;
    assert_eq!((contents(&recall), recall.unembedded), (vec![PROJECT[1].to_owned()], 1));
    assert!(place.search("authentication of users", 5).await.hits.is_empty());
    assert_eq!(place.memory.backlog(&place.scope).await.unwrap(), 1);

    assert_eq!(place.memory.index_pending().await.unwrap().embedded, 1);
    assert_eq!(place.found("authentication of users", 5).await, [PROJECT[1]]);
    assert_eq!(place.memory.backlog(&place.scope).await.unwrap(), 0);
}

#[tokio::test]
async fn every_filter_narrows() {
    let place = Place::by_words().await;
    let task: longhaul_core::TaskId = "task_1".parse().unwrap();
    let mut special = NewMemory::new("commits", Kind::Commit, Source::Harness, "login page");
    special.task = Some(task.clone());
    special.meta = json!({"feature": "F07", "tries": 2, "ratio": 0.5, "passed": true}).as_object().unwrap().clone();
    place.memory.add(&place.scope, special).await.unwrap();
    place.clock.advance_days(10);
    place.memory.add(&place.scope, note("login form")).await.unwrap();

    let all = Query::new("login", 10);
    let late = Some(TimeMs(1_800_000_000_000 + 86_400_000));
    let is = |field: &str, op: Op, value: serde_json::Value| vec![Condition { field: field.into(), op, value }];
    let cases = [
        (all.clone(), 2),
        (Query { collections: vec!["commits".into()], ..all.clone() }, 1),
        (Query { collections: vec!["commits".into(), "project".into()], ..all.clone() }, 2),
        (Query { collections: vec!["elsewhere".into()], ..all.clone() }, 0),
        (Query { kinds: vec![Kind::Commit], ..all.clone() }, 1),
        (Query { kinds: vec![Kind::Fact], ..all.clone() }, 0),
        (Query { task: Some(task), ..all.clone() }, 1),
        (Query { task: Some("task_2".parse().unwrap()), ..all.clone() }, 0),
        (Query { user: Some(place.scope.user.clone()), ..all.clone() }, 2),
        (Query { user: Some("user_other".parse().unwrap()), ..all.clone() }, 0),
        (Query { since: late, ..all.clone() }, 1),
        (Query { until: late, ..all.clone() }, 1),
        (Query { filter: is("feature", Op::Eq, json!("F07")), ..all.clone() }, 1),
        (Query { filter: is("feature", Op::Eq, json!("F08")), ..all.clone() }, 0),
        (Query { filter: is("feature", Op::Ne, json!("F08")), ..all.clone() }, 2),
        (Query { filter: is("feature", Op::Exists, json!(false)), ..all.clone() }, 1),
        (Query { filter: is("feature", Op::Ge, json!("F07")), ..all.clone() }, 1),
        (Query { filter: is("feature", Op::Lt, json!(9)), ..all.clone() }, 0),
        (Query { filter: is("tries", Op::Eq, json!(2.0)), ..all.clone() }, 1),
        (Query { filter: is("tries", Op::Eq, json!("2")), ..all.clone() }, 0),
        (Query { filter: is("tries", Op::In, json!([1, 2, 3])), ..all.clone() }, 1),
        (Query { filter: is("tries", Op::Le, json!(1.5)), ..all.clone() }, 0),
        (Query { filter: is("ratio", Op::Gt, json!(0)), ..all.clone() }, 1),
        (Query { filter: is("passed", Op::Eq, json!(true)), ..all.clone() }, 1),
        (Query { filter: is("passed", Op::Eq, json!(1)), ..all.clone() }, 0),
    ];
    for (query, expected) in cases {
        let recall = place.memory.search(&place.scope, &query).await.unwrap();
        assert_eq!((recall.hits.len(), recall.considered), (expected, expected), "{query:?}");
    }
    for (op, wrong) in [(Op::Eq, json!([1])), (Op::Lt, json!(null)), (Op::In, json!(1)), (Op::Exists, json!(1))] {
        let query = Query { filter: is("tries", op, wrong.clone()), ..all.clone() };
        let refused = place.memory.search(&place.scope, &query).await;
        assert!(matches!(refused, Err(MemoryError::Field { .. })), "{wrong} was accepted");
    }
    let unknown = Query { filter: is("feture", Op::Eq, json!("F07")), ..all };
    let refused = place.memory.search(&place.scope, &unknown).await.unwrap_err().to_string();
    assert_eq!(refused, "no memory has the field `feture`; the fields known here are: feature, passed, ratio, tries");
}

#[tokio::test]
async fn the_important_and_the_recent_come_first_among_equals() {
    let place = Place::by_words().await;
    let progress = |text: &str, importance: f32| NewMemory {
        importance,
        ..NewMemory::new("project", Kind::Progress, Source::Harness, text)
    };
    place.memory.add(&place.scope, progress("login works old", 0.5)).await.unwrap();
    place.clock.advance_days(60);
    place.memory.add(&place.scope, progress("login works minor", 0.1)).await.unwrap();
    place.memory.add(&place.scope, progress("login works major", 0.9)).await.unwrap();
    assert_eq!(place.found("login works", 3).await, ["login works major", "login works minor", "login works old"]);
}

#[tokio::test]
async fn what_has_expired_is_gone() {
    let place = Place::by_words().await;
    let soon = TimeMs(1_800_000_000_000 + 86_400_000);
    let id = place
        .memory
        .add(&place.scope, NewMemory { expires_at: Some(soon), ..note("temporary password") })
        .await
        .unwrap();
    assert_eq!(place.found("password", 5).await.len(), 1);
    place.clock.advance_days(1);
    assert!(place.found("password", 5).await.is_empty());
    assert!(place.memory.get(&place.scope, &id).await.unwrap().is_none());
}

#[tokio::test]
async fn searching_writes_nothing() {
    let place = Place::with_model().await;
    place.remember(&PROJECT[..3]).await;
    let state = |place: &Place| {
        let store = place.store.clone();
        async move {
            let sql = "SELECT (SELECT count(*) FROM memories),
                       (SELECT CAST(sum(last_seq + last_change + last_vector_seq) AS INTEGER) FROM memory_partitions),
                       (SELECT CAST(sum(length(postings)) AS REAL) FROM memory_postings), (SELECT count(*) FROM events)";
            let row = |row: &longhaul_store::Row<'_>| {
                Ok((row.get::<i64>(0)?, row.get::<i64>(1)?, row.get::<f64>(2)?, row.get::<i64>(3)?))
            };
            store.read(move |read| read.query_one(sql, &[], row)).await.unwrap()
        }
    };
    let before = state(&place).await;
    place.search("token", 5).await;
    assert_eq!(state(&place).await, before);
}

#[tokio::test]
async fn a_recall_survives_being_recorded() {
    let place = Place::with_model().await;
    place.remember(&PROJECT[..4]).await;
    let recall = place.search("login session", 3).await;
    let text = serde_json::to_string(&recall).unwrap();
    let again: longhaul_memory::Recall = serde_json::from_str(&text).unwrap();
    assert_eq!(contents(&again), contents(&recall));
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
}

//! Input that is empty, huge or out of range: a clear error, and nothing written.

use longhaul_memory::{CONTENT_BYTES_MAX, MemoryError, NewMemory, Query};
use serde_json::json;

use crate::place::{Place, note};

async fn refusal(place: &Place, memory: NewMemory) -> String {
    place.memory.add(&place.scope, memory).await.expect_err("it is refused").to_string()
}

#[tokio::test]
async fn what_cannot_be_remembered_is_refused_with_a_reason() {
    let place = Place::by_words().await;
    for (memory, expected) in [
        (note(""), "a memory needs some text"),
        (note(" \n\t"), "a memory needs some text"),
        (
            note(&"x".repeat(10 * 1024 * 1024)),
            "a memory of 10485760 bytes is over the limit of 65536; keep the content in the workspace and remember a summary with its ref",
        ),
        (NewMemory { importance: f32::NAN, ..note("x") }, "importance is NaN: expected a number from 0 to 1"),
        (NewMemory { importance: 1.5, ..note("x") }, "importance is 1.5: expected a number from 0 to 1"),
        (
            NewMemory { collection: "My Notes".into(), ..note("x") },
            "collection is My Notes: expected 1 to 64 of a-z, 0-9, `_`, `.`, `-`",
        ),
    ] {
        assert_eq!(refusal(&place, memory).await, expected);
    }
    let meta = json!({"log": "x".repeat(20_000)}).as_object().unwrap().clone();
    assert!(refusal(&place, NewMemory { meta, ..note("x") }).await.contains("metadata of 20010 bytes"));
    assert_eq!(place.search("x", 5).await.considered, 0);
}

#[tokio::test]
async fn the_largest_memory_is_found_by_its_last_word() {
    let place = Place::with_model().await;
    let part = "lorem ipsum 会话 ";
    let text = part.repeat((CONTENT_BYTES_MAX - 10) / part.len());
    place.remember(&[&format!("{text} wombat")]).await;
    let recall = place.search("wombat", 1).await;
    assert_eq!((recall.hits.len(), recall.unembedded), (1, 0));
}

#[tokio::test]
async fn a_query_without_words_is_refused_and_a_huge_one_is_cut() {
    let place = Place::with_model().await;
    place.remember(&["login session handling"]).await;
    for (text, k) in [("", 5), ("  ", 5), ("login", 0), ("login", 201)] {
        let refused = place.memory.search(&place.scope, &Query::new(text, k)).await;
        assert!(matches!(refused, Err(MemoryError::Field { .. })), "{text:?}, {k}");
    }
    let huge = format!("login {}", "é漢 word ".repeat(1_000_000));
    assert_eq!(place.found(&huge, 5).await, ["login session handling"]);
    for odd in ["the", "?!", "\u{0}", "🙂", "'; DROP TABLE memories; --", "\u{301}\u{301}"] {
        let recall = place.search(odd, 5).await;
        assert!(recall.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)), "{odd}");
    }
}

#[test]
fn words_for_kinds_and_sources_are_parsed_back() {
    for kind in longhaul_memory::Kind::ALL {
        assert_eq!(kind.as_str().parse::<longhaul_memory::Kind>().unwrap(), *kind);
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
    }
    let error = "memo".parse::<longhaul_memory::Kind>().unwrap_err().to_string();
    assert!(error.starts_with("kind is memo: expected one of progress commit episode"), "{error}");
    for source in longhaul_memory::Source::ALL {
        assert_eq!(serde_json::to_value(source).unwrap(), source.as_str());
    }
}

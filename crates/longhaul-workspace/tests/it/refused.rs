//! What is not kept, and what is said of it.

use longhaul_workspace::{Content, Filter, Ingest, Kind, WorkspaceError};
use serde_json::{Map, json};

use crate::ground::{Ground, note};

#[tokio::test]
async fn a_record_says_what_it_is_and_where_it_came_from() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    for (what, lacking) in [
        (Ingest { summary: " \n".into(), ..note("x") }, "summary"),
        (Ingest { source: String::new(), ..note("x") }, "source"),
    ] {
        let refused = task.ingest(what).await;
        assert!(matches!(refused, Err(WorkspaceError::Missing(name)) if name == lacking), "{refused:?}");
    }
    assert!(task.list(Filter::default(), None, 10).await.unwrap().records.is_empty());
}

#[tokio::test]
async fn what_cannot_be_kept_is_named() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let own = |name: &str| Kind::Own(name.to_owned());
    let meta = |value: serde_json::Value| Map::from_iter([("k".to_owned(), value)]);
    for (what, name) in [
        (Ingest { collection: "No Such".into(), ..note("x") }, "collection"),
        (Ingest { kind: own("../x"), ..note("x") }, "kind"),
        (Ingest { name: Some(String::new()), ..note("x") }, "name"),
        (Ingest { name: Some("a\0b".into()), ..note("x") }, "name"),
        (Ingest { summary: "s".repeat(1_001), ..note("x") }, "summary"),
        (Ingest { source: "web\nuser".into(), ..note("x") }, "source"),
        (Ingest { subject: Some("x".repeat(201)), ..note("x") }, "subject"),
        (Ingest { revise: true, ..note("x") }, "revise"),
        (Ingest { meta: meta(json!("m".repeat(17_000))), ..note("x") }, "meta"),
        (Ingest { meta: meta(json!("zero \0 in it")), ..note("x") }, "meta"),
    ] {
        let refused = task.ingest(what).await;
        assert!(
            matches!(&refused, Err(WorkspaceError::Field { name: field, .. }) if *field == name),
            "{name}: {refused:?}"
        );
    }
    // A zero character in a content is nobody's business.
    let kept = task.ingest(note("zero \0 in it")).await.unwrap();
    assert_eq!(task.read(&kept).await.unwrap().1, b"zero \0 in it");
}

#[tokio::test]
async fn content_that_its_schema_does_not_allow_is_refused_with_the_place() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let schema = json!({
        "type": "object",
        "properties": {"amount": {"type": "number", "minimum": 0}},
        "required": ["amount"],
    });
    let with = |content: Content| Ingest { schema: Some(schema.clone()), content, ..note("") };
    task.ingest(with(r#"{"amount": 3}"#.into())).await.unwrap();
    let large = format!(r#"{{"amount": -1, "more": "{}"}}"#, "x".repeat(30_000)).into_bytes();
    for (content, place) in [
        (Content::from(r#"{"amount": -1}"#), "content.amount: "),
        (Content::from("{}"), "content: "),
        (Content::from("no json"), "content: is not JSON"),
        (Content::Bytes(large.clone()), "content.amount: "),
        (Content::Reader(Box::new(std::io::Cursor::new(large))), "content.amount: "),
    ] {
        let refused = task.ingest(with(content)).await.unwrap_err();
        assert!(matches!(refused, WorkspaceError::Misfit { .. }) && refused.to_string().contains(place), "{refused}");
    }
    let outside = Ingest { schema: Some(json!({"$ref": "https://example.com/s.json"})), ..note("{}") };
    let refused = task.ingest(outside).await.unwrap_err();
    assert!(matches!(&refused, WorkspaceError::Misfit { path, .. } if path == "schema"), "{refused}");
    assert_eq!(task.list(Filter::default(), None, 10).await.unwrap().records.len(), 1);
}

//! The derived state: what its update says, how it reduces, how it is stored.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_durable::{Field, GraphState, Reducer};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, GraphState)]
struct Chat {
    #[append]
    messages: Vec<String>,
    #[append]
    seen: BTreeSet<u32>,
    topic: String,
    turn: u64,
    #[serde(rename = "who", default)]
    owner: Option<String>,
    #[reduce(add)]
    score: i64,
    #[reduce(tally, from = String)]
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    r#type: BTreeMap<String, u32>,
}

fn add(score: &mut i64, more: i64) {
    *score += more;
}

fn tally(counts: &mut BTreeMap<String, u32>, word: String) {
    *counts.entry(word).or_default() += 1;
}

fn json(update: &ChatUpdate) -> String {
    serde_json::to_string(update).unwrap()
}

/// The state after these updates, each read back from its JSON first.
fn after(updates: impl IntoIterator<Item = ChatUpdate>) -> Chat {
    let mut chat = Chat::default();
    for update in updates {
        chat.apply(serde_json::from_str(&json(&update)).unwrap());
    }
    chat
}

#[test]
fn each_field_is_reduced_as_it_says() {
    let first =
        ChatUpdate::new().messages(["a".to_owned()]).messages(["b".to_owned()]).topic("tea").turn(1).seen([3, 1]);
    let second = ChatUpdate::new().messages(["c".to_owned()]).topic("rice").score(4).score(-1).r#type("x".to_owned());
    let chat = after([first, second]);
    assert_eq!(chat.messages, ["a", "b", "c"]);
    assert_eq!(chat.seen, BTreeSet::from([1, 3]));
    assert_eq!((chat.topic.as_str(), chat.turn, chat.score), ("rice", 1, 3));
    assert_eq!(chat.r#type, BTreeMap::from([("x".to_owned(), 1)]));
    assert_eq!(after([ChatUpdate::new()]), Chat::default());
}

#[test]
fn overwriting_bypasses_the_reducer() {
    let long = ChatUpdate::new().messages(["a", "b", "c"].map(str::to_owned)).score(9).owner(Some("me".to_owned()));
    let short = ChatUpdate::new()
        .messages(["lost".to_owned()])
        .overwrite_messages(vec!["x".to_owned()])
        .messages(["y".to_owned()])
        .overwrite_score(1)
        .score(1)
        .overwrite_type(BTreeMap::new())
        .owner(None);
    let chat = after([long, short]);
    assert_eq!(chat.messages, ["x", "y"]);
    assert_eq!(chat.score, 2);
    assert_eq!(chat.owner, None, "a value of none is no missing value");
}

#[test]
fn an_update_is_stored_small_and_prints_as_what_it_is() {
    assert_eq!(json(&ChatUpdate::new()), "{}");
    let update = ChatUpdate::new().messages(["a".to_owned()]).owner(None).overwrite_seen(BTreeSet::new());
    assert_eq!(json(&update), r#"{"messages":["a"],"=seen":[],"who":null}"#);
    assert_eq!(format!("{:?}", update.clone()), r#"ChatUpdate {"messages":["a"],"=seen":[],"who":null}"#);
}

#[test]
fn the_runtime_knows_the_fields_and_which_are_set_whole() {
    let field = |name, reducer| Field { name, reducer };
    assert_eq!(
        Chat::FIELDS,
        [
            field("messages", Reducer::Append),
            field("seen", Reducer::Append),
            field("topic", Reducer::Last),
            field("turn", Reducer::Last),
            field("who", Reducer::Last),
            field("score", Reducer::Custom("add")),
            field("type", Reducer::Custom("tally")),
        ]
    );
    for (update, expected) in [
        (ChatUpdate::new().messages(["a".to_owned()]).score(1), 0),
        (ChatUpdate::new().topic("x"), 0b100),
        (ChatUpdate::new().owner(None).turn(0), 0b1_1000),
        (ChatUpdate::new().overwrite_messages(Vec::new()), 0b1),
        (ChatUpdate::new().overwrite_score(1).overwrite_type(BTreeMap::new()), 0b110_0000),
    ] {
        assert_eq!(Chat::touched(&update), expected, "{update:?}");
    }
}

mod named {
    /// The crate under another name, and the update under another name.
    pub(crate) use longhaul_durable as runtime;

    #[derive(Clone, serde::Serialize, serde::Deserialize, runtime::GraphState)]
    #[graph_state(update = Change, crate = crate::derive::named::runtime)]
    pub(crate) struct Other {
        pub(crate) count: u8,
    }
}

#[test]
fn the_update_may_have_another_name() {
    let mut other = named::Other { count: 1 };
    other.apply(named::Change::new().count(2));
    assert_eq!(other.count, 2);
}

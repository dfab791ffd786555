//! Sizes are found with their paths, and found without a walk over what was appended long ago.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize, de::DeserializeOwned, ser::SerializeSeq};
use serde_json::{Value, json};

use super::*;

/// Any JSON as a state, with a field `log` that grows.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Any(Value);

impl GraphState for Any {
    type Update = Value;
    const FIELDS: &'static [Field] = &[Field { name: "log", reducer: Reducer::Append }];
    fn apply(&mut self, update: Value) {
        self.0 = update;
    }
}

/// The same without such a field.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Plain(Value);

impl GraphState for Plain {
    type Update = Value;
    fn apply(&mut self, update: Value) {
        self.0 = update;
    }
}

/// A typed state, as most are.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Typed {
    log: Vec<String>,
    by_name: BTreeMap<String, (u8, Option<i64>)>,
    kind: Kind,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Kind {
    Bare,
    One(String),
    Named { text: String },
}

impl GraphState for Typed {
    type Update = ();
    const FIELDS: &'static [Field] = Any::FIELDS;
    fn apply(&mut self, (): ()) {}
}

fn path(error: LimitError) -> String {
    match error {
        LimitError::Bytes { path, .. } | LimitError::Items { path, .. } => path,
    }
}

fn large() -> String {
    "x".repeat(STATE_LEAF_BYTES_MAX)
}

#[test]
fn the_path_to_what_is_too_large_is_named() {
    for (state, expected) in [
        (json!({"a": [1, {"b": large()}]}), "state.a[1].b"),
        (json!({"log": [1, {"b": large()}]}), "state.log[1].b"),
        (json!({"log": [1, vec!["x".repeat(1000); 70]]}), "state.log[1]"),
        (json!({"log": {"first": vec!["x".repeat(1000); 70]}}), "state.log.first"),
        (json!({"a": vec!["x".repeat(1000); 270]}), "state"),
        (json!(large()), "state"),
    ] {
        assert_eq!(path(check_state(&Any(state)).unwrap_err()), expected);
    }
    let typed = Typed { log: Vec::new(), by_name: BTreeMap::new(), kind: Kind::Named { text: large() } };
    assert_eq!(path(check_close(&typed).unwrap_err()), "state.kind.text");
    let typed = Typed { kind: Kind::One(large()), ..typed };
    assert_eq!(path(check_close(&typed).unwrap_err()), "state.kind.One");
}

#[test]
fn only_fields_that_grow_may_grow_beyond_the_state() {
    let items = json!({ "log": vec!["x".repeat(STATE_LEAF_BYTES_MAX / 2); 10] });
    assert_eq!(check_state(&Any(items.clone())), Ok(2));
    assert_eq!(check_close(&Any(items.clone())), Ok(2));
    assert_eq!(path(check_state(&Plain(items.clone())).unwrap_err()), "state");
    // In an update they count, and so they do when they replace what was there.
    assert_eq!(path(check_update::<Any>(&items).unwrap_err()), "update");
    assert_eq!(
        path(check_update::<Any>(&json!({"=log": [vec!["x".repeat(1000); 70]]})).unwrap_err()),
        "update.=log[0]"
    );
    assert!(check_update::<Any>(&json!({ "log": [large().split_off(100)] })).is_ok());
}

#[test]
fn the_number_of_items_is_limited_and_found_without_a_walk() {
    /// A list that panics when somebody looks at an item.
    #[derive(Clone, Deserialize)]
    struct Untouched(usize);
    impl Serialize for Untouched {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_seq(Some(self.0))?.serialize_element(&Item)?;
            panic!("walked over");
        }
    }
    struct Item;
    impl Serialize for Item {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("looked at");
        }
    }
    #[derive(Clone, Serialize, Deserialize)]
    struct Log {
        log: Untouched,
    }
    impl GraphState for Log {
        type Update = ();
        const FIELDS: &'static [Field] = Any::FIELDS;
        fn apply(&mut self, (): ()) {}
    }
    assert_eq!(check_close(&Log { log: Untouched(STATE_APPEND_ITEMS_MAX) }), Ok(2));
    let error = check_close(&Log { log: Untouched(STATE_APPEND_ITEMS_MAX + 1) }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "state.log has 1000001 items, at most 1000000 are allowed: keep the older ones as records"
    );
}

#[test]
fn what_is_sent_is_limited() {
    let send = |text: &str| Planned { node: "work".into(), input: Some(crate::Input::of(text).unwrap()) };
    assert!(check_sends(&vec![send("a"); SUPERSTEP_TASKS_MAX]).is_ok());
    assert_eq!(path(check_sends(&vec![send("a"); SUPERSTEP_TASKS_MAX + 1]).unwrap_err()), "what is sent");
    assert_eq!(path(check_sends(&[send("a"), send(&large())]).unwrap_err()), "the input of work");
    assert_eq!(path(check_sends(&vec![send(&"x".repeat(60_000)); 70]).unwrap_err()), "what is sent");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(|n| json!(n)),
        any::<u64>().prop_map(|n| json!(n)),
        "[a-z ]{0,20}".prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
            prop::collection::btree_map("[a-z]{1,8}", inner, 0..8).prop_map(|map| json!(map)),
        ]
    })
}

fn near<T: Serialize + DeserializeOwned>(value: &T, measured: usize) -> bool {
    let real = serde_json::to_string(value).unwrap().len();
    // One separator too many for each list and object, so never more than an eighth and two.
    measured >= real && measured <= real + real / 2 + 2
}

proptest! {
    #[test]
    fn the_size_is_that_of_the_json(value in any_json()) {
        let measured = check_state(&Plain(value.clone())).unwrap();
        prop_assert!(near(&value, measured), "{measured} for {value}");
    }

    #[test]
    fn typed_values_measure_like_their_json(
        names in prop::collection::btree_map("[a-z]{1,8}", (any::<u8>(), any::<Option<i64>>()), 0..8),
        text in "[a-z]{0,20}",
    ) {
        for kind in [Kind::Bare, Kind::One(text.clone()), Kind::Named { text: text.clone() }] {
            let typed = Typed { log: Vec::new(), by_name: names.clone(), kind };
            let mut json = serde_json::to_value(&typed).unwrap();
            json.as_object_mut().unwrap().remove("log");
            prop_assert!(near(&json, check_close(&typed).unwrap()));
        }
    }
}

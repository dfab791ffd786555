//! Reading payloads: the two shapes in which clients send them, and fields by name, type and bound.
//!
//! The Python SDK wraps many payloads: the whole inner event is the payload, and what is meant stands in
//! `payload.payload`. Others send it flat. [`Fields::of`] reads both and says which field is wrong. It owns no meaning
//! of a field. Invariant: no text or list leaves it larger than its reader has said.

use longhaul_network::{Address, Event, Refusal};
use serde_json::{Map, Value};

/// Longest id or name that a payload may refer to, bytes.
pub const REFERENCE_BYTES_MAX: usize = 200;

/// The fields of an event's payload.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    fields: &'a Map<String, Value>,
    /// The inner event of a wrapped payload.
    wrapper: Option<&'a Map<String, Value>>,
    event: &'a Event,
}

/// What is meant by a payload: its own fields, or those of the event that it wraps.
#[must_use]
pub fn inner(payload: &Map<String, Value>) -> &Map<String, Value> {
    match (payload.get("event_name"), payload.get("payload")) {
        (Some(Value::String(_)), Some(Value::Object(inner))) => inner,
        _ => payload,
    }
}

impl<'a> Fields<'a> {
    /// The fields of this event's payload, whatever its shape.
    #[must_use]
    pub fn of(event: &'a Event) -> Self {
        let fields = inner(&event.payload);
        let wrapper = (!std::ptr::eq(fields, &raw const event.payload)).then_some(&event.payload);
        Self { fields, wrapper, event }
    }

    /// All of them, for what is passed on as it came.
    #[must_use]
    pub fn all(&self) -> &'a Map<String, Value> {
        self.fields
    }

    /// The field, unless it is missing or null.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// The id that an answer echoes as `request_id`.
    #[must_use]
    pub fn request_id(&self) -> &'a str {
        let given = self.fields.get("request_id").or_else(|| self.wrapper?.get("event_id"));
        given.and_then(Value::as_str).filter(|id| id.len() <= REFERENCE_BYTES_MAX).unwrap_or(&self.event.id)
    }

    /// The channel it concerns: the field `channel`, else where the event or the one it wraps is addressed to.
    ///
    /// # Errors
    /// A name that is none.
    pub fn channel(&self) -> Result<Option<String>, Refusal> {
        if let Some(named) = self.optional_text("channel", REFERENCE_BYTES_MAX)?.filter(|name| !name.is_empty()) {
            let name = named.strip_prefix('#').unwrap_or(named);
            return match Address::parse(Some(&format!("channel:{name}")))? {
                Address::Channel(name) => Ok(Some(name)),
                Address::Agent(_) | Address::Group(_) | Address::Mod(_) | Address::Everybody | Address::System => {
                    Ok(None)
                }
            };
        }
        let addressed = match (&self.event.to, self.wrapper) {
            (Address::Channel(name), _) => Some(name.clone()),
            (_, Some(wrapper)) => ["destination_id", "target_agent_id"]
                .iter()
                .find_map(|key| wrapper.get(*key)?.as_str()?.strip_prefix("channel:"))
                .map(str::to_owned),
            _ => None,
        };
        Ok(addressed)
    }

    /// A text that has to be there and not be blank, at most so many bytes.
    ///
    /// # Errors
    /// Which field is missing, is no text, or is too long.
    pub fn text(&self, name: &str, bytes_max: usize) -> Result<&'a str, Refusal> {
        self.optional_text(name, bytes_max)?
            .filter(|text| !text.trim().is_empty())
            .ok_or_else(|| wrong(name, "is missing: a text is needed"))
    }

    /// A text, at most so many bytes, where it is given.
    ///
    /// # Errors
    /// That it is no text, or is too long.
    pub fn optional_text(&self, name: &str, bytes_max: usize) -> Result<Option<&'a str>, Refusal> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= bytes_max => Ok(Some(text)),
            Some(Value::String(text)) => {
                Err(wrong(name, &format!("is {} bytes long: at most {bytes_max} are taken", text.len())))
            }
            Some(_) => Err(wrong(name, "is no text")),
        }
    }

    /// A whole number within these bounds; `default` where none is given. One beyond the upper bound is cut to it: a
    /// page asked for too large is a full page.
    ///
    /// # Errors
    /// That it is no whole number, or below the lower bound.
    pub fn number(&self, name: &str, default: i64, bounds: std::ops::RangeInclusive<i64>) -> Result<i64, Refusal> {
        // Numbers that came through a protobuf `Struct` are floating-point.
        #[expect(clippy::cast_possible_truncation, reason = "only whole numbers within 2^53")]
        let whole = |value: &Value| match value.as_f64() {
            Some(number) if number.fract() == 0.0 && number.abs() < 9e15 => value.as_i64().or(Some(number as i64)),
            _ => None,
        };
        let Some(value) = self.value(name) else { return Ok(default) };
        match whole(value) {
            Some(number) if number >= *bounds.start() => Ok(number.min(*bounds.end())),
            _ => Err(wrong(name, &format!("is no whole number of {} or more", bounds.start()))),
        }
    }

    /// Where a page of an answer begins, and its length: `offset` and `limit`.
    ///
    /// # Errors
    /// Those of [`Self::number`].
    pub fn page(&self, default: i64, limit_max: i64) -> Result<Page, Refusal> {
        Ok(Page {
            limit: self.number("limit", default, 1..=limit_max)?,
            offset: self.number("offset", 0, 0..=1_000_000_000)?,
        })
    }

    /// Yes or no; `default` where nothing is given.
    ///
    /// # Errors
    /// That it is something else.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Refusal> {
        match self.value(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(wrong(name, "is neither true nor false")),
        }
    }

    /// A list of texts, at most so many and each at most [`REFERENCE_BYTES_MAX`]; a single text is a list of one.
    ///
    /// # Errors
    /// That it is no such list.
    pub fn texts(&self, name: &str, count_max: usize) -> Result<Option<Vec<String>>, Refusal> {
        let no_list = || wrong(name, &format!("is no list of at most {count_max} short texts"));
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= REFERENCE_BYTES_MAX => Ok(Some(vec![text.clone()])),
            Some(Value::Array(values)) if values.len() <= count_max => values
                .iter()
                .map(|value| value.as_str().filter(|text| text.len() <= REFERENCE_BYTES_MAX).map(str::to_owned))
                .collect::<Option<Vec<_>>>()
                .map(Some)
                .ok_or_else(no_list),
            Some(_) => Err(no_list()),
        }
    }

    /// An object, where it is given.
    ///
    /// # Errors
    /// That it is none.
    pub fn object(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, Refusal> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(wrong(name, "is no object")),
        }
    }

    /// One of these words; the first where nothing is given.
    ///
    /// # Errors
    /// That it is another one.
    pub fn word(&self, name: &str, words: &[&'static str]) -> Result<&'static str, Refusal> {
        let given = self.optional_text(name, REFERENCE_BYTES_MAX)?.filter(|text| !text.is_empty());
        let found = match given {
            None => words.first(),
            Some(given) => words.iter().find(|word| **word == given),
        };
        found.copied().ok_or_else(|| wrong(name, &format!("is none of {}", words.join(", "))))
    }

    /// What is said: `content.text`, a `content` that is a text, or `text`. Empty where nothing is said.
    ///
    /// # Errors
    /// That it is longer than so many bytes, or no text.
    pub fn said(&self, bytes_max: usize) -> Result<&'a str, Refusal> {
        let said = match self.value("content") {
            Some(Value::String(text)) => Some(text.as_str()),
            Some(Value::Object(content)) => match content.get("text") {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(text.as_str()),
                Some(_) => return Err(wrong("content.text", "is no text")),
            },
            None => self.optional_text("text", bytes_max)?,
            Some(_) => return Err(wrong("content", "is neither a text nor an object with a text")),
        };
        match said.unwrap_or_default() {
            text if text.len() <= bytes_max => Ok(text),
            text => Err(wrong("content", &format!("is {} bytes long: at most {bytes_max} are taken", text.len()))),
        }
    }
}

/// A part of a longer list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Entries at most.
    pub limit: i64,
    /// Entries before it.
    pub offset: i64,
}

impl Page {
    /// Whether there is more behind a page of this many entries.
    #[must_use]
    pub fn has_more(&self, given: usize, total: i64) -> bool {
        self.offset.saturating_add(i64::try_from(given).unwrap_or(i64::MAX)) < total
    }
}

/// What is wrong with a field, as each mod says it.
#[must_use]
pub fn wrong(name: &str, what: &str) -> Refusal {
    Refusal::invalid(format!("payload.{name} {what}"))
}

/// A number of a mod's `config`, at least 1.
///
/// # Errors
/// That it is none.
pub fn config_number(config: &Map<String, Value>, name: &str, default: usize) -> Result<usize, Refusal> {
    match config.get(name) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => value
            .as_u64()
            .filter(|number| *number >= 1)
            .and_then(|number| usize::try_from(number).ok())
            .ok_or_else(|| Refusal::invalid(format!("mods: config.{name} is no whole number of 1 or more"))),
    }
}

/// A list of texts of a mod's `config`.
///
/// # Errors
/// That it is none.
pub fn config_texts(config: &Map<String, Value>, name: &str) -> Result<Option<Vec<String>>, Refusal> {
    let no_list = || Refusal::invalid(format!("mods: config.{name} is no list of texts"));
    match config.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(values)) => {
            let texts = values.iter().map(|value| value.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
            texts.map(Some).ok_or_else(no_list)
        }
        Some(_) => Err(no_list()),
    }
}

/// JSON Schema of a payload: these fields, and those that have to be there.
#[must_use]
pub fn schema(properties: &[(&str, &str, &str)], required: &[&str]) -> Value {
    let typed = |kind: &str, about: &str| match kind {
        "texts" => serde_json::json!({"type": "array", "items": {"type": "string"}, "description": about}),
        "content" => serde_json::json!({
            "type": "object", "properties": {"text": {"type": "string"}}, "description": about,
        }),
        kind => serde_json::json!({"type": kind, "description": about}),
    };
    let fields: Map<String, Value> =
        properties.iter().map(|(name, kind, about)| ((*name).to_owned(), typed(kind, about))).collect();
    serde_json::json!({"type": "object", "properties": fields, "required": required})
}

#[cfg(test)]
mod tests {
    use longhaul_core::TimeMs;
    use longhaul_network::{Sender, Visibility};
    use serde_json::json;

    use super::*;

    fn event(payload: Value) -> Event {
        let Value::Object(payload) = payload else { unreachable!("tests give objects") };
        Event {
            seq: 0,
            id: "outer".into(),
            origin_id: None,
            name: "thread.channel_messages.retrieve".parse().expect("a name"),
            from: Sender::Network,
            from_group: None,
            to: Address::System,
            at: TimeMs(0),
            payload,
            metadata: Map::new(),
            visibility: Visibility::default(),
            allowed_agents: None,
            relevant_mod: None,
            requires_response: false,
            response_to: None,
            thread_name: None,
            text: None,
        }
    }

    #[test]
    fn both_shapes_of_the_sdk_are_read() {
        let flat = event(json!({"channel": "general", "limit": 5.0, "content": {"text": "hi"}}));
        let wrapped = event(json!({
            "event_name": "thread.channel_messages.retrieve", "event_id": "in", "destination_id": "channel:general",
            "payload": {"limit": 5, "content": "hi"},
        }));
        for (event, id) in [(&flat, "outer"), (&wrapped, "in")] {
            let fields = Fields::of(event);
            assert_eq!(fields.channel().expect("a channel").as_deref(), Some("general"));
            assert_eq!(fields.page(50, 500).expect("a page"), Page { limit: 5, offset: 0 });
            assert_eq!(fields.said(10).expect("said"), "hi");
            assert_eq!(fields.request_id(), id);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_the_fields_name() {
        let event = event(json!({"title": " ", "limit": -1, "tags": [1], "content": 7, "long": "abc", "kind": "x"}));
        let fields = Fields::of(&event);
        let said = [
            fields.text("title", 10).map(drop),
            fields.page(1, 5).map(drop),
            fields.texts("tags", 3).map(drop),
            fields.said(10).map(drop),
            fields.optional_text("long", 2).map(drop),
            fields.word("kind", &["a", "b"]).map(drop),
            fields.object("title").map(drop),
        ]
        .map(|result| result.expect_err("wrong").message);
        let begun = ["title", "limit", "tags", "content", "long", "kind", "title"];
        for (said, field) in said.iter().zip(begun) {
            assert!(said.starts_with(&format!("payload.{field} ")), "{said}");
        }
    }
}

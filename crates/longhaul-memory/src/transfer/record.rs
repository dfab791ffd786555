//! How a memory is written into an export, one line of JSON each: the format, version 1. It is the wire's type and
//! nobody else's; `docs/memory.md` describes it for people.
//!
//! Invariant: a record made of an item and read back is the same item.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use longhaul_core::{MemoryId, TaskId, TimeMs, UserId};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use crate::{Fact, Index, Item, Kind, Namespace, Source, Tier};

/// What the first line of an export says it is.
pub(crate) const FORMAT: &str = "longhaul-memory";
/// Version that this release writes, and the newest it reads.
pub(crate) const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) format: String,
    pub(crate) v: u32,
    pub(crate) exported_at: Moment,
}

/// One memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// `memory`
    pub(crate) r#type: String,
    pub(crate) id: MemoryId,
    pub(crate) namespace: Namespace,
    pub(crate) collection: String,
    pub(crate) kind: Kind,
    pub(crate) source: Source,
    pub(crate) content: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) meta: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
    pub(crate) importance: f32,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) pinned: bool,
    pub(crate) user: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) thread: Option<String>,
    pub(crate) created_at: Moment,
    pub(crate) happened_at: Moment,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fact: Option<FactRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) superseded_by: Option<MemoryId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) superseded_at: Option<Moment>,
    #[serde(default)]
    pub(crate) index: Index,
    #[serde(default)]
    pub(crate) tier: Tier,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) vectors: Vec<VectorRecord>,
}

/// What a memory says of the world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactRecord {
    pub(crate) subject: String,
    pub(crate) attribute: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) valid_from: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) valid_to: Option<Moment>,
}

/// A memory's vector by one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VectorRecord {
    /// The embedder's id.
    pub(crate) embedder: String,
    /// Its numbers as 32-bit floats, little-endian, in base64.
    pub(crate) f32: String,
}

impl VectorRecord {
    pub(crate) fn new(embedder: String, stored: &[u8]) -> Self {
        Self { embedder, f32: STANDARD.encode(stored) }
    }

    /// The bytes as they are stored, if they are a vector.
    pub(crate) fn stored(&self) -> Result<Vec<u8>, String> {
        let bytes = STANDARD.decode(&self.f32).map_err(|error| format!("its vector is not base64: {error}"))?;
        let (numbers, rest) = bytes.as_chunks::<4>();
        let usable = !numbers.is_empty()
            && rest.is_empty()
            && numbers.iter().all(|number| f32::from_le_bytes(*number).is_finite());
        if usable { Ok(bytes) } else { Err("its vector is not a list of finite 32-bit numbers".to_owned()) }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A time as RFC 3339 with milliseconds; as a number of milliseconds where no calendar reaches. Either is read, and a
/// day alone as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) TimeMs);

impl Moment {
    /// Reads what others write for a time: RFC 3339, a day, a number of seconds or of milliseconds.
    pub(crate) fn parse(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => {
                let number = number.as_f64().filter(|number| number.is_finite())?;
                // Seconds until the year 5138, milliseconds from 1973 on.
                let ms = if number.abs() < 1e11 { number * 1_000.0 } else { number };
                Some(Self(TimeMs(ms as i64)))
            }
            Value::String(text) => {
                let read = |text: &str| text.parse::<Timestamp>().ok();
                let text = text.trim();
                let at =
                    read(text).or_else(|| read(&format!("{text}Z"))).or_else(|| read(&format!("{text}T00:00:00Z")))?;
                Some(Self(TimeMs(at.as_millisecond())))
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match Timestamp::from_millisecond(self.0.0) {
            Ok(at) => serializer.collect_str(&format_args!("{at:.3}")),
            Err(_) => serializer.serialize_i64(self.0.0),
        }
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl de::Visitor<'_> for Either {
            type Value = Moment;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as 2026-11-01T09:30:00Z, or a number of milliseconds")
            }
            fn visit_i64<E: de::Error>(self, ms: i64) -> Result<Moment, E> {
                Ok(Moment(TimeMs(ms)))
            }
            fn visit_u64<E: de::Error>(self, ms: u64) -> Result<Moment, E> {
                i64::try_from(ms).map(|ms| Moment(TimeMs(ms))).map_err(E::custom)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
                let at = text.parse::<Timestamp>();
                at.map(|at| Moment(TimeMs(at.as_millisecond())))
                    .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl Record {
    /// The item as a line has it.
    pub(crate) fn of(item: Item, vectors: Vec<VectorRecord>) -> Self {
        Self {
            r#type: "memory".to_owned(),
            id: item.id,
            namespace: item.namespace,
            collection: item.collection,
            kind: item.kind,
            source: item.source,
            content: item.content,
            meta: item.meta,
            tags: item.tags,
            importance: item.importance,
            pinned: item.pinned,
            user: item.user,
            task: item.task,
            thread: item.thread,
            created_at: Moment(item.created_at),
            happened_at: Moment(item.happened_at),
            expires_at: item.expires_at.map(Moment),
            fact: item.fact.map(|fact| FactRecord {
                subject: fact.subject,
                attribute: fact.attribute,
                valid_from: fact.valid_from.map(Moment),
                valid_to: fact.valid_to.map(Moment),
            }),
            superseded_by: item.superseded_by,
            superseded_at: item.superseded_at.map(Moment),
            index: item.index,
            tier: item.tier,
            vectors,
        }
    }

    /// The item and its vectors.
    pub(crate) fn into_item(self) -> (Item, Vec<VectorRecord>) {
        let item = Item {
            id: self.id,
            namespace: self.namespace,
            collection: self.collection,
            kind: self.kind,
            source: self.source,
            content: self.content,
            meta: self.meta,
            tags: self.tags,
            importance: self.importance,
            pinned: self.pinned,
            user: self.user,
            task: self.task,
            thread: self.thread,
            created_at: self.created_at.0,
            happened_at: self.happened_at.0,
            expires_at: self.expires_at.map(|at| at.0),
            fact: self.fact.map(|fact| Fact {
                subject: fact.subject,
                attribute: fact.attribute,
                valid_from: fact.valid_from.map(|at| at.0),
                valid_to: fact.valid_to.map(|at| at.0),
            }),
            superseded_by: self.superseded_by,
            superseded_at: self.superseded_at.map(|at| at.0),
            index: self.index,
            tier: self.tier,
        };
        (item, self.vectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_readable_and_exact() {
        for (ms, written) in [
            (0, "\"1970-01-01T00:00:00.000Z\""),
            (1_795_285_800_123, "\"2026-11-21T18:30:00.123Z\""),
            (i64::MAX, "9223372036854775807"),
            (-1, "\"1969-12-31T23:59:59.999Z\""),
        ] {
            let moment = Moment(TimeMs(ms));
            assert_eq!(serde_json::to_string(&moment).ok().as_deref(), Some(written));
            assert_eq!(serde_json::from_str::<Moment>(written).ok(), Some(moment));
        }
        assert!(serde_json::from_str::<Moment>("\"soon\"").is_err());
    }

    #[test]
    fn the_times_of_others_are_understood() {
        for text in [
            "\"2026-11-21T18:30:00Z\"",
            "\"2026-11-21T10:30:00-08:00\"",
            "\"2026-11-21T18:30:00.000000+00:00\"",
            "\"2026-11-21 18:30:00\"",
            "1795285800",
            "1795285800000",
            "1795285800.0",
        ] {
            let value: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(Moment::parse(&value), Some(Moment(TimeMs(1_795_285_800_000))), "{text}");
        }
        let day = Value::String("2026-11-01".to_owned());
        assert_eq!(Moment::parse(&day), Some(Moment(TimeMs(1_793_491_200_000))));
        for none in [Value::Null, Value::Bool(true), Value::String("soon".to_owned())] {
            assert_eq!(Moment::parse(&none), None);
        }
    }
}

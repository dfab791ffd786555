//! Words of other owners, as requests write them: each with the pattern that the API's description gives for it.
//!
//! Invariant: what fits the pattern is taken by its owner, and what does not is refused before it is asked.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, schema::Schema, schema::Type},
};

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident, $pattern:literal, $expected:literal, $fits:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub(crate) struct $name(String);

        impl $name {
            pub(crate) fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                let fits: fn(&str) -> bool = $fits;
                if fits(&text) { Ok(Self(text)) } else { Err(format!("write {}", $expected)) }
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> String {
                word.0
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some($pattern));
                text.description(Some($expected)).into()
            }
        }

        impl ToSchema for $name {}
    )*};
}

words! {
    /// A partition of memory.
    NamespaceName, "^[a-z0-9_.:-]{1,128}$", "1 to 128 of a-z, 0-9, `_`, `.`, `:`, `-`",
        |text| sized(text, 128, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.:-".contains(&b));
    /// A group of records or memories.
    GroupName, "^[a-z0-9_.-]{1,64}$", "1 to 64 of a-z, 0-9, `_`, `.`, `-`",
        |text| sized(text, 64, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b));
    /// A kind of record, or a relation.
    KindName, "^[a-z][a-z0-9_]{0,39}$", "a letter a-z and up to 39 of a-z, 0-9, `_`",
        |text| sized(text, 40, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && text.starts_with(|c: char| c.is_ascii_lowercase());
    /// A kind of memory.
    MemoryKind, "^(progress|commit|episode|note|lesson|decision|fact|preference)$",
        "one of progress, commit, episode, note, lesson, decision, fact, preference",
        |text| longhaul_memory::Kind::from_str(text).is_ok();
    /// Who said what is remembered.
    SourceName, "^(user|agent|tool|outside)$", "one of user, agent, tool, outside",
        |text| ["user", "agent", "tool", "outside"].contains(&text);
    /// A tag of a memory.
    Tag, "^[^\\x00-\\x1f\\x7f-\\x9f]{1,64}$", "1 to 64 characters without control characters", |text| line(text, 64);
    /// One line.
    Line, "^[^\\x00-\\x1f\\x7f-\\x9f]{1,200}$", "1 to 200 characters without control characters",
        |text| line(text, 200);
    /// A line of a record: where it came from.
    SourceLine, "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\x00-\\x20\\x7f-\\xa0\\s][^\\x00-\\x1f\\x7f-\\x9f]*$",
        "some words on one line, at most 500 characters", |text| line(text, 500) && !text.trim().is_empty();
    /// A few words about a record.
    Summary, "^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]*[^\\x00-\\x20\\x7f-\\xa0\\s][^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]*$",
        "some words, at most 1,000 characters", |text| {
            let control = |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\r');
            text.chars().count() <= 1_000 && !text.trim().is_empty() && !text.chars().any(control)
        };
    /// A note.
    NoteLine, "^[^\\x00-\\x1f\\x7f-\\x9f]{1,500}$", "1 to 500 characters without control characters",
        |text| line(text, 500);
    /// Words that say something.
    Words, "^[^\\x00]*[^\\x00-\\x20\\x7f-\\xa0\\s][^\\x00]*$", "some words, without U+0000",
        |text| !text.trim().is_empty() && !text.contains('\0');
    /// Text without U+0000.
    Text, "^[^\\x00]*$", "text without U+0000", |text| !text.contains('\0');
    /// A place in JSON.
    Pointer, "^/[^\\x00]{0,255}$", "a JSON pointer of at most 256 characters, such as `/data/order_id`",
        |text| text.starts_with('/') && text.chars().count() <= 256 && !text.contains('\0');
    /// The name of a wait.
    WaitName, "^[^\\x00-\\x1f\\x7f-\\x9f]{1,128}$", "1 to 128 characters without control characters",
        |text| line(text, 128);
    /// A secret of webhooks.
    SecretText, "^whsec_([A-Za-z0-9+/]{4}){8,20}$", "`whsec_` and the base64 of 24 to 60 random bytes",
        |text| text.parse::<crate::hooks::Secret>().is_ok();
    /// Bytes, as base64.
    Base64, "^([A-Za-z0-9+/]{4})*$", "base64 whose bytes are a multiple of three; others end in `=` as usual",
        |text| text.len().is_multiple_of(4);
    /// An entry of shared knowledge.
    KeyName, "^[a-z0-9_./:-]{1,128}$", "1 to 128 of a-z, 0-9, `_`, `.`, `/`, `:`, `-`",
        |text| sized(text, 128, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_./:-".contains(&b));
    /// A schema of shared knowledge.
    SchemaName, "^[A-Za-z0-9_.@/-]{1,128}$", "1 to 128 letters, digits, `_`, `.`, `-`, `@`, `/`",
        |text| sized(text, 128, |b| b.is_ascii_alphanumeric() || b"_.@/-".contains(&b));
    /// A type of events, or all with one subject.
    TypeName, "^[A-Za-z0-9._:-]{1,100}(\\.\\*)?$", "a dotted name such as `wait.opened`, or `wait.*`",
        |text| crate::events::TypeFilter::new([text]).is_ok();
}

fn sized(text: &str, bytes_max: usize, fits: fn(u8) -> bool) -> bool {
    (1..=bytes_max).contains(&text.len()) && text.bytes().all(fits)
}

fn line(text: &str, chars_max: usize) -> bool {
    (1..=chars_max).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

/// A whole number, if there is one: JSON writes 3 as `3.0` too, and both are the same number.
pub(crate) fn whole<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else { return Ok(None) };
    // Beyond 2^53 no fraction is left to look at.
    let float = || number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9.0e15);
    let whole = number.as_i64().or_else(|| float().map(|number| number as i64));
    let fits = whole.and_then(|whole| T::try_from(whole).ok());
    fits.map(Some).ok_or_else(|| serde::de::Error::custom("write a whole number within the bounds"))
}

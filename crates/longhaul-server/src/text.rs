//! Texts that people write into requests: short, on one line, without characters that terminals and logs obey.

use serde::{Deserialize, Serialize};

/// Most characters of such a text.
pub(crate) const LINE_CHARS_MAX: usize = 200;

/// One line: 1 to [`LINE_CHARS_MAX`] characters, none of them a control character.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct TextLine(String);

impl TryFrom<String> for TextLine {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let chars = text.chars().count();
        let controls = |char: char| (char as u32) < 0x20 || char == '\u{7f}';
        if (1..=LINE_CHARS_MAX).contains(&chars) && !text.contains(controls) {
            Ok(Self(text))
        } else {
            Err(format!("write 1 to {LINE_CHARS_MAX} characters on one line, without control characters"))
        }
    }
}

impl From<TextLine> for String {
    fn from(line: TextLine) -> String {
        line.0
    }
}

/// A name of one of the given forms of other owners: 1 to 128 letters, digits or any of `-_.:/`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Name(String);

impl TryFrom<String> for Name {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.:/".contains(&b);
        if (1..=128).contains(&text.len()) && text.bytes().all(fits) {
            Ok(Self(text))
        } else {
            Err("write 1 to 128 letters, digits or any of `-_.:/`".to_owned())
        }
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

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
        if (1..=LINE_CHARS_MAX).contains(&chars) && !text.contains(char::is_control) {
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

/// A whole number from `MIN` to `MAX`. JSON writes 3 as `3.0` too, and both are the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "serde_json::Number")]
pub(crate) struct Whole<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Whole<MIN, MAX> {
    pub(crate) fn get(self) -> i64 {
        self.0
    }
}

impl<const MIN: i64, const MAX: i64> TryFrom<serde_json::Number> for Whole<MIN, MAX> {
    type Error = String;
    fn try_from(number: serde_json::Number) -> Result<Self, String> {
        // Beyond 2^53 no fraction is left to look at; the bounds are far below that.
        let float = || number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9.0e15);
        let whole = number.as_i64().or_else(|| float().map(|number| number as i64));
        let fits = whole.filter(|whole| (MIN..=MAX).contains(whole));
        fits.map(Self).ok_or_else(|| format!("write a whole number from {MIN} to {MAX}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_taken_however_they_are_written() {
        let read = |text: &str| serde_json::from_str::<Whole<1, 100>>(text).map(Whole::get).ok();
        assert_eq!([read("3"), read("3.0"), read("3e1"), read("100")], [Some(3), Some(3), Some(30), Some(100)]);
        for wrong in ["0", "101", "3.5", "1e300", "-1", "\"3\"", "true", "null", "9223372036854775808"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}

//! Reading what is to be imported, one entry at a time: lines of JSON, or one JSON document with a list in it.
//!
//! It owns bytes and places, not what an entry means. Invariant: memory is bounded by one entry, however large the file.

use std::{
    fmt,
    io::{self, BufRead, Cursor, Read},
};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Longest line, in bytes: the largest memory with every character escaped, and a few vectors.
pub(crate) const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Where an entry stands in its file, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Number of the line.
    Line(u64),
    /// Number in the document's list.
    Entry(u64),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Entry(number) => write!(f, "entry {number}"),
        }
    }
}

/// What takes the entries; false to read no further.
pub(crate) type Each<'a> = dyn FnMut(Position, Result<Value, String>) -> bool + 'a;

/// Gives every entry to `each`. What is wrong with one of them goes there too; only a file that cannot be read, and a
/// document that breaks off, are errors.
pub(crate) fn read(mut input: impl BufRead, each: &mut Each<'_>) -> io::Result<()> {
    skip_byte_order_mark(&mut input)?;
    let mut number = 0;
    loop {
        let Some(line) = next_line(&mut input)? else { return Ok(()) };
        number += 1;
        let Ok(bytes) = line else {
            return if each(Position::Line(number), Err(too_long())) { lines(input, number, each) } else { Ok(()) };
        };
        if bytes.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        // A document begins with a list, with an object that holds one, or with an object of several lines.
        let parsed = serde_json::from_slice::<Value>(&bytes);
        let document = match &parsed {
            Ok(Value::Array(_)) => true,
            Ok(Value::Object(object)) => LISTS.iter().any(|name| object.get(*name).is_some_and(Value::is_array)),
            Ok(_) => false,
            Err(error) => error.is_eof(),
        };
        if document {
            let whole = Cursor::new(bytes).chain(Cursor::new(b"\n")).chain(input);
            return entries(whole, each);
        }
        if !each(Position::Line(number), parsed.map_err(|error| not_json(&bytes, &error))) {
            return Ok(());
        }
        return lines(input, number, each);
    }
}

fn lines(mut input: impl BufRead, mut number: u64, each: &mut Each<'_>) -> io::Result<()> {
    while let Some(line) = next_line(&mut input)? {
        number += 1;
        let entry = match line {
            Ok(bytes) if bytes.iter().all(u8::is_ascii_whitespace) => continue,
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| not_json(&bytes, &error)),
            Err(TooLong) => Err(too_long()),
        };
        if !each(Position::Line(number), entry) {
            return Ok(());
        }
    }
    Ok(())
}

struct TooLong;

/// The next line without its end; of one that is too long only that it is.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Result<Vec<u8>, TooLong>>> {
    let mut line = Vec::new();
    let (mut any, mut fits) = (false, true);
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(any.then(|| if fits { Ok(line) } else { Err(TooLong) }));
        }
        any = true;
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = end.unwrap_or(available.len());
        if fits && line.len() + part <= LINE_BYTES_MAX {
            line.extend_from_slice(&available[..part]);
        } else {
            (fits, line) = (false, Vec::new());
        }
        input.consume(end.map_or(part, |end| end + 1));
        if end.is_some() {
            return Ok(Some(if fits { Ok(line) } else { Err(TooLong) }));
        }
    }
}

fn skip_byte_order_mark(input: &mut impl BufRead) -> io::Result<()> {
    if input.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
        input.consume(3);
    }
    Ok(())
}

fn too_long() -> String {
    format!("is longer than {LINE_BYTES_MAX} bytes; a memory is a short text, keep long ones as files")
}

fn not_json(bytes: &[u8], error: &serde_json::Error) -> String {
    if std::str::from_utf8(bytes).is_err() {
        return "is not UTF-8 text".to_owned();
    }
    // The line within the line is always 1.
    let said = error.to_string();
    let (problem, _) = said.split_once(" at line").unwrap_or((&said, ""));
    format!("is not JSON: {problem} at column {}", error.column())
}

/// Members in which exports of others keep their memories.
const LISTS: [&str; 4] = ["results", "memories", "data", "items"];

fn entries(input: impl Read, each: &mut Each<'_>) -> io::Result<()> {
    let mut stopped = false;
    let mut number = 0;
    let mut give = |value: Value| {
        number += 1;
        stopped = !each(Position::Entry(number), Ok(value));
        !stopped
    };
    let mut document = serde_json::Deserializer::from_reader(io::BufReader::new(input));
    let read = Document { give: &mut give }.deserialize(&mut document).and_then(|()| document.end());
    match read {
        Err(error) if !stopped => {
            Err(io::Error::new(io::ErrorKind::InvalidData, format!("the file breaks off or is not JSON: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A list of entries, or an object with such a list.
struct Document<'a> {
    give: &'a mut dyn FnMut(Value) -> bool,
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, document: D) -> Result<(), D::Error> {
        document.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of memories, or an object with `results`, `memories`, `data` or `items`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element::<Value>()? {
            if !(self.give)(value) {
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let mut found = false;
        while let Some(name) = object.next_key::<String>()? {
            if LISTS.contains(&name.as_str()) && !found {
                found = true;
                object.next_value_seed(Document { give: &mut *self.give })?;
            } else {
                object.next_value::<IgnoredAny>()?;
            }
        }
        if found {
            return Ok(());
        }
        Err(A::Error::custom("no `results`, `memories`, `data` or `items` in it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(input: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        // A small buffer, so that lines reach over its ends.
        let ended = read(io::BufReader::with_capacity(7, input), &mut |place, entry| {
            found.push(match entry {
                Ok(value) => format!("{place}: {value}"),
                Err(problem) => format!("{place} {problem}"),
            });
            true
        });
        found.extend(ended.err().map(|error| error.to_string()));
        found
    }

    #[test]
    fn lines_are_read_one_by_one_and_a_bad_one_does_not_stop_the_rest() {
        let found = all(b"\xef\xbb\xbf{\"a\":1}\r\n\n  \nnonsense\n{\"b\"\n\xff\xfe\n{\"c\":3}");
        assert_eq!(
            found,
            [
                r#"line 1: {"a":1}"#,
                "line 4 is not JSON: expected ident at column 2",
                "line 5 is not JSON: EOF while parsing an object at column 4",
                "line 6 is not UTF-8 text",
                r#"line 7: {"c":3}"#,
            ]
        );
        let mut huge = vec![b'x'; LINE_BYTES_MAX + 1];
        huge.extend_from_slice(b"\n{\"d\":4}\n");
        let found = all(&huge);
        assert!(found[0].starts_with("line 1 is longer than 4194304 bytes"), "{found:?}");
        assert_eq!(found[1..], [r#"line 2: {"d":4}"#]);
        assert!(all(b"").is_empty() && all(b"\n\n").is_empty());
    }

    #[test]
    fn a_document_gives_the_entries_of_its_list() {
        let expected = [r#"entry 1: {"memory":"a"}"#, r#"entry 2: {"memory":"b"}"#];
        assert_eq!(all(br#"[{"memory":"a"},{"memory":"b"}]"#), expected);
        assert_eq!(all(br#"{"results":[{"memory":"a"},{"memory":"b"}],"relations":[]}"#), expected);
        assert_eq!(
            all(b"{\n \"count\": 2,\n \"results\": [\n {\"memory\":\"a\"},\n {\"memory\":\"b\"} ]\n}\n"),
            expected
        );
        assert_eq!(all(b"[\n{\"memory\":\"a\"},\n{\"memory\":\"b\"}\n]"), expected);
        let broken = all(b"[\n{\"memory\":\"a\"},\n{\"mem");
        assert_eq!(broken[0], expected[0]);
        assert!(broken[1].starts_with("the file breaks off or is not JSON: EOF while parsing"), "{broken:?}");
        assert!(all(b"{\n\"nothing\": 1\n}")[0].contains("no `results`, `memories`"));
    }

    #[test]
    fn reading_ends_when_it_is_told_to() {
        for input in ["{\"a\":1}\n{\"b\":2}\n", "[{\"a\":1},{\"b\":2}]"] {
            let mut seen = 0;
            let ended = read(input.as_bytes(), &mut |_, _| {
                seen += 1;
                false
            });
            assert!(ended.is_ok() && seen == 1, "{input}");
        }
    }
}

//! Which calls a rule names: `NAME`, or `NAME(ARGUMENT=TEXT)`, where `*` stands for any text.

use std::{fmt, str::FromStr};

use serde_json::Value;

/// A pattern over calls: `shell`, `mcp__mail__*`, `write_file(path=docs/*)`, `mcp__mail__send(message.to=*@example.org)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    tool: String,
    argument: Option<Argument>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Argument {
    /// Names on the way to it, joined by dots.
    path: String,
    text: String,
}

/// A text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no pattern of calls: write TOOL or TOOL(ARGUMENT=TEXT), with * for any text")]
pub struct PatternError {
    text: String,
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let fail = || PatternError { text: text.to_owned() };
        let trimmed = text.trim();
        let (tool, argument) = match trimmed.split_once('(') {
            None => (trimmed, None),
            Some((tool, rest)) => {
                let (path, text) = rest.strip_suffix(')').and_then(|inner| inner.split_once('=')).ok_or_else(fail)?;
                let path = path.trim();
                if path.is_empty() || path.contains(['*', '(', ')']) {
                    return Err(fail());
                }
                (tool.trim(), Some(Argument { path: path.to_owned(), text: text.to_owned() }))
            }
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || "_-*.:/".contains(c);
        if tool.is_empty() || !tool.chars().all(fits) {
            return Err(fail());
        }
        Ok(Self { tool: tool.to_owned(), argument })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.argument {
            None => f.write_str(&self.tool),
            Some(Argument { path, text }) => write!(f, "{}({path}={text})", self.tool),
        }
    }
}

impl Pattern {
    /// Whether any part of the call is named: for rules that ask or deny.
    pub(super) fn touches(&self, tool: &str, arguments: &Value) -> bool {
        matches(&self.tool, tool)
            && self.argument.as_ref().is_none_or(|argument| {
                texts(at(arguments, &argument.path)).iter().any(|text| matches(&argument.text, text))
            })
    }

    /// Whether the whole call is named: for rules that allow. Of a list, each member must be.
    pub(super) fn covers(&self, tool: &str, arguments: &Value) -> bool {
        matches(&self.tool, tool)
            && self.argument.as_ref().is_none_or(|argument| {
                let texts = texts(at(arguments, &argument.path));
                !texts.is_empty() && texts.iter().all(|text| matches(&argument.text, text))
            })
    }
}

fn at<'v>(arguments: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(arguments, |value, name| value.get(name))
}

/// A value's texts: itself, or the members of a list. What is neither is compared as JSON.
fn texts(value: Option<&Value>) -> Vec<String> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(members)) => members.iter().flat_map(|member| texts(Some(member))).collect(),
        Some(other) => vec![other.to_string()],
    }
}

/// `*` stands for any text, lines included. Linear in both: the last star only is tried again.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            p = at + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text) in
            [("*", ""), ("a*c", "abbc"), ("*b*", "abc"), ("a*", "a"), ("*.md", "x/y.md.md"), ("a*b*c", "a1b2b3c")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("a*c", "abb"), ("", "a"), ("ab", "abc"), ("*b", "abc"), ("a*b*c", "acb")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_survives_its_text_and_nonsense_is_refused() {
        for text in ["shell", "mcp__*", "write_file(path=docs/*)", "send(to=a=b)"] {
            assert_eq!(text.parse::<Pattern>().map(|pattern| pattern.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "a b", "shell(", "shell(x)", "shell(=x)", "shell(command=x", "(a=b)"] {
            assert!(text.parse::<Pattern>().is_err(), "{text:?}");
        }
    }
}

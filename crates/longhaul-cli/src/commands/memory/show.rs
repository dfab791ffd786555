//! How a memory is written on a page, and what a table of its score looks like.

use longhaul::{
    Memories,
    memory::{Hit, Item, Tier},
};
use serde_json::Value;

use crate::progress::{Ink, Style};

/// Columns of the text below a memory's first line.
const INDENT: usize = 5;

/// The line that names a memory: when, whose words, what sort, and its id.
pub(super) fn facts(style: Style, memories: &Memories, item: &Item) -> String {
    let dot = style.dot();
    let mut facts = vec![memories.zone().day(item.happened_at), item.source.to_string(), item.kind.to_string()];
    if item.namespace.as_str() != "main" {
        facts.push(item.namespace.to_string());
    }
    facts.push(item.collection.clone());
    facts.extend(item.tags.iter().map(|tag| format!("#{tag}")));
    if item.pinned {
        facts.push("pinned".to_owned());
    }
    if item.tier == Tier::Cold {
        facts.push("cold".to_owned());
    }
    if item.superseded_by.is_some() {
        facts.push("superseded".to_owned());
    }
    facts.push(item.id.to_string());
    facts.join(dot)
}

/// A memory in two or more lines: what it is, then its text, cut to one line unless all of it is asked for.
pub(super) fn lines(style: Style, memories: &Memories, lead: &str, item: &Item, full: bool) -> Vec<String> {
    let facts = style.fit_after(lead.len() + 1, &facts(style, memories, item));
    let mut lines = vec![format!("{} {}", style.paint(Ink::Strong, lead), style.paint(Ink::Faint, &facts))];
    let indent = " ".repeat(INDENT);
    if full {
        lines.extend(item.content.lines().map(|line| format!("{indent}{}", printable(line))));
    } else {
        lines.push(format!("{indent}{}", style.fit_after(INDENT, &item.content)));
    }
    lines
}

/// A line of somebody's text without what would move a terminal's cursor.
pub(super) fn printable(line: &str) -> String {
    line.chars().map(|char| if char.is_control() && char != '\t' { ' ' } else { char }).collect()
}

/// Why a hit stands where it does: a table of what each way of finding it gave, then what that was multiplied by.
pub(super) fn explanation(hit: &Hit) -> Vec<String> {
    let parts = serde_json::to_value(&hit.explain).unwrap_or_default();
    let indent = " ".repeat(INDENT + 2);
    let (mut legs, mut rest) = (Vec::new(), Vec::new());
    for (name, value) in parts.as_object().into_iter().flatten() {
        if value.get("weight").is_some() {
            let cell =
                |member: &str| value[member].as_f64().map_or_else(|| "-".to_owned(), |number| format!("{number:.3}"));
            let cells = ["raw", "share", "weight", "contribution"].map(cell);
            let cells = cells.map(|cell| format!("{cell:>9}")).concat();
            legs.push(format!("{indent}{name:<16}{cells}"));
        } else {
            flatten(name, value, &mut rest);
        }
    }
    if !legs.is_empty() {
        let heads = ["measured", "of best", "weight", "gives"].map(|head| format!("{head:>9}")).concat();
        legs.insert(0, format!("{indent}{:<16}{heads}", ""));
    }
    let widest = rest.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    legs.extend(rest.into_iter().map(|(name, value)| format!("{indent}{name:<widest$}  {value}")));
    legs
}

fn flatten(name: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (member, value) in members {
                let joined = if name.is_empty() { member.clone() } else { format!("{name}.{member}") };
                flatten(&joined, value, rows);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                flatten(&format!("{name}.{}", index + 1), value, rows);
            }
        }
        Value::Number(number) if number.is_f64() => {
            rows.push((name.to_owned(), format!("{:.3}", number.as_f64().unwrap_or_default())));
        }
        Value::String(text) => rows.push((name.to_owned(), printable(text))),
        Value::Null => rows.push((name.to_owned(), "-".to_owned())),
        Value::Number(_) | Value::Bool(_) => rows.push((name.to_owned(), value.to_string())),
    }
}

/// `1234567` as `1,234,567`.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::{printable, thousands};

    #[test]
    fn numbers_are_grouped() {
        for (number, grouped) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(number), grouped);
        }
    }

    #[test]
    fn a_text_cannot_move_the_cursor() {
        assert_eq!(printable("a\u{1b}[2Jb\tc\r"), "a [2Jb\tc ");
    }
}

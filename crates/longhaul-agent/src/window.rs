//! Making a conversation fit its window: how large a request is by what the service said so far, and which parts of old
//! messages are put aside. Pure; keeping what is put aside is [`crate::converse_with`]'s.
//!
//! Invariants: no message is removed, so every call keeps its result; the system prompt and the first message are never
//! touched; what is put aside is named by a record in its place, so nothing is lost.

use std::collections::{BTreeMap, VecDeque};

use longhaul_core::{RecordId, estimate_tokens};
use longhaul_model::Message;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Texts below this are not worth a reference.
const WORTH_TOKENS: u64 = 90;
/// Arguments below this are not looked at.
const ARGUMENT_BYTES: usize = 300;
/// Characters of a text that stay in its place.
const LINE_CHARS: usize = 120;
/// Service's reports that count.
const REPORTS_MAX: usize = 3;
/// Requests below this say nothing about larger ones.
const REPORT_TOKENS_MIN: u64 = 200;
/// What an estimate is multiplied by before the service has said anything.
const UNKNOWN_FACTOR: f64 = 1.1;
const FACTOR_RANGE: (f64, f64) = (0.6, 4.0);
/// What no text of a model's own contains: it begins every stand-in.
pub(crate) const MARK: &str = "⟦put aside:";

/// How far estimates are off, by the newest answers of the service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    newest: VecDeque<f64>,
    /// Raised when the service refused a request that should have fitted.
    floor: f64,
}

impl Meter {
    pub(crate) fn report(&mut self, estimated: u64, reported: u64) {
        if estimated < REPORT_TOKENS_MIN || reported == 0 {
            return;
        }
        if self.newest.len() == REPORTS_MAX {
            self.newest.pop_front();
        }
        self.newest.push_back((reported as f64 / estimated as f64).clamp(FACTOR_RANGE.0, FACTOR_RANGE.1));
    }

    /// A request that should have fitted did not.
    pub(crate) fn overflowed(&mut self) {
        self.floor = (self.factor() * 1.3).min(FACTOR_RANGE.1);
    }

    fn factor(&self) -> f64 {
        let seen = self.newest.iter().copied().reduce(f64::max).unwrap_or(UNKNOWN_FACTOR);
        seen.max(self.floor)
    }

    /// The estimate as the service would count it.
    pub(crate) fn corrected(&self, estimated: u64) -> u64 {
        (estimated as f64 * self.factor()).ceil() as u64
    }
}

/// Where a text stands in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Number of the message.
    pub(crate) message: usize,
    /// In an assistant message: the call, and the path within its arguments. None for a tool's result.
    pub(crate) argument: Option<(usize, String)>,
}

/// A text that was put aside. Recorded with the answer that followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Aside {
    pub(crate) place: Place,
    /// The record that has it.
    pub(crate) record: RecordId,
    /// Characters of it that stay at its beginning and end.
    pub(crate) head: usize,
    pub(crate) tail: usize,
}

/// A text that should be put aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) place: Place,
    /// The whole text; none when a record has it already.
    pub(crate) text: Option<String>,
    pub(crate) head: usize,
    pub(crate) tail: usize,
    /// What it is, in a few words, and where it came from.
    pub(crate) summary: String,
    pub(crate) source: String,
}

/// What was put aside so far: the record and the whole text's characters.
pub(crate) type Shelved = BTreeMap<Place, (RecordId, usize)>;

/// What should be put aside so that the messages shrink by `excess` tokens, as far as that is possible. Old results
/// first, then old arguments; with `hard`, the newest message's arguments and results too.
pub(crate) fn cuts(messages: &[Message], shelved: &Shelved, excess: u64, hard: bool) -> Vec<Cut> {
    let newest = messages.iter().rposition(|message| matches!(message, Message::Assistant { .. })).unwrap_or(0);
    let mut old = Vec::new();
    let mut old_arguments = Vec::new();
    let mut new = Vec::new();
    for (n, message) in messages.iter().enumerate().skip(1) {
        match message {
            Message::User { .. } => {}
            Message::Tool { content, .. } => {
                let place = Place { message: n, argument: None };
                if n > newest { new.push((place, content.clone())) } else { old.push((place, content.clone())) }
            }
            Message::Assistant { tool_calls, .. } => {
                for (which, call) in tool_calls.iter().enumerate() {
                    let Ok(arguments) = serde_json::from_str::<Value>(&call.arguments) else { continue };
                    let place = |at| Place { message: n, argument: Some((which, at)) };
                    let texts = long_texts(&arguments).into_iter().map(|(at, text)| (place(at), text));
                    if n == newest { new.extend(texts) } else { old_arguments.extend(texts) }
                }
            }
        }
    }
    let mut chosen = Vec::new();
    let mut left = excess;
    let easy = old.into_iter().chain(old_arguments);
    for (place, text) in easy {
        take(messages, shelved, place, text, (LINE_CHARS, 0), &mut left, &mut chosen);
    }
    if hard && left > 0 {
        // Arguments that were carried out stand in the folder; the newest results come last, the largest first.
        let (arguments, mut results): (Vec<_>, Vec<_>) =
            new.into_iter().partition(|(place, _)| place.argument.is_some());
        results.sort_by_key(|(_, text)| std::cmp::Reverse(text.len()));
        for (place, text) in arguments {
            take(messages, shelved, place, text, (LINE_CHARS, 0), &mut left, &mut chosen);
        }
        for (place, text) in results {
            // As much stays as there is room for, the end included: that is where commands say what went wrong.
            let (tokens, chars) = (estimate_tokens(&text).max(1), text.chars().count());
            let keep = usize::try_from(tokens.saturating_sub(left + 60)).unwrap_or(0) * chars
                / usize::try_from(tokens).unwrap_or(1);
            take(messages, shelved, place, text, (keep / 3 + LINE_CHARS, keep / 2), &mut left, &mut chosen);
        }
    }
    chosen
}

fn take(
    messages: &[Message],
    shelved: &Shelved,
    place: Place,
    text: String,
    (head, tail): (usize, usize),
    left: &mut u64,
    chosen: &mut Vec<Cut>,
) {
    let known = shelved.get(&place);
    let tokens = estimate_tokens(&text);
    let stays = estimate_tokens(&stand_in(&text, &"x".repeat(30), 0, (head, tail)));
    if *left == 0 || tokens < WORTH_TOKENS || stays + WORTH_TOKENS / 3 >= tokens {
        return;
    }
    *left = left.saturating_sub(tokens - stays);
    let (summary, source) = about(messages, &place, &text);
    let text = known.is_none().then_some(text);
    chosen.push(Cut { place, text, head, tail, summary, source });
}

/// What a text is and where it came from, for its record.
fn about(messages: &[Message], place: &Place, text: &str) -> (String, String) {
    let calls = messages[..=place.message].iter().rev().find_map(|message| match message {
        Message::Assistant { tool_calls, .. } => Some(tool_calls),
        Message::User { .. } | Message::Tool { .. } => None,
    });
    let first: String = text.split_whitespace().take(16).collect::<Vec<_>>().join(" ").chars().take(100).collect();
    let call = match (&place.argument, &messages[place.message]) {
        (Some((which, _)), _) => calls.and_then(|calls| calls.get(*which)),
        (None, Message::Tool { call_id, .. }) => calls.and_then(|calls| calls.iter().find(|call| call.id == *call_id)),
        (None, Message::User { .. } | Message::Assistant { .. }) => None,
    };
    let tool = call.map_or("a tool", |call| call.name.as_str());
    match place.argument {
        None => (format!("result of {tool}: {first}"), format!("tool:{tool}")),
        Some(_) => (format!("given to {tool}: {first}"), "agent".to_owned()),
    }
}

/// Arguments of a call that are worth it, with their JSON pointers: long texts, and lists and objects as a whole.
fn long_texts(arguments: &Value) -> Vec<(String, String)> {
    let long = |(name, value): (&String, &Value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Array(_) | Value::Object(_) => value.to_string(),
            Value::Null | Value::Bool(_) | Value::Number(_) => return None,
        };
        (text.len() > ARGUMENT_BYTES).then(|| (format!("/{}", name.replace('~', "~0").replace('/', "~1")), text))
    };
    arguments.as_object().into_iter().flatten().filter_map(long).collect()
}

/// Puts stand-ins in the place of what is put aside.
pub(crate) fn apply(messages: &mut [Message], shelved: &mut Shelved, aside: &[Aside]) {
    for a in aside {
        let Some(message) = messages.get_mut(a.place.message) else { continue };
        let cut = |text: &str, shelved: &mut Shelved| {
            let whole = shelved.get(&a.place).map_or_else(|| text.chars().count(), |(_, chars)| *chars);
            shelved.insert(a.place.clone(), (a.record.clone(), whole));
            stand_in(text, a.record.as_str(), whole, (a.head, a.tail))
        };
        match (&a.place.argument, message) {
            (None, Message::Tool { content, .. }) => *content = cut(content, shelved),
            (Some((which, at)), Message::Assistant { tool_calls, .. }) => {
                let Some(call) = tool_calls.get_mut(*which) else { continue };
                let Ok(mut arguments) = serde_json::from_str::<Value>(&call.arguments) else { continue };
                if let Some(value) = arguments.pointer_mut(at) {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    *value = Value::String(cut(&text, shelved));
                }
                call.arguments = arguments.to_string();
            }
            (None | Some(_), _) => {}
        }
    }
}

fn stand_in(text: &str, record: &str, chars: usize, (head, tail): (usize, usize)) -> String {
    // What stands in a stand-in already is not quoted once more.
    let whole: Vec<char> = text.split(MARK).next().unwrap_or_default().chars().collect();
    let head_text: String = whole.iter().take(head).collect();
    let rest = whole.len().saturating_sub(head);
    let tail_text: String = whole.iter().skip(whole.len() - tail.min(rest)).collect();
    let note = format!("{MARK} {chars} characters are kept as {record}; `read_ref` shows them⟧");
    format!("{}\n{note}{}{tail_text}", head_text.trim_end(), if tail_text.is_empty() { "" } else { "\n" })
}

#[cfg(test)]
mod tests {
    use longhaul_core::ToolCall;

    use super::*;

    fn conversation() -> Vec<Message> {
        let call = |id: &str, content: &str| ToolCall {
            id: id.into(),
            name: "write_file".into(),
            arguments: serde_json::json!({"path": "a.js", "content": content}).to_string(),
        };
        let long = "const line = 1; // more of it\n".repeat(40);
        vec![
            Message::User { content: "prompt ".repeat(500) },
            Message::Assistant { content: String::new(), tool_calls: vec![call("1", &long)], reasoning: vec![] },
            Message::Tool { call_id: "1".into(), content: format!("exit 0\n{}", "output of a command\n".repeat(60)) },
            Message::Assistant { content: String::new(), tool_calls: vec![call("2", &long)], reasoning: vec![] },
            Message::Tool { call_id: "2".into(), content: format!("exit 1\n{}the end", "and so on\n".repeat(200)) },
        ]
    }

    fn put_aside(messages: &mut [Message], shelved: &mut Shelved, excess: u64, hard: bool) -> Vec<String> {
        let chosen = cuts(messages, shelved, excess, hard);
        let aside: Vec<Aside> = chosen
            .iter()
            .enumerate()
            .map(|(n, cut)| Aside {
                place: cut.place.clone(),
                record: format!("rec_{n:0>4}").parse().unwrap(),
                head: cut.head,
                tail: cut.tail,
            })
            .collect();
        apply(messages, shelved, &aside);
        chosen.into_iter().map(|cut| cut.summary.chars().take(24).collect()).collect()
    }

    #[test]
    fn old_results_go_first_then_old_arguments_and_the_newest_only_when_it_must_be() {
        let size = |messages: &[Message]| messages.iter().map(Message::estimated_tokens).sum::<u64>();
        let mut messages = conversation();
        let before = size(&messages);
        assert_eq!(put_aside(&mut messages, &mut Shelved::new(), 10, false), ["result of write_file: ex"]);
        assert!(size(&messages) < before - 100);
        let mut messages = conversation();
        let gone = put_aside(&mut messages, &mut Shelved::new(), 100_000, false);
        assert_eq!(gone, ["result of write_file: ex", "given to write_file: con"]);
        assert!(matches!(&messages[4], Message::Tool { content, .. } if !content.contains(MARK)));
        let gone = put_aside(&mut messages, &mut Shelved::new(), 100, true);
        assert!(gone.iter().any(|what| what.starts_with("given to")), "{gone:?}");
        assert!(matches!(&messages[0], Message::User { content } if content.len() == 3_500), "the prompt stays");
    }

    #[test]
    fn what_stays_is_valid_names_the_record_and_keeps_the_end_of_the_newest_result() {
        let (mut messages, mut shelved) = (conversation(), Shelved::new());
        put_aside(&mut messages, &mut shelved, 1_150, true);
        let Message::Assistant { tool_calls, .. } = &messages[1] else { panic!("an assistant message") };
        let arguments: Value = serde_json::from_str(&tool_calls[0].arguments).unwrap();
        assert_eq!(arguments["path"], "a.js");
        assert!(arguments["content"].as_str().unwrap().contains("kept as rec_"), "{arguments}");
        let Message::Tool { content, .. } = &messages[4] else { panic!("a tool message") };
        assert!(content.starts_with("exit 1\n") && content.ends_with("the end"), "{content}");
        // Once more: nothing is kept twice, and a stand-in is not put into another.
        let kept = shelved.len();
        let again = cuts(&messages, &shelved, 100_000, true);
        assert!(again.iter().all(|cut| cut.text.is_none()), "{again:?}");
        put_aside(&mut messages, &mut shelved, 100_000, true);
        assert_eq!(shelved.len(), kept);
        let Message::Tool { content, .. } = &messages[4] else { panic!("a tool message") };
        assert_eq!(content.matches(MARK).count(), 1, "{content}");
    }

    #[test]
    fn a_long_list_goes_as_a_whole() {
        let features: Vec<Value> = (0..40)
            .map(|n| serde_json::json!({"id": format!("F{n}"), "steps": ["Open the page", "Click it"]}))
            .collect();
        let arguments = serde_json::json!({"features": features}).to_string();
        let call = ToolCall { id: "1".into(), name: "plan_features".into(), arguments };
        let mut messages = vec![
            Message::User { content: "p".into() },
            Message::Assistant { content: String::new(), tool_calls: vec![call], reasoning: vec![] },
            Message::Tool { call_id: "1".into(), content: "planned 40 features".into() },
        ];
        assert_eq!(put_aside(&mut messages, &mut Shelved::new(), 300, true).len(), 1);
        let Message::Assistant { tool_calls, .. } = &messages[1] else { panic!("an assistant message") };
        let arguments: Value = serde_json::from_str(&tool_calls[0].arguments).unwrap();
        assert!(arguments["features"].as_str().unwrap().starts_with("[{\"id\":\"F0\""), "{arguments}");
    }

    #[test]
    fn estimates_follow_what_the_service_says() {
        let mut meter = Meter::default();
        assert_eq!(meter.corrected(1_000), 1_100);
        meter.report(1_000, 900);
        assert_eq!(meter.corrected(1_000), 900);
        meter.report(1_000, 1_500);
        assert_eq!(meter.corrected(1_000), 1_500, "the careful one counts");
        meter.report(10, 1_000);
        meter.overflowed();
        assert!((1_950..1_960).contains(&meter.corrected(1_000)));
    }
}

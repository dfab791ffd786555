//! What we understand of the protocol's messages. Read leniently: agents send more than the protocol names, and a field we
//! do not need is no reason to stop.

use serde_json::Value;

/// Version of the protocol that we speak.
pub(super) const PROTOCOL_VERSION: u64 = 1;
/// Most characters of a title or an input that is passed on.
const TITLE_CHARS_MAX: usize = 200;
const INPUT_CHARS_MAX: usize = 4_000;

/// Why a turn ended, in the agent's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The agent says that it is finished.
    EndTurn,
    /// Its model's answer was cut.
    MaxTokens,
    /// It asked its model as often as it may.
    MaxTurnRequests,
    /// Its model refused.
    Refusal,
    /// We cancelled.
    Cancelled,
}

impl StopReason {
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "end_turn" => Self::EndTurn,
            "max_tokens" => Self::MaxTokens,
            "max_turn_requests" => Self::MaxTurnRequests,
            "refusal" => Self::Refusal,
            "cancelled" => Self::Cancelled,
            _ => return None,
        })
    }
}

/// A call of one of the agent's own tools that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDeed {
    /// The protocol's kind: read, edit, execute, fetch, …
    pub kind: String,
    /// What it did, in the agent's words, one line.
    pub title: String,
    /// Whether it failed.
    pub is_error: bool,
}

/// A request for permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedPermission {
    /// The protocol's kind of the call: read, edit, execute, fetch, …
    pub kind: String,
    /// What it is about, in the agent's words, one line.
    pub title: String,
    /// The exact arguments as JSON text, cut where they are long.
    pub input: String,
    /// The exact arguments; nothing where the agent does not tell them.
    pub arguments: Value,
    /// The options offered: id and kind.
    pub(super) options: Vec<(String, String)>,
}

impl AskedPermission {
    /// A request without options, for whoever tests rules.
    #[must_use]
    pub fn about(kind: &str, title: &str, arguments: Value) -> Self {
        let [kind, title] = [kind, title].map(str::to_owned);
        Self { kind, title, input: arguments.to_string(), arguments, options: Vec::new() }
    }

    pub(super) fn parse(params: &Value, known: Option<&Call>) -> Self {
        let call = &params["toolCall"];
        let kind = text(&call["kind"]).or_else(|| known.map(|k| k.kind.clone())).unwrap_or_else(|| "other".to_owned());
        let title = text(&call["title"]).or_else(|| known.map(|k| k.title.clone())).unwrap_or_default();
        let arguments = match &call["rawInput"] {
            Value::Null => known.map(|k| k.input.clone()).unwrap_or_default(),
            given => given.clone(),
        };
        let input = if arguments.is_null() { String::new() } else { arguments.to_string() };
        let input = shortened(&input, INPUT_CHARS_MAX);
        let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
        let options = options.filter_map(|option| Some((text(&option["optionId"])?, text(&option["kind"])?)));
        Self { kind, title: line(&title), input, arguments, options: options.collect() }
    }

    /// The option to select: for this once if offered, as nothing may stay allowed that nobody sees again.
    pub(super) fn option(&self, allow: bool) -> Option<&str> {
        let wanted: [&str; 2] = if allow { ["allow_once", "allow_always"] } else { ["reject_once", "reject_always"] };
        wanted.iter().find_map(|kind| self.options.iter().find(|(_, k)| k == kind)).map(|(id, _)| id.as_str())
    }
}

/// A tool call of the agent's while it goes on.
#[derive(Debug, Clone, Default)]
pub(super) struct Call {
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) input: Value,
    pub(super) told: bool,
}

impl Call {
    /// Takes in what a `tool_call` or `tool_call_update` says; gives the deed once it has ended.
    pub(super) fn update(&mut self, update: &Value) -> Option<AgentDeed> {
        if let Some(kind) = text(&update["kind"]) {
            self.kind = kind;
        }
        if let Some(title) = text(&update["title"]) {
            self.title = line(&title);
        }
        if !update["rawInput"].is_null() {
            self.input = update["rawInput"].clone();
        }
        let is_error = match update["status"].as_str() {
            Some("completed") => false,
            Some("failed") => true,
            Some(_) | None => return None,
        };
        if std::mem::replace(&mut self.told, true) {
            return None;
        }
        let kind = if self.kind.is_empty() { "other" } else { &self.kind };
        Some(AgentDeed { kind: kind.to_owned(), title: self.title.clone(), is_error })
    }
}

/// Tokens that the agent's model took, as far as the agent tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ToldUsage {
    pub(super) prompt: u64,
    pub(super) answer: u64,
    pub(super) cached: u64,
}

impl ToldUsage {
    /// The usage of a turn, in its answer.
    pub(super) fn of_turn(result: &Value) -> Option<Self> {
        let usage = &result["usage"];
        let number = |name: &str| usage[name].as_u64();
        let (input, output) = (number("inputTokens")?, number("outputTokens")?);
        let cached = number("cachedReadTokens").unwrap_or(0);
        // What is read from the cache is not in `inputTokens`; for a budget it is part of the prompt.
        Some(Self { prompt: input + cached + number("cachedWriteTokens").unwrap_or(0), answer: output, cached })
    }
}

pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn line(text: &str) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), TITLE_CHARS_MAX)
}

pub(super) fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_told_once_when_it_has_ended() {
        let mut call = Call::default();
        assert_eq!(call.update(&json!({"title": "Edit\n a.py", "kind": "edit", "status": "pending"})), None);
        let deed = call.update(&json!({"status": "failed"})).unwrap();
        assert_eq!((deed.kind.as_str(), deed.title.as_str(), deed.is_error), ("edit", "Edit a.py", true));
        assert_eq!(call.update(&json!({"status": "failed"})), None, "told twice");
    }

    #[test]
    fn permission_is_given_for_once_where_that_is_offered() {
        let params = json!({"toolCall": {"toolCallId": "t", "rawInput": {"command": "ls"}}, "options": [
            {"optionId": "always", "name": "Always", "kind": "allow_always"},
            {"optionId": "once", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]});
        let asked = AskedPermission::parse(&params, None);
        assert_eq!((asked.option(true), asked.option(false)), (Some("once"), Some("no")));
        assert_eq!((asked.kind.as_str(), asked.input.as_str()), ("other", r#"{"command":"ls"}"#));
    }

    #[test]
    fn usage_counts_what_came_from_the_cache_as_prompt() {
        let told =
            ToldUsage::of_turn(&json!({"usage": {"inputTokens": 10, "outputTokens": 2, "cachedReadTokens": 90}}));
        assert_eq!(told, Some(ToldUsage { prompt: 100, answer: 2, cached: 90 }));
        assert_eq!(ToldUsage::of_turn(&json!({"stopReason": "end_turn"})), None);
    }
}

//! What a message of a conversation is, before it is stored and when it is read. Plain data and its checks.
//!
//! Invariant: a message that passed [`NewMessage::check`] fits into a row and says something: a session holds talk,
//! never a report, a log or a picture. Those are records, and a message carries their refs.

use longhaul_core::{
    MessageId, SessionId, TaskId, TimeMs, ToolCall, TraceId, UserId, estimate_tokens,
    limits::{ID_BODY_CHARS_MAX, MESSAGE_BYTES_MAX, MESSAGE_CALLS_MAX, REFS_MAX},
};
use serde::{Deserialize, Serialize};

use super::SessionError;
use crate::RecordRef;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The program that holds the conversation.
    System,
    /// A person.
    User,
    /// A model.
    Assistant,
    /// What a tool answered.
    Tool,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::System, Self::User, Self::Assistant, Self::Tool];

    /// The word it is stored and printed as.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// The role of this word.
    ///
    /// # Errors
    /// [`SessionError::Field`] naming the words there are.
    pub fn parse(word: &str) -> Result<Self, SessionError> {
        Self::ALL.into_iter().find(|role| role.as_str() == word).ok_or_else(|| SessionError::Field {
            field: "role",
            value: word.chars().take(40).collect(),
            expected: "system, user, assistant or tool",
        })
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A message that is to be appended.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// Who speaks.
    pub role: Role,
    /// The words; with calls and attachments at most [`MESSAGE_BYTES_MAX`].
    pub content: String,
    /// The tools an assistant asks for, at most [`MESSAGE_CALLS_MAX`].
    pub tool_calls: Vec<ToolCall>,
    /// The id of the call that a tool's message answers.
    pub answers: Option<String>,
    /// Records that belong to the message, at most [`REFS_MAX`]. They must exist.
    pub attachments: Vec<RecordRef>,
}

impl NewMessage {
    /// Something said in this role.
    #[must_use]
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), tool_calls: Vec::new(), answers: None, attachments: Vec::new() }
    }

    /// A person's words.
    #[must_use]
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// A model's words.
    #[must_use]
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// A model's words with the tools it asks for.
    #[must_use]
    pub fn calling(content: impl Into<String>, tool_calls: Vec<ToolCall>) -> Self {
        Self { tool_calls, ..Self::new(Role::Assistant, content) }
    }

    /// What a tool answered to a call.
    #[must_use]
    pub fn answering(call: &str, content: impl Into<String>) -> Self {
        Self { answers: Some(call.to_owned()), ..Self::new(Role::Tool, content) }
    }

    /// The same with a record beside it.
    #[must_use]
    pub fn attached(mut self, record: RecordRef) -> Self {
        self.attachments.push(record);
        self
    }

    /// What it counts against the limits, in bytes: words, names and arguments of calls.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let calls = self.tool_calls.iter().map(|call| call.id.len() + call.name.len() + call.arguments.len());
        self.content.len() + calls.sum::<usize>()
    }

    /// About how many tokens it is in a request, with those around each message.
    #[must_use]
    pub fn estimated_tokens(&self) -> u64 {
        tokens_of(&self.content, &self.tool_calls, &|text| estimate_tokens(text))
    }

    /// Checks everything that can be checked without the store.
    ///
    /// # Errors
    /// [`SessionError::MessageTooLong`], [`SessionError::Empty`], [`SessionError::Field`].
    pub fn check(&self) -> Result<(), SessionError> {
        let bytes = self.bytes();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(SessionError::MessageTooLong { bytes, bytes_max: MESSAGE_BYTES_MAX });
        }
        // PostgreSQL cannot hold one in a text, and no talk has one.
        let texts = self.tool_calls.iter().flat_map(|call| [&call.id, &call.name, &call.arguments]);
        if std::iter::once(&self.content).chain(texts).any(|text| text.contains('\0')) {
            return Err(wrong("content", "text with a zero character", "text; ingest binary content, keep the ref"));
        }
        let says_nothing = self.content.trim().is_empty() && self.tool_calls.is_empty() && self.attachments.is_empty();
        if says_nothing && self.role != Role::Tool {
            return Err(SessionError::Empty);
        }
        self.check_calls()?;
        if self.attachments.len() > REFS_MAX {
            return Err(wrong("attachments", &self.attachments.len().to_string(), "at most 256 records"));
        }
        Ok(())
    }

    fn check_calls(&self) -> Result<(), SessionError> {
        let is_id = |id: &str| (1..=2 * ID_BODY_CHARS_MAX).contains(&id.len()) && !id.chars().any(char::is_control);
        match (self.role, &self.answers) {
            (Role::Tool, Some(call)) if is_id(call) => {}
            (Role::Tool, _) => return Err(wrong("answers", "missing", "the id of the call that the tool answers")),
            (Role::System | Role::User | Role::Assistant, Some(call)) => {
                return Err(wrong("answers", call, "nothing: only a tool's message answers a call"));
            }
            (Role::System | Role::User | Role::Assistant, None) => {}
        }
        if self.role != Role::Assistant && !self.tool_calls.is_empty() {
            return Err(wrong("tool_calls", self.role.as_str(), "none: only an assistant asks for tools"));
        }
        if self.tool_calls.len() > MESSAGE_CALLS_MAX {
            return Err(wrong("tool_calls", &self.tool_calls.len().to_string(), "at most 128 calls in one message"));
        }
        for (at, call) in self.tool_calls.iter().enumerate() {
            let again = self.tool_calls[..at].iter().any(|other| other.id == call.id);
            if again || !is_id(&call.id) {
                return Err(wrong("tool_calls", &call.id, "ids of 1 to 128 characters, each once in a message"));
            }
        }
        Ok(())
    }
}

fn wrong(field: &'static str, value: &str, expected: &'static str) -> SessionError {
    SessionError::Field { field, value: value.chars().take(80).collect(), expected }
}

/// Tokens around each message in the chat format.
const AROUND: u64 = 4;
/// Tokens around each call.
const AROUND_CALL: u64 = 8;

pub(super) fn tokens_of(content: &str, calls: &[ToolCall], count: &dyn Fn(&str) -> u64) -> u64 {
    let calls = calls.iter().map(|call| AROUND_CALL + count(&call.name) + count(&call.arguments));
    AROUND + count(content) + calls.sum::<u64>()
}

/// A message as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredMessage {
    /// Identity.
    pub id: MessageId,
    /// The conversation.
    pub session: SessionId,
    /// Its place in the conversation, from 1, without gaps.
    pub seq: i64,
    /// On whose behalf it was appended.
    pub user: UserId,
    /// The task it was said in.
    pub task: TaskId,
    /// The request that appended it.
    pub trace: TraceId,
    /// Who speaks.
    pub role: Role,
    /// The words.
    pub content: String,
    /// The tools that were asked for.
    #[serde(default)]
    pub tool_calls: Vec<ToolCall>,
    /// The call that is answered.
    #[serde(default)]
    pub answers: Option<String>,
    /// Records that belong to it.
    #[serde(default)]
    pub attachments: Vec<RecordRef>,
    /// About how many tokens it is.
    pub tokens: u64,
    /// When it was appended.
    pub at: TimeMs,
}

impl StoredMessage {
    /// How many tokens it is in a request by this count.
    #[must_use]
    pub fn counted(&self, count: &dyn Fn(&str) -> u64) -> u64 {
        tokens_of(&self.content, &self.tool_calls, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall { id: id.into(), name: "shell".into(), arguments: "{}".into() }
    }

    #[test]
    fn a_message_too_long_is_told_where_to_go() {
        let fits = NewMessage::user("あ".repeat(MESSAGE_BYTES_MAX / 3));
        assert!(fits.check().is_ok());
        let error = NewMessage::answering("call_1", "x".repeat(MESSAGE_BYTES_MAX + 1)).check().unwrap_err();
        assert!(error.to_string().ends_with("ingest it, keep the ref"), "{error}");
        let long = ToolCall { arguments: "x".repeat(MESSAGE_BYTES_MAX), ..call("call_1") };
        assert!(matches!(NewMessage::calling("", vec![long]).check(), Err(SessionError::MessageTooLong { .. })));
    }

    #[test]
    fn roles_say_what_a_message_may_hold() {
        assert!(NewMessage::calling("", vec![call("a"), call("b")]).check().is_ok());
        assert!(NewMessage::answering("a", "").check().is_ok(), "a tool may answer nothing");
        for wrong in [
            NewMessage::user("  "),
            NewMessage::user("a\0b"),
            NewMessage::calling("", vec![call("a"), call("a")]),
            NewMessage::calling("", vec![call("")]),
            NewMessage::new(Role::Tool, "an answer to nothing"),
            NewMessage { tool_calls: vec![call("a")], ..NewMessage::user("x") },
            NewMessage { answers: Some("a".into()), ..NewMessage::user("x") },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn roles_are_read_as_they_are_printed() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()).unwrap(), role);
        }
        assert!(Role::parse("developer").is_err());
    }
}

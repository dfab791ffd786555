//! Newtype ids with a printed prefix, parsed once at the edge.
//!
//! Invariant: a value of one of these types is always well formed (`prefix_` and 1 to 64 characters of
//! `[A-Za-z0-9-]`, or the grammar its type states), so nothing behind the edge checks it again.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::limits::ID_BODY_CHARS_MAX;

/// Why a text is not the id it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {kind}: expected {expected}")]
pub struct IdError {
    /// What was being parsed, with its article: `a task id`.
    pub kind: &'static str,
    /// The text as given, cut at 80 characters.
    pub text: String,
    /// The grammar in words.
    pub expected: String,
}

fn refused(kind: &'static str, text: &str, expected: String) -> IdError {
    IdError { kind, text: text.chars().take(80).collect(), expected }
}

fn is_id_body(body: &str) -> bool {
    (1..=ID_BODY_CHARS_MAX).contains(&body.len()) && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $check:expr, $expected:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The printed form.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(refused($kind, text, $expected))
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

macro_rules! prefixed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $kind:literal) => {
        text_id!(
            $(#[$doc])* $name, $kind,
            |text| text.strip_prefix(concat!($prefix, "_")).is_some_and(is_id_body),
            format!("`{}_` and 1 to {ID_BODY_CHARS_MAX} letters, digits or hyphens", $prefix)
        );

        impl $name {
            /// What every printed id of this kind starts with, without the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// Makes an id from a body that the caller knows to be well formed (the id generator's, a literal).
            ///
            /// # Panics
            /// When the body is not 1 to 64 letters, digits or hyphens.
            #[must_use]
            pub fn from_body(body: &str) -> Self {
                assert!(is_id_body(body), "malformed id body {body:?}");
                Self(format!("{}_{body}", $prefix))
            }
        }
    };
}

prefixed_id!(
    /// Who pays for and owns the data; every row is keyed by it.
    TenantId, "tenant", "a tenant id");
prefixed_id!(
    /// A person (or service account) within a tenant.
    UserId, "user", "a user id");
prefixed_id!(
    /// One conversation.
    SessionId, "sess", "a session id");
prefixed_id!(
    /// What somebody wants done.
    TaskId, "task", "a task id");
prefixed_id!(
    /// One durable run of a graph.
    ExecutionId, "exec", "an execution id");
prefixed_id!(
    /// Joins everything one request caused.
    TraceId, "trace", "a trace id");
prefixed_id!(
    /// One entry of the event log.
    EventId, "evt", "an event id");
prefixed_id!(
    /// One item of long-term memory.
    MemoryId, "mem", "a memory id");
prefixed_id!(
    /// One record of the workspace.
    RecordId, "rec", "a record id");
prefixed_id!(
    /// One version of a milestone of a task.
    MilestoneId, "milestone", "a milestone id");
prefixed_id!(
    /// One message of a conversation.
    MessageId, "msg", "a message id");
prefixed_id!(
    /// One verdict of the verifier.
    VerdictId, "verdict", "a verdict id");

fn is_name(text: &str, extra: &[u8]) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || extra.contains(&b))
}

text_id!(
    /// The name under which an execution's state is found again: chosen by the caller, `project_001`, unique in a tenant.
    ThreadId, "a thread id", |text| is_name(text, b".:/"),
    "1 to 128 letters, digits or any of `-_.:/`".to_owned());
text_id!(
    /// A feature's id within its project, chosen by the initializer: `F01`.
    FeatureId, "a feature id", |text| text.len() <= 40 && is_name(text, b"."),
    "1 to 40 letters, digits or any of `-_.`".to_owned());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_parsed_back_from_its_printed_form_and_nothing_else_is() {
        let id = TaskId::from_body("0192abc-x");
        assert_eq!(id.to_string().parse::<TaskId>().unwrap(), id);
        for wrong in ["", "task", "task_", "exec_1", "task_a b", "task_../x", &format!("task_{}", "a".repeat(65))] {
            assert!(wrong.parse::<TaskId>().is_err(), "{wrong:?} was accepted");
            assert!(serde_json::from_value::<TaskId>(wrong.into()).is_err(), "{wrong:?} was deserialised");
        }
    }

    #[test]
    fn an_error_says_what_was_expected() {
        let error = "run_1".parse::<TaskId>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"run_1\" is not a task id: expected `task_` and 1 to 64 letters, digits or hyphens"
        );
    }

    #[test]
    fn thread_and_feature_ids_are_names() {
        assert!("project_001".parse::<ThreadId>().is_ok());
        assert!("F01".parse::<FeatureId>().is_ok());
        assert!("F 01".parse::<FeatureId>().is_err());
        assert!("会話".parse::<FeatureId>().is_err());
    }
}

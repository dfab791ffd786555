//! Waits: steps whose result comes from outside.
//!
//! It owns what a node declares and what it gets; the rows are in `records::waits`, the way in for answers in
//! `answering`. Invariant: a wait is answered once, and what the node sees of the answer never changes.

use std::{fmt, str::FromStr};

use longhaul_core::{ExecutionId, TimeMs};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::StepId;

/// The name of one wait: `wait_` and letters, digits or hyphens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WaitId(String);

/// A text that is not the id of a wait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a wait id: expected `wait_` and 1 to 64 letters, digits or hyphens")]
pub struct WaitIdError(String);

impl WaitId {
    /// The printed form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn from_body(body: &str) -> Self {
        Self(format!("wait_{body}"))
    }
}

impl fmt::Display for WaitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for WaitId {
    type Err = WaitIdError;
    fn from_str(text: &str) -> Result<Self, WaitIdError> {
        let fits =
            |body: &str| (1..=64).contains(&body.len()) && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        match text.strip_prefix("wait_") {
            Some(body) if fits(body) => Ok(Self(text.to_owned())),
            Some(_) | None => Err(WaitIdError(text.chars().take(80).collect())),
        }
    }
}

impl TryFrom<String> for WaitId {
    type Error = WaitIdError;
    fn try_from(text: String) -> Result<Self, WaitIdError> {
        text.parse()
    }
}

impl From<WaitId> for String {
    fn from(id: WaitId) -> String {
        id.0
    }
}

/// What a wait waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// A person's decision.
    Approval,
    /// A request to an address.
    Webhook,
    /// Something that happens elsewhere.
    Event,
    /// A moment.
    Timer,
}

impl WaitKind {
    const ALL: [(Self, &'static str); 4] =
        [(Self::Approval, "approval"), (Self::Webhook, "webhook"), (Self::Event, "event"), (Self::Timer, "timer")];

    /// As it is stored and printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind)
    }
}

/// A wait as a node declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    pub(crate) kind: WaitKind,
    pub(crate) name: String,
    pub(crate) payload: Value,
    pub(crate) schema: Option<Value>,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) default: Option<Value>,
    pub(crate) correlation: String,
}

/// When a wait ends without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    At(TimeMs),
    /// Milliseconds after the wait was noted.
    After(u64),
}

impl Wait {
    /// Waits for a person; the name is what they are asked.
    #[must_use]
    pub fn approval(name: &str) -> Self {
        Self::new(WaitKind::Approval, name)
    }

    /// Waits for a request to an address.
    #[must_use]
    pub fn webhook(name: &str) -> Self {
        Self::new(WaitKind::Webhook, name)
    }

    /// Waits for something that happens elsewhere.
    #[must_use]
    pub fn event(name: &str) -> Self {
        Self::new(WaitKind::Event, name)
    }

    /// A wait of any kind. The name is 1 to 128 characters and, like a step's, the same on every replay.
    #[must_use]
    pub fn new(kind: WaitKind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            payload: Value::Null,
            schema: None,
            deadline: None,
            default: None,
            correlation: String::new(),
        }
    }

    /// What whoever answers should know.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Value>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Which of the events of its name it waits for, as [`crate::Runtime::deliver`] is told: an order, a customer.
    #[must_use]
    pub fn correlation(mut self, correlation: &str) -> Self {
        correlation.clone_into(&mut self.correlation);
        self
    }

    /// The JSON Schema that an answer must fit: draft 2020-12 unless it names another, complete in itself.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<Value>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// Ends the wait without an answer so many milliseconds after it was noted.
    #[must_use]
    pub fn deadline_ms(mut self, after_ms: u64) -> Self {
        self.deadline = Some(Deadline::After(after_ms));
        self
    }

    /// Ends the wait without an answer at this moment, which must follow from recorded results.
    #[must_use]
    pub fn deadline_at(mut self, at: TimeMs) -> Self {
        self.deadline = Some(Deadline::At(at));
        self
    }

    /// The answer when the deadline passes without one.
    #[must_use]
    pub fn default_answer(mut self, value: impl Into<Value>) -> Self {
        self.default = Some(value.into());
        self
    }
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// Somebody answered.
    Given {
        /// What.
        value: T,
        /// Who.
        actor: String,
        /// When.
        at: TimeMs,
    },
    /// The deadline passed; the declared default, if there is one.
    Expired {
        /// [`Wait::default_answer`].
        default: Option<T>,
    },
}

impl<T> Answer<T> {
    /// The answer or the default.
    pub fn into_value(self) -> Option<T> {
        match self {
            Self::Given { value, .. } => Some(value),
            Self::Expired { default } => default,
        }
    }
}

/// How a wait is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitStatus {
    /// Nobody has answered yet.
    Waiting,
    /// It was answered.
    Answered,
    /// Its deadline passed.
    Expired,
    /// Its execution was cancelled or given up.
    Cancelled,
}

impl WaitStatus {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Waiting, "waiting"),
        (Self::Answered, "answered"),
        (Self::Expired, "expired"),
        (Self::Cancelled, "cancelled"),
    ];

    /// As it is stored and printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(status, _)| *status == self).map_or("", |(_, name)| name)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(status, _)| *status)
    }
}

/// A wait as the world sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitInfo {
    /// Its id, for `continue_with`.
    pub id: WaitId,
    /// The execution.
    pub execution: ExecutionId,
    /// Where in it, named like a step.
    pub place: StepId,
    /// What it waits for.
    pub kind: WaitKind,
    /// What it is called: for an approval, the question.
    pub name: String,
    /// What whoever answers should know.
    pub payload: Value,
    /// What an answer must look like.
    pub schema: Option<Value>,
    /// Which of the events of its name it waits for; empty if that was not said.
    pub correlation: String,
    /// When it ends without an answer.
    pub deadline_at: Option<TimeMs>,
    /// How it is.
    pub status: WaitStatus,
    /// The answer, if there is one.
    pub value: Option<Value>,
    /// The request that answered.
    pub request_id: Option<String>,
    /// Who answered.
    pub actor: Option<String>,
    /// When it ended.
    pub answered_at: Option<TimeMs>,
    /// Since when it waits.
    pub created_at: TimeMs,
}

impl WaitInfo {
    /// The first moment at which one of these waits ends by itself.
    #[must_use]
    pub fn next_due(waits: &[Self]) -> Option<TimeMs> {
        waits.iter().filter_map(|wait| wait.deadline_at).min()
    }
}

/// An answer to be accepted, as by [`crate::Runtime::continue_with`].
#[derive(Debug, Clone, PartialEq)]
pub struct GivenAnswer {
    /// The wait.
    pub wait: WaitId,
    /// The answer.
    pub value: Value,
    /// The caller's name for this attempt: the same request may be repeated, another one may not follow it.
    pub request_id: String,
    /// Who answers.
    pub actor: String,
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Continued {
    /// It was accepted now.
    Accepted(WaitInfo),
    /// The same request with the same answer had been accepted before.
    Repeated(WaitInfo),
}

impl Continued {
    /// The wait as it is now.
    #[must_use]
    pub fn wait(&self) -> &WaitInfo {
        let (Self::Accepted(wait) | Self::Repeated(wait)) = self;
        wait
    }
}

//! Whose traces are to be erased: a user's, a task's, a session's, or those of something that facts and records name.
//!
//! Plain data, parsed once. Invariant: what begins like one of our ids is that id or an error, never a name.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{IdError, SessionId, TaskId, UserId};

/// Whose traces are to be erased.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Subject {
    /// Everything that was written on behalf of a user.
    User(UserId),
    /// Everything of a task.
    Task(TaskId),
    /// Everything of a session.
    Session(SessionId),
    /// What facts and records say they are about: `customer:42`.
    Named(String),
}

/// Longest name of a subject, in bytes.
const NAME_BYTES_MAX: usize = 512;

/// Why a text names no subject.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// It begins like an id and is none.
    #[error(transparent)]
    Id(#[from] IdError),
    /// It is empty, or too long.
    #[error("a subject is user_…, task_…, sess_…, or a name of 1 to 512 bytes such as customer:42")]
    Name,
}

impl Subject {
    /// The printed id or the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::User(user) => user.as_str(),
            Self::Task(task) => task.as_str(),
            Self::Session(session) => session.as_str(),
            Self::Named(name) => name,
        }
    }

    /// What it is, in one word: `user`, `task`, `session`, `subject`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Task(_) => "task",
            Self::Session(_) => "session",
            Self::Named(_) => "subject",
        }
    }

    /// The column that holds its id in every table whose rows belong to somebody; none for a name.
    #[must_use]
    pub fn column(&self) -> Option<&'static str> {
        match self {
            Self::User(_) => Some("user_id"),
            Self::Task(_) => Some("task_id"),
            Self::Session(_) => Some("session_id"),
            Self::Named(_) => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Subject {
    type Err = SubjectError;
    fn from_str(text: &str) -> Result<Self, SubjectError> {
        let text = text.trim();
        match text.split_once('_').map(|(prefix, _)| prefix) {
            Some("user") => Ok(Self::User(text.parse()?)),
            Some("task") => Ok(Self::Task(text.parse()?)),
            Some("sess") => Ok(Self::Session(text.parse()?)),
            _ if text.is_empty() || text.len() > NAME_BYTES_MAX => Err(SubjectError::Name),
            _ => Ok(Self::Named(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Subject {
    type Error = SubjectError;
    fn try_from(text: String) -> Result<Self, SubjectError> {
        text.parse()
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> Self {
        subject.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ids_and_everything_else_is_a_name() {
        for (text, word) in
            [("user_ada", "user"), ("task_1", "task"), ("sess_1", "session"), ("customer:42", "subject")]
        {
            let subject: Subject = text.parse().expect(text);
            assert_eq!((subject.word(), subject.to_string().as_str()), (word, text));
        }
        for wrong in ["", "  ", "user_", "task_a b", &"x".repeat(513)] {
            assert!(wrong.parse::<Subject>().is_err(), "{wrong:?}");
        }
        assert_eq!("顧客:四十二".parse::<Subject>().map(|subject| subject.word()), Ok("subject"));
    }
}

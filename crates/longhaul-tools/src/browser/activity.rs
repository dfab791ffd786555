//! What is told of a page's doings: console errors, failed requests, dialogs, downloads. Plain data.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::DialogKind;

/// An error that the page wrote to its console, or an exception nobody caught.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleError {
    /// What was written.
    pub text: String,
    /// Where: URL and line.
    pub at: String,
}

/// A request that failed or was answered with 4xx or 5xx.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRequest {
    /// HTTP method.
    pub method: String,
    /// URL.
    pub url: String,
    /// The status, when there was an answer.
    pub status: Option<u16>,
    /// Why there was none.
    pub error: Option<String>,
}

impl fmt::Display for FailedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url)?;
        match (self.status, &self.error) {
            (Some(status), _) => write!(f, " answered {status}"),
            (None, Some(error)) => write!(f, " failed: {error}"),
            (None, None) => f.write_str(" failed"),
        }
    }
}

/// A dialog that opened, and the answer it got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialogSeen {
    /// Its kind.
    pub kind: DialogKind,
    /// Its message.
    pub message: String,
    /// Whether it was accepted.
    pub accepted: bool,
    /// Whether it was the expected one.
    pub expected: bool,
}

/// What was observed since the page was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Console errors and uncaught exceptions, oldest first.
    pub console: Vec<ConsoleError>,
    /// Failed requests, oldest first.
    pub requests: Vec<FailedRequest>,
    /// Dialogs, oldest first.
    pub dialogs: Vec<DialogSeen>,
    /// Downloads, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub downloads: Vec<DownloadSeen>,
    /// Entries dropped because there were too many.
    pub dropped: u64,
}

/// The dialog that is expected next, and the answer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmedDialog {
    /// Its kind.
    pub kind: DialogKind,
    /// Its whole message, white space folded; any when `None`.
    pub message: Option<String>,
    /// Whether to accept it.
    pub accept: bool,
    /// What to type into a prompt.
    pub text: Option<String>,
}

impl DialogKind {
    /// The protocol's word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Alert => "alert",
            Self::Confirm => "confirm",
            Self::Prompt => "prompt",
            Self::Beforeunload => "beforeunload",
        }
    }

    pub(super) fn parse(name: &str) -> Self {
        match name {
            "confirm" => Self::Confirm,
            "prompt" => Self::Prompt,
            "beforeunload" => Self::Beforeunload,
            _ => Self::Alert,
        }
    }
}

impl fmt::Display for ArmedDialog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} dialog", self.kind.name())?;
        match &self.message {
            Some(message) => write!(f, " {message:?}"),
            None => Ok(()),
        }
    }
}

/// A file that the page handed to its user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadSeen {
    /// The name it is offered under.
    pub name: String,
    /// Where it came from.
    pub url: String,
    /// How far it has come.
    pub state: DownloadState,
    /// Its file in the folder of the page's downloads.
    #[serde(skip)]
    pub(super) guid: String,
}

/// How far a download has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadState {
    /// It is under way.
    Running,
    /// The whole file is there.
    Complete,
    /// It was given up.
    Cancelled,
}

//! A real Chromium, driven as a user would: targets from the accessibility tree, clicks and keys as input events, and
//! what is really on the screen. It owns the browser's process, pages and what is observed on them; it does not decide
//! whether a feature passes (the harness's verifier does). Invariants: nothing of a flow outlives its page; the page
//! reaches only its application's origin; the browser dies with this process; no call waits without a bound.

mod keys;
mod target;

use serde::{Deserialize, Serialize};

pub use keys::{Key, KeyError};
pub use target::{ROLES, Target, TargetError, WITHIN_DEPTH_MAX};

/// A JavaScript dialog's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogKind {
    /// A message.
    Alert,
    /// A question with two answers.
    Confirm,
    /// A question with a text as the answer.
    Prompt,
    /// The question whether to leave the page.
    Beforeunload,
}

/// A file that a user chooses in a file chooser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UploadFile {
    /// Plain file name with its extension.
    pub name: String,
    /// Content, as UTF-8.
    pub content: String,
}

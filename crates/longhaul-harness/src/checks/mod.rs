//! Checks: the verification sentences of a feature in a typed form, planned with the feature, locked with it, and
//! carried out by the verifier. It owns the vocabulary, its JSON form and the rules a feature's checks must keep.
//! It touches no browser. Invariant: a `Vec<Check>` made by [`parse_feature_checks`] can be carried out as it stands:
//! every name it uses was remembered, every dialog is armed before an act, and something on the screen is expected.
//!
//! The vocabulary with examples: `docs/checks.md`.

mod around;
mod artifacts;
mod fields;
pub(crate) mod formula;
mod parse;
mod print;
mod rules;

use longhaul_core::Digest;
use longhaul_tools::browser::{DialogKind, Target, UploadFile};

pub use around::{DownloadCheck, PermissionCheck, PrintCheck, TOLERANCE_DEFAULT, TabCheck, VisualCheck};
pub use artifacts::{
    COMMAND_MS_DEFAULT, COMMAND_MS_MAX, CitationCheck, CommandCheck, FileCheck, NUMBER_TOLERANCE, TableCheck,
};
pub use formula::Formula;
pub use parse::{parse_check, parse_feature_checks};

/// Longest wait of an expectation, in milliseconds.
pub const WITHIN_MS_MAX: u64 = 30_000;
/// Wait of an expectation that does not state one, in milliseconds.
pub const WITHIN_MS_DEFAULT: u64 = 3_000;
/// Most checks of one feature.
pub const CHECKS_MAX: usize = 200;

/// Why checks were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct CheckError {
    /// Where, from the feature's checks on: `checks[5].target.role`.
    pub place: String,
    /// What is wrong and what is expected.
    pub message: String,
}

/// One check. Its JSON form is one flat object: `{"step":1,"check":"goto","path":"/"}`.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// The sentence it carries out, from 1.
    pub step: usize,
    /// What to do or to expect.
    pub action: CheckAction,
}

/// What a check does.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckAction {
    /// Opens a page of the application and waits until it has loaded.
    Goto {
        /// Below the application's base URL; starts with `/`.
        path: String,
    },
    /// Does what a user does.
    Act(Act),
    /// Says what to answer to the dialog that the next act opens. The act fails when it does not open.
    Dialog(DialogExpectation),
    /// Notes a number or a text under a name for later checks.
    Remember {
        /// `[a-z][a-z0-9_]*`.
        name: String,
        /// What of the target.
        query: Query,
        /// Of which target.
        target: Target,
    },
    /// Expects something on the screen.
    Expect(Box<Expect>),
    /// Expects that the page's URL contains this text.
    ExpectUrl {
        /// The text.
        contains: String,
        /// How long to wait for it, in milliseconds.
        within_ms: u64,
    },
    /// Expects no console error and no uncaught exception since the flow began.
    NoConsoleErrors,
    /// Expects no failed request and no 4xx or 5xx answer since the flow began.
    NoFailedRequests,
    /// Loads the page again.
    Reload,
    /// Stops the application, starts it again on the same data and loads the page again.
    RestartApp,
    /// Calls the application's HTTP interface, beside the browser.
    Http(HttpCheck),
    /// Goes to another tab, or closes one.
    Tab(TabCheck),
    /// Grants or denies a permission.
    Permission(PermissionCheck),
    /// Expects a download.
    Download(DownloadCheck),
    /// Expects that the page asks to be printed.
    Print(PrintCheck),
    /// Compares a picture with the accepted one.
    Visual(Box<VisualCheck>),
    /// Runs a program of the project in the sandbox.
    Command(CommandCheck),
    /// Looks at a file of the project.
    File(FileCheck),
    /// Looks at a table of the project.
    Table(Box<TableCheck>),
    /// Looks whether a document names its sources.
    Citation(CitationCheck),
}

impl CheckAction {
    /// Whether it is carried out on a page.
    #[must_use]
    pub fn needs_page(&self) -> bool {
        match self {
            Self::Goto { .. }
            | Self::Act(_)
            | Self::Dialog(_)
            | Self::Remember { .. }
            | Self::Expect(_)
            | Self::ExpectUrl { .. }
            | Self::NoConsoleErrors
            | Self::NoFailedRequests
            | Self::Reload
            | Self::Tab(_)
            | Self::Permission(_)
            | Self::Download(_)
            | Self::Print(_)
            | Self::Visual(_) => true,
            Self::RestartApp
            | Self::Http(_)
            | Self::Command(_)
            | Self::File(_)
            | Self::Table(_)
            | Self::Citation(_) => false,
        }
    }

    /// Whether it needs the application to run.
    #[must_use]
    pub fn needs_app(&self) -> bool {
        self.needs_page() || matches!(self, Self::RestartApp | Self::Http(_))
    }
}

/// What a user does.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Clicks the middle of the target.
    Click(Target),
    /// Replaces the content of a field by a text.
    Fill {
        /// The field.
        target: Target,
        /// The new content; empty to clear the field.
        text: String,
    },
    /// Presses a key or a chord such as `Control+Enter`, on the target or where the focus is.
    Press {
        /// What to focus before.
        target: Option<Target>,
        /// The key.
        key: String,
    },
    /// Chooses an option of a drop-down list by its label.
    Select {
        /// The list.
        target: Target,
        /// The label.
        option: String,
    },
    /// Moves the pointer over the target.
    Hover(Target),
    /// Drags the target onto another one.
    Drag {
        /// What is dragged.
        target: Target,
        /// Where it is dropped.
        to: Target,
    },
    /// Clicks the target, which opens a file chooser, and chooses files.
    Upload {
        /// What opens the chooser: a file input or a button.
        target: Target,
        /// The files.
        files: Vec<UploadFile>,
    },
}

/// The dialog that the next act must open, and the answer to it.
#[derive(Debug, Clone, PartialEq)]
pub struct DialogExpectation {
    /// Which kind.
    pub kind: DialogKind,
    /// Its whole message, white space folded; any when absent.
    pub message: Option<String>,
    /// Whether it is accepted or dismissed.
    pub accept: bool,
    /// What to type into a prompt.
    pub text: Option<String>,
}

/// What is remembered of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// How many of them are visible.
    Count,
    /// Its visible text.
    Text,
    /// Its value.
    Value,
}

/// An expectation about a target; every condition given must hold at the same moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Expect {
    /// The target.
    pub target: Target,
    /// The conditions, at least one.
    pub conditions: Vec<Condition>,
    /// How long to wait until they hold, in milliseconds.
    pub within_ms: u64,
}

/// What must hold of a target. All but `Hidden` and `Count` also ask that it is visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// A user can see it.
    Visible,
    /// No user can see any.
    Hidden,
    /// Its whole text, white space folded. `{name}` stands for what was remembered.
    Text(String),
    /// A part of its text, white space folded. `{name}` stands for what was remembered.
    Contains(String),
    /// Its value. `{name}` stands for what was remembered.
    Value(String),
    /// How many are visible.
    Count(CountExpr),
    /// It has the focus, or not.
    Focused(bool),
    /// It can be operated, or not.
    Enabled(bool),
    /// It is ticked, or not.
    Checked(bool),
}

/// A number: `3`, `n`, `n + 1` or `n - 1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CountExpr {
    /// This number.
    Exactly(u64),
    /// A remembered number and a difference.
    Remembered {
        /// Its name.
        name: String,
        /// What is added to it.
        plus: i64,
    },
}

/// A call of the application's HTTP interface.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpCheck {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// Below the application's base URL; starts with `/`.
    pub path: String,
    /// JSON to send.
    pub body: Option<serde_json::Value>,
    /// The status it must answer.
    pub status: u16,
    /// What the JSON answer must contain: every member given, arrays of the same length.
    pub json: Option<serde_json::Value>,
}

/// The digest that a verdict carries: of a feature's sentences and checks, as printed.
#[must_use]
pub fn digest(steps: &[String], checks: &[Check]) -> Digest {
    let canonical = serde_json::to_vec(&(steps, checks)).expect("texts and JSON values always print");
    Digest::of(canonical)
}

//! What can go wrong with the browser itself, and what can be wrong with a page for whoever acts on it. The first is
//! nobody's verdict; the second is what a check fails with.

use std::{io, path::PathBuf};

use super::Target;

/// The browser cannot be started or used. Nothing is verified then, and nothing passes.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// No Chromium on the PATH.
    #[error(
        "no Chromium found (looked for {looked_for}): install it (Debian: `apt-get install chromium`), or set browser.program"
    )]
    NotFound {
        /// Names or path tried.
        looked_for: String,
    },
    /// Its private folder cannot be made.
    #[error("cannot prepare the browser's folder {path}: check that the temporary folder is writable and not full")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The program cannot be run.
    #[error("cannot run {program}: check that it is an executable Chromium, or set browser.program")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It ended, or did not answer, before it could be used.
    #[error("{program} did not start within {waited_ms} ms: {output}; run `longhaul doctor`")]
    Start {
        /// The program.
        program: PathBuf,
        /// How long it was waited for.
        waited_ms: u64,
        /// The end of what it wrote.
        output: String,
    },
    /// It ended or was killed while it was used.
    #[error("the browser has ended while it was in use; start it again")]
    Gone,
    /// The page has closed its last tab. This is about the page, not about the browser.
    #[error("no tab is open any more: the page has closed itself")]
    NoTab,
    /// It did not answer a call.
    #[error("the browser did not answer {method} within {waited_ms} ms")]
    Silent {
        /// The DevTools method.
        method: &'static str,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// It refused a call.
    #[error("the browser refused {method}: {message}")]
    Refused {
        /// The DevTools method.
        method: &'static str,
        /// Its words.
        message: String,
    },
}

impl BrowserError {
    /// Whether the call may succeed when it is made again: the page was just changing.
    #[must_use]
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// Why something could not be done or seen on a page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Nothing on the page is the target.
    #[error("found no {target}{nearby}")]
    NotFound {
        /// The target.
        target: Box<Target>,
        /// What there is instead, after a separator; empty when there is nothing alike.
        nearby: String,
    },
    /// Several elements are the target.
    #[error("found {} of {target}: {}; say which with name, within or nth", found.len(), found.join(", "))]
    Ambiguous {
        /// The target.
        target: Box<Target>,
        /// The elements, shortened.
        found: Vec<String>,
    },
    /// It is there, but a user cannot see it.
    #[error("found {count} but {} not visible: {reason}", if *count == 1 { "it is" } else { "they are" })]
    NotVisible {
        /// How many were found.
        count: usize,
        /// Why the first is not visible.
        reason: String,
    },
    /// It is visible, but cannot be operated.
    #[error("{target} cannot be used: {reason}")]
    NotReady {
        /// The target.
        target: Box<Target>,
        /// Disabled, moving, covered, read-only.
        reason: String,
    },
    /// A page did not load.
    #[error("{url} did not load: {reason}")]
    NotLoaded {
        /// The URL.
        url: String,
        /// Why.
        reason: String,
    },
    /// A dialog other than the expected one.
    #[error("{0}")]
    Dialog(DialogFault),
    /// A list has no such option.
    #[error("{target} has no option {option:?}; it has {has}")]
    NoOption {
        /// The list.
        target: Box<Target>,
        /// The option asked for.
        option: String,
        /// Its options.
        has: String,
    },
    /// A click opened no file chooser.
    #[error("clicking {target} opened no file chooser within {waited_ms} ms")]
    NoChooser {
        /// What was clicked.
        target: Box<Target>,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// A file for an upload cannot be written.
    #[error("cannot write {path} for the upload")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No such tab is open.
    #[error("found no {wanted}; open are {open}")]
    NoTab {
        /// The tab, in words.
        wanted: String,
        /// Those that are open.
        open: String,
    },
    /// The only tab cannot be closed.
    #[error("this is the only tab; closing it would end the flow")]
    LastTab,
    /// No such download began.
    #[error("no such download within {waited_ms} ms{}{others}", if others.is_empty() { "" } else { "; there were " })]
    NoDownload {
        /// The names of other downloads.
        others: String,
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// A download did not arrive.
    #[error("the download {name:?} did not arrive: {reason}")]
    Download {
        /// The name it is offered under.
        name: String,
        /// Why.
        reason: String,
    },
    /// No page asked to be printed.
    #[error("no page asked to be printed within {waited_ms} ms (window.print was not called)")]
    NotPrinted {
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// The page's process crashed.
    #[error("the page crashed")]
    Crashed,
    /// The browser itself cannot be used.
    #[error("the browser cannot be used")]
    Browser(#[from] BrowserError),
}

/// How a dialog differed from what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialogFault {
    /// Nobody expected one.
    #[error("an unexpected {kind} dialog opened: {message:?}")]
    Unexpected {
        /// Its kind.
        kind: &'static str,
        /// Its message.
        message: String,
    },
    /// It was of another kind or said something else.
    #[error("expected {expected}, but {kind} {message:?} opened")]
    Different {
        /// What was expected, in words.
        expected: String,
        /// Its kind.
        kind: &'static str,
        /// Its message.
        message: String,
    },
    /// It did not open.
    #[error("expected {expected}, but no dialog opened within {waited_ms} ms")]
    Missing {
        /// What was expected, in words.
        expected: String,
        /// How long it was waited for.
        waited_ms: u64,
    },
}

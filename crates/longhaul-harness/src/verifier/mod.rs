//! The verifier: carries a feature's checks out in a real browser, literally and in order, and says what it saw. It is
//! the only maker of a [`Verdict`] (invariant 1). It does not keep evidence, start applications or change standings.
//!
//! Invariant: a browser that does not start or dies is a [`VerifyError`] and never a verdict; a check that was not
//! carried out is never counted as held; the first check that does not hold ends the flow.

mod artifacts;
mod citation;
mod expect;
mod film;
mod flow;
mod front;
mod http;
mod pattern;
mod run;
mod table;
mod verdict;
mod visual;
mod workbench;

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use longhaul_core::FeatureId;
use longhaul_tools::{
    browser::{Browser, BrowserError},
    sandbox::SandboxError,
};

pub use verdict::{Failure, StepLog, Verdict, media_type};
pub use visual::Baselines;
pub use workbench::Workbench;

use crate::checks::Check;

/// The application under verification, as whoever started it controls it.
#[async_trait]
pub trait AppControl: Send {
    /// Where it listens now: `http://127.0.0.1:PORT`. A restart may change the port; the browser does not notice.
    fn base_url(&self) -> String;

    /// Stops it and starts it again on the same data.
    ///
    /// # Errors
    /// Why it does not start, for whoever built it.
    async fn restart(&mut self) -> Result<(), String>;
}

/// What is to be verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// The feature.
    pub feature: FeatureId,
    /// Its sentences.
    pub steps: Vec<String>,
    /// The same in typed form.
    pub checks: Vec<Check>,
}

/// The bounds of one flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest flow; one that takes longer fails at the check it has reached.
    pub flow: Duration,
    /// Longest answer to an `http` check.
    pub http: Duration,
    /// Which pictures are taken.
    pub pictures: Pictures,
    /// Whether a sequence of pictures is kept, one after each check.
    pub film: bool,
}

/// Which sentences of a flow get a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pictures {
    /// Each of them.
    EachSentence,
    /// The one at which the flow ends: the last, or the one that does not hold.
    TheEnd,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flow: Duration::from_mins(2),
            http: Duration::from_secs(10),
            pictures: Pictures::EachSentence,
            film: false,
        }
    }
}

/// Nothing could be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The browser does not start, has died or does not answer.
    #[error("nothing can be verified without a browser")]
    Browser(#[from] BrowserError),
    /// The stable address for the browser cannot be opened.
    #[error("cannot listen on 127.0.0.1 for the browser of a verification")]
    Front(#[source] io::Error),
    /// A check is about a page, but this verifier has no browser.
    #[error("a check is about a page, but there is no browser to look at it with")]
    NeedsBrowser,
    /// A check is about the project's files or programs, but this verifier does not know its folder or cannot run anything.
    #[error("a check is about the project's files or programs, but there is no folder or no sandbox for it")]
    NeedsProject,
    /// The sandbox for a command cannot be built.
    #[error("a command of the project cannot be run without a sandbox")]
    Sandbox(#[source] SandboxError),
    /// The feature has no checks, so there is nothing that could pass.
    #[error("{feature} has no checks; nothing passes that nothing was expected of")]
    NoChecks {
        /// The feature.
        feature: FeatureId,
    },
}

/// Stands for the application of a flow that needs none.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoApplication;

#[async_trait]
impl AppControl for NoApplication {
    fn base_url(&self) -> String {
        String::new()
    }

    async fn restart(&mut self) -> Result<(), String> {
        Err("this project has no application".to_owned())
    }
}

impl Flow {
    /// Whether a browser is needed. Without a page none is started.
    #[must_use]
    pub fn needs_browser(&self) -> bool {
        self.checks.iter().any(|check| check.action.needs_page())
    }

    /// Whether the application must run.
    #[must_use]
    pub fn needs_app(&self) -> bool {
        self.checks.iter().any(|check| check.action.needs_app())
    }
}

/// Verifies flows with one browser, each in a fresh profile; several may be under way at a time.
#[derive(Debug, Clone)]
pub struct Verifier {
    browser: Option<Arc<Browser>>,
    workbench: Option<Workbench>,
    baselines: Baselines,
}

impl Verifier {
    /// A verifier that uses this browser.
    #[must_use]
    pub fn new(browser: Arc<Browser>) -> Self {
        Self { browser: Some(browser), ..Self::without_browser() }
    }

    /// A verifier for flows that need no page.
    #[must_use]
    pub fn without_browser() -> Self {
        Self { browser: None, workbench: None, baselines: Baselines::new() }
    }

    /// With the project whose files and programs are looked at.
    #[must_use]
    pub fn with_workbench(self, workbench: Workbench) -> Self {
        Self { workbench: Some(workbench), ..self }
    }

    /// With the pictures that were accepted of the feature that comes next.
    #[must_use]
    pub fn with_baselines(self, baselines: Baselines) -> Self {
        Self { baselines, ..self }
    }

    /// Carries out every check of the flow against the running application.
    ///
    /// # Errors
    /// When the browser or the sandbox cannot be used. What is wrong with the application is in the verdict.
    pub async fn verify(&self, flow: &Flow, app: &mut dyn AppControl, limits: &Limits) -> Result<Verdict, VerifyError> {
        if flow.checks.is_empty() {
            return Err(VerifyError::NoChecks { feature: flow.feature.clone() });
        }
        Box::pin(flow::carry_out(self, flow, app, limits)).await
    }
}

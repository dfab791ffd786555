//! The verifier: carries a feature's checks out in a real browser, literally and in order, and says what it saw. It is
//! the only maker of a [`Verdict`] (invariant 1). It does not keep evidence, start applications or change standings.
//!
//! Invariant: a browser that does not start or dies is a [`VerifyError`] and never a verdict; a check that was not
//! carried out is never counted as held; the first check that does not hold ends the flow.

mod expect;
mod flow;
mod front;
mod http;
mod verdict;

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use longhaul_core::FeatureId;
use longhaul_tools::browser::{Browser, BrowserError};

pub use verdict::{Failure, StepLog, Verdict};

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
        Self { flow: Duration::from_mins(2), http: Duration::from_secs(10), pictures: Pictures::EachSentence }
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
    /// The feature has no checks, so there is nothing that could pass.
    #[error("{feature} has no checks; nothing passes that nothing was expected of")]
    NoChecks {
        /// The feature.
        feature: FeatureId,
    },
}

/// Verifies flows with one browser, each in a fresh profile.
#[derive(Debug, Clone)]
pub struct Verifier {
    browser: Arc<Browser>,
}

impl Verifier {
    /// A verifier that uses this browser.
    #[must_use]
    pub fn new(browser: Arc<Browser>) -> Self {
        Self { browser }
    }

    /// Carries out every check of the flow against the running application.
    ///
    /// # Errors
    /// When the browser cannot be used. What is wrong with the application is in the verdict.
    pub async fn verify(&self, flow: &Flow, app: &mut dyn AppControl, limits: &Limits) -> Result<Verdict, VerifyError> {
        if flow.checks.is_empty() {
            return Err(VerifyError::NoChecks { feature: flow.feature.clone() });
        }
        Box::pin(flow::carry_out(&self.browser, flow, app, limits)).await
    }
}

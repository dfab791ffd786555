//! The verifier and its checks: the vocabulary as JSON, and flows against small applications in a real Chromium, healthy
//! ones and ones with a planted fault each.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod application;
mod around;
mod artifacts;
mod faults;
mod healthy;
#[path = "../../../longhaul-tools/tests/browser/site.rs"]
mod site;
mod vocabulary;

use std::sync::Arc;

use longhaul_harness::{
    checks::parse_feature_checks,
    verifier::{AppControl, Flow, Limits, Verdict, Verifier, VerifyError},
};
use longhaul_tools::browser::{Browser, BrowserSettings};
use serde_json::Value;

pub(crate) async fn browser() -> Arc<Browser> {
    let settings = BrowserSettings { act_timeout: std::time::Duration::from_millis(600), ..BrowserSettings::default() };
    Arc::new(Browser::launch(settings).await.unwrap())
}

/// A flow whose sentence n is "sentence n".
pub(crate) fn flow(checks: &Value) -> Flow {
    let last = checks.as_array().unwrap().last().unwrap()["step"].as_u64().unwrap();
    let steps: Vec<String> = (1..=last).map(|n| format!("sentence {n}")).collect();
    let checks = parse_feature_checks(checks, &steps).unwrap();
    Flow { feature: "F01".parse().unwrap(), steps, checks }
}

pub(crate) async fn verify(
    browser: &Arc<Browser>,
    checks: &Value,
    app: &mut dyn AppControl,
) -> Result<Verdict, VerifyError> {
    Verifier::new(browser.clone()).verify(&flow(checks), app, &Limits::default()).await
}

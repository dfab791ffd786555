//! Faults planted into three applications whose checks were written before: each must be refused, every healthy feature
//! must pass, and no verdict may differ from one run to the next. A short run is part of `make test`; the whole,
//! `cargo xtask faults [--runs N]`, sets `LONGHAUL_FAULTS_RUNS`.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod app;
mod figures;
mod plan;

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use longhaul_harness::{
    standalone::read_list,
    verifier::{Flow, Limits, Pictures, Verifier, VerifyError},
};
use longhaul_tools::browser::{Browser, BrowserSettings, SharedBrowser};

use crate::{
    app::{App, folder},
    figures::{Figures, Outcome},
    plan::{Fault, faults, one_of_each},
};

const APPS: [&str; 3] = ["notes", "board", "ledger"];
/// Flows at a time: most of a refused flow is waiting.
const AT_A_TIME: usize = 8;

/// The flow of one feature, as committed.
fn flow(app: &str, feature: &str) -> Flow {
    let listed = read_list(&folder(app)).unwrap();
    let listed = listed.into_iter().find(|l| l.definition.id.as_str() == feature);
    let definition = listed.unwrap_or_else(|| panic!("{app} has no {feature}")).definition;
    Flow { feature: definition.id, steps: definition.steps, checks: definition.checks }
}

fn features(app: &str) -> Vec<String> {
    read_list(&folder(app)).unwrap().iter().map(|listed| listed.definition.id.to_string()).collect()
}

/// Verifies one feature, with or without a fault.
async fn judge(browser: &SharedBrowser, app: &'static str, feature: &str, fault: Option<&Fault>) -> Outcome {
    let mut running = match App::start(app, fault).await {
        Ok(running) => running,
        Err(why) => return Outcome::Refused(format!("the application does not start: {why}")),
    };
    let limits = Limits { pictures: Pictures::TheEnd, ..Limits::default() };
    let flow = flow(app, feature);
    // As the harness does: a browser that died is started again once.
    for _ in 0..2 {
        let browser_now: Arc<Browser> = browser.get().await.unwrap();
        match Verifier::new(browser_now.clone()).verify(&flow, &mut running, &limits).await {
            Ok(verdict) => {
                return match verdict.failure() {
                    None => Outcome::Passed,
                    Some(failure) => Outcome::Refused(format!("step {}: {}", failure.step_index, failure.reason)),
                };
            }
            Err(VerifyError::Browser(error)) => {
                eprintln!("{app} {feature} {fault:?}: {error}");
                browser.retire(&browser_now).await;
            }
            Err(error) => return Outcome::Undecided(error.to_string()),
        }
    }
    Outcome::Undecided("the browser died twice".to_owned())
}

/// One run: every healthy feature, and these faults.
async fn run(browser: &SharedBrowser, faults: &[Fault], figures: &mut Figures) {
    let healthy: Vec<(&'static str, String, Option<Fault>)> =
        APPS.into_iter().flat_map(|app| features(app).into_iter().map(move |feature| (app, feature, None))).collect();
    let faulty = faults.iter().map(|fault| (fault.app, fault.feature.to_owned(), Some(*fault)));
    let all: Vec<_> = healthy.into_iter().chain(faulty).collect();
    let judged = stream::iter(all).map(|(app, feature, fault)| async move {
        let outcome = judge(browser, app, &feature, fault.as_ref()).await;
        (app, feature, fault, outcome)
    });
    let mut judged = std::pin::pin!(judged.buffer_unordered(AT_A_TIME));
    while let Some((app, feature, fault, outcome)) = judged.next().await {
        figures.note(app, &feature, fault, outcome);
    }
}

fn browser() -> SharedBrowser {
    SharedBrowser::new(BrowserSettings::default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_each_kind_is_refused_and_what_is_healthy_passes() {
    let browser = browser();
    let mut figures = Figures::default();
    run(&browser, &one_of_each(), &mut figures).await;
    browser.close().await;
    println!("{figures}");
    assert!(figures.kinds() >= 60, "{} kinds", figures.kinds());
    assert!(figures.hold(), "{figures}");
}

/// The whole, as often as it is asked for; in `make test` it is not.
#[tokio::test(flavor = "multi_thread")]
async fn every_fault_in_every_place_is_refused_again_and_again() {
    let Some(runs) = std::env::var("LONGHAUL_FAULTS_RUNS").ok().and_then(|runs| runs.parse::<u32>().ok()) else {
        assert!(faults().len() >= 60);
        return;
    };
    let mut figures = Figures::default();
    let only = std::env::var("LONGHAUL_FAULTS_ONLY").unwrap_or_default();
    let chosen: Vec<Fault> = faults().into_iter().filter(|fault| format!("{fault:?}").contains(&only)).collect();
    for number in 1..=runs {
        let browser = browser();
        let started = std::time::Instant::now();
        run(&browser, &chosen, &mut figures).await;
        browser.close().await;
        println!("run {number} of {runs}: {} s\n{figures}", started.elapsed().as_secs());
    }
    println!("{}", figures.json());
    assert!(figures.hold(), "{figures}");
}

//! `longhaul verify`: verdicts on demand, for a person in doubt and for CI.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use longhaul::{FeatureId, JOBS_MAX, Program, VerdictView, VerifyRequest};
use serde_json::json;

use super::work;
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Glyph, Ink, Style, count, duration, print_line},
};

/// Verify features in the browser, now: here, in CI, in any folder with a feature list
///
/// Starts the application with its own init.sh and carries out every step. Asks no model and changes nothing in the
/// project. A folder that this machine's store does not know is verified by its own feature_list.json and
/// feature_checks.json, in a copy. Exits with 3 if a feature does not pass; docs/verifying.md.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The features' ids, as in `longhaul features`; all of them without
    #[arg(value_name = "FEATURE")]
    features: Vec<String>,
    /// The folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Only features that the list says pass: for CI of an application that is not finished
    #[arg(long)]
    passing: bool,
    /// Flows at a time, each with its own application and profile
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Show the browser's window
    #[arg(long)]
    headed: bool,
    /// Write the verdicts as JUnit XML, for CI services
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Keep a picture of every sentence, the flows' logs and a page that shows them
    #[arg(long, value_name = "DIR")]
    evidence: Option<PathBuf>,
    /// Keep a film of each flow beside them: one picture a step, as an animated WebP
    #[arg(long, requires = "evidence")]
    film: bool,
    /// Accept the pictures of `visual` checks as they are now, where everything else of the feature passes
    #[arg(long)]
    accept_baseline: bool,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Verify) -> anyhow::Result<Exit> {
    let request = request(command)?;
    let headed = ("browser.headed", command.headed.then_some("true"), "--headed");
    let settings = global.settings(Some(&command.dir), &[headed])?;
    if settings.browser.headed && !has_display() {
        let why = "a window needs a display, and neither DISPLAY nor WAYLAND_DISPLAY is set; leave --headed out, or \
                   run under `xvfb-run`";
        return Err(Refusal::because(Exit::Environment, why));
    }
    let style = global.style();
    let mut closed = Ok(());
    let verdicts = work::runtime()?.block_on(async {
        let tell = |verdict: &VerdictView| {
            if closed.is_ok() {
                closed = show(global.json, style, verdict);
            }
        };
        Box::pin(longhaul::verify(settings, Program::this_one()?, &request, tell)).await
    })?;
    closed?;
    if let Some(file) = &command.junit {
        let suite = command.dir.canonicalize().ok();
        let suite = suite.as_deref().and_then(|dir| dir.file_name()?.to_str()).unwrap_or("longhaul");
        std::fs::write(file, longhaul::junit(suite, &verdicts)).with_context(|| {
            format!("cannot write {}; name a file in a folder that you can write to", file.display())
        })?;
    }
    conclude(global, command, &verdicts)
}

fn request(command: &Verify) -> anyhow::Result<VerifyRequest> {
    if command.jobs == 0 || command.jobs > JOBS_MAX {
        return Err(Refusal::because(Exit::Usage, format!("--jobs {}: from 1 to {JOBS_MAX}", command.jobs)));
    }
    Ok(VerifyRequest {
        features: command.features.iter().map(|text| parse(text)).collect::<anyhow::Result<_>>()?,
        only_passing: command.passing,
        jobs: command.jobs,
        evidence: command.evidence.clone(),
        film: command.film,
        accept_pictures: command.accept_baseline,
        ..VerifyRequest::of(&command.dir)
    })
}

fn has_display() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

fn conclude(global: &Global, command: &Verify, verdicts: &[VerdictView]) -> anyhow::Result<Exit> {
    let passed = verdicts.iter().filter(|verdict| verdict.passed).count();
    let exit = if passed == verdicts.len() { Exit::Done } else { Exit::Unfinished };
    if global.json {
        print_line(&json!({ "passed": passed, "of": verdicts.len() }).to_string())?;
        return Ok(exit);
    }
    if verdicts.is_empty() {
        print_line("the list says of no feature that it passes; without --passing all of them are verified")?;
        return Ok(exit);
    }
    print_line(&format!("\n{passed} of {} verified", count(verdicts.len() as u64, "feature")))?;
    if let Some(place) = &command.evidence {
        print_line(&format!("  seen: {}", place.join("index.html").display()))?;
    }
    Ok(exit)
}

fn parse(text: &str) -> anyhow::Result<FeatureId> {
    text.parse().map_err(|error| Refusal::because(Exit::Usage, format!("{error}; `longhaul features` lists the ids")))
}

fn show(json: bool, style: Style, verdict: &VerdictView) -> anyhow::Result<()> {
    if json {
        print_line(&serde_json::to_string(verdict)?)?;
        return Ok(());
    }
    let glyph = match (verdict.passed, verdict.unchecked) {
        (true, _) => Glyph::Pass,
        (false, true) => Glyph::Notice,
        (false, false) => Glyph::Fail,
    };
    let took = style.paint(Ink::Faint, &format!("({})", duration(verdict.elapsed_ms)));
    print_line(&format!(
        "{} {:<4} {} {took}",
        style.glyph(glyph),
        verdict.feature,
        style.fit_after(20, &verdict.description)
    ))?;
    if !verdict.passed {
        let why = style.fit_after(7, &verdict.reason());
        print_line(&style.paint(Ink::Bad, &format!("       {why}")))?;
    }
    Ok(())
}

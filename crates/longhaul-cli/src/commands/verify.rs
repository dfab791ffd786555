//! `longhaul verify`: verdicts on demand, for a person in doubt and for CI.

use std::path::PathBuf;

use clap::Args;
use longhaul::{FeatureId, VerdictView};
use serde_json::json;

use super::work;
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Glyph, Ink, Style, count, duration, print_line},
};

/// Verify one feature, or all of them, in the browser, now
///
/// Starts the application with its own init.sh and carries out every step. Asks no model and changes nothing in the
/// project. Exits with 1 if a feature does not pass.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The feature's id, as in `longhaul features`; all of them without
    feature: Option<String>,
    /// The project
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Verify) -> anyhow::Result<Exit> {
    let feature: Option<FeatureId> = command.feature.as_deref().map(parse).transpose()?;
    let settings = global.settings(Some(&command.dir), &[])?;
    let style = global.style();
    let mut closed = Ok(());
    let verdicts = work::runtime()?.block_on(async {
        let longhaul = work::open(settings).await?;
        let tell = |verdict: &VerdictView| {
            if closed.is_ok() {
                closed = show(global.json, style, verdict);
            }
        };
        longhaul.verify(&command.dir, feature.as_ref(), tell).await
    })?;
    closed?;
    let passed = verdicts.iter().filter(|verdict| verdict.passed).count();
    if global.json {
        print_line(&json!({ "passed": passed, "of": verdicts.len() }).to_string())?;
    } else {
        print_line(&format!("\n{passed} of {} verified", count(verdicts.len() as u64, "feature")))?;
    }
    Ok(if passed == verdicts.len() { Exit::Done } else { Exit::Failed })
}

fn parse(text: &str) -> anyhow::Result<FeatureId> {
    text.parse().map_err(|error| Refusal::because(Exit::Usage, format!("{error}; `longhaul features` lists the ids")))
}

fn show(json: bool, style: Style, verdict: &VerdictView) -> anyhow::Result<()> {
    if json {
        print_line(&serde_json::to_string(verdict)?)?;
        return Ok(());
    }
    let glyph = if verdict.passed { Glyph::Pass } else { Glyph::Fail };
    let took = style.paint(Ink::Faint, &format!("({})", duration(verdict.elapsed_ms)));
    print_line(&format!(
        "{} {:<4} {} {took}",
        style.glyph(glyph),
        verdict.feature,
        style.fit_after(20, &verdict.description)
    ))?;
    if let Some(refusal) = &verdict.refusal {
        let at =
            if refusal.step == 0 { String::new() } else { format!("step {} \"{}\": ", refusal.step, refusal.sentence) };
        let why = style.fit_after(7, &format!("{at}{}", refusal.reason));
        print_line(&style.paint(Ink::Bad, &format!("       {why}")))?;
    }
    Ok(())
}

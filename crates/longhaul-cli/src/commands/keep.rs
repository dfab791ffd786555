//! `longhaul backup` and `longhaul store verify`: keeping what is stored, and knowing that it is whole.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use longhaul::{Backup, BackupProgress, Severity};
use serde_json::json;

use super::{
    at_store::{StoreFlags, below},
    work,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, count, print_line},
};

/// Copy the whole store into a new folder, while others use it
///
/// The copy is of one moment: the database and every blob, each checked against its digest. The folder has its name
/// only when the copy is complete. To restore, give the folder as --store or --home, or move it to where the store was.
/// A PostgreSQL database is backed up with its own tools.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul backup /backup/longhaul-$(date +%F)
  longhaul backup /backup/shop --store /var/lib/shop
  longhaul store verify --store /backup/shop      is the copy whole?")]
pub(crate) struct BackupArgs {
    /// A folder that is new or empty
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    store: StoreFlags,
}

/// Look after a store
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    Verify(VerifyStore),
}

/// Look at everything that is stored, and say what is damaged and what to do
///
/// Reads the whole store once, beside whoever uses it: the database's own structure, what rows refer to, and every
/// blob's content. Changes nothing. Exits with 1 if something is damaged; what only takes space is listed too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul store verify
  longhaul store verify --store /backup/shop && echo good")]
struct VerifyStore {
    #[command(flatten)]
    store: StoreFlags,
}

/// Runs `backup`.
pub(crate) fn backup(global: &Global, command: &BackupArgs) -> anyhow::Result<Exit> {
    let style = global.style();
    let bar = global.spinner("copying");
    let shown = bar.clone();
    let progress = move |so_far: BackupProgress| {
        let BackupProgress { pages, pages_total, blobs, blobs_total } = so_far;
        shown.set_message(format!("{pages} of {pages_total} pages, {blobs} of {blobs_total} blobs"));
    };
    let made = work::runtime()?
        .block_on(async { anyhow::Ok(command.store.open(global).await?.backup(&command.dir, progress).await?) });
    bar.finish_and_clear();
    let Backup { path, blobs, bytes, lacking } = made?;
    let exit = if lacking.is_empty() { Exit::Done } else { Exit::Failed };
    if global.json {
        let lacking: Vec<_> = lacking.iter().map(ToString::to_string).collect();
        print_line(&json!({ "path": path, "blobs": blobs, "bytes": bytes, "lacking": lacking }).to_string())?;
        return Ok(exit);
    }
    let size = format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000);
    print_line(&format!("{} {}", style.glyph(Glyph::Pass), path.display()))?;
    print_line(&below(style, None, &format!("the database and {}, {size}", count(blobs, "blob"))))?;
    for error in &lacking {
        print_line(&below(style, Some(Ink::Bad), &format!("was missing or damaged in the store already: {error}")))?;
    }
    Ok(exit)
}

/// Runs `store`.
pub(crate) fn store(global: &Global, command: &StoreArgs) -> anyhow::Result<Exit> {
    let StoreCommand::Verify(command) = &command.command;
    let bar = global.spinner("reading everything");
    let looked = work::runtime()?.block_on(async {
        let store = command.store.open(global).await?;
        let report = store.verify().await?;
        anyhow::Ok((store.shown().to_owned(), report))
    });
    bar.finish_and_clear();
    let (shown, report) = looked?;
    let exit = if report.is_sound() { Exit::Done } else { Exit::Failed };
    let word = |severity: Severity| match severity {
        Severity::Damage => "damage",
        Severity::Waste => "waste",
    };
    if global.json {
        let finding = |finding: &longhaul::StoreFinding| {
            json!({ "severity": word(finding.severity), "component": finding.component, "check": finding.check,
                "what": finding.what, "advice": finding.advice })
        };
        let findings: Vec<_> = report.findings.iter().map(finding).collect();
        let object = json!({ "sound": report.is_sound(), "findings": findings, "omitted": report.omitted,
            "checks": report.checks, "blobs": report.blobs });
        print_line(&object.to_string())?;
        return Ok(exit);
    }
    let style = global.style();
    for finding in &report.findings {
        let (glyph, ink) = match finding.severity {
            Severity::Damage => (Glyph::Fail, Ink::Bad),
            Severity::Waste => (Glyph::Notice, Ink::Notice),
        };
        let what = style.paint(ink, word(finding.severity));
        print_line(&format!("{} {what} {}", style.glyph(glyph), style.fit_after(9, &finding.what)))?;
        print_line(&below(
            style,
            Some(Ink::Faint),
            &format!("should hold: {} ({})", finding.check, finding.component),
        ))?;
        print_line(&below(style, None, &format!("to do: {}", finding.advice)))?;
    }
    if report.omitted > 0 {
        print_line(&below(style, None, &format!("and {} more", report.omitted)))?;
    }
    let (glyph, outcome) = if report.is_sound() { (Glyph::Pass, "sound") } else { (Glyph::Fail, "damaged") };
    let extent = format!("{}, {}", count(report.checks, "check"), count(report.blobs, "blob"));
    print_line(&format!("{} {shown} is {outcome}: {extent}", style.glyph(glyph)))?;
    Ok(exit)
}

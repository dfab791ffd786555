//! `longhaul erase`: shows what would go, asks, erases over all owners, and gives the one receipt.

use std::io::{IsTerminal, Write, stderr, stdin};

use clap::Args;
use longhaul::{ErasureReceipt, Operator, Subject, memory_over};
use serde_json::json;

use super::{
    at_store::{StoreFlags, below},
    work,
};
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Glyph, Ink, print_line},
};

/// Erase whatever is left of a user, a task, a session or a subject, and get one receipt
///
/// X is user_…, task_…, sess_…, or what facts and records say they are about, such as customer:42. Erased are memories,
/// records with their contents, links, milestones, conversations, what executions recorded, events, and everything
/// derived from them; then the database is rewritten, so that no byte of it is left in its files. That takes as long as
/// copying the database, and nobody writes meanwhile. Executions that have not ended are not erased: end them first.
/// Cut short, say it again: it goes on with the same receipt. The receipt holds no content and no names; it says what is
/// not covered, such as backups.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul erase --subject user_ada --dry-run        how much that would be
  longhaul erase --subject customer:42
  longhaul erase --subject task_0192… --yes --json > receipt.json
  longhaul erase --receipts                          what was erased, and what was cut short")]
pub(crate) struct Erase {
    /// Whose traces
    #[arg(long, value_name = "X", required_unless_present = "receipts", conflicts_with = "receipts")]
    subject: Option<Subject>,
    /// Count what would go, and erase nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
    /// List the receipts of this tenant
    #[arg(long)]
    receipts: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Erase) -> anyhow::Result<Exit> {
    work::runtime()?.block_on(async {
        let operator = command.store.open(global).await?;
        match &command.subject {
            Some(subject) => erase(global, command, &operator, subject).await,
            None => list(global, &operator).await,
        }
    })
}

async fn erase(global: &Global, command: &Erase, operator: &Operator, subject: &Subject) -> anyhow::Result<Exit> {
    let memory = memory_over(operator.store(), &global.settings(None, &[])?)?;
    if command.dry_run || !command.yes {
        let counted = operator.erase(&memory, subject, true).await?;
        if command.dry_run {
            return tell(global, &counted);
        }
        ask(global, command, subject, &counted)?;
    }
    let receipt = operator.erase(&memory, subject, false).await?;
    tell(global, &receipt)
}

async fn list(global: &Global, operator: &Operator) -> anyhow::Result<Exit> {
    let receipts = operator.erasures().await?;
    if global.json {
        print_line(&serde_json::to_string(&receipts)?)?;
        return Ok(Exit::Done);
    }
    if receipts.is_empty() {
        print_line(&format!("nothing was erased in {}", operator.shown()))?;
    }
    for receipt in &receipts {
        let end = match receipt.erased_at {
            Some(at) => format!("at {} UTC", longhaul::moment(at.0)),
            None => "cut short: say it again".to_owned(),
        };
        print_line(&format!("{}  a {}, {}, {end}", receipt.id, receipt.asked, things(receipt.total())))?;
    }
    Ok(Exit::Done)
}

fn things(many: u64) -> String {
    if many == 1 { "1 thing".to_owned() } else { format!("{many} things") }
}

fn ask(global: &Global, command: &Erase, subject: &Subject, counted: &ErasureReceipt) -> anyhow::Result<()> {
    let many = things(counted.total());
    if !stdin().is_terminal() || global.json {
        let said = format!(
            "{many} of {subject} would be erased for good, and nobody is there to ask; look with --dry-run, then add --yes"
        );
        return Err(Refusal::because(Exit::Usage, said));
    }
    let mut err = stderr().lock();
    for (what, many) in &counted.erased {
        writeln!(err, "  {many} {what}")?;
    }
    write!(err, "erase {many} of {subject} in {} for good? [y/N] ", command.store.tenant())?;
    err.flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Refusal::because(Exit::Interrupted, "nothing was erased"))
}

fn tell(global: &Global, receipt: &ErasureReceipt) -> anyhow::Result<Exit> {
    if global.json {
        print_line(&json!(receipt).to_string())?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    let (glyph, line) = if receipt.dry_run {
        (Glyph::Notice, format!("{} would be erased; nothing was", things(receipt.total())))
    } else {
        (Glyph::Pass, format!("{} erased for good: {}", things(receipt.total()), receipt.id))
    };
    print_line(&format!("{} {line}", style.glyph(glyph)))?;
    for (what, many) in &receipt.erased {
        print_line(&below(style, None, &format!("{many} {what}")))?;
    }
    for pending in &receipt.pending {
        print_line(&below(style, Some(Ink::Notice), &format!("still to be done: {pending}")))?;
    }
    for what in &receipt.not_covered {
        print_line(&below(style, None, &format!("not covered: {what}")))?;
    }
    Ok(Exit::Done)
}

//! `longhaul cancel` and `longhaul retry`: ending an execution, and getting one to go on.

use clap::Args;
use longhaul::{Cancelled, Retried, Settlement};
use serde_json::json;

use super::{
    answer,
    at_store::{StoreFlags, below},
    executions, work,
};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, print_line},
};

/// End an execution for good
///
/// What it recorded stays; its waits are closed. A process that is at work on it ends it within a moment. Your
/// account's name and the reason are recorded.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul cancel order-17 --reason \"the customer changed their mind\"
  longhaul cancel exec_0192…")]
pub(crate) struct Cancel {
    /// The execution, its thread, or its entry in the queue
    #[arg(value_name = "EXECUTION|THREAD")]
    target: String,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "asked at the terminal")]
    reason: String,
    #[command(flatten)]
    store: StoreFlags,
}

/// Get an execution to go on; say what became of a half-done act
///
/// A failed execution goes on with its program's next run, at the step that failed; nothing recorded is done again.
/// One that workers have parked after too many failures is put back into their queue. Where a process died between beginning an act that must not happen twice and hearing of its outcome, nothing goes
/// on before a person has found out and said what happened: --happened with the step's result, or --did-not-happen.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul retry order-17          what is in the way, or how it goes on
  longhaul retry 'exec_0192…/pay/2/charge#1' --happened '{\"receipt\": 4711}'
  longhaul retry order-17 --did-not-happen
                                   where there is one such act: it may be retried")]
pub(crate) struct Retry {
    /// The execution, its thread, one of its steps, or its entry in the queue
    #[arg(value_name = "EXECUTION|THREAD|STEP")]
    target: String,
    /// The act took place; this is the step's result
    #[arg(long, value_name = "JSON", conflicts_with = "did_not_happen")]
    happened: Option<String>,
    /// The act did not take place; the step may run again
    #[arg(long)]
    did_not_happen: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Runs `cancel`.
pub(crate) fn cancel(global: &Global, command: &Cancel) -> anyhow::Result<Exit> {
    let cancelled = work::runtime()?.block_on(async {
        anyhow::Ok(command.store.open(global).await?.cancel(&command.target, &command.reason).await?)
    })?;
    let Cancelled { thread, view, next } = &cancelled;
    if global.json {
        print_line(
            &json!({ "thread": thread, "execution": view.as_ref().map(executions::object), "next": next }).to_string(),
        )?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    let done = view.as_ref().is_none_or(|view| view.execution.status.is_finished());
    let line = if done { "cancelled" } else { "to be cancelled" };
    let glyph = style.glyph(if done { Glyph::Pass } else { Glyph::Notice });
    print_line(&format!("{glyph} {thread} is {line}"))?;
    if let Some(view) = view {
        print_line(&below(style, None, view.execution.id.as_str()))?;
    }
    print_line(&below(style, None, next))?;
    Ok(Exit::Done)
}

/// Runs `retry`.
pub(crate) fn retry(global: &Global, command: &Retry) -> anyhow::Result<Exit> {
    let settlement = match &command.happened {
        Some(text) => Some(Settlement::Happened(answer::json(text, "--happened")?)),
        None => command.did_not_happen.then_some(Settlement::DidNotHappen),
    };
    let happened = command.happened.is_some();
    let retried = work::runtime()?
        .block_on(async { anyhow::Ok(command.store.open(global).await?.retry(&command.target, settlement).await?) })?;
    let Retried { thread, view, settled, requeued, ready, next } = &retried;
    let at_work = view.as_ref().is_some_and(|view| view.holder.is_some());
    let exit = if *ready || at_work { Exit::Done } else { Exit::Unfinished };
    if global.json {
        let execution = view.as_ref().map(executions::object);
        let object = json!({ "thread": thread, "execution": execution, "settled": settled, "requeued": requeued,
            "ready": ready, "next": next });
        print_line(&object.to_string())?;
        return Ok(exit);
    }
    let style = global.style();
    if let Some(step) = settled {
        let what = if happened { "recorded as happened" } else { "recorded as not happened; it may run again" };
        print_line(&format!("{} {}", style.glyph(Glyph::Pass), style.fit_after(2, &format!("{step}: {what}"))))?;
    }
    let place = view.as_ref().map_or_else(
        || "from its beginning".to_owned(),
        |view| format!("at superstep {}: {}", view.superstep + 1, view.next.join(", ")),
    );
    let (glyph, line) = match (*requeued, *ready) {
        (true, _) => (Glyph::Pass, format!("is in the queue again, {place}")),
        (false, true) => (Glyph::Pass, format!("is ready to go on {place}")),
        (false, false) if at_work => (Glyph::Session, "is at work".to_owned()),
        (false, false) => (Glyph::Notice, "cannot go on yet".to_owned()),
    };
    print_line(&format!("{} {}", style.glyph(glyph), style.fit_after(2, &format!("{thread} {line}"))))?;
    print_line(&below(style, None, &format!("next: {next}")))?;
    Ok(exit)
}

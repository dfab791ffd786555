//! `longhaul approve` and `longhaul reject`: a person's word on what waits.

use clap::Args;
use longhaul::{Answered, Decision, moment};
use serde_json::json;

use super::{
    at_store::{StoreFlags, below},
    waits, work,
};
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Glyph, print_line},
};

/// Say yes to what waits, or answer it with a value
///
/// A wait is answered once, by whoever comes first; the answer is recorded with your account's name. The same answer
/// given again by the same account is the same request, and changes nothing. A wait with a schema takes only what fits
/// it; a wrong answer is refused, and the wait stays open.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul approve wait_0192…      true, or {\"approved\": true} where that fits
  longhaul approve wait_0192… --note \"read it twice\"
  longhaul approve order-17        the one wait of this thread
  longhaul approve wait_0192… --value '{\"amount\": 12}'
  longhaul approve wait_0192… --value '\"yes\"'      a text needs its quotes")]
pub(crate) struct Approve {
    /// The wait, the beginning of its id, or a thread or execution on which one thing waits
    wait: String,
    /// The answer, as JSON [default: yes]
    #[arg(long, value_name = "JSON")]
    value: Option<String>,
    /// Kept in the log beside the answer
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    store: StoreFlags,
}

/// Say no to what waits
///
/// The execution goes on with that answer; to end it for good there is `longhaul cancel`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul reject wait_0192… --reason \"the second figure is wrong\"
  longhaul reject order-17         the one wait of this thread")]
pub(crate) struct Reject {
    /// The wait, the beginning of its id, or a thread or execution on which one thing waits
    wait: String,
    /// Kept in the log beside the answer, and part of it where the wait takes a reason
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    store: StoreFlags,
}

/// Runs `approve`.
pub(crate) fn approve(global: &Global, command: &Approve) -> anyhow::Result<Exit> {
    let decision = match &command.value {
        Some(text) => Decision::Value(json(text, "--value")?),
        None => Decision::Approve,
    };
    answer(global, &command.store, &command.wait, &decision, command.note.as_deref())
}

/// Runs `reject`.
pub(crate) fn reject(global: &Global, command: &Reject) -> anyhow::Result<Exit> {
    answer(global, &command.store, &command.wait, &Decision::Reject, command.reason.as_deref())
}

/// JSON of the command line, or where it is none.
pub(super) fn json(text: &str, flag: &str) -> anyhow::Result<serde_json::Value> {
    serde_json::from_str(text).map_err(|error| {
        let hint = if text.starts_with(['{', '[', '"']) {
            String::new()
        } else {
            format!("; a text needs quotes: {flag} '\"{text}\"'")
        };
        Refusal::because(Exit::Usage, format!("{flag} is not JSON: {error}{hint}"))
    })
}

fn answer(
    global: &Global,
    flags: &StoreFlags,
    wait: &str,
    decision: &Decision,
    note: Option<&str>,
) -> anyhow::Result<Exit> {
    let answered = work::runtime()?
        .block_on(async { anyhow::Ok(flags.open(global).await?.answer(wait, decision, note).await?) })?;
    let Answered { wait, thread, repeated, next } = &answered;
    if global.json {
        let object =
            json!({ "accepted": !repeated, "repeated": repeated, "wait": waits::object(wait, thread), "next": next });
        print_line(&object.to_string())?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    let value = wait.value.as_ref().map_or_else(String::new, ToString::to_string);
    let actor = wait.actor.as_deref().unwrap_or_default();
    let (glyph, line, told) = if *repeated {
        let at = wait.answered_at.map_or_else(String::new, |at| format!(" at {} UTC", moment(at.0)));
        let told = format!("{value}, by {actor}{at}; nothing was changed");
        (Glyph::Detail, format!("{:?} on {thread} was answered already", wait.name), told)
    } else {
        (Glyph::Pass, format!("{:?} on {thread} is answered", wait.name), format!("{value}, by {actor}"))
    };
    print_line(&format!("{} {}", style.glyph(glyph), style.fit_after(2, &line)))?;
    print_line(&below(style, None, &told))?;
    print_line(&below(style, None, &format!("next: {next}")))?;
    Ok(Exit::Done)
}

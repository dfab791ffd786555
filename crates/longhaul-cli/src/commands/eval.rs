//! `longhaul eval`: recorded executions as a regression gate.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use longhaul::{CASE_LIMIT, CaseResult, EvalReport, complete_case, file_name, replay::Redaction, run_cases};
use serde_json::json;

use super::{
    at_store::{StoreFlags, below},
    work,
};
use crate::{
    args::Global,
    exit::{Exit, Refusal},
    progress::{Glyph, Ink, Style, count, print_line},
};

/// Record executions as cases, and replay cases as a regression gate
#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    command: EvalCommand,
}

#[derive(Debug, Subcommand)]
enum EvalCommand {
    Record(Record),
    Run(Run),
}

/// Make a case file of an execution: input, every step's result, answers, checkpoints, events
///
/// Reads the store and changes nothing; the program that ran the execution is not needed. What the state was in the
/// end only the program knows: with --program the case is replayed once, which also shows that it can be. The file
/// holds whatever steps returned: look through it, and use --redact, before it leaves the machine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul eval record order-17 --to cases --store /var/lib/shop
  longhaul eval record exec_0192… --to cases --redact '/executions/*/steps/*/result/token'
  longhaul eval record order-17 --to cases --program ./target/debug/shop")]
struct Record {
    /// The execution, or the thread whose newest it is
    #[arg(value_name = "EXECUTION|THREAD")]
    id: String,
    /// The folder of cases
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// What the case is called [default: the graph and the thread]
    #[arg(long)]
    name: Option<String>,
    /// Replace what is at this JSON pointer of the file, and the same text everywhere; * is any key
    #[arg(long, value_name = "PATH")]
    redact: Vec<String>,
    #[command(flatten)]
    store: StoreFlags,
    /// The program that has the graph; everything behind it is its arguments
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    program: Vec<String>,
}

/// Run the cases of a folder, or one case file; exits with 1 unless all pass
///
/// With --program, each case is replayed by that program with every effect stubbed by its recorded result: the same
/// checkpoints, waits and events must come of it, and the criteria in the file must hold. Without, only the criteria
/// are checked, against what was recorded. Nothing outside is called either way. See docs/evaluation.md.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul eval run cases --program ./target/debug/shop
  longhaul eval run cases --report report.html --program cargo run -q --example approval
  longhaul eval run cases/order-17.json --json    its criteria only")]
struct Run {
    /// A folder of case files, or one
    #[arg(value_name = "DIR|FILE")]
    cases: PathBuf,
    /// Also write a report: HTML where the name ends so, Markdown otherwise
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
    /// The program that has the graphs; everything behind it is its arguments
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    program: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &EvalArgs) -> anyhow::Result<Exit> {
    match &command.command {
        EvalCommand::Record(command) => record(global, command),
        EvalCommand::Run(command) => run_all(global, command),
    }
}

fn record(global: &Global, command: &Record) -> anyhow::Result<Exit> {
    let redaction = command.redact.iter().fold(Redaction::none(), |redaction, path| redaction.path(path));
    let made = work::runtime()?.block_on(async {
        let store = command.store.open(global).await?;
        anyhow::Ok(store.record_case(&command.id, &redaction).await?)
    });
    let mut case = made?;
    if let Some(name) = &command.name {
        case.name.clone_from(name);
    }
    let path = free(&command.to, &file_name(&case.name))?;
    let replayed = match command.program.as_slice() {
        [] => None,
        program => Some(complete_case(&mut case, program, CASE_LIMIT)?),
    };
    case.write(&path).map_err(|error| Refusal::because(Exit::Failed, chain(&error)))?;
    let exit = if replayed.as_ref().is_none_or(|replayed| replayed.passes) { Exit::Done } else { Exit::Failed };
    let steps: usize = case.executions.iter().map(|execution| execution.steps.len()).sum();
    if global.json {
        let object = json!({ "path": path, "name": case.name, "steps": steps, "events": case.events.len(),
            "redacted": case.redacted, "replayed": replayed });
        print_line(&object.to_string())?;
        return Ok(exit);
    }
    let style = global.style();
    print_line(&format!("{} {}", style.glyph(Glyph::Pass), path.display()))?;
    let supersteps = case.root().last_superstep();
    let extent =
        [count(supersteps, "superstep"), count(steps as u64, "step"), count(case.events.len() as u64, "event")]
            .join(", ");
    print_line(&below(style, None, &format!("{}: {extent}, {}", case.name, case.root().end.status)))?;
    if case.redacted > 0 {
        print_line(&below(style, None, &format!("{} replaced", count(case.redacted, "value"))))?;
    }
    if let Some(replayed) = &replayed {
        for line in lines(style, replayed) {
            print_line(&line)?;
        }
    }
    Ok(exit)
}

/// A file of this name that is not there yet: recording overwrites nothing.
fn free(dir: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = dir.join(name);
    if path.exists() {
        let message = format!("{} is there already: give --name, or remove it", path.display());
        return Err(Refusal::because(Exit::Usage, message));
    }
    Ok(path)
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn run_all(global: &Global, command: &Run) -> anyhow::Result<Exit> {
    let style = global.style();
    let program = (!command.program.is_empty()).then_some(command.program.as_slice());
    let mut told = Vec::new();
    let report = run_cases(&command.cases, program, CASE_LIMIT, |case| {
        if !global.json {
            told.push(lines(style, case).into_iter().try_for_each(|line| print_line(&line)));
        }
    })?;
    told.into_iter().collect::<Result<Vec<()>, _>>()?;
    for path in &command.report {
        report.write(path)?;
    }
    let exit = if report.passes() { Exit::Done } else { Exit::Failed };
    if global.json {
        print_line(&serde_json::to_string_pretty(&report)?)?;
        return Ok(exit);
    }
    print_line(&summary(style, &report))?;
    if program.is_none() {
        let hint = "only criteria were checked: --program CMD replays the cases with the graphs of CMD";
        print_line(&below(style, Some(Ink::Faint), hint))?;
    }
    Ok(exit)
}

fn summary(style: Style, report: &EvalReport) -> String {
    let glyph = if report.passes() { Glyph::Pass } else { Glyph::Fail };
    format!("{} {} of {} pass", style.glyph(glyph), report.passed(), count(report.cases.len() as u64, "case"))
}

fn lines(style: Style, case: &CaseResult) -> Vec<String> {
    let glyph = if case.passes { Glyph::Pass } else { Glyph::Fail };
    let compared = style.paint(Ink::Faint, &format!("{}, {} ms", case.compared(), case.elapsed_ms));
    let mut lines = vec![format!("{} {}  {compared}", style.glyph(glyph), case.name)];
    if let Some(difference) = &case.difference {
        lines.push(below(style, Some(Ink::Bad), &difference.place));
        lines.push(format!("    expected {}", style.fit_after(13, &difference.expected)));
        lines.push(format!("    found    {}", style.fit_after(13, &difference.found)));
    }
    let skip = case.difference.as_ref().map(ToString::to_string);
    for (bad, line) in case.lines().into_iter().filter(|(_, line)| Some(line) != skip.as_ref()) {
        lines.push(below(style, Some(if bad { Ink::Bad } else { Ink::Faint }), &line));
    }
    lines
}

//! `longhaul context`: what a model would be given to read before it works on a goal, and what was left out.

use clap::Args;
use longhaul::{
    Packing, TaskId,
    memory::Namespace,
    workspace::context::{ContextPack, Found, PackItem},
};

use super::memory::place::{Model, PlaceFlags};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Ink, Style, print_line},
};

/// Gather what is kept for a goal, within a budget of tokens
///
/// Searches the records of a task (or of all your tasks), the conversation that asked for it and what is remembered,
/// follows links and versions, and chooses by a profile. Prints the chosen items best first, then what was left out and
/// why. --render prints the text exactly as a model would be given it. Changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul context \"revise the report after the latest approval comments\" --task task_01a2 --profile document_review
  longhaul context \"why did we choose PostgreSQL\" --budget 4000
  longhaul context \"接下来做什么\" --task task_01a2 --render | less
  longhaul context \"the vendor's risks\" --json | jq '.omitted[] | {id, reason}'

Profiles: auto, software_dev, document_review, research, and your own: docs/workspace.md#profiles")]
pub(crate) struct Context {
    /// What is to be done, in any language
    #[arg(value_name = "GOAL")]
    goal: String,
    /// Of which task [default: all of yours]
    #[arg(long, short, value_name = "TASK")]
    task: Option<TaskId>,
    /// The most tokens of the rendered pack [default: context.budget_tokens, 12000]
    #[arg(long, short, value_name = "N")]
    budget: Option<u64>,
    /// What it is to consist of [default: context.profile, auto]
    #[arg(long, short, value_name = "PROFILE")]
    profile: Option<String>,
    /// A part of memory to search instead of main; may be given several times
    #[arg(long, short, value_name = "NAME")]
    namespace: Vec<Namespace>,
    /// Print the text that a model would be given, and nothing else
    #[arg(long, conflicts_with = "json")]
    render: bool,
    #[command(flatten)]
    place: PlaceFlags,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Context) -> anyhow::Result<Exit> {
    super::work::runtime()?.block_on(work(global, command))
}

async fn work(global: &Global, command: &Context) -> anyhow::Result<Exit> {
    let memories = command.place.open(global, Model::Wanted, false).await?;
    let packing = Packing {
        goal: command.goal.clone(),
        task: command.task.clone(),
        budget_tokens: command.budget,
        profile: command.profile.clone(),
        namespaces: command.namespace.clone(),
    };
    let pack = memories.pack(&packing).await?;
    if global.json {
        print_line(&serde_json::to_string(&pack)?)?;
        return Ok(Exit::Done);
    }
    if command.render {
        print_line(&pack.render())?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    for line in lines(style, &pack) {
        print_line(&line)?;
    }
    Ok(Exit::Done)
}

fn lines(style: Style, pack: &ContextPack) -> Vec<String> {
    let mut lines: Vec<String> = pack.items.iter().map(|item| item_line(style, item)).collect();
    for of in &pack.omitted {
        let text = format!("left out  {}  {}{}{}", of.id, one_line(&of.summary), style.dot(), of.reason);
        lines.push(style.paint(Ink::Faint, &style.fit_after(0, &text)));
    }
    let ms = format!("{}.{} ms", pack.elapsed_us / 1_000, pack.elapsed_us % 1_000 / 100);
    let parts = [
        format!("{} items", pack.items.len()),
        format!("{} of {} tokens ({})", pack.used_tokens, pack.budget_tokens, pack.counted_by),
        format!("profile {}", pack.profile),
        ms,
    ];
    lines.push(style.paint(Ink::Faint, &style.fit_after(0, &parts.join(style.dot()))));
    let notes = pack.notes.iter().map(|note| format!("{} {}", style.glyph(Glyph::Notice), style.fit_after(2, note)));
    lines.extend(notes);
    lines
}

fn item_line(style: Style, item: &PackItem) -> String {
    let found = match &item.score.found {
        Found::Search => String::new(),
        Found::Recent => "  new".to_owned(),
        Found::Link { relation, of } => format!("  {relation} {of}"),
        Found::Newest { of } => format!("  in place of {of}"),
    };
    let cut = if item.whole { "" } else { ", cut" };
    let text = format!(
        "{:.2}  {:>5}  {}  {} from {}  {}{found}{cut}",
        item.score.total,
        item.tokens,
        item.id,
        item.kind,
        one_line(item.label.as_str()),
        one_line(&item.summary)
    );
    style.fit_after(0, &text)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().filter(|c| !c.is_control()).collect()
}

//! `longhaul tail`: what happens to a task, while it happens.

use clap::Args;
use longhaul::{TaskEvent, harmless, moment};

use super::{at_store::StoreFlags, work};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Ink, Style, print_line},
};

/// Follow what happens to a task, live, whichever process does it
///
/// Business events only, in the order of the log. Ends when all of its executions have ended; --follow waits for what
/// comes then. Interrupted, it tells where to go on. With --json, one object per line.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul tail order-17
  longhaul tail task_0192… --after 4711 --json      go on where one stopped
  longhaul tail ~/recipes --follow")]
pub(crate) struct Tail {
    /// The task
    task: String,
    /// Begin behind this number of the log
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: i64,
    /// Do not end with the executions
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Tail) -> anyhow::Result<Exit> {
    work::runtime()?.block_on(async {
        let store = command.store.open(global).await?;
        let mut tail = store.tail(&command.task, command.after, command.follow).await?;
        let mut signals = work::Signals::listen()?;
        let style = global.style();
        loop {
            tokio::select! {
                biased;
                () = signals.next() => {
                    let (task, after, flags) = (&command.task, tail.position(), store.flags());
                    eprintln!("longhaul: go on with: longhaul tail {task} --after {after}{flags}");
                    return Ok(Exit::Interrupted);
                }
                event = tail.next() => match event? {
                    Some(event) if global.json => print_line(&serde_json::to_string(&event)?)?,
                    Some(event) => print_line(&line(style, &event)?)?,
                    None => return Ok(Exit::Done),
                }
            }
        }
    })
}

fn line(style: Style, event: &TaskEvent) -> anyhow::Result<String> {
    let told = serde_json::to_value(&event.event)?;
    let kind = told["kind"].as_str().filter(|_| told["type"] == "custom").or(told["type"].as_str()).unwrap_or_default();
    let data = if told["type"] == "custom" { &told["data"] } else { &told };
    let parts = data.as_object().into_iter().flatten().filter(|(name, value)| *name != "type" && !value.is_null());
    let parts: Vec<String> = parts
        .map(|(name, value)| format!("{name} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect();
    let number = style.paint(Ink::Faint, &format!("{:>6} {}", event.seq, moment(event.at.0)));
    let text = harmless(&parts.join(", ")).replace(['\n', '\t'], " ");
    Ok(format!("{number} {} {}", style.paint(Ink::Strong, kind), style.fit_after(25 + kind.len(), &text)))
}

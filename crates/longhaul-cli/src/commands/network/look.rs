//! What a network that is served does: its state, its agents, its events, all of it live.

use std::{collections::HashMap, time::Duration};

use clap::Args;
use longhaul::{moment, network::Operating};
use serde_json::Value;
use tokio::time::Instant;

use super::{super::work, Folder};
use crate::{
    args::Global,
    exit::Exit,
    progress::{Ink, Style, count, duration, print_line},
};

/// How long a held look at the log waits.
const HELD: Duration = Duration::from_secs(5);

/// How a network stands that is being served
#[derive(Debug, Args)]
pub(super) struct Status {
    #[command(flatten)]
    folder: Folder,
}

/// Who is in it: group, presence, transport, what waits for each
#[derive(Debug, Args)]
pub(super) struct Agents {
    #[command(flatten)]
    folder: Folder,
}

/// Its events, whoever they are for
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul network events research --last 50
  longhaul network events research --follow --json | jq -r .event_name")]
pub(super) struct Events {
    #[command(flatten)]
    folder: Folder,
    /// Go on with what comes
    #[arg(short, long)]
    follow: bool,
    /// How many of the last ones
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    last: u32,
    /// Begin behind this number of its log
    #[arg(long, value_name = "N", conflicts_with = "last")]
    after: Option<i64>,
}

/// Events a second and busy agents, live
#[derive(Debug, Args)]
pub(super) struct Top {
    #[command(flatten)]
    folder: Folder,
    /// Seconds between looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    /// Look so often, then end; without end if nothing is said
    #[arg(long, value_name = "N")]
    times: Option<u32>,
}

pub(super) async fn status(global: &Global, command: &Status) -> anyhow::Result<Exit> {
    let network = Operating::of(&command.folder.dir).await?;
    let status = network.status().await;
    let served = network.served().clone();
    network.leave().await;
    let status = status?;
    if global.json {
        print_line(&status.to_string())?;
        return Ok(Exit::Done);
    }
    let style = global.style();
    let name = text(&status, "network_name");
    print_line(&format!("{} is served by process {}", style.paint(Ink::Strong, name), served.pid))?;
    print_line(&format!("  at       {}", served.url))?;
    for address in served.grpc.iter().chain(&served.libp2p) {
        print_line(&format!("           {address}"))?;
    }
    let up = status["uptime_seconds"].as_f64().unwrap_or(0.0).max(0.0);
    print_line(&format!("  since    {}", duration(Duration::from_secs_f64(up).as_millis() as u64)))?;
    let (agents, present) = (number(&status, "agent_count"), number(&status, "agents_present"));
    let (channels, events) = (count(number(&status, "channel_count"), "channel"), number(&status, "head"));
    let dot = style.dot();
    print_line(&format!("  agents   {agents}{dot}{present} present{dot}{channels}{dot}event {events}"))?;
    let mods: Vec<&str> = status["mods"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    print_line(&format!("  mods     {}", mods.join(", ")))?;
    Ok(Exit::Done)
}

pub(super) async fn agents(global: &Global, command: &Agents) -> anyhow::Result<Exit> {
    let network = Operating::of(&command.folder.dir).await?;
    let status = network.status().await;
    network.leave().await;
    for agent in status?["agents"].as_array().into_iter().flatten() {
        let line = if global.json { agent.to_string() } else { agent_line(global.style(), agent) };
        print_line(&line)?;
    }
    Ok(Exit::Done)
}

fn agent_line(style: Style, agent: &Value) -> String {
    let present = agent["connected"] == true;
    let mark = style.paint(if present { Ink::Good } else { Ink::Faint }, if present { "here" } else { "away" });
    let waits = match number(agent, "queued") {
        0 => String::new(),
        queued => format!("{}{queued} waiting", style.dot()),
    };
    let sent = number(agent, "sent");
    format!(
        "{mark}  {:<24} {:<12} {:<9} {sent} sent{waits}",
        style.fit(text(agent, "agent_id"), 24),
        style.fit(text(agent, "agent_group"), 12),
        text(agent, "transport_type"),
    )
}

pub(super) async fn events(global: &Global, command: &Events) -> anyhow::Result<Exit> {
    let network = Operating::of(&command.folder.dir).await?;
    let mut signals = work::Signals::listen()?;
    let (mut after, style) = (command.after, global.style());
    let wait = if command.follow { HELD } else { Duration::ZERO };
    let mut last = command.last;
    let ended = loop {
        tokio::select! {
            biased;
            () = signals.next() => break Ok(Exit::Interrupted),
            found = network.events(after, last, wait) => match found {
                Ok((events, cursor)) => {
                    for event in &events {
                        print_line(&if global.json { event.to_string() } else { event_line(style, event) })?;
                    }
                    (after, last) = (Some(cursor), 0);
                    // One page is at most as long as the limit: a look back ends with a page that is not full.
                    if !command.follow && events.len() < 500 {
                        break Ok(Exit::Done);
                    }
                }
                Err(error) => break Err(error.into()),
            }
        }
    };
    network.leave().await;
    if let (Ok(Exit::Interrupted), Some(after)) = (&ended, after) {
        eprintln!("longhaul: go on with: longhaul network events {} --after {after}", command.folder.dir.display());
    }
    ended
}

fn event_line(style: Style, event: &Value) -> String {
    let at = event["timestamp_ms"].as_i64().unwrap_or(0);
    let head = format!(
        "{:>7}  {}  {} → {}  {}",
        number(event, "seq"),
        moment(at),
        text(event, "source_id"),
        text(event, "destination_id"),
        style.paint(Ink::Strong, text(event, "event_name")),
    );
    let said = event["payload"]["content"]["text"].as_str().or_else(|| event["payload"]["text"].as_str());
    match said {
        Some(said) => format!("{head}  {}", style.fit(said, 80)),
        None => head,
    }
}

pub(super) async fn top(global: &Global, command: &Top) -> anyhow::Result<Exit> {
    let network = Operating::of(&command.folder.dir).await?;
    let mut signals = work::Signals::listen()?;
    let mut before: Option<(Instant, u64, HashMap<String, u64>)> = None;
    let mut ticks = tokio::time::interval(Duration::from_secs(command.every));
    let mut looks = 0;
    let ended = loop {
        tokio::select! {
            biased;
            () = signals.next() => break Ok(Exit::Done),
            _ = ticks.tick() => {}
        }
        let status = match network.status().await {
            Ok(status) => status,
            Err(error) => break Err(error.into()),
        };
        let sent: HashMap<String, u64> = status["agents"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|agent| (text(agent, "agent_id").to_owned(), number(agent, "sent")))
            .collect();
        let (now, head) = (Instant::now(), number(&status, "head"));
        if let Some((then, head_then, sent_then)) = &before {
            let seconds = now.duration_since(*then).as_secs_f64();
            let busy = |agent: &str| sent[agent].saturating_sub(sent_then.get(agent).copied().unwrap_or(0));
            show(global, &status, seconds, head.saturating_sub(*head_then), busy)?;
            looks += 1;
        }
        if command.times.is_some_and(|times| looks >= times) {
            break Ok(Exit::Done);
        }
        before = Some((now, head, sent));
    };
    network.leave().await;
    ended
}

fn show(global: &Global, status: &Value, seconds: f64, events: u64, busy: impl Fn(&str) -> u64) -> anyhow::Result<()> {
    let per_second = |events: u64| (events as f64 / seconds.max(0.001) * 10.0).round() / 10.0;
    let mut agents: Vec<(u64, &Value)> =
        status["agents"].as_array().into_iter().flatten().map(|agent| (busy(text(agent, "agent_id")), agent)).collect();
    agents.sort_by_key(|(sent, agent)| std::cmp::Reverse((*sent, number(agent, "queued"))));
    if global.json {
        let busiest: Vec<Value> = agents
            .iter()
            .map(|(sent, agent)| {
                serde_json::json!({
                    "agent_id": agent["agent_id"], "sent_per_second": per_second(*sent), "queued": agent["queued"],
                })
            })
            .collect();
        let line = serde_json::json!({
            "events_per_second": per_second(events), "present": status["agents_present"], "agents": busiest,
        });
        return Ok(print_line(&line.to_string())?);
    }
    let style = global.style();
    let rate = style.paint(Ink::Strong, &format!("{} events/s", per_second(events)));
    print_line(&format!("{rate}{}{} present", style.dot(), number(status, "agents_present")))?;
    for (sent, agent) in agents.into_iter().filter(|(sent, agent)| *sent > 0 || number(agent, "queued") > 0).take(10) {
        let (name, queued) = (style.fit(text(agent, "agent_id"), 24), number(agent, "queued"));
        print_line(&format!("  {name:<24} {:>8} sent/s {queued:>7} waiting", per_second(sent)))?;
    }
    Ok(())
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

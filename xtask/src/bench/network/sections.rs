//! The rows, section by section.

use std::{process::Command, time::Duration};

use anyhow::Context;
use serde_json::Value;

use super::{Bar, Row, Stage, figure, row, servers::Network};
use crate::bench::median;

const DIRECT: [(&str, &str); 2] = [("senders", "10"), ("events", "2000")];
const DIRECT_OF_THEIRS: [(&str, &str); 2] = [("senders", "10"), ("events", "200")];

/// How soon it answers, and what it takes while nothing happens.
pub(super) fn start(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let started = stage.in_turn(|network| Ok(network.started_ms))?;
    let idle = stage.in_turn(|network| {
        // What the start needed is given back by then.
        std::thread::sleep(Duration::from_secs(2));
        network.resident_mb()
    })?;
    Ok(vec![
        row("start of the program to its first answer, all transports", "ms", started, Bar::AtMost(100.0)),
        row("resident memory, idle, all transports", "MB", idle, Bar::AtMost(40.0)),
    ])
}

/// Events a second, durable before the answer.
pub(super) fn speed(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let of = |network: &Network| if network.is_ours() { DIRECT } else { DIRECT_OF_THEIRS };
    let direct = stage
        .in_turn(|network| figure(&stage.load("direct", &network.address.to_string(), &of(network))?, "per_second"))?;
    let mut bare = Vec::new();
    let network = Network::start(&stage.sides()[0])?;
    stage.load("direct", &network.address.to_string(), &DIRECT)?;
    for _ in 0..stage.rounds {
        let database = network.database()?;
        let database = database.to_str().context("its path is not UTF-8")?;
        bare.push(figure(&stage.load("bare", database, &[("rows", "20000")])?, "per_second")?);
    }
    drop(network);
    let channel = stage.in_turn(|network| {
        let events = if network.is_ours() { "1000" } else { "100" };
        let flags = [("senders", "10"), ("members", "10"), ("events", events)];
        figure(&stage.load("channel", &network.address.to_string(), &flags)?, "per_second")
    })?;
    let what = "direct events, 10 senders, on the disk before the answer";
    Ok(vec![
        row(what, "per s", direct, Bar::RatioAtLeast(10.0)),
        Row::new(format!("{what}, against the bare driver"), "per s", direct.0)
            .peer("the same rows by the bare driver, ten a commit", median(bare))
            .bar(Bar::RatioAtLeast(0.4)),
        row("channel posts, 10 senders, until 10 members have them", "per s", channel, Bar::AtLeast(2_000.0)),
    ])
}

/// From just before the request to the receiver's having it.
pub(super) fn latency(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, bar) in [("p50_ms", 1.0), ("p99_ms", 5.0)] {
        let both = stage.in_turn(|network| figure(&stage.load("latency", &network.address.to_string(), &[])?, name))?;
        let what = format!("delivery of a direct event, {}", name.trim_end_matches("_ms"));
        rows.push(row(&what, "ms", both, Bar::AtMost(bar)).note("ours: a held poll; theirs: a poll every 5 ms"));
    }
    Ok(rows)
}

/// The reference's own agents, unmodified, on either server.
pub(super) fn sdk(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let environment = stage.reference.as_ref().context("the reference's SDK could not be had here")?;
    let script = stage.root.join("xtask/src/bench/peers/openagents_latency.py");
    let measure = |network: &Network| -> anyhow::Result<Value> {
        let mut command = Command::new(environment.join("bin/python"));
        command.arg(&script).arg(network.address.port().to_string()).arg("200").env("HOME", network.folder());
        let output = command.output().context("the SDK's agents")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(text.lines().last().unwrap_or_default())
            .with_context(|| format!("the SDK's agents: {text}{}", String::from_utf8_lossy(&output.stderr)))
    };
    let mut figures = Vec::new();
    for side in stage.sides() {
        figures.push(measure(&Network::start(&side)?)?);
    }
    let both = |name: &str| -> anyhow::Result<(f64, Option<f64>)> {
        Ok((figure(&figures[0], name)?, figures.get(1).map(|theirs| figure(theirs, name)).transpose()?))
    };
    let note =
        "200 direct messages at random phases between unmodified agents over HTTP; what remains is their own loop";
    Ok(vec![
        row("SDK agent to SDK agent, one way, p50", "ms", both("p50_ms")?, Bar::AtMost(550.0)).note(note),
        row("SDK agent to SDK agent, one way, longest", "ms", both("max_ms")?, Bar::AtMost(1_100.0)),
    ])
}

/// SIGKILL under load.
pub(super) fn kill(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let (mut lost, mut answered, mut going_on, mut senders) = (0.0, 0.0, 0.0, 0.0);
    for round in 0..stage.rounds {
        let network = Network::start(&stage.sides()[0])?;
        let (address, file) = (network.address.to_string(), network.folder().join("answered.json"));
        let file = file.to_str().context("its path is not UTF-8")?.to_owned();
        let load = stage.loading("acked", &address, &[("file", &file)])?;
        std::thread::sleep(Duration::from_millis(700 + 400 * round as u64));
        let network = network.kill_and_restart()?;
        load.ended()?;
        let figures = stage.load("missed", &address, &[("file", &file)])?;
        lost += figure(&figures, "lost")?;
        answered += figure(&figures, "answered")?;
        going_on += figure(&figures, "going_on")?;
        senders += figure(&figures, "senders")?;
        drop(network);
    }
    Ok(vec![
        Row::new("answered events that never arrive after kill -9", "events", lost)
            .bar(Bar::AtMost(0.0))
            .note(format!("of {answered} in {} kills; the reference loses 17 of 70", stage.rounds)),
        Row::new("agents that go on without registering again", "share", going_on / senders.max(1.0))
            .bar(Bar::AtLeast(1.0)),
    ])
}

/// Many agents, and a long history.
pub(super) fn many(stage: &Stage) -> anyhow::Result<Vec<Row>> {
    let network = Network::start(&stage.sides()[0])?;
    let address = network.address.to_string();
    let filled = stage.load("fill", &address, &[("events", &stage.messages.to_string())])?;
    let idle = stage.loading("idle", &address, &[("agents", "1000")])?;
    std::thread::sleep(Duration::from_secs(2));
    let resident = network.resident_mb()?;
    drop(idle);
    let stored = figure(&filled, "stored")?;
    Ok(vec![
        Row::new(format!("list of a channel with {stored} messages"), "ms", figure(&filled, "list_ms")?)
            .bar(Bar::AtMost(5.0)),
        Row::new(format!("resident memory, 1,000 agents waiting, {stored} messages stored"), "MB", resident)
            .bar(Bar::AtMost(300.0)),
    ])
}

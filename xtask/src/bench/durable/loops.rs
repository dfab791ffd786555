//! Supersteps one after another: alone, on many threads, and side by side in one fan-out; with the disk's floor that
//! every durable number is to be read against.

use anyhow::Context;
use serde_json::Value;

use super::{Bar, Row, Stage, median, middle, peers::values};

const LANGGRAPH: &str = "LangGraph";
/// Below this many commits a second the disk, not the program, decides how many times faster than a peer we are.
const FLOOR_MIN: f64 = 6_000.0;

pub(super) fn floor(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let floors = asked(stage, &["floor"])?;
    Ok(vec![
        Row::new(
            "the disk's floor: SQLite WAL FULL, one row of 500 B a commit",
            "commits/s",
            middle(&floors, "commits_s")?,
        ),
        Row::new("the disk's floor: append of 500 B and fdatasync", "/s", middle(&floors, "fdatasync_s")?),
    ])
}

fn asked(stage: &Stage<'_>, args: &[&str]) -> anyhow::Result<Vec<Value>> {
    (0..stage.rounds).map(|_| stage.ours.ask(args)).collect()
}

/// Measures one peer once.
type Peer<'a> = &'a dyn Fn() -> Result<String, String>;

/// Answers of ours and outputs of some peers, taken in turn.
struct Turns {
    ours: Vec<Value>,
    theirs: Vec<Result<Vec<String>, String>>,
}

impl Turns {
    fn take(stage: &Stage<'_>, args: &[&str], peers: &[Peer<'_>]) -> anyhow::Result<Self> {
        let mut turns = Self { ours: Vec::new(), theirs: peers.iter().map(|_| Ok(Vec::new())).collect() };
        for _ in 0..stage.rounds {
            turns.ours.push(stage.ours.ask(args)?);
            for (peer, outputs) in peers.iter().zip(&mut turns.theirs) {
                let Ok(so_far) = outputs else { continue };
                match peer() {
                    Ok(output) => so_far.push(output),
                    Err(why) => *outputs = Err(why),
                }
            }
        }
        Ok(turns)
    }

    fn ours(&self, name: &str) -> anyhow::Result<Option<f64>> {
        middle(&self.ours, name)
    }

    /// Puts the middle value of one of the peers into the row, or the reason why there is none.
    fn beside(&self, row: Row, which: usize, peer: &str, name: &str) -> Row {
        match &self.theirs[which] {
            Ok(outputs) => row.peer(peer, median(outputs.iter().flat_map(|output| values(output, name)).collect())),
            Err(why) => row.peer(peer, None).note(why),
        }
    }
}

pub(super) fn rows(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let plain = |mode: &str, peer_mode: &str| {
        Turns::take(stage, &["loop", mode, "20000"], &[&|| stage.peers.langgraph("a_loop.py", &[peer_mode, "1000"])])
    };
    let (none, memory) = (plain("none", "none")?, plain("memory", "mem")?);
    let row = |what: &str, turns: &Turns, most: f64| {
        let row = Row::new(what, "µs", turns.ours("cpu_us")?).bar(Bar::AtMost(most));
        anyhow::Ok(turns.beside(row, 0, LANGGRAPH, "cpu_us/step="))
    };
    let mut rows = vec![
        row("loop, no checkpointer: CPU a superstep", &none, 4.0)?,
        row("loop, in memory: CPU a superstep", &memory, 10.0)?,
    ];
    rows.extend(durable(stage)?);
    Ok(rows)
}

/// SQLite FULL against the bare driver, and against three peers in the same minutes.
fn durable(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let langgraph = || stage.peers.langgraph("a_loop.py", &["sqlite", "1000", "sync"]);
    let restate = || super::restate::steps_per_second(&stage.peers);
    let dbos = || stage.peers.dbos();
    let turns = Turns::take(stage, &["loop", "sqlite", "4000"], &[&langgraph, &restate, &dbos])?;
    let ours = turns.ours("steps_s")?;
    let floor = turns.ours("floor_s")?.context("no floor was measured")?;
    let only_if = |row: Row| {
        if floor >= FLOOR_MIN {
            return row.note(format!("the floor in these minutes: {floor:.0} commits/s"));
        }
        row.exempt(format!("promised where the floor is ≥ {FLOOR_MIN} commits/s; in these minutes it is {floor:.0}"))
    };
    let speed = |which: usize, peer: &str, times: f64| {
        let row = Row::new(format!("loop, SQLite FULL: supersteps a second against {peer}"), "/s", ours);
        only_if(turns.beside(row.bar(Bar::RatioAtLeast(times)), which, peer, "steps/s="))
    };
    let cpu = Row::new("loop, SQLite FULL: CPU a superstep", "µs", turns.ours("cpu_us")?).bar(Bar::RatioAtMost(0.2));
    Ok(vec![
        Row::new("loop, SQLite FULL: supersteps a second against a bare driver loop", "/s", ours)
            .peer("rusqlite writing the same rows, in turn, same process", turns.ours("bare_steps_s")?)
            .bar(Bar::RatioAtLeast(0.8)),
        turns.beside(cpu, 0, LANGGRAPH, "cpu_us/step="),
        speed(0, LANGGRAPH, 4.0),
        speed(1, "Restate", 4.0),
        speed(2, "DBOS", 7.0),
    ])
}

pub(super) fn threads(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let answers = asked(stage, &["threads", "64", "400"])?;
    let speed = middle(&answers, "steps_s")?;
    let what = "64 concurrent threads, SQLite FULL: supersteps a second";
    Ok(vec![
        Row::new(what, "/s", speed)
            .peer("the single-thread commit floor", middle(&answers, "floor_s")?)
            .bar(Bar::RatioAtLeast(2.0)),
        Row::new(what, "/s", speed).bar(Bar::AtLeast(12_000.0)),
    ])
}

pub(super) fn fanout(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (mode, peer_mode, what, most) in [
        ("memory", "mem", "fan-out of 1,000, in memory", 10.0),
        ("sqlite", "sqlite", "fan-out of 1,000, SQLite FULL", 40.0),
    ] {
        let langgraph = || stage.peers.langgraph("b_fanout.py", &[peer_mode, "1000", "sync"]);
        let turns = Turns::take(stage, &["fanout", "1000", mode], &[&langgraph])?;
        let row = Row::new(what, "ms", turns.ours("ms")?).bar(Bar::AtMost(most));
        let cpu = turns.ours("cpu_ms")?.unwrap_or_default();
        rows.push(turns.beside(row, 0, LANGGRAPH, "best=").note(format!("{cpu:.1} ms CPU")));
    }
    Ok(rows)
}

//! LangGraph's own bench workloads in its sizes, on the installed package and on ours, a workload at a time in turn.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use anyhow::Context;

use super::{Bar, Row, Stage, median, number};

/// Name, and whether it comes with the in-memory checkpointer as well.
const WORKLOADS: &[(&str, bool)] = &[
    ("fanout:10", true),
    ("fanout:100", true),
    ("react:10", true),
    ("react:100", true),
    ("wide_state:25:300", true),
    ("wide_state:15:600", true),
    ("wide_state:9:1200", true),
    ("wide_dict:25:300", true),
    ("wide_dict:15:600", true),
    ("wide_dict:9:1200", true),
    ("sequential:10", false),
    ("sequential:1000", false),
];

/// With the in-memory checkpointer.
const SAVER: &str = ":saver";

const SCRIPT: &str = "xtask/src/bench/peers/langgraph_workloads.py";

pub(super) fn rows(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let names: Vec<String> = WORKLOADS
        .iter()
        .flat_map(|(name, saver)| std::iter::once((*name).to_owned()).chain(saver.then(|| format!("{name}{SAVER}"))))
        .collect();
    let mut theirs = Theirs::start(stage, stage.root);
    let mut rows = Vec::new();
    let mut worst: Option<(f64, String)> = None;
    for name in names {
        let (mut ours, mut peer, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..stage.rounds {
            ours.push(number(&stage.ours.ask(&["workload", &name])?, "ms")?);
            let Ok(running) = &mut theirs else { continue };
            let answered = running.ask(&name).and_then(|ms| {
                peer.push(ms);
                // What this side does: every superstep is kept.
                if name.ends_with(SAVER) {
                    kept.push(running.ask(&format!("{name}:sync"))?);
                }
                Ok(())
            });
            if let Err(error) = answered {
                theirs = Err(format!("{SCRIPT} ended: {error:#}"));
            }
        }
        let (ours, peer) = (median(ours), median(peer));
        if let (Some(ours), Some(peer)) = (ours, peer)
            && worst.as_ref().is_none_or(|(times, _)| peer / ours < *times)
        {
            worst = Some((peer / ours, name.clone()));
        }
        let row = Row::new(format!("LangGraph's workload {name}"), "ms", ours);
        let row = row.peer("LangGraph, its faster interface", peer).bar(Bar::RatioAtMost(0.05));
        rows.push(match (median(kept), ours) {
            (Some(kept), Some(ours)) => row.note(format!(
                "LangGraph keeps one checkpoint at the end; keeping each superstep as here it takes {kept:.1} ms \
                 (× {:.3})",
                ours / kept
            )),
            (_, _) => row,
        });
    }
    let (times, name) = worst.map_or((None, None), |(times, name)| (Some(times), Some(name)));
    let row =
        Row::new("LangGraph's own workloads: faster by, on the worst of them", "times", times).bar(Bar::AtLeast(20.0));
    let row = name.map_or_else(|| row.clone(), |name| row.clone().note(format!("the worst is {name}")));
    rows.push(match theirs.map(Theirs::end) {
        Ok(()) => row,
        Err(why) => row.note(why),
    });
    Ok(rows)
}

/// The peer's process, which stays for all workloads: a name in, a line of JSON out.
struct Theirs {
    child: Child,
    names: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Theirs {
    fn start(stage: &Stage<'_>, root: &Path) -> Result<Self, String> {
        let mut command = stage.peers.langgraph_command()?;
        command.arg(root.join(SCRIPT)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{SCRIPT}: {error}"))?;
        let (Some(names), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{SCRIPT} has no pipes"));
        };
        Ok(Self { child, names, answers: BufReader::new(answers) })
    }

    /// Milliseconds of the faster of its two interfaces.
    fn ask(&mut self, name: &str) -> anyhow::Result<f64> {
        writeln!(self.names, "{name}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer = serde_json::from_str(&line).with_context(|| format!("no answer to {name}"))?;
        Ok(number(&answer, "sync_ms")?.min(number(&answer, "async_ms")?))
    }

    fn end(mut self) {
        drop(self.names);
        // It ends with its input; how does not matter any more.
        let _ = self.child.wait();
    }
}

//! The smallest program: how long it takes as a whole process, what memory it needs, and whether memory stays flat.

use std::time::Instant;

use anyhow::ensure;

use super::{Bar, Row, Stage, median, number, peers::values};

/// Megabytes of 2^20 bytes.
const MIB_KB: f64 = 1_024.0;

pub(super) fn rows(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let (mut whole, mut stored, mut peaks) = (Vec::new(), Vec::new(), Vec::new());
    let mut theirs = Ok((Vec::new(), Vec::new()));
    for _ in 0..stage.rounds {
        for _ in 0..10 {
            let started = Instant::now();
            let answer = stage.ours.ask(&["hello", "none"])?;
            whole.push(started.elapsed().as_secs_f64() * 1_000.0);
            peaks.push(number(&answer, "peak_kb")? / MIB_KB);
            let started = Instant::now();
            stage.ours.ask(&["hello", "sqlite"])?;
            stored.push(started.elapsed().as_secs_f64() * 1_000.0);
        }
        if let Ok((times, sizes)) = &mut theirs {
            let started = Instant::now();
            match stage.peers.langgraph("c_hello.py", &[]) {
                Ok(output) => {
                    times.push(started.elapsed().as_secs_f64() * 1_000.0);
                    sizes.extend(values(&output, "peakRSS="));
                }
                Err(why) => theirs = Err(why),
            }
        }
    }
    let (time, size) = match &theirs {
        Ok((times, sizes)) => (median(times.clone()), median(sizes.clone())),
        Err(_) => (None, None),
    };
    let why = |row: Row| theirs.as_ref().err().map_or_else(|| row.clone(), |why| row.clone().note(why));
    let mut rows = vec![
        why(Row::new("hello world: the whole process", "ms", median(whole))
            .bar(Bar::AtMost(10.0))
            .peer("LangGraph", time)),
        why(Row::new("hello world: peak memory", "MiB", median(peaks)).bar(Bar::AtMost(15.0)).peer("LangGraph", size)),
        Row::new("hello world with a new SQLite store: the whole process", "ms", median(stored)),
    ];
    rows.extend(flat(stage)?);
    Ok(rows)
}

/// Resident memory after a tenth of the supersteps and after all of them.
fn flat(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (mode, what) in [("none", "no checkpointer"), ("sqlite", "SQLite FULL")] {
        let answer = stage.ours.ask(&["flat", mode, "100000"])?;
        let (early, late) = (number(&answer, "rss_kb_early")?, number(&answer, "rss_kb_late")?);
        ensure!(early > 0.0, "no resident memory was read: {answer}");
        rows.push(
            Row::new(
                format!("memory over 100,000 supersteps, {what}: growth after the first 10,000"),
                "MiB",
                (late - early) / MIB_KB,
            )
            .bar(Bar::AtMost(1.0))
            .note(format!("{:.1} MiB at the end", late / MIB_KB)),
        );
    }
    Ok(rows)
}

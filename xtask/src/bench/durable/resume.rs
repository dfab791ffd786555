//! From a stopped thread of 50 messages to its next node: in a new process, and in one that is already at work.

use super::{Bar, Row, Stage, median, number, peers::values};

pub(super) fn rows(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let (mut cold, mut warm, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    let mut theirs = Ok((Vec::new(), Vec::new()));
    for _ in 0..stage.rounds {
        let place = stage.ours.place()?;
        let folder = place.path().to_string_lossy().into_owned();
        stage.ours.ask(&["resume", "make", &folder])?;
        for thread in ["1", "2", "3", "4", "5", "6", "7"] {
            cold.push(stage.ours.first_line(&["resume", "cold", &folder, thread])?.as_secs_f64() * 1_000.0);
        }
        floors.push(2_000.0 / number(&stage.ours.ask(&["floor"])?, "commits_s")?);
        warm.push(number(&stage.ours.ask(&["resume", "warm", &folder])?, "p50_ms")?);
        if let Ok((colds, warms)) = &mut theirs {
            match peer(stage) {
                Ok(output) => {
                    colds.extend(values(&output, "cold process resume: total"));
                    warms.extend(values(&output, "warm resume p50"));
                }
                Err(why) => theirs = Err(why),
            }
        }
    }
    let (cold_peer, warm_peer) = match &theirs {
        Ok((colds, warms)) => (median(colds.clone()), median(warms.clone())),
        Err(_) => (None, None),
    };
    let two = median(floors).unwrap_or_default();
    let rows = [
        Row::new("resume in a cold process, to its first node", "ms", median(cold))
            .bar(Bar::AtMost(30.0))
            .peer("LangGraph", cold_peer),
        Row::new("resume in a warm process, the whole call, p50", "ms", median(warm))
            .bar(Bar::AtMost(0.5))
            .peer("LangGraph", warm_peer)
            .note(format!("two commits; two of one row took {two:.2} ms in these minutes")),
    ];
    Ok(rows
        .into_iter()
        .map(|row| theirs.as_ref().err().map_or_else(|| row.clone(), |why| row.clone().note(why)))
        .collect())
}

/// The peer's threads are made anew for each round: a thread resumes once.
fn peer(stage: &Stage<'_>) -> Result<String, String> {
    for name in ["res.db", "res.db-wal", "res.db-shm"] {
        // Absent before the first round.
        let _ = std::fs::remove_file(stage.peers.scratch().join(name));
    }
    stage.peers.langgraph("k_resume.py", &["make"])?;
    stage.peers.langgraph("k_resume.py", &["cold"])
}

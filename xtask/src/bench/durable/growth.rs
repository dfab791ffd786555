//! What a growing thread costs: bytes on disk and the time to read it back, against its number of messages of 200 bytes.

use serde_json::Value;

use super::{Bar, Row, Stage, median, number, peers::values};

/// From N to 2N at each of these.
const DOUBLED: &[u32] = &[500, 1_000, 2_000, 5_000, 10_000];

pub(super) fn rows(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let measured = |count: u32| stage.ours.ask(&["growth", &count.to_string()]);
    let thousand = measured(1_000)?;
    let peer = stage.peers.langgraph("d_growth.py", &["1000", "plain"]);
    let delta = stage.peers.langgraph("d_growth.py", &["1000", "delta"]);
    let mut rows = against(&thousand, &peer, &delta)?;
    let mut worst = (0.0_f64, 0);
    let mut sizes = Vec::new();
    for &count in DOUBLED {
        let (one, two) = (number(&measured(count)?, "bytes")?, measured(count * 2)?);
        let two_bytes = number(&two, "bytes")?;
        sizes.push(format!("{count}: {:.2} MB", one / 1e6));
        if two_bytes / one > worst.0 {
            worst = (two_bytes / one, count);
        }
        if count == 5_000 {
            rows.push(Row::new("10,000 × 200 B messages: size on disk", "MB", two_bytes / 1e6));
            rows.push(Row::new("10,000 × 200 B messages: get_state", "ms", number(&two, "get_state_ms")?));
            rows.push(Row::new("10,000 × 200 B messages: history of 10", "ms", number(&two, "history_ms")?));
        }
    }
    rows.push(
        Row::new("size(2N)/size(N), the worst up to N = 10,000", "times", worst.0).bar(Bar::AtMost(2.1)).note(format!(
            "worst at N = {}; {}",
            worst.1,
            sizes.join(", ")
        )),
    );
    Ok(rows)
}

fn against(ours: &Value, plain: &Result<String, String>, delta: &Result<String, String>) -> anyhow::Result<Vec<Row>> {
    let beside = |row: Row, name: &str| match plain {
        Ok(output) => row.peer("LangGraph (operator.add)", median(values(output, name))),
        Err(why) => row.peer("LangGraph (operator.add)", None).note(why),
    };
    let what = "1,000 × 200 B messages: size on disk, log truncated, history intact";
    let mut size = Row::new(what, "MB", number(ours, "bytes")? / 1e6).bar(Bar::AtMost(1.0));
    if let Some(bytes) = delta.as_ref().ok().and_then(|output| median(values(output, "db="))) {
        size = size.note(format!("LangGraph with its opt-in delta channel: {bytes} MB"));
    }
    let kept = number(ours, "history")?;
    let get_state = Row::new("1,000 × 200 B messages: get_state", "ms", number(ours, "get_state_ms")?);
    Ok(vec![
        beside(size, "db=").note(format!("{kept} checkpoints, each with its state")),
        beside(get_state.bar(Bar::AtMost(2.0)), "get_state="),
        beside(Row::new("1,000 × 200 B messages: history of 10", "ms", number(ours, "history_ms")?), "hist10="),
    ])
}

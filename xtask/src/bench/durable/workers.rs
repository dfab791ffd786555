//! Four workers on one PostgreSQL against one: executions whose steps wait 20 ms for the world outside.

use super::{Bar, Row, Stage, number};

pub(super) fn rows(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let answer = stage.ours.ask(&["workers"])?;
    let what = "four workers on PostgreSQL, one execution in flight each, 20 ms of waiting a step";
    if let Some(why) = answer["unavailable"].as_str() {
        return Ok(vec![
            Row::new(what, "executions/s", None).peer("one worker", None).bar(Bar::RatioAtLeast(3.5)).note(why),
        ]);
    }
    let row = Row::new(what, "executions/s", number(&answer, "four")?).peer("one worker", number(&answer, "one")?);
    Ok(vec![row.bar(Bar::RatioAtLeast(3.5))])
}

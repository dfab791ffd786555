//! Two processes that want the same thread, again and again: each round has one writer, and a stale one is refused.

use super::{Bar, Row, Stage, number};

pub(super) fn rows(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let answer = stage.ours.ask(&["contention", "1000"])?;
    let count = |what: &str, name: &str| {
        anyhow::Ok(Row::new(
            format!("two processes, one thread id, 1,000 rounds: {what}"),
            "count",
            number(&answer, name)?,
        ))
    };
    let refused = number(&answer, "stale_refused")?;
    Ok(vec![
        count("commits lost", "lost")?.bar(Bar::AtMost(0.0)),
        count("commits forked", "forked")?.bar(Bar::AtMost(0.0)),
        count("commits of a stale writer let through", "stale_committed")?
            .bar(Bar::AtMost(0.0))
            .note(format!("{refused} commits of a writer that had lost the thread were refused")),
        count("\"database is locked\"", "locked")?.bar(Bar::AtMost(0.0)),
        count("other errors", "other_errors")?.bar(Bar::AtMost(0.0)),
    ])
}

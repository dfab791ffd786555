//! Cuts the event log into episodes: one a session, one a final check, and what has not ended. Events carry no session's
//! number, so the cut follows their order: a session's events end with `session.ended`, a final check's with its last
//! feature.

use longhaul_core::Event;
use serde_json::Value;

/// What an episode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Session(u32),
    FinalCheck,
    /// Not ended: under way, or interrupted.
    UnderWay,
}

/// Events that belong together, oldest first; never empty.
#[derive(Debug)]
pub(super) struct Episode<'a> {
    pub(super) kind: Kind,
    pub(super) events: Vec<&'a Event>,
}

impl<'a> Episode<'a> {
    /// The data of its events of one kind.
    pub(super) fn all<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = &'a Value> + 's {
        self.events.iter().filter(move |event| event.kind == kind).map(|event| &event.data)
    }

    /// When its first and last event were recorded.
    pub(super) fn span(&self) -> (i64, i64) {
        let at = |event: Option<&&Event>| event.map_or(0, |event| event.at.0);
        (at(self.events.first()), at(self.events.last()))
    }
}

/// All episodes, oldest first.
pub(super) fn cut(events: &[Event]) -> Vec<Episode<'_>> {
    let mut done = Vec::new();
    let mut current: Vec<&Event> = Vec::new();
    // Features that a final check has yet to look at, while it runs.
    let mut left: Option<u64> = None;
    for event in events {
        let belongs = matches!(event.kind.as_str(), "feature.broken" | "run.finished");
        if left == Some(0) && !belongs {
            done.push(Episode { kind: Kind::FinalCheck, events: std::mem::take(&mut current) });
            left = None;
        }
        match event.kind.as_str() {
            "final_check.started" => {
                // A session that found nothing to do left its look around; the check says the same again.
                current.clear();
                left = Some(number(&event.data, "features"));
            }
            "regression.checked" => left = left.map(|n| n.saturating_sub(1)),
            _ => {}
        }
        current.push(event);
        if event.kind == "session.ended" {
            let session = u32::try_from(number(&event.data, "session")).unwrap_or(u32::MAX);
            done.push(Episode { kind: Kind::Session(session), events: std::mem::take(&mut current) });
        }
    }
    if !current.is_empty() && (left.is_some() || current.iter().any(|event| event.kind == "session.started")) {
        let kind = if left.is_some() { Kind::FinalCheck } else { Kind::UnderWay };
        done.push(Episode { kind, events: current });
    }
    done
}

/// A whole number in an event's data; 0 when it is not there.
pub(super) fn number(data: &Value, name: &str) -> u64 {
    data.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// A text in an event's data; empty when it is not there.
pub(super) fn string(data: &Value, name: &str) -> String {
    data.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

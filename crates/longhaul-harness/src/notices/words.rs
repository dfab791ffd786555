//! Which events a person is told of, and in which words. Only numbers, names and our own words leave the log: no text of
//! an agent's, no output, no setting.

use std::path::Path;

use longhaul_core::{Event, EventDraft, EventId, TaskScope, TimeMs};
use serde_json::{Value, json};

/// Version of what a command is told.
const V: u32 = 1;
const TITLE_CHARS_MAX: usize = 200;

/// How a run ended, for whoever is not there.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Why: `done`, `budget`, `stuck`, `failed`, …
    pub ending: String,
    /// The limit that is reached, if one is.
    pub limit: Option<String>,
    /// Features that pass.
    pub passing: usize,
    /// Features in all.
    pub total: usize,
    /// Features put aside.
    pub parked: usize,
}

impl Ended {
    /// The event of it.
    #[must_use]
    pub fn event(&self) -> EventDraft {
        let Self { ending, limit, passing, total, parked } = self;
        let data = json!({
            "ending": ending, "limit": limit, "passing": passing, "total": total, "parked": parked,
        });
        EventDraft::business("run.ended", data)
    }
}

/// What a person is told of an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// The event's; the same whenever it is told.
    pub id: EventId,
    /// Its kind: `session.ended`.
    pub event: String,
    /// When it happened.
    pub at: TimeMs,
    /// What happened, in a sentence.
    pub title: String,
    /// What a person can do about it; may be empty.
    pub to_do: String,
    data: Value,
}

impl Notice {
    /// What is told of this event, if anything is.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        let data = &event.data;
        let text = |name: &str| data[name].as_str().unwrap_or_default();
        let (title, to_do, shown): (String, &str, &[&str]) = match event.kind.as_str() {
            "session.ended" => (
                format!("Session {} ended: {}", data["session"], text("outcome").replace('_', " ")),
                "",
                &["session", "outcome", "commit", "prompt_tokens", "answer_tokens", "ms"],
            ),
            "feature.parked" => (
                format!("Feature {} is put aside: too many sessions failed at it", text("feature")),
                "`longhaul features` shows why; `longhaul features unpark` takes it up again",
                &["feature", "diagnosis"],
            ),
            "wait.opened" if text("kind") != "timer" => (
                format!("A person has to answer: {}", text("name")),
                "`longhaul waits` shows what is asked; answer it, then `longhaul run`",
                &["wait", "kind", "deadline_at"],
            ),
            "budget.exhausted" => (
                format!("A limit of the budget is reached: {}", text("limit")),
                "raise the limit if the work is worth it, then `longhaul run`",
                &["limit"],
            ),
            "run.paused" => ("The project is paused".to_owned(), "`longhaul resume`, then `longhaul run`", &["by"]),
            "run.finished" => (
                format!("All is done: {} of {} features verified", data["passing"], data["total"]),
                "",
                &["passing", "total", "parked", "sessions"],
            ),
            "run.ended" => {
                let (title, to_do) = ended(data)?;
                (title, to_do, &["ending", "limit", "passing", "total", "parked"])
            }
            _ => return None,
        };
        let shown = shown.iter().map(|name| ((*name).to_owned(), data[*name].clone()));
        Some(Self {
            id: event.id.clone(),
            event: event.kind.clone(),
            at: event.at,
            title: title.chars().take(TITLE_CHARS_MAX).collect(),
            to_do: to_do.to_owned(),
            data: Value::Object(shown.filter(|(_, value)| !value.is_null()).collect()),
        })
    }

    /// One line of JSON.
    pub(super) fn json(&self, owner: &TaskScope, folder: &Path, skipped: usize) -> String {
        let said = json!({
            "v": V, "id": self.id, "event": self.event, "at": self.at, "task": owner.task,
            "folder": folder.to_string_lossy(), "title": self.title, "what_to_do": self.to_do, "data": self.data,
            "skipped": skipped,
        });
        format!("{said}\n")
    }
}

/// How a run ended, where no other event has told it.
fn ended(data: &Value) -> Option<(String, &'static str)> {
    let so_far = format!("{} of {} features verified", data["passing"], data["total"]);
    let limit = data["limit"].as_str();
    Some(match data["ending"].as_str()? {
        "planned" => (format!("The plan is ready: {} features", data["total"]), "`longhaul run` builds them"),
        "limit" => (format!("The run has had its sessions: {so_far}"), "`longhaul run` goes on"),
        "budget" => {
            let which = limit.map_or_else(String::new, |limit| format!(" ({limit})"));
            (
                format!("The run ended at a limit of the budget{which}: {so_far}"),
                "raise the limit if the work is worth it, then `longhaul run`",
            )
        }
        "stuck" => (
            format!("Nothing more can be done: {so_far}, {} put aside", data["parked"]),
            "`longhaul features` shows why; `longhaul features unpark` takes one up again",
        ),
        "paused" => (format!("The run stopped, as the project is paused: {so_far}"), "`longhaul resume`"),
        "taken_over" => (format!("The folder is a person's now: {so_far}"), "`longhaul resume` gives it back"),
        "failed" => (
            format!("The run failed: {so_far}"),
            "`longhaul status` and `longhaul log` show where; `longhaul run` goes on there",
        ),
        // Told by an event of its own, or by whoever sat there.
        _ => return None,
    })
}

//! The timeline: one row a session or final check, with what happened in it as chips.

use super::{
    data::{Chapter, Outcome, ReportData, Task},
    html::{chip, commit, count, cut, duration, grouped, moment, short, text},
};

/// Rows shown; of a longer history the first ones are left out, and the page says so.
pub(super) const ROWS_MAX: usize = 300;
const SUMMARY_CHARS_MAX: usize = 700;

/// All rows, oldest first.
pub(super) fn rows(data: &ReportData) -> String {
    if data.chapters.is_empty() {
        return "<p class=\"quiet\">No session has ended yet.</p>".to_owned();
    }
    let skipped = data.chapters.len().saturating_sub(ROWS_MAX);
    let rows: String = data.chapters.iter().skip(skipped).map(row).collect();
    format!("<ol class=\"timeline\">{rows}</ol>")
}

fn row(chapter: &Chapter) -> String {
    let class = match chapter.outcome {
        Outcome::Verified | Outcome::AllPass | Outcome::Planned => "ok",
        Outcome::HandedOver => "open",
        Outcome::FoundBroken => "bad",
        Outcome::UnderWay => "parked",
    };
    let id = chapter.number.map_or_else(String::new, |n| format!(" id=\"session-{n}\""));
    format!(
        "<li class=\"{class}\"{id}><div class=\"badge\">{}</div><div class=\"what\"><h3>{}</h3>{}{}</div>\
         <div class=\"how\">{}</div></li>",
        badge(chapter),
        title(chapter),
        summary(chapter),
        chips(chapter),
        measures(chapter),
    )
}

fn badge(chapter: &Chapter) -> String {
    match (chapter.task, chapter.number) {
        (Task::Plan, _) => "<abbr title=\"planning\">P</abbr>".to_owned(),
        (Task::FinalCheck, _) => "<abbr title=\"final check\">✓</abbr>".to_owned(),
        (Task::UnderWay, _) => "…".to_owned(),
        (Task::Build | Task::Repair, n) => n.unwrap_or_default().to_string(),
    }
}

fn title(chapter: &Chapter) -> String {
    let outcome = match chapter.outcome {
        Outcome::Planned => "<em>planned</em>",
        Outcome::Verified if chapter.task == Task::Repair => "<em>repaired</em>",
        Outcome::Verified => "<em>verified</em>",
        Outcome::HandedOver => "<em>not finished</em>",
        Outcome::AllPass => "<em>all pass</em>",
        Outcome::FoundBroken => "<em>found something broken</em>",
        Outcome::UnderWay => "<em>under way, or interrupted</em>",
    };
    let what = match (&chapter.feature, chapter.task) {
        (Some((id, about)), task) => {
            let verb = if task == Task::Repair { "Repair " } else { "" };
            let id = text(id);
            format!("{verb}<a class=\"id\" href=\"#feature-{id}\">{id}</a> <span dir=\"auto\">{}</span>", text(about))
        }
        (None, Task::Plan) => "Plan the features".to_owned(),
        (None, Task::FinalCheck) => {
            format!("Final check of {}", count(chapter.rechecked.len() as u64, "feature"))
        }
        (None, Task::Build | Task::Repair | Task::UnderWay) => "Session".to_owned(),
    };
    format!("{what} {outcome}")
}

fn summary(chapter: &Chapter) -> String {
    let summary = chapter.summary.trim();
    if summary.is_empty() {
        return String::new();
    }
    format!("<p dir=\"auto\">{}</p>", text(&cut(summary, SUMMARY_CHARS_MAX)))
}

fn chips(chapter: &Chapter) -> String {
    let mut chips = Vec::new();
    let mut add = |there: bool, class: &str, label: String| {
        if there {
            chips.push(chip(class, &label));
        }
    };
    let plural = |n: usize, one: &str, many: &str| if n == 1 { one.to_owned() } else { format!("{n} {many}") };
    add(chapter.corrections > 0, "amber", plural(chapter.corrections, "plan corrected", "plan corrections"));
    add(chapter.refused > 0, "amber", plural(chapter.refused, "claim refused", "claims refused"));
    let broken: Vec<&str> = chapter.rechecked.iter().filter(|(_, passed)| !passed).map(|(id, _)| id.as_str()).collect();
    add(!broken.is_empty(), "red", format!("caught: {} broken", broken.join(", ")));
    add(chapter.tampers > 0, "violet", plural(chapter.tampers, "tampering undone", "tamperings undone"));
    let held: Vec<&str> = chapter.rechecked.iter().filter(|(_, passed)| *passed).map(|(id, _)| id.as_str()).collect();
    if chapter.task != Task::FinalCheck {
        add(!held.is_empty(), "green", format!("still holds: {}", held.join(", ")));
    }
    add(chapter.recalled > 0, "blue", format!("{} recalled", memories(chapter.recalled)));
    if chips.is_empty() { String::new() } else { format!("<p class=\"chips\">{}</p>", chips.concat()) }
}

fn memories(n: usize) -> String {
    if n == 1 { "1 memory".to_owned() } else { format!("{n} memories") }
}

fn measures(chapter: &Chapter) -> String {
    let mut lines = vec![format!("<b title=\"began {} UTC\">{}</b>", moment(chapter.started_at), duration(chapter.ms))];
    let (sent, received) = (chapter.prompt_tokens, chapter.answer_tokens);
    if sent + received > 0 {
        let title = format!("{} in, {} out", grouped(sent), grouped(received));
        lines.push(format!("<span title=\"{title}\">{} tokens</span>", short(sent + received)));
    }
    if chapter.turns > 0 {
        let tools: Vec<String> = chapter.tools.iter().map(|(name, n)| format!("{name} {n}×")).collect();
        let answers = count(u64::from(chapter.turns), "answer");
        lines.push(format!("<span title=\"{}\">{answers}</span>", text(&tools.join(", "))));
    }
    lines.extend(chapter.commit.as_deref().map(commit));
    lines.concat()
}

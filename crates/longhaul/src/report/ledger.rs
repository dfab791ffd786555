//! The ledgers at the end: what was recalled from memory, and the commits.

use super::{
    data::{CommitLine, Hit, Recall, ReportData},
    html::{commit, cut, grouped, micros, moment, text},
    page,
};

/// Searches shown; of more, the first ones are left out, and the page says so.
pub(super) const RECALLS_MAX: usize = 300;
/// Commits shown.
pub(super) const COMMITS_MAX: usize = 500;
const QUERY_CHARS_MAX: usize = 300;

/// What was recalled, search by search.
pub(super) fn memory(data: &ReportData) -> String {
    if data.recalls.is_empty() {
        return String::new();
    }
    let skipped = data.recalls.len().saturating_sub(RECALLS_MAX);
    let searches: String = data.recalls.iter().skip(skipped).map(recall).collect();
    let explained = "<p class=\"quiet\">Every session starts with a search of what earlier ones left behind. A score weighs \
                     words and meaning, times importance, times age.</p>";
    page::section("memory", "What was remembered", &format!("{explained}<div class=\"recalls\">{searches}</div>"))
}

fn recall(found: &Recall) -> String {
    let place = found.session.map_or_else(|| "under way".to_owned(), |n| format!("session {n}"));
    let best = found.hits.first().map_or_else(
        || "<span class=\"best\">nothing found</span>".to_owned(),
        |hit| format!("<span class=\"best\" dir=\"auto\">{}</span>", text(&cut(&hit.content, 120))),
    );
    let feature = found.feature.as_deref().map_or_else(String::new, |id| format!(" · {}", text(id)));
    let hits: String = found.hits.iter().map(hit).collect();
    format!(
        "<details><summary><b>{place}{feature}</b>{best}<small>{}</small></summary>\
         <p class=\"query\" dir=\"auto\">“{}”</p><p class=\"quiet\">{} search over {} memories in {}, the question embedded in {}</p>\
         <ol class=\"hits\">{hits}</ol></details>",
        found.hits.len(),
        text(&cut(&found.query, QUERY_CHARS_MAX)),
        text(&found.mode),
        grouped(found.considered),
        micros(found.elapsed_us),
        micros(found.embedded_us),
    )
}

fn hit(found: &Hit) -> String {
    let width = (found.score.clamp(0.0, 1.0) * 60.0).round();
    let explain: Vec<String> = found.explain.iter().map(|(name, value)| format!("{} {value:.2}", text(name))).collect();
    format!(
        "<li><div class=\"score\"><b>{:.2}</b><svg viewBox=\"0 0 60 4\" aria-hidden=\"true\"><rect class=\"rail\" \
         width=\"60\" height=\"4\" rx=\"2\"/><rect class=\"bar\" width=\"{width}\" height=\"4\" rx=\"2\"/></svg></div>\
         <div><p dir=\"auto\">{}</p><small><i>{}</i> {}</small></div></li>",
        found.score,
        text(&found.content),
        text(&found.kind),
        explain.join(" · "),
    )
}

/// The commits, oldest first.
pub(super) fn commits(data: &ReportData) -> String {
    if data.commits.is_empty() {
        return String::new();
    }
    let skipped = data.commits.len().saturating_sub(COMMITS_MAX);
    let lines: String = data.commits.iter().skip(skipped).map(line).collect();
    page::section(
        "commits",
        "Commits",
        &format!("<div class=\"wide\"><table class=\"commits\"><tbody>{lines}</tbody></table></div>"),
    )
}

fn line(made: &CommitLine) -> String {
    let place = if made.session == 0 { "plan".to_owned() } else { format!("session {}", made.session) };
    let feature = made.feature.as_deref().map_or_else(String::new, |id| {
        let id = text(id);
        format!("<a class=\"id\" href=\"#feature-{id}\">{id}</a>")
    });
    format!(
        "<tr><td>{}</td><td class=\"subject\" dir=\"auto\">{}</td><td>{feature}</td>\
         <td><a href=\"#session-{}\">{place}</a></td><td class=\"when\">{}</td></tr>",
        commit(&made.id),
        text(&made.subject),
        made.session,
        moment(made.at),
    )
}

//! The report as a file that can be kept: Markdown, or a page of its own.
//!
//! Invariant: whatever comes from a case or a program is escaped.

use super::{CaseResult, EvalReport};

/// As Markdown.
pub(super) fn markdown(report: &EvalReport) -> String {
    let mut text = format!("# {}\n\n", headline(report));
    text.push_str(&format!("Cases: `{}`", report.dir.display()));
    if let Some(program) = &report.program {
        text.push_str(&format!(", replayed by `{program}`"));
    }
    text.push_str("\n\n| case | result | compared | ms |\n|---|---|---|---|\n");
    for case in &report.cases {
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        let row = [&cell(&case.name), word(case), &cell(&compared(case)), &case.elapsed_ms.to_string()];
        text.push_str(&format!("| {} | {} | {} | {} |\n", row[0], row[1], row[2], row[3]));
    }
    for case in report.cases.iter().filter(|case| !lines(case).is_empty()) {
        text.push_str(&format!("\n## {}\n\n", case.name.replace('\n', " ")));
        for (_, line) in lines(case) {
            text.push_str(&format!("- {}\n", line.replace('\n', " ")));
        }
    }
    text
}

/// As a page.
pub(super) fn html(report: &EvalReport) -> String {
    let mut rows = String::new();
    for case in &report.cases {
        let mut details = String::new();
        for (bad, line) in lines(case) {
            let class = if bad { "bad" } else { "note" };
            details.push_str(&format!("<li class=\"{class}\">{}</li>", escaped(&line)));
        }
        let class = if case.passes { "good" } else { "bad" };
        rows.push_str(&format!(
            "<tr><td>{}<br><small>{}</small></td><td class=\"{class}\">{}</td><td>{}<ul>{details}</ul></td><td>{}</td></tr>\n",
            escaped(&case.name),
            escaped(&case.file.display().to_string()),
            word(case),
            escaped(&compared(case)),
            case.elapsed_ms
        ));
    }
    let program = report
        .program
        .as_ref()
        .map_or_else(String::new, |program| format!(", replayed by <code>{}</code>", escaped(program)));
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title><style>
body{{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}}
table{{border-collapse:collapse;width:100%}} td,th{{border-top:1px solid #ccc;padding:.5rem;text-align:left;vertical-align:top}}
ul{{margin:0;padding-left:1.2rem}} small{{color:#666;word-break:break-all}} .good{{color:#0a6b2b}} .bad{{color:#a11}}
@media (prefers-color-scheme:dark){{body{{color:#ddd;background:#161616}} .good{{color:#6c6}} .bad{{color:#f77}}}}
</style><h1>{title}</h1><p>Cases: <code>{dir}</code>{program}</p>
<table><thead><tr><th>case</th><th>result</th><th>compared</th><th>ms</th></tr></thead><tbody>
{rows}</tbody></table></html>
",
        title = escaped(&headline(report)),
        dir = escaped(&report.dir.display().to_string()),
    )
}

fn headline(report: &EvalReport) -> String {
    format!("{} of {} cases pass", report.passed(), report.cases.len())
}

fn word(case: &CaseResult) -> &'static str {
    match (case.passes, &case.error) {
        (true, _) => "passes",
        (false, Some(_)) => "could not be run",
        (false, None) => "fails",
    }
}

/// How much was compared, in words.
pub(super) fn compared(case: &CaseResult) -> String {
    let criteria = case.checked.len();
    match &case.counts {
        Some(counts) => format!(
            "{} checkpoints, {} steps stubbed, {} answers, {} events, {criteria} criteria",
            counts.checkpoints, counts.steps, counts.answers, counts.events
        ),
        None => format!("{criteria} criteria, of what was recorded"),
    }
}

/// What is to be said about a case, and whether it is a reason for its failing.
pub(super) fn lines(case: &CaseResult) -> Vec<(bool, String)> {
    let mut lines = Vec::new();
    lines.extend(case.error.iter().map(|error| (true, error.clone())));
    lines.extend(case.difference.iter().map(|difference| (true, difference.to_string())));
    for checked in case.checked.iter().filter(|checked| !checked.holds) {
        lines.push((true, format!("does not hold: {}; found {}", checked.criterion, checked.found)));
    }
    lines.extend(case.notes.iter().map(|note| (false, note.clone())));
    lines
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl CaseResult {
    /// How much was compared, in words.
    #[must_use]
    pub fn compared(&self) -> String {
        compared(self)
    }

    /// What is to be said about it, and of each whether it is a reason for failing.
    #[must_use]
    pub fn lines(&self) -> Vec<(bool, String)> {
        lines(self)
    }
}

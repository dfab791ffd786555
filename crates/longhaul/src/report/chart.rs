//! The chart of verified features over sessions, as inline SVG. It only places what the chapters say.

use super::{
    data::{Chapter, Outcome, ReportData, Task},
    html::text,
};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 232.0;
const LEFT: f64 = 36.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 30.0;
/// Labels under the axis; more would run into each other.
const LABELS_MAX: usize = 24;
/// Columns; beyond these only the newest are drawn.
const COLUMNS_MAX: usize = 240;

/// Verified features after each session, with what went wrong on the way. Empty before the second chapter.
pub(super) fn progress(data: &ReportData) -> String {
    let skipped = data.chapters.len().saturating_sub(COLUMNS_MAX);
    let chapters = &data.chapters[skipped..];
    if chapters.len() < 2 || data.totals.features == 0 {
        return String::new();
    }
    let plot = Plot { columns: chapters.len(), highest: data.totals.features };
    let points: Vec<(f64, f64)> =
        chapters.iter().enumerate().map(|(i, chapter)| (plot.x(i), plot.y(chapter.passing_after))).collect();
    format!(
        "<figure class=\"chart\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"verified features \
         after each session\">{}{}{}{}</svg><figcaption><span class=\"key line\">verified features after each session\
         </span><span class=\"key refused\">claim refused</span><span class=\"key regression\">regression caught</span>\
         <span class=\"key tamper\">tampering undone</span></figcaption></figure>",
        plot.grid(),
        plot.line(&points),
        chapters.iter().zip(&points).map(|(chapter, point)| dot(chapter, *point)).collect::<String>(),
        plot.labels(chapters),
    )
}

struct Plot {
    columns: usize,
    highest: usize,
}

impl Plot {
    fn x(&self, column: usize) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (column as f64 + 0.5) / self.columns as f64
    }

    fn y(&self, value: usize) -> f64 {
        let height = HEIGHT - TOP - BOTTOM;
        TOP + height - height * value as f64 / self.highest as f64
    }

    fn grid(&self) -> String {
        let mut levels = vec![0, self.highest / 2, self.highest];
        levels.dedup();
        let line = |level: &usize| {
            let y = self.y(*level);
            format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"level\" x=\"{:.1}\" y=\"{:.1}\">{level}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0,
            )
        };
        levels.iter().map(line).collect()
    }

    fn line(&self, points: &[(f64, f64)]) -> String {
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let (first, last) = (points.first().map_or(0.0, |p| p.0), points.last().map_or(0.0, |p| p.0));
        let base = self.y(0);
        format!(
            "<polygon class=\"area\" points=\"{first:.1},{base:.1} {0} {last:.1},{base:.1}\"/>\
             <polyline class=\"line\" points=\"{0}\"/>",
            path.join(" "),
        )
    }

    fn labels(&self, chapters: &[Chapter]) -> String {
        let every = self.columns.div_ceil(LABELS_MAX);
        let label = |(i, chapter): (usize, &Chapter)| {
            let label = match (chapter.task, chapter.number) {
                (Task::Plan, _) => "plan".to_owned(),
                (Task::FinalCheck, _) => "check".to_owned(),
                (Task::Build | Task::Repair, Some(n)) if i % every == 0 => n.to_string(),
                (Task::Build | Task::Repair | Task::UnderWay, _) => return String::new(),
            };
            let y = HEIGHT - 8.0;
            format!("<text class=\"label\" x=\"{:.1}\" y=\"{y}\">{label}</text>", self.x(i))
        };
        chapters.iter().enumerate().map(label).collect()
    }
}

/// The end of a session, with a mark above it for each kind of trouble.
fn dot(chapter: &Chapter, (x, y): (f64, f64)) -> String {
    let broken = chapter.rechecked.iter().any(|(_, passed)| !passed);
    let troubles = [(chapter.refused > 0, "refused"), (broken, "regression"), (chapter.tampers > 0, "tamper")];
    let marks: String = troubles
        .iter()
        .filter(|(there, _)| *there)
        .enumerate()
        .map(|(i, (_, class))| {
            let above = y - 15.0 - 13.0 * i as f64;
            format!("<circle class=\"mark {class}\" cx=\"{x:.1}\" cy=\"{above:.1}\" r=\"5\"/>")
        })
        .collect();
    let class = match chapter.outcome {
        Outcome::Verified | Outcome::AllPass | Outcome::Planned => "done",
        Outcome::HandedOver | Outcome::FoundBroken | Outcome::UnderWay => "undone",
    };
    format!(
        "<g><title>{}</title><circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>{marks}</g>",
        text(&title(chapter))
    )
}

fn title(chapter: &Chapter) -> String {
    let what = match (chapter.task, chapter.number) {
        (Task::Plan, _) => "planning".to_owned(),
        (Task::FinalCheck, _) => "final check".to_owned(),
        (Task::UnderWay, _) => "under way".to_owned(),
        (Task::Build | Task::Repair, n) => format!("session {}", n.unwrap_or_default()),
    };
    let feature = chapter.feature.as_ref().map_or_else(String::new, |(id, about)| format!(", {id} {about}"));
    format!("{what}{feature}: {} verified afterwards", chapter.passing_after)
}

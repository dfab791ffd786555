//! The page as a whole: head with its content policy, header, figures, sections, footer.
//!
//! Invariant: the page asks for nothing from anywhere. Its policy allows its own style and script by digest and pictures
//! that are part of it; no element carries a `style` or an event attribute.

use base64::{Engine, engine::general_purpose::STANDARD};
use longhaul_core::Digest;

use super::{
    chart,
    data::{FeatureCard, ReportData, Standing, Totals},
    gallery,
    html::{chip, count, cut, duration, grouped, moment, short, text},
    ledger, setbacks, timeline,
};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");
const TITLE_CHARS_MAX: usize = 80;

/// The whole page.
pub(super) fn render(data: &ReportData) -> String {
    let sections = [
        header(data),
        figures(data),
        section("course", "How it went", &chart::progress(data)),
        gallery::section(data),
        setbacks::section(data),
        section("sessions", "Session by session", &timeline::rows(data)),
        ledger::memory(data),
        ledger::commits(data),
        footer(data),
    ];
    let body = sections.concat();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{} of {} verified · {}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         <dialog id=\"lightbox\"><img alt=\"\"><p></p></dialog>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        policy(),
        data.totals.verified,
        data.totals.features,
        text(&cut(data.request.trim(), TITLE_CHARS_MAX)),
    )
}

fn policy() -> String {
    let source = |content: &str| {
        let bytes = hex_bytes(&Digest::of(content).hex());
        format!("'sha256-{}'", STANDARD.encode(bytes))
    };
    format!(
        "default-src 'none'; img-src data:; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        source(STYLE),
        source(SCRIPT)
    )
}

fn hex_bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok()).unwrap_or_default();
    hex.as_bytes().chunks(2).map(|pair| pair.iter().fold(0, |value, byte| value << 4 | digit(*byte))).collect()
}

/// A section with a heading; nothing when it is empty.
pub(super) fn section(id: &str, heading: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<section id=\"{id}\"><h2>{}</h2>{content}</section>\n", text(heading))
}

fn header(data: &ReportData) -> String {
    let t = &data.totals;
    let size = if data.request.chars().count() > 140 { "long" } else { "" };
    let summary = if data.summary.trim().is_empty() {
        String::new()
    } else {
        format!("<p class=\"lead\" dir=\"auto\">{}</p>", text(data.summary.trim()))
    };
    let when = data.span.map_or_else(String::new, |(from, to)| {
        let (from, to) = (moment(from), moment(to));
        let to = if from.get(..10) == to.get(..10) { to.get(11..).unwrap_or_default().to_owned() } else { to };
        format!("<span>{from} – {to} UTC</span>")
    });
    let replies = if data.cassette {
        "<p class=\"cassette\"><strong>Replies come from a cassette, everything else is real:</strong> the files, the \
         commands, the browser, the verdicts, the commits and the memories. Token counts are estimates.</p>"
            .to_owned()
    } else {
        String::new()
    };
    format!(
        "<header><p class=\"brand\">longhaul <span>report</span></p>\
         <h1 class=\"{size}\" dir=\"auto\">{}</h1>{summary}\
         <p class=\"meta\"><span>{}</span><span>{}</span>{when}</p>\
         <div class=\"progress\"><p class=\"big\"><b>{}</b><span>of {}<br>{}</span></p>\
         <div class=\"standing\"><div class=\"cells\">{}</div><p class=\"says\">{}</p></div></div>{replies}</header>\n",
        text(data.request.trim()),
        text(&data.dir),
        text(&models(data)),
        grouped(t.verified as u64),
        grouped(t.features as u64),
        if t.features == 1 { "feature verified" } else { "features verified" },
        data.features.iter().map(cell).collect::<String>(),
        says(t),
    )
}

fn models(data: &ReportData) -> String {
    let answering: Vec<&str> = data.answered_by.iter().map(|(name, _)| name.as_str()).collect();
    match answering.as_slice() {
        [] => data.model.clone(),
        [name] if data.cassette || data.model.ends_with(name) => data.model.clone(),
        names => format!("{} (answered by {})", data.model, names.join(", ")),
    }
}

/// One feature in the header's row of cells.
fn cell(feature: &FeatureCard) -> String {
    let (id, description) = (text(&feature.id), text(&feature.description));
    let class = standing_class(feature.standing);
    format!("<a class=\"cell {class}\" href=\"#feature-{id}\" title=\"{id} {description}\"><span>{id}</span></a>")
}

/// The class that colours a standing.
pub(super) fn standing_class(standing: Standing) -> &'static str {
    match standing {
        Standing::Verified => "ok",
        Standing::Open => "open",
        Standing::Broken => "bad",
        Standing::Parked => "parked",
    }
}

fn says(t: &Totals) -> String {
    if t.features == 0 {
        return "No feature is planned yet.".to_owned();
    }
    let mut said = format!(
        "{} of {} verification sentences fulfilled in a real browser, {} kept as evidence.",
        grouped(t.sentences_verified as u64),
        grouped(t.sentences as u64),
        count(t.pictures as u64, "picture"),
    );
    if t.parked > 0 {
        said.push_str(&format!(
            " {} parked: put aside after too many failed sessions.",
            count(t.parked as u64, "feature")
        ));
    }
    said
}

fn figures(data: &ReportData) -> String {
    let t = &data.totals;
    let retried = if t.retries > 0 { format!(", {} retried", grouped(t.retries)) } else { String::new() };
    let of = |class: &str, n: usize, one: &str, many: &str, more: &str| {
        tile(class, &grouped(n as u64), if n == 1 { one } else { many }, more)
    };
    let answers = format!("{} of the model{retried}", count(t.answers, "answer"));
    let kept = format!("{} of checking, {}", duration(t.verified_ms), count(t.pictures as u64, "picture"));
    let tokens = format!("{} in, {} out", short(t.prompt_tokens), short(t.answer_tokens));
    let said = if t.refused == 0 { "every claim stood" } else { "said to be done, and was not" };
    let repaired = format!("{} repaired", grouped(t.repaired as u64));
    let searches =
        format!("{} of memory", if t.recalls == 1 { "1 search".to_owned() } else { format!("{} searches", t.recalls) });
    let tiles = [
        of("", t.sessions, "coding session", "coding sessions", &answers),
        of("", t.commits, "commit", "commits", &count(t.tool_calls, "tool call")),
        of("", t.verdicts, "verdict", "verdicts", &kept),
        of("amber", t.refused, "claim refused", "claims refused", said),
        of("red", t.regressions, "regression caught", "regressions caught", &repaired),
        of("violet", t.tampers, "tampering undone", "tamperings undone", "only a verdict changes the list"),
        tile("", &short(t.prompt_tokens + t.answer_tokens), "tokens", &tokens),
        tile("", &duration(t.worked_ms), "of work", &searches),
    ];
    format!("<div class=\"tiles\">{}</div>\n", tiles.concat())
}

fn tile(class: &str, figure: &str, what: &str, more: &str) -> String {
    let class = if figure == "0" { "" } else { class };
    format!(
        "<div class=\"tile {class}\"><b>{}</b><span>{}</span><small>{}</small></div>",
        text(figure),
        text(what),
        text(more)
    )
}

fn footer(data: &ReportData) -> String {
    let notes: String = data.notes.iter().map(|note| format!("<li>{}</li>", text(note))).collect();
    let notes = if notes.is_empty() { notes } else { format!("<ul class=\"notes\">{notes}</ul>") };
    format!(
        "<footer>{notes}<p>Every figure on this page is counted from the project's own records: its event log, its \
         verdicts and their evidence. To verify all of it again: <code>longhaul verify --dir {}</code></p>\
         <p>{}</p></footer>\n",
        text(&data.dir),
        chip("plain", &format!("longhaul {}", data.version)),
    )
}

//! The gallery: a card a feature, with the screenshot that its verdict rests on.

use super::{
    data::{FeatureCard, ReportData, Standing},
    html::{chip, commit, count, picture, text},
    page,
};

/// Cards from which on it is worth filtering.
const FILTER_FROM: usize = 7;
const REASON_CHARS_MAX: usize = 400;

/// The section.
pub(super) fn section(data: &ReportData) -> String {
    if data.features.is_empty() {
        return String::new();
    }
    let cards: String = data.features.iter().map(card).collect();
    page::section("features", "What was built", &format!("{}<div class=\"cards\">{cards}</div>", filters(data)))
}

/// Buttons that the page's script brings to life; hidden without it.
fn filters(data: &ReportData) -> String {
    if data.features.len() < FILTER_FROM {
        return String::new();
    }
    let count_of = |standing| data.features.iter().filter(|f| f.standing == standing).count();
    let kinds = [Standing::Verified, Standing::Open, Standing::Broken, Standing::Parked];
    let mut buttons = vec![("".to_owned(), "All".to_owned(), data.features.len())];
    let there = kinds.into_iter().map(|kind| (kind, count_of(kind))).filter(|(_, n)| *n > 0);
    let standings: Vec<_> =
        there.map(|(kind, n)| (page::standing_class(kind).to_owned(), name(kind).to_owned(), n)).collect();
    if standings.len() > 1 {
        buttons.extend(standings);
    }
    let mut categories: Vec<(&str, usize)> = Vec::new();
    for feature in &data.features {
        match categories.iter_mut().find(|(name, _)| *name == feature.category) {
            Some((_, n)) => *n += 1,
            None => categories.push((&feature.category, 1)),
        }
    }
    if categories.len() > 1 {
        buttons.extend(categories.iter().map(|(name, n)| (format!("category:{name}"), (*name).to_owned(), *n)));
    }
    if buttons.len() == 1 {
        return String::new();
    }
    let button = |(value, label, n): &(String, String, usize)| {
        format!(
            "<button type=\"button\" data-filter=\"{}\" aria-pressed=\"{}\">{} <small>{n}</small></button>",
            text(value),
            value.is_empty(),
            text(label)
        )
    };
    format!("<div class=\"filters\" hidden>{}</div>", buttons.iter().map(button).collect::<String>())
}

fn name(standing: Standing) -> &'static str {
    match standing {
        Standing::Verified => "verified",
        Standing::Open => "open",
        Standing::Broken => "broken",
        Standing::Parked => "parked",
    }
}

fn card(feature: &FeatureCard) -> String {
    let class = page::standing_class(feature.standing);
    let shot = match &feature.picture {
        Some(shown) => picture(shown, class),
        None => "<figure class=\"shot absent\"><p>no screenshot yet</p></figure>".to_owned(),
    };
    let id = text(&feature.id);
    format!(
        "<article class=\"card {class}\" id=\"feature-{id}\" data-standing=\"{class}\" data-category=\"{}\">{shot}\
         <div class=\"text\"><p class=\"top\"><b class=\"id\">{id}</b>{}<span class=\"grow\"></span>{}</p>\
         <h3 dir=\"auto\">{}</h3><ol class=\"steps\">{}</ol>{}<p class=\"proof\">{}</p></div></article>",
        text(&feature.category),
        chip("plain", &feature.category),
        chip(&format!("standing {class}"), name(feature.standing)),
        text(&feature.description),
        feature.steps.iter().enumerate().map(|(i, step)| sentence(feature, i + 1, step)).collect::<String>(),
        stopped(feature),
        proof(feature),
    )
}

fn sentence(feature: &FeatureCard, number: usize, step: &str) -> String {
    let (class, sign, said) = match (feature.standing, &feature.stopped_at) {
        (Standing::Verified, _) => ("yes", "✓", "verified"),
        (_, Some((at, _))) if number == *at => ("no", "✗", "not fulfilled"),
        (_, Some((at, _))) if number < *at => ("was", "✓", "held in the newest verdict"),
        _ => ("not", "○", "not verified"),
    };
    format!("<li class=\"{class}\"><i title=\"{said}\">{sign}</i><span dir=\"auto\">{}</span></li>", text(step))
}

fn stopped(feature: &FeatureCard) -> String {
    let suspected = feature.suspected.as_deref().map_or_else(String::new, |suspected| {
        format!(
            "<p class=\"why\" dir=\"auto\"><b>Parked.</b> {}</p>",
            text(&super::html::cut(suspected, REASON_CHARS_MAX))
        )
    });
    let reason = match &feature.stopped_at {
        Some((_, reason)) if feature.standing != Standing::Verified => {
            let reason = super::html::cut(reason, REASON_CHARS_MAX);
            format!("<p class=\"why\" dir=\"auto\">{}</p>", text(&reason))
        }
        _ => String::new(),
    };
    reason + &suspected
}

fn proof(feature: &FeatureCard) -> String {
    let mut parts = Vec::new();
    if let Some(session) = feature.session {
        parts.push(format!("<a href=\"#session-{session}\">session {session}</a>"));
    }
    parts.extend(feature.commit.as_deref().map(commit));
    if let Some(verdict) = &feature.verdict {
        parts.push(format!("<code title=\"the verdict by which it passes\">{}</code>", text(verdict)));
    }
    if feature.passed_times > 1 {
        parts.push(format!("<span>verified {}×</span>", feature.passed_times));
    }
    if feature.attempts > 0 {
        parts.push(format!("<span>{} without success</span>", count(u64::from(feature.attempts), "session")));
    }
    parts.push(format!("<span>{}</span>", count(feature.checks as u64, "check")));
    parts.join("")
}

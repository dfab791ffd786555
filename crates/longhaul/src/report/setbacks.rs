//! What did not pass at first: refused claims, regressions, tampering, corrected plans; each with what happened next.

use super::{
    data::{AfterRefusal, Correction, Finding, RefusedClaim, Regression, ReportData, Tamper},
    html::{commit, cut, picture, text},
    page,
};

/// Refusals and regressions shown, of each; of more the first ones are left out, and the page says so.
pub(super) const STORIES_MAX: usize = 100;
const REASON_CHARS_MAX: usize = 1_500;
const CHECK_CHARS_MAX: usize = 600;
const DID_MAX: usize = 8;

/// The sections; empty when everything went well at once.
pub(super) fn section(data: &ReportData) -> String {
    let group = |id: &str, heading: &str, explained: &str, items: String| {
        if items.is_empty() {
            return String::new();
        }
        format!("<div class=\"group\" id=\"{id}\"><h3>{heading}</h3><p class=\"quiet\">{explained}</p>{items}</div>")
    };
    let groups = [
        group(
            "refused",
            "Claims refused",
            "The model said that it was done. The verifier looked for itself.",
            newest(&data.refusals).iter().map(refused).collect(),
        ),
        group(
            "regressions",
            "Regressions caught",
            "These features had passed before. A later session broke them, and a check made before new work noticed.",
            newest(&data.regressions).iter().map(regression).collect(),
        ),
        group(
            "tampering",
            "Tampering undone",
            "Only a verdict changes what passes. Anything else that touches the list is put back, and the model is told.",
            list(newest(&data.tampers).iter().map(tamper).collect()),
        ),
        group(
            "corrections",
            "Plans sent back",
            "A plan that cannot be verified is refused before it is locked, with the place of the mistake.",
            list(newest(&data.corrections).iter().map(correction).collect()),
        ),
    ];
    page::section("setbacks", "What did not pass at first", &groups.concat())
}

fn newest<T>(all: &[T]) -> &[T] {
    &all[all.len().saturating_sub(STORIES_MAX)..]
}

fn list(items: String) -> String {
    if items.is_empty() { items } else { format!("<ul class=\"plainly\">{items}</ul>") }
}

fn session_link(session: Option<u32>) -> String {
    match session {
        Some(n) => format!("<a href=\"#session-{n}\">session {n}</a>"),
        None => "the session under way".to_owned(),
    }
}

fn feature_link((id, about): &(String, String)) -> String {
    let id = text(id);
    format!("<a class=\"id\" href=\"#feature-{id}\">{id}</a> <span dir=\"auto\">{}</span>", text(about))
}

fn story(class: &str, heading: &str, finding: &Finding, after: &str) -> String {
    let shot = match &finding.picture {
        Some(shown) => picture(shown, class),
        None => "<figure class=\"shot absent\"><p>no picture was taken</p></figure>".to_owned(),
    };
    let sentence = if finding.sentence.is_empty() {
        String::new()
    } else {
        format!("<blockquote dir=\"auto\"><i>{}</i>{}</blockquote>", finding.step, text(&finding.sentence))
    };
    let check = if finding.check.is_empty() {
        String::new()
    } else {
        format!("<pre class=\"check\">{}</pre>", text(&cut(&finding.check, CHECK_CHARS_MAX)))
    };
    let verdict = finding.verdict.as_deref().map_or_else(String::new, |id| {
        format!("<p class=\"proof\"><code title=\"the verdict\">{}</code></p>", text(id))
    });
    format!(
        "<article class=\"story {class}\">{shot}<div class=\"text\"><h4>{heading}</h4>{sentence}\
         <p class=\"reason\" dir=\"auto\">{}</p>{check}<div class=\"after\"><h5>What happened next</h5>{after}</div>\
         {verdict}</div></article>",
        text(&cut(&finding.reason, REASON_CHARS_MAX)),
    )
}

fn refused(claim: &RefusedClaim) -> String {
    let heading = format!(
        "{} <small>{}, claim {}</small>",
        feature_link(&claim.feature),
        session_link(claim.session),
        claim.attempt
    );
    let mut after = String::new();
    if !claim.did.is_empty() {
        let more = claim.did.len().saturating_sub(DID_MAX);
        let mut did: String =
            claim.did.iter().take(DID_MAX).map(|call| format!("<li><code>{}</code></li>", text(call))).collect();
        if more > 0 {
            did.push_str(&format!("<li>and {more} more</li>"));
        }
        after.push_str(&format!("<ol class=\"did\">{did}</ol>"));
    }
    let with = |id: &Option<String>| id.as_deref().map_or_else(String::new, |id| format!(", commit {}", commit(id)));
    let end = match &claim.next {
        AfterRefusal::Accepted { commit } => {
            format!("<p class=\"good\">✓ Claimed again in the same session, and verified{}</p>", with(commit))
        }
        AfterRefusal::RefusedAgain => "<p>Claimed again, and refused again.</p>".to_owned(),
        AfterRefusal::HandedOver { accepted_in: Some((n, id)) } => {
            let session = session_link(Some(*n));
            format!("<p class=\"good\">✓ The session ended without it; verified in {session}{}</p>", with(id))
        }
        AfterRefusal::HandedOver { accepted_in: None } => "<p>The session ended without it; still open.</p>".to_owned(),
        AfterRefusal::UnderWay => "<p>Nothing yet.</p>".to_owned(),
    };
    story("refused", &heading, &claim.finding, &format!("{after}{end}"))
}

fn regression(found: &Regression) -> String {
    let heading = format!("{} <small>found by {}</small>", feature_link(&found.feature), text(&found.found_by));
    let mut after = String::new();
    if !found.suspects.is_empty() {
        let links: Vec<String> =
            found.suspects.iter().map(|(n, id)| format!("{} ({})", session_link(Some(*n)), text(id))).collect();
        after.push_str(&format!("<p>Work since it was last seen passing: {}</p>", links.join(", ")));
    }
    match &found.repair {
        Some(repair) => {
            let by = repair.session.map_or_else(|| "a later verdict".to_owned(), |n| session_link(Some(n)));
            let id = repair.commit.as_deref().map_or_else(String::new, |id| format!(", commit {}", commit(id)));
            after.push_str(&format!("<p class=\"good\">✓ Passes again since {by}{id}</p>"));
            if !repair.summary.is_empty() {
                after.push_str(&format!("<p dir=\"auto\">{}</p>", text(&cut(&repair.summary, REASON_CHARS_MAX))));
            }
        }
        None => after.push_str("<p>Not repaired yet; it comes before anything new.</p>"),
    }
    story("regression", &heading, &found.finding, &after)
}

fn tamper(found: &Tamper) -> String {
    let by = found.by.as_deref().map_or_else(String::new, |call| format!(" by <code>{}</code>", text(call)));
    let then = if found.then.is_empty() { String::new() } else { format!("<br>{}", text(&found.then)) };
    format!(
        "<li class=\"tamper\"><b>{}</b>: {}{by}, in {}. Restored.{then}</li>",
        text(&found.path),
        text(&found.how),
        session_link(found.session),
    )
}

fn correction(found: &Correction) -> String {
    format!(
        "<li class=\"correction\"><code>{}</code> <span dir=\"auto\">{}</span></li>",
        text(&found.place),
        text(&cut(&found.message, REASON_CHARS_MAX))
    )
}

//! What went wrong on the way and what followed, and what was recalled: joined from events, verdicts and sessions.

use longhaul_core::Event;
use longhaul_harness::{
    history::SessionOutcome,
    verification::{Evidence, Occasion},
};
use serde_json::Value;

use super::{
    data::{AfterRefusal, Correction, Finding, Hit, Recall, RefusedClaim, Regression, Repair, Tamper},
    episodes::{Episode, Kind, number, string},
    gather::Source,
    verdicts::Seen,
};

/// Every refused claim, oldest first, with its picture.
pub(super) fn refusals(source: &Source<'_>) -> Vec<(RefusedClaim, Option<Evidence>)> {
    let mut all = Vec::new();
    for episode in &source.episodes {
        let mut verdicts: Vec<&Seen<'_>> = claims_refused_in(source, episode);
        for (position, event) in episode.events.iter().enumerate().filter(|(_, e)| e.kind == "claim.refused") {
            let told = &event.data;
            // The project's own checks refuse without a verdict.
            let matching = verdicts.iter().position(|seen| is_about(seen, told));
            let verdict = matching.map(|index| verdicts.remove(index));
            let rest = episode.events.get(position + 1..).unwrap_or_default();
            let claim = RefusedClaim {
                feature: source.named(&string(told, "feature")),
                session: session_of(episode),
                attempt: number(told, "attempt"),
                finding: verdict.map_or_else(|| told_finding(told), finding),
                did: did_until_next_claim(rest),
                next: next_of(source, episode, rest, &string(told, "feature")),
            };
            all.push((claim, verdict.and_then(Seen::picture).cloned()));
        }
    }
    all
}

fn session_of(episode: &Episode<'_>) -> Option<u32> {
    if let Kind::Session(n) = episode.kind { Some(n) } else { None }
}

fn claims_refused_in<'s, 'a>(source: &'s Source<'a>, episode: &Episode<'_>) -> Vec<&'s Seen<'a>> {
    let newest = source.details.sessions.iter().map(|entry| entry.number).max();
    let session = session_of(episode).unwrap_or_else(|| newest.map_or(0, |n| n + 1));
    source.seen.iter().filter(|seen| seen.is_claim() && !seen.passed() && seen.stored.session == session).collect()
}

fn is_about(seen: &Seen<'_>, told: &Value) -> bool {
    let Some(refusal) = seen.stored.verdict.refusal() else { return false };
    let reason = string(told, "reason");
    let same_reason = refusal.step > 0 || refusal.reason.starts_with(&reason);
    refusal.step as u64 == number(told, "step") && refusal.sentence == string(told, "sentence") && same_reason
}

fn finding(seen: &Seen<'_>) -> Finding {
    let refusal = seen.stored.verdict.refusal().cloned();
    refusal.map_or_else(Finding::default, |refusal| Finding {
        step: refusal.step,
        sentence: refusal.sentence,
        check: refusal.check,
        reason: refusal.reason,
        verdict: Some(seen.id()),
        picture: None,
    })
}

fn told_finding(told: &Value) -> Finding {
    Finding {
        step: usize::try_from(number(told, "step")).unwrap_or_default(),
        sentence: string(told, "sentence"),
        reason: string(told, "reason"),
        ..Finding::default()
    }
}

fn did_until_next_claim(rest: &[&Event]) -> Vec<String> {
    let ends = |event: &&&Event| matches!(event.kind.as_str(), "claim.refused" | "feature.passed" | "session.ended");
    let calls = rest.iter().take_while(|event| !ends(event)).filter(|event| event.kind == "tool.called");
    calls.map(|event| call(&event.data)).collect()
}

fn call(data: &Value) -> String {
    format!("{} {}", string(data, "tool"), string(data, "summary")).trim().to_owned()
}

fn next_of(source: &Source<'_>, episode: &Episode<'_>, rest: &[&Event], feature: &str) -> AfterRefusal {
    if rest.iter().any(|event| event.kind == "claim.refused") {
        return AfterRefusal::RefusedAgain;
    }
    let Some(entry) = session_of(episode).and_then(|n| source.entry(n)) else { return AfterRefusal::UnderWay };
    match entry.outcome {
        SessionOutcome::Verified => AfterRefusal::Accepted { commit: entry.commit.clone() },
        SessionOutcome::HandedOver | SessionOutcome::Planned => {
            let later = source.details.sessions.iter().find(|later| {
                later.number > entry.number
                    && later.outcome == SessionOutcome::Verified
                    && later.purpose.feature().is_some_and(|id| id.as_str() == feature)
            });
            AfterRefusal::HandedOver { accepted_in: later.map(|later| (later.number, later.commit.clone())) }
        }
    }
}

/// Every regression, oldest first, with its picture.
pub(super) fn regressions(source: &Source<'_>) -> Vec<(Regression, Option<Evidence>)> {
    let found = source.course.broke.iter().map(|position| {
        let seen = &source.seen[*position];
        let (earlier, later) = (&source.seen[..*position], &source.seen[position + 1..]);
        let same = |other: &&Seen<'_>| other.feature() == seen.feature() && other.passed();
        let last_passed = earlier.iter().rev().find(same).map_or(0, |passed| passed.stored.at.0);
        let suspect = |entry: &&longhaul_harness::history::SessionEntry| {
            entry.outcome == SessionOutcome::Verified
                && (last_passed..=seen.stored.at.0).contains(&entry.ended_at.0)
                && entry.purpose.feature().is_some_and(|id| id.as_str() != seen.feature())
        };
        let named = |entry: &longhaul_harness::history::SessionEntry| {
            (entry.number, entry.purpose.feature().map_or_else(String::new, ToString::to_string))
        };
        let regression = Regression {
            feature: source.named(seen.feature()),
            found_by: found_by(seen),
            finding: finding(seen),
            suspects: source.details.sessions.iter().filter(suspect).map(named).collect(),
            repair: later.iter().find(same).map(|passed| repair(source, passed)),
        };
        (regression, seen.picture().cloned())
    });
    found.collect()
}

fn found_by(seen: &Seen<'_>) -> String {
    match seen.occasion {
        Some(Occasion::FinalCheck) => "the final check".to_owned(),
        Some(Occasion::OnDemand) => "a verification on demand".to_owned(),
        Some(Occasion::Claim | Occasion::Regression) | None => format!("session {}", seen.stored.session),
    }
}

fn repair(source: &Source<'_>, passed: &Seen<'_>) -> Repair {
    let entry = passed.session().filter(|_| passed.is_claim()).and_then(|n| source.entry(n));
    Repair {
        session: passed.session(),
        summary: entry.map_or_else(String::new, |entry| entry.summary.clone()),
        commit: passed.stored.commit.clone(),
    }
}

/// Every change that was undone.
pub(super) fn tampers(source: &Source<'_>) -> Vec<Tamper> {
    let mut all = Vec::new();
    for episode in &source.episodes {
        let then = session_of(episode).and_then(|n| source.entry(n)).map_or("", |entry| match entry.outcome {
            SessionOutcome::Verified => "The session then asked the verifier, and its feature was verified.",
            SessionOutcome::HandedOver => "The session ended without its feature being verified.",
            SessionOutcome::Planned => "",
        });
        for (position, event) in episode.events.iter().enumerate().filter(|(_, e)| e.kind == "tamper.undone") {
            let same_step = |e: &&&Event| e.kind == "tool.called" && e.step == event.step && e.step.is_some();
            let by = episode.events[..position].iter().rev().find(same_step);
            all.push(Tamper {
                session: session_of(episode),
                path: string(&event.data, "path"),
                how: string(&event.data, "how"),
                by: by.map(|event| call(&event.data)),
                then: then.to_owned(),
            });
        }
    }
    all
}

/// Every plan that was sent back.
pub(super) fn corrections(source: &Source<'_>) -> Vec<Correction> {
    let told = source.episodes.iter().flat_map(|episode| episode.all("plan.refused"));
    told.map(|data| Correction { place: string(data, "place"), message: string(data, "message") }).collect()
}

/// Every search of memory.
pub(super) fn recalls(source: &Source<'_>) -> Vec<Recall> {
    let mut all = Vec::new();
    for episode in &source.episodes {
        let feature = source.feature_of(episode);
        for data in episode.all("memory.recalled") {
            all.push(Recall {
                session: session_of(episode),
                feature: feature.clone(),
                query: string(data, "query"),
                mode: mode(&data["mode"]),
                considered: number(data, "considered"),
                elapsed_us: number(data, "elapsed_us"),
                embedded_us: number(data, "embedded_us"),
                hits: data["hits"].as_array().into_iter().flatten().map(hit).collect(),
            });
        }
    }
    all
}

/// `hybrid`, or `keyword (why)`.
fn mode(mode: &Value) -> String {
    if let Some(name) = mode.as_str() {
        return name.to_owned();
    }
    let named = mode.as_object().and_then(|object| object.iter().next());
    named.map_or_else(String::new, |(name, more)| format!("{name} ({})", string(more, "reason")))
}

fn hit(data: &Value) -> Hit {
    let parts = data["explain"].as_object().into_iter().flatten();
    // A part is a number, or has one that says what it does to the score.
    let weighs = |value: &Value| value.as_f64().or(value["contribution"].as_f64()).or(value["factor"].as_f64());
    Hit {
        score: data["score"].as_f64().unwrap_or_default(),
        kind: string(data, "kind"),
        content: string(data, "content"),
        explain: parts.filter_map(|(name, value)| Some((name.clone(), weighs(value)?))).collect(),
    }
}

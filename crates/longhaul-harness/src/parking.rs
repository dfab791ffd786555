//! Why a feature is put aside: what was tried, what the verifier said, what is to be suspected. Pure, from rows that are
//! there anyway; no model is asked.
//!
//! Invariant: parked is not done. A diagnosis changes nothing but what people read.

use std::collections::BTreeMap;

use crate::{
    features::Feature,
    history::{SessionEntry, SessionOutcome},
    verification::{RecordedVerdict, StoredVerdict},
};

/// Most characters of one session's note.
const NOTE_CHARS_MAX: usize = 1_500;
/// Most characters of one refusal.
const REASON_CHARS_MAX: usize = 400;
/// Newest refusals that are told one by one.
const REFUSALS_SHOWN: usize = 8;

/// A diagnosis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    /// In one sentence.
    pub(crate) suspected: String,
    /// All of it, as Markdown.
    pub(crate) text: String,
}

/// Diagnoses a feature from the sessions that worked on it, the newest of which is `last`, and its verdicts.
pub(crate) fn diagnose(
    feature: &Feature,
    sessions: &[SessionEntry],
    last: &SessionEntry,
    verdicts: &[StoredVerdict],
) -> Diagnosis {
    let worked = sessions.iter().filter(|entry| entry.number != last.number).chain(std::iter::once(last));
    let mut failed: Vec<&SessionEntry> = worked.filter(|entry| entry.purpose.feature() == Some(feature.id())).collect();
    if let Some(passed) = failed.iter().rposition(|entry| entry.outcome == SessionOutcome::Verified) {
        failed.drain(..=passed);
    }
    let first = failed.first().map_or(last.number, |entry| entry.number);
    let refusals: Vec<(&StoredVerdict, Refused)> = verdicts
        .iter()
        .filter(|v| v.verdict.feature() == feature.id() && v.session >= first)
        .filter_map(|v| Some((v, refused(&v.verdict)?)))
        .collect();
    let suspected = suspicion(&failed, &refusals);
    let mut text = format!(
        "# Why {} is parked\n\n{}\n\n{suspected}\n\n## What was tried\n",
        feature.id(),
        feature.definition.description
    );
    for entry in &failed {
        let note: String = entry.summary.trim().chars().take(NOTE_CHARS_MAX).collect();
        text.push_str(&format!(
            "\n- Session {}: {} answers, {} claims refused. {}",
            entry.number,
            entry.turns,
            entry.refused_claims,
            note.replace('\n', "\n  ")
        ));
    }
    text.push_str("\n\n## What the verifier said\n");
    if refusals.is_empty() {
        text.push_str("\nNothing: no session came as far as a verification.\n");
    }
    for (verdict, refused) in refusals.iter().rev().take(REFUSALS_SHOWN) {
        text.push_str(&format!("\n- Session {}, {}", verdict.session, refused.told()));
    }
    if let Some(patch) = &last.unfinished {
        text.push_str(&format!("\n\n## What is left of it\n\nThe last session's changes are kept as {patch}.\n"));
    }
    text.push_str(&format!(
        "\n\n## What to do\n\nMend what is suspected, then `longhaul features unpark {} --reason \"…\"`; it is worked on \
         again by the next run.\n",
        feature.id()
    ));
    Diagnosis { suspected, text }
}

/// A refusal as far as a diagnosis wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refused {
    step: usize,
    sentence: String,
    reason: String,
}

impl Refused {
    fn told(&self) -> String {
        if self.step == 0 {
            return self.reason.clone();
        }
        format!("step {} \"{}\": {}", self.step, self.sentence, self.reason)
    }
}

fn refused(verdict: &RecordedVerdict) -> Option<Refused> {
    let refusal = verdict.refusal()?;
    let reason = refusal.reason.split_whitespace().collect::<Vec<_>>().join(" ");
    let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
    Some(Refused { step: refusal.step, sentence: refusal.sentence.clone(), reason })
}

fn suspicion(failed: &[&SessionEntry], refusals: &[(&StoredVerdict, Refused)]) -> String {
    let sessions = failed.len();
    let Some((_, last)) = refusals.last() else {
        let mut whys: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in failed {
            *whys.entry(entry.summary.split(':').next().unwrap_or_default().trim()).or_default() += 1;
        }
        let why = whys.into_iter().max_by_key(|(_, times)| *times).map_or("", |(why, _)| why);
        let why: String = why.chars().take(120).collect();
        return format!(
            "In {} nobody claimed that it is done (mostly: {why}); it may be too large for one session, or \
             something it needs is missing here.",
            counted(sessions, "session")
        );
    };
    if last.step == 0 {
        return format!(
            "The verifier could not begin in the last of {}: {}. The application or what it needs on \
             this machine is to be suspected rather than the feature.",
            counted(sessions, "session"),
            short(&last.reason)
        );
    }
    let same = refusals.iter().filter(|(_, refused)| refused.step == last.step).count();
    if same == refusals.len() && same > 1 {
        return format!(
            "All {same} refusals are of step {} (\"{}\"): {}. What the sentence asks for and what its checks look for may \
             differ, or the step needs something that cannot be had here.",
            last.step,
            last.sentence,
            short(&last.reason)
        );
    }
    let mut steps: Vec<String> = refusals.iter().map(|(_, refused)| refused.step.to_string()).collect();
    steps.dedup();
    format!(
        "Refused {} in {}, at step {}; the last time because {}. It may be too large for one session, or one part of it \
         breaks another.",
        counted(refusals.len(), "time"),
        counted(sessions, "session"),
        steps.join(", "),
        short(&last.reason)
    )
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn short(reason: &str) -> String {
    reason.chars().take(200).collect::<String>().trim_end_matches('.').to_owned()
}

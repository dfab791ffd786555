//! From rows and events to what the page shows. Pure: what needs the disk (pictures, git) is handed in or filled in later.

use std::collections::BTreeMap;

use longhaul_harness::{
    Commit,
    features::Feature,
    history::{Purpose, SessionEntry, SessionOutcome},
    verification::Evidence,
};

use super::{
    data::{Chapter, CommitLine, FeatureCard, Outcome, ReportData, Standing, Task, Totals},
    episodes::{self, Episode, Kind, number, string},
    troubles,
    verdicts::{Course, Seen, occasion},
};
use crate::Details;

/// A page without its pictures, and the pictures it wants, in the order of its features, refusals and regressions.
pub(super) struct Gathered {
    pub(super) data: ReportData,
    pub(super) features: Vec<Option<Evidence>>,
    pub(super) refusals: Vec<Option<Evidence>>,
    pub(super) regressions: Vec<Option<Evidence>>,
}

/// What is looked up while gathering.
pub(super) struct Source<'a> {
    pub(super) details: &'a Details,
    pub(super) seen: Vec<Seen<'a>>,
    pub(super) course: Course,
    pub(super) episodes: Vec<Episode<'a>>,
}

impl Source<'_> {
    /// A feature's id with its description.
    pub(super) fn named(&self, id: &str) -> (String, String) {
        let found = self.details.features.iter().find(|f| f.id().as_str() == id);
        (id.to_owned(), found.map_or_else(String::new, |f| f.definition.description.clone()))
    }

    pub(super) fn entry(&self, number: u32) -> Option<&SessionEntry> {
        self.details.sessions.iter().find(|entry| entry.number == number)
    }

    /// The feature that an episode worked on.
    pub(super) fn feature_of(&self, episode: &Episode<'_>) -> Option<String> {
        match episode.kind {
            Kind::Session(n) => self.entry(n)?.purpose.feature().map(ToString::to_string),
            Kind::UnderWay => episode.all("session.started").last().map(|data| string(data, "feature")),
            Kind::FinalCheck => None,
        }
        .filter(|id| !id.is_empty())
    }
}

/// Gathers everything but the pictures.
pub(super) fn gather(details: &Details, log: &[Commit]) -> Gathered {
    let seen: Vec<Seen<'_>> =
        details.verdicts.iter().map(|stored| Seen { stored, occasion: occasion(stored) }).collect();
    let source = Source { details, course: Course::replay(&seen), seen, episodes: episodes::cut(&details.events) };
    let (features, feature_pictures) = details.features.iter().map(|f| card(&source, f)).unzip();
    let (refusals, refusal_pictures) = troubles::refusals(&source).into_iter().unzip();
    let (regressions, regression_pictures) = troubles::regressions(&source).into_iter().unzip();
    let mut data = ReportData {
        request: details.project.request.clone(),
        summary: details.project.brief.summary.clone(),
        dir: details.project.dir.display().to_string(),
        cassette: details.project.model.starts_with("cassette:"),
        model: details.project.model.clone(),
        answered_by: answered_by(details),
        totals: Totals::default(),
        features,
        chapters: source.episodes.iter().map(|episode| chapter(&source, episode)).collect(),
        refusals,
        regressions,
        tampers: troubles::tampers(&source),
        corrections: troubles::corrections(&source),
        recalls: troubles::recalls(&source),
        commits: commits(details, log),
        notes: Vec::new(),
        span: details.events.first().zip(details.events.last()).map(|(first, last)| (first.at.0, last.at.0)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    data.totals = totals(&source, &data);
    Gathered { data, features: feature_pictures, refusals: refusal_pictures, regressions: regression_pictures }
}

fn answered_by(details: &Details) -> Vec<(String, u64)> {
    let mut names: BTreeMap<String, u64> = BTreeMap::new();
    for event in details.events.iter().filter(|event| event.kind == "model.answered") {
        *names.entry(string(&event.data, "model")).or_default() += 1;
    }
    names.into_iter().filter(|(name, _)| !name.is_empty()).collect()
}

fn card(source: &Source<'_>, feature: &Feature) -> (FeatureCard, Option<Evidence>) {
    let (definition, standing) = (&feature.definition, &feature.standing);
    let mine = || source.seen.iter().rev().filter(|seen| seen.feature() == definition.id.as_str());
    let newest = mine().next();
    let accepted = mine().find(|seen| seen.passed() && seen.is_claim()).or_else(|| mine().find(|seen| seen.passed()));
    let rests_on = if standing.passes { accepted } else { newest.filter(|seen| !seen.passed()) };
    let pictured = rests_on
        .and_then(Seen::picture)
        .or_else(|| mine().filter(|seen| standing.passes && seen.passed()).find_map(Seen::picture));
    let shown = if standing.passes {
        Standing::Verified
    } else if standing.parked {
        Standing::Parked
    } else if standing.broken.is_some() {
        Standing::Broken
    } else {
        Standing::Open
    };
    let card = FeatureCard {
        id: definition.id.to_string(),
        category: definition.category.clone(),
        description: definition.description.clone(),
        steps: definition.steps.clone(),
        checks: definition.checks.len(),
        standing: shown,
        stopped_at: newest.and_then(|seen| seen.stored.verdict.refusal()).map(|r| (r.step, r.reason.clone())),
        commit: standing.commit.clone().filter(|_| standing.passes),
        verdict: accepted.filter(|_| standing.passes).map(Seen::id),
        session: accepted.filter(|_| standing.passes).and_then(Seen::session),
        passed_times: mine().filter(|seen| seen.passed()).count(),
        attempts: standing.attempts,
        suspected: standing.suspected.clone().filter(|_| standing.parked),
        picture: None,
    };
    (card, pictured.cloned())
}

fn chapter(source: &Source<'_>, episode: &Episode<'_>) -> Chapter {
    let (from, to) = episode.span();
    let entry = if let Kind::Session(n) = episode.kind { source.entry(n) } else { None };
    let recheck = |data| (string(data, "feature"), data["passed"].as_bool().unwrap_or_default());
    let rechecked: Vec<(String, bool)> = episode.all("regression.checked").map(recheck).collect();
    let broken = rechecked.iter().any(|(_, passed)| !passed);
    let mut tools: BTreeMap<String, u32> = BTreeMap::new();
    for data in episode.all("tool.called") {
        *tools.entry(string(data, "tool")).or_default() += 1;
    }
    let (task, outcome) = match (episode.kind, entry) {
        (Kind::FinalCheck, _) => (Task::FinalCheck, if broken { Outcome::FoundBroken } else { Outcome::AllPass }),
        (Kind::UnderWay, _) | (Kind::Session(_), None) => (Task::UnderWay, Outcome::UnderWay),
        (Kind::Session(_), Some(entry)) => (task_of(&entry.purpose), outcome_of(entry.outcome)),
    };
    let started_at = entry.map_or(from, |entry| entry.started_at.0);
    Chapter {
        number: if let Kind::Session(n) = episode.kind { Some(n) } else { None },
        task,
        outcome,
        feature: source.feature_of(episode).map(|id| source.named(&id)),
        summary: entry.map_or_else(String::new, |entry| entry.summary.clone()),
        rechecked,
        refused: episode.all("claim.refused").count(),
        corrections: episode.all("plan.refused").count(),
        tampers: episode.all("tamper.undone").count(),
        recalled: episode.all("memory.recalled").map(|data| data["hits"].as_array().map_or(0, Vec::len)).sum(),
        tools: tools.into_iter().collect(),
        turns: u32::try_from(episode.all("model.answered").count()).unwrap_or(u32::MAX),
        prompt_tokens: episode.all("model.answered").map(|data| number(data, "prompt_tokens")).sum(),
        answer_tokens: episode.all("model.answered").map(|data| number(data, "answer_tokens")).sum(),
        started_at,
        ms: u64::try_from(entry.map_or(to, |entry| entry.ended_at.0) - started_at).unwrap_or_default(),
        commit: entry.and_then(|entry| entry.commit.clone()),
        passing_after: source.course.passing_at(to),
    }
}

fn task_of(purpose: &Purpose) -> Task {
    match purpose {
        Purpose::Initialize => Task::Plan,
        Purpose::Build { .. } => Task::Build,
        Purpose::Repair { .. } => Task::Repair,
    }
}

fn outcome_of(outcome: SessionOutcome) -> Outcome {
    match outcome {
        SessionOutcome::Planned => Outcome::Planned,
        SessionOutcome::Verified => Outcome::Verified,
        SessionOutcome::HandedOver => Outcome::HandedOver,
    }
}

fn commits(details: &Details, log: &[Commit]) -> Vec<CommitLine> {
    let line = |entry: &SessionEntry| {
        let id = entry.commit.clone()?;
        let known = log.iter().find(|commit| commit.id == id).map(|commit| commit.subject.clone());
        let subject = known.unwrap_or_else(|| entry.summary.lines().next().unwrap_or_default().to_owned());
        let feature = entry.purpose.feature().map(ToString::to_string);
        Some(CommitLine { id, subject, session: entry.number, feature, at: entry.ended_at.0 })
    };
    details.sessions.iter().filter_map(line).collect()
}

fn totals(source: &Source<'_>, data: &ReportData) -> Totals {
    let verified = || data.features.iter().filter(|f| f.standing == Standing::Verified);
    let of = |kind: &'static str| source.details.events.iter().filter(move |event| event.kind == kind);
    let retries = |data: &serde_json::Value| data["retries"].as_array().map_or(0, |tries| tries.len() as u64);
    let is_picture = |piece: &&Evidence| piece.media_type == "image/png";
    Totals {
        features: data.features.len(),
        verified: verified().count(),
        parked: data.features.iter().filter(|f| f.standing == Standing::Parked).count(),
        sentences: data.features.iter().map(|f| f.steps.len()).sum(),
        sentences_verified: verified().map(|f| f.steps.len()).sum(),
        sessions: source.details.sessions.iter().filter(|entry| entry.number > 0).count(),
        commits: data.commits.len(),
        verdicts: source.seen.len(),
        pictures: source.seen.iter().map(|s| s.stored.verdict.evidence().iter().filter(is_picture).count()).sum(),
        refused: data.refusals.len(),
        regressions: data.regressions.len(),
        repaired: data.regressions.iter().filter(|found| found.repair.is_some()).count(),
        tampers: data.tampers.len(),
        recalls: data.recalls.len(),
        answers: of("model.answered").count() as u64,
        tool_calls: of("tool.called").count() as u64,
        retries: of("model.answered").map(|event| retries(&event.data)).sum(),
        prompt_tokens: data.chapters.iter().map(|c| c.prompt_tokens).sum(),
        answer_tokens: data.chapters.iter().map(|c| c.answer_tokens).sum(),
        worked_ms: data.chapters.iter().map(|c| c.ms).sum(),
        verified_ms: source.seen.iter().map(|seen| seen.stored.verdict.elapsed_ms()).sum(),
    }
}

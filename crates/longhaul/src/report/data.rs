//! What the page shows, as plain values: no ids to look up, no store. Gathering fills it in, rendering only reads it.

/// Everything on the page.
#[derive(Debug, Clone, Default)]
pub(super) struct ReportData {
    /// The request, in the user's words.
    pub(super) request: String,
    /// What the initializer said of the project; may be empty.
    pub(super) summary: String,
    /// The project's folder.
    pub(super) dir: String,
    /// The model the project was begun with.
    pub(super) model: String,
    /// Whether that model is a cassette.
    pub(super) cassette: bool,
    /// Who answered, and how often.
    pub(super) answered_by: Vec<(String, u64)>,
    pub(super) totals: Totals,
    pub(super) features: Vec<FeatureCard>,
    pub(super) chapters: Vec<Chapter>,
    pub(super) refusals: Vec<RefusedClaim>,
    pub(super) regressions: Vec<Regression>,
    pub(super) tampers: Vec<Tamper>,
    pub(super) corrections: Vec<Correction>,
    pub(super) recalls: Vec<Recall>,
    pub(super) commits: Vec<CommitLine>,
    /// What was left out and why, one sentence each.
    pub(super) notes: Vec<String>,
    /// When the first and the newest of what is shown happened, in milliseconds since the epoch.
    pub(super) span: Option<(i64, i64)>,
    /// Version of this program.
    pub(super) version: String,
}

/// Figures of the whole project.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    pub(super) features: usize,
    pub(super) verified: usize,
    pub(super) parked: usize,
    /// Sentences of all features, and of those that are verified.
    pub(super) sentences: usize,
    pub(super) sentences_verified: usize,
    /// Coding sessions.
    pub(super) sessions: usize,
    pub(super) commits: usize,
    pub(super) verdicts: usize,
    pub(super) pictures: usize,
    pub(super) refused: usize,
    pub(super) regressions: usize,
    pub(super) repaired: usize,
    pub(super) tampers: usize,
    pub(super) recalls: usize,
    pub(super) answers: u64,
    pub(super) tool_calls: u64,
    pub(super) retries: u64,
    pub(super) prompt_tokens: u64,
    pub(super) answer_tokens: u64,
    /// Time in sessions and in final checks.
    pub(super) worked_ms: u64,
    /// Time in verifications.
    pub(super) verified_ms: u64,
}

/// Where a feature stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Verified,
    Open,
    Broken,
    Parked,
}

/// One feature.
#[derive(Debug, Clone)]
pub(super) struct FeatureCard {
    pub(super) id: String,
    pub(super) category: String,
    pub(super) description: String,
    pub(super) steps: Vec<String>,
    /// Typed checks behind the sentences.
    pub(super) checks: usize,
    pub(super) standing: Standing,
    /// The sentence at which the newest verdict stopped, from 1, and why; of a feature that does not pass.
    pub(super) stopped_at: Option<(usize, String)>,
    /// The commit with which it passes.
    pub(super) commit: Option<String>,
    /// The verdict by which it passes.
    pub(super) verdict: Option<String>,
    /// Session of that verdict.
    pub(super) session: Option<u32>,
    /// Verdicts that passed, in all.
    pub(super) passed_times: usize,
    /// Failed sessions since it last passed.
    pub(super) attempts: u32,
    /// What is suspected of a parked one.
    pub(super) suspected: Option<String>,
    pub(super) picture: Option<Picture>,
}

/// A screenshot, or why it is not shown.
#[derive(Debug, Clone)]
pub(super) struct Picture {
    /// What it shows.
    pub(super) caption: String,
    pub(super) content: Pixels,
}

/// The content of a screenshot.
#[derive(Debug, Clone)]
pub(super) enum Pixels {
    /// PNG in base64, with width and height.
    Shown { base64: String, width: u32, height: u32 },
    /// Not on the page, and why.
    LeftOut(String),
}

/// What a session was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Plan,
    Build,
    Repair,
    FinalCheck,
    /// Not ended: under way, or interrupted.
    UnderWay,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Planned,
    Verified,
    HandedOver,
    /// A final check that found everything in order.
    AllPass,
    /// A final check that found something broken.
    FoundBroken,
    UnderWay,
}

/// One row of the timeline: a session or a final check.
#[derive(Debug, Clone)]
pub(super) struct Chapter {
    /// The session's number; a final check has none.
    pub(super) number: Option<u32>,
    pub(super) task: Task,
    pub(super) outcome: Outcome,
    /// The feature's id and description.
    pub(super) feature: Option<(String, String)>,
    pub(super) summary: String,
    /// Features verified again, and whether each still passed.
    pub(super) rechecked: Vec<(String, bool)>,
    pub(super) refused: usize,
    pub(super) corrections: usize,
    pub(super) tampers: usize,
    /// Memories that were recalled.
    pub(super) recalled: usize,
    /// Tools and how often each was called.
    pub(super) tools: Vec<(String, u32)>,
    pub(super) turns: u32,
    pub(super) prompt_tokens: u64,
    pub(super) answer_tokens: u64,
    pub(super) started_at: i64,
    pub(super) ms: u64,
    pub(super) commit: Option<String>,
    /// Features that passed when it ended.
    pub(super) passing_after: usize,
}

/// What the verifier saw instead of what a sentence says.
#[derive(Debug, Clone, Default)]
pub(super) struct Finding {
    /// From 1; 0 when no sentence was reached.
    pub(super) step: usize,
    pub(super) sentence: String,
    /// The check as JSON; may be empty.
    pub(super) check: String,
    pub(super) reason: String,
    pub(super) verdict: Option<String>,
    pub(super) picture: Option<Picture>,
}

/// A claim of success that was refused.
#[derive(Debug, Clone)]
pub(super) struct RefusedClaim {
    pub(super) feature: (String, String),
    /// The session; none while it is under way.
    pub(super) session: Option<u32>,
    pub(super) attempt: u64,
    pub(super) finding: Finding,
    /// Tool calls until the next claim, a line each.
    pub(super) did: Vec<String>,
    pub(super) next: AfterRefusal,
}

/// What followed a refusal.
#[derive(Debug, Clone)]
pub(super) enum AfterRefusal {
    /// The next claim stood.
    Accepted { commit: Option<String> },
    /// The next claim was refused as well.
    RefusedAgain,
    /// The session gave up; a later one may have made it.
    HandedOver { accepted_in: Option<(u32, Option<String>)> },
    /// Nothing yet.
    UnderWay,
}

/// A feature that used to pass and was found broken.
#[derive(Debug, Clone)]
pub(super) struct Regression {
    pub(super) feature: (String, String),
    /// `session 10`, `the final check`, `a verification on demand`.
    pub(super) found_by: String,
    pub(super) finding: Finding,
    /// Sessions since it was last seen passing, with the feature each built.
    pub(super) suspects: Vec<(u32, String)>,
    pub(super) repair: Option<Repair>,
}

/// How a broken feature came to pass again.
#[derive(Debug, Clone)]
pub(super) struct Repair {
    pub(super) session: Option<u32>,
    pub(super) summary: String,
    pub(super) commit: Option<String>,
}

/// A change of a guarded file, undone.
#[derive(Debug, Clone)]
pub(super) struct Tamper {
    pub(super) session: Option<u32>,
    pub(super) path: String,
    pub(super) how: String,
    /// The tool call that did it.
    pub(super) by: Option<String>,
    /// What became of the session.
    pub(super) then: String,
}

/// A plan that was refused before it was locked.
#[derive(Debug, Clone)]
pub(super) struct Correction {
    pub(super) place: String,
    pub(super) message: String,
}

/// One look into memory.
#[derive(Debug, Clone)]
pub(super) struct Recall {
    pub(super) session: Option<u32>,
    /// What the session worked on.
    pub(super) feature: Option<String>,
    pub(super) query: String,
    pub(super) mode: String,
    pub(super) considered: u64,
    pub(super) elapsed_us: u64,
    pub(super) embedded_us: u64,
    pub(super) hits: Vec<Hit>,
}

/// A memory that was found.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    pub(super) score: f64,
    pub(super) kind: String,
    pub(super) content: String,
    /// The parts of the score, by name.
    pub(super) explain: Vec<(String, f64)>,
}

/// One commit.
#[derive(Debug, Clone)]
pub(super) struct CommitLine {
    pub(super) id: String,
    pub(super) subject: String,
    pub(super) session: u32,
    pub(super) feature: Option<String>,
    pub(super) at: i64,
}

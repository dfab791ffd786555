//! What the verifier says of a flow, with what it saw. Its fields are private and nothing deserialises it: whoever holds
//! one has run the verifier.

use longhaul_core::{Digest, FeatureId};
use longhaul_tools::browser::Activity;
use serde::Serialize;

/// The check that did not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Number of its sentence, from 1.
    pub step_index: usize,
    /// Its sentence.
    pub sentence: String,
    /// The check, as compact JSON.
    pub check_json: String,
    /// What was seen instead.
    pub reason: String,
}

/// How one sentence went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepLog {
    /// Its number, from 1.
    pub index: usize,
    /// The sentence.
    pub sentence: String,
    /// Whether all of its checks held. A sentence that was not reached has no log.
    pub ok: bool,
    /// How long it took.
    pub ms: u64,
    /// What was done and seen, a line a check.
    pub notes: Vec<String>,
    /// What was on the screen at its end, as PNG.
    #[serde(skip)]
    pub screenshot: Option<Vec<u8>>,
}

/// The outcome of one flow. Nothing outside the verifier makes one, also not from JSON:
///
/// ```compile_fail,E0277
/// let forged: longhaul_harness::verifier::Verdict = serde_json::from_str("{}").unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub(super) feature: FeatureId,
    pub(super) checks_hash: Digest,
    pub(super) browser: String,
    pub(super) failure: Option<Failure>,
    pub(super) steps: Vec<StepLog>,
    pub(super) activity: Activity,
    pub(super) elapsed_ms: u64,
    #[serde(skip)]
    pub(super) exhibits: Vec<(String, Vec<u8>)>,
    #[serde(skip)]
    pub(super) baselines: Vec<(String, Vec<u8>)>,
}

impl Verdict {
    /// The feature.
    #[must_use]
    pub fn feature(&self) -> &FeatureId {
        &self.feature
    }

    /// Digest of the sentences and checks that were carried out.
    #[must_use]
    pub fn checks_hash(&self) -> &Digest {
        &self.checks_hash
    }

    /// Whether every check held.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }

    /// The first check that did not hold.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// The sentences that were reached.
    #[must_use]
    pub fn steps(&self) -> &[StepLog] {
        &self.steps
    }

    /// Console errors, failed requests and dialogs of the whole flow.
    #[must_use]
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Product and version of the browser that saw it.
    #[must_use]
    pub fn browser(&self) -> &str {
        &self.browser
    }

    /// How long the flow took.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        self.elapsed_ms
    }

    /// Pictures of `visual` checks for which none was accepted yet, by their names. A verdict that passes makes them the
    /// accepted ones; one that does not has none.
    #[must_use]
    pub fn baselines(&self) -> &[(String, Vec<u8>)] {
        &self.baselines
    }

    /// The evidence: the log as JSON without pictures, and the pictures and papers, each with what it shows;
    /// [`media_type`] tells their kind.
    #[must_use]
    pub fn into_evidence(mut self) -> (Vec<u8>, Vec<(String, Vec<u8>)>) {
        let mut pictures = Vec::new();
        for step in &mut self.steps {
            if let Some(picture) = step.screenshot.take() {
                let end = if step.ok { "" } else { " (failed)" };
                pictures.push((format!("step {}: {}{end}", step.index, step.sentence), picture));
            }
        }
        pictures.append(&mut self.exhibits);
        let log = serde_json::to_vec_pretty(&self).expect("texts and numbers always print");
        (log, pictures)
    }
}

/// The media type of a piece of evidence, by its first bytes.
#[must_use]
pub fn media_type(content: &[u8]) -> &'static str {
    const KINDS: [(&[u8], &str); 3] =
        [(b"\x89PNG", "image/png"), (b"%PDF", "application/pdf"), (b"RIFF", "image/webp")];
    let found = KINDS.iter().find(|(magic, _)| content.starts_with(magic));
    found.map_or("application/octet-stream", |(_, kind)| kind)
}

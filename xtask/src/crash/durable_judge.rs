//! What must be true after all the deaths, judged by the lines that arrived outside and each thread's last state.
//!
//! It owns the acts that `crash_subject` promises for each thread: their names are the same there. Invariant: nothing
//! is taken from the runtime's own word but the state it ends with and the rows beside it.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context;
use serde_json::{Value, json};

const ROUNDS: u64 = 3;
const PARTS: u64 = 3;

/// What is wrong, and how much there was.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) findings: Vec<String>,
    threads: u64,
    /// All that arrived.
    arrivals: u64,
    /// Lines of a thread's story that its state lacks, acts that never arrived, rows that are missing.
    steps_missing: u64,
    /// Acts that must happen once, or have one key, and did not; rows that are there twice.
    effects_doubled: u64,
    /// Acts that were done although a later one had been, so that they were recorded.
    steps_redone: u64,
    /// Lines of a state that are not what was recorded.
    states_wrong: u64,
    /// Acts of which nobody could know, and which were listed.
    unknown_outcomes: u64,
    /// Acts repeated without having been listed.
    unlisted: u64,
    /// Arrivals that the receiver knew by their key.
    deduplicated: u64,
    /// Processes that could not go on.
    pub(super) stuck: u64,
}

impl Counts {
    pub(super) fn find(&mut self, what: impl FnOnce(&mut Self) -> &mut u64, words: String) {
        *what(self) += 1;
        self.findings.push(words);
    }

    pub(super) fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.threads > 0
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "threads": self.threads, "arrivals": self.arrivals, "missing": self.steps_missing,
            "doubled": self.effects_doubled, "redone": self.steps_redone,
            "wrong": self.states_wrong, "unknown": self.unknown_outcomes, "unlisted": self.unlisted,
            "deduplicated": self.deduplicated, "stuck": self.stuck,
        })
    }
}

/// One line of the world outside.
struct Arrival {
    kind: String,
    key: String,
    nonce: String,
}

/// The acts of a round in their order, and of how many parts; the parts of one stage may be done in any order.
const STAGES: [(&str, u64); 9] = [
    ("value", 1),
    ("send", 1),
    ("pay", 1),
    ("book", 1),
    ("look", PARTS),
    ("note", PARTS),
    ("gather", 1),
    ("ask", 1),
    ("deep", 1),
];

/// Every act of a thread, with its rank: what has a higher rank comes after it has been recorded.
fn acts() -> BTreeMap<String, u64> {
    let mut acts = BTreeMap::new();
    for round in 0..ROUNDS {
        for (stage, (what, parts)) in STAGES.into_iter().enumerate() {
            if what == "ask" && round != 1 {
                continue;
            }
            // The parts' two stages run beside each other.
            let rank = round * 100 + if what == "note" { stage as u64 - 1 } else { stage as u64 };
            for part in 0..parts {
                let name = if parts > 1 { format!("{what}.{round}.{part}") } else { format!("{what}.{round}") };
                acts.insert(name, rank);
            }
        }
    }
    acts
}

/// Judges every thread that was reported, and that every thread outside was.
pub(super) fn judge(counts: &mut Counts, folder: &Path, reports: &[Value]) -> anyhow::Result<()> {
    let acts = acts();
    for report in reports {
        let thread = report["thread"].as_str().context("a report without a thread")?;
        let text = fs::read_to_string(folder.join(thread)).with_context(|| thread.to_owned())?;
        counts.threads += 1;
        one(counts, &acts, thread, &text, report);
    }
    let reported = |name: &str| reports.iter().any(|report| report["thread"] == name);
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !reported(&name) && counts.stuck == 0 {
            counts.find(|counts| &mut counts.steps_missing, format!("{name} was never reported"));
        }
    }
    Ok(())
}

fn one(counts: &mut Counts, acts: &BTreeMap<String, u64>, thread: &str, text: &str, report: &Value) {
    let arrived = arrivals(counts, acts, thread, text);
    if report["status"] != "completed" || report["executions"] != 1 {
        let words = format!("{thread} is {} with {} executions", report["status"], report["executions"]);
        counts.find(|counts| &mut counts.states_wrong, words);
    }
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let lines = strings(&report["lines"]);
    if lines.len() > acts.len() {
        counts.find(|counts| &mut counts.states_wrong, format!("{thread} has {} lines", lines.len()));
    }
    for act in acts.keys() {
        let prefix = format!("{act}=");
        let receipts: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix(&prefix)).collect();
        let ([receipt], Some(arrived)) = (&receipts[..], arrived.get(act)) else {
            let words = format!("{thread}: {act} is {} times in the state", receipts.len());
            counts.find(|counts| &mut counts.steps_missing, words);
            continue;
        };
        // A receiver that knows keys answers with the first receipt; else the last to arrive is the recorded one. Of
        // several offers, one was accepted.
        let recorded = match arrived[0].kind.as_str() {
            "idempotent" => arrived.first().is_some_and(|arrival| arrival.nonce == *receipt),
            "offer" => arrived.iter().any(|arrival| arrival.nonce == *receipt),
            _ => arrived.last().is_some_and(|arrival| arrival.nonce == *receipt),
        };
        if !recorded {
            counts.find(|counts| &mut counts.states_wrong, format!("{thread}: {act} came to {receipt}"));
        }
    }
    let notes = strings(&report["notes"]);
    for act in acts.keys().filter(|act| act.starts_with("note.")) {
        match notes.iter().filter(|note| *note == act).count() {
            1 => {}
            0 => counts.find(|counts| &mut counts.steps_missing, format!("{thread}: the row of {act} is missing")),
            n => counts.find(|counts| &mut counts.effects_doubled, format!("{thread}: {n} rows of {act}")),
        }
    }
}

/// What arrived for each act, having looked at the order in which it did.
fn arrivals(
    counts: &mut Counts,
    acts: &BTreeMap<String, u64>,
    thread: &str,
    text: &str,
) -> BTreeMap<String, Vec<Arrival>> {
    let mut arrived: BTreeMap<String, Vec<Arrival>> = BTreeMap::new();
    let mut highest = 0;
    // Whether the act was listed since it last arrived.
    let mut listed: BTreeMap<String, bool> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, act, key, nonce, _life] = words[..] else {
            counts.find(|counts| &mut counts.states_wrong, format!("{thread}: a torn line {line:?}"));
            continue;
        };
        if kind == "listed" {
            counts.unknown_outcomes += u64::from(!listed.insert(act.to_owned(), true).unwrap_or(false));
            continue;
        }
        counts.arrivals += 1;
        let Some(rank) = acts.get(act).copied() else {
            counts.find(|counts| &mut counts.states_wrong, format!("{thread}: {act} is no act"));
            continue;
        };
        // Of a part, the second act says that the first is recorded.
        let after_note = act.starts_with("look.") && arrived.contains_key(&act.replacen("look.", "note.", 1));
        if rank < highest || after_note {
            counts.find(
                |counts| &mut counts.steps_redone,
                format!("{thread}: {act} was done again after it was recorded"),
            );
        }
        highest = highest.max(rank);
        let before = arrived.entry(act.to_owned()).or_default();
        match (kind, before.last()) {
            ("idempotent", Some(last)) if last.key != key => {
                counts.find(|counts| &mut counts.effects_doubled, format!("{thread}: {act} came with two keys"));
            }
            ("idempotent", Some(_)) => counts.deduplicated += 1,
            ("once", Some(_)) => {
                counts.find(|counts| &mut counts.effects_doubled, format!("{thread}: {act} happened twice"));
                if !listed.get(act).copied().unwrap_or(false) && !act.starts_with("book.") {
                    counts.find(|counts| &mut counts.unlisted, format!("{thread}: {act} was repeated unlisted"));
                }
            }
            (_, _) => {}
        }
        listed.insert(act.to_owned(), false);
        let arrival = Arrival { kind: kind.to_owned(), key: key.to_owned(), nonce: nonce.to_owned() };
        arrived.entry(act.to_owned()).or_default().push(arrival);
    }
    arrived
}

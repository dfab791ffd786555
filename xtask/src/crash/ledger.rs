//! Which answers of the model were recorded, and which were asked for again.
//!
//! Answers are recorded in the order in which they are asked for, one at a time. So the first N different entries that
//! the cassette served are the N recorded answers, and none of them may ever be served again.

use anyhow::ensure;

use super::subject::Subject;

/// What was known to be recorded at the last look.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Entries whose answers are in the store.
    recorded: Vec<String>,
    /// Length of the served log when that was known.
    seen: usize,
}

impl Ledger {
    /// Looks at the stopped demo: nothing recorded at an earlier look was served since.
    pub(super) fn check(&mut self, subject: &Subject) -> anyhow::Result<()> {
        let served = subject.served()?;
        for entry in served.iter().skip(self.seen) {
            ensure!(!self.recorded.contains(entry), "the model was asked again for {entry}, whose answer was recorded");
        }
        let mut different: Vec<String> = Vec::new();
        for entry in &served {
            if !different.contains(entry) {
                different.push(entry.clone());
            }
        }
        let recorded = subject.recorded_answers()?;
        ensure!(
            recorded <= different.len(),
            "{recorded} answers are recorded, but only {} were served",
            different.len()
        );
        different.truncate(recorded);
        self.recorded = different;
        self.seen = served.len();
        Ok(())
    }
}

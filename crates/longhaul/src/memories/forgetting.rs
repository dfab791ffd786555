//! Forgetting as a person asks for it: what would go is found first, then erased by id.

use longhaul_core::MemoryId;
use longhaul_memory::{Forget, Item, Receipt, when::Zone};

use super::{Filters, Memories, MemoriesError};

/// Memories looked at together.
const PAGE: usize = 200;

/// What is to be forgotten.
#[derive(Debug, Clone)]
pub enum Forgetting {
    /// These.
    Ids(Vec<MemoryId>),
    /// All that pass these filters, superseded facts included.
    Matching(Filters),
    /// Those that answer a question best.
    Answers {
        /// The question.
        question: String,
        /// How many.
        k: usize,
        /// Among these.
        filters: Filters,
    },
}

/// A receipt for people.
#[must_use]
pub fn receipt_lines(receipt: &Receipt, zone: &Zone) -> Vec<String> {
    let many = receipt.memories;
    let noun = if many == 1 { "memory" } else { "memories" };
    let mut lines = vec![format!("{many} {noun} erased for good at {}", zone.minute(receipt.erased_at))];
    let erased = &receipt.erased;
    let counts = [
        (erased.rows, "rows"),
        (erased.vectors, "vectors"),
        (erased.statistics, "statistics of use"),
        (erased.cold_rows, "cold rows"),
        (erased.segments_rewritten, "segments written again"),
        (erased.objects_deleted, "objects deleted"),
        (erased.index_files, "index files"),
        (erased.remote_vectors, "vectors on the server"),
    ];
    let counts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    lines.push(format!("{}: {}", receipt.id, counts.join(", ")));
    lines.extend(receipt.pending.iter().map(|pending| format!("still to be done: {pending}")));
    if receipt.refused > 0 {
        lines.push(format!("{} stay: they may not be written to", receipt.refused));
    }
    lines.extend(receipt.not_covered.iter().map(|what| format!("not covered: {what}")));
    lines
}

impl Memories {
    /// Erases memories, with everything derived from them.
    ///
    /// # Errors
    /// Those of an erasure.
    pub async fn forget(&self, ids: &[MemoryId]) -> Result<Receipt, MemoriesError> {
        Ok(self.memory.erase(&self.scope, &Forget::Ids(ids.to_vec()), false).await?)
    }

    /// The memories that would go.
    ///
    /// # Errors
    /// [`MemoriesError::Unknown`] for an id that is not there; those of a search and of the filters.
    pub async fn doomed(&self, forgetting: &Forgetting) -> Result<Vec<Item>, MemoriesError> {
        match forgetting {
            Forgetting::Ids(ids) => {
                let mut found = Vec::with_capacity(ids.len());
                for id in ids.iter().collect::<std::collections::BTreeSet<_>>() {
                    found.push(self.look(id).await?);
                }
                Ok(found)
            }
            Forgetting::Matching(filters) => {
                // What was replaced is about the same subject.
                let filters = Filters { history: true, ..filters.clone() };
                let (mut found, mut after) = (Vec::new(), None);
                loop {
                    let page = self.list(&filters, PAGE, after.as_deref()).await?;
                    found.extend(page.items);
                    after = page.next;
                    if after.is_none() {
                        return Ok(found);
                    }
                }
            }
            Forgetting::Answers { question, k, filters } => {
                let recall = self.search(&self.query(question, *k, filters)?).await?;
                Ok(recall.hits.into_iter().map(|hit| hit.item).collect())
            }
        }
    }
}

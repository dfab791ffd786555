//! Forgetting as a person asks for it: what would go is found first, then erased by id.

use longhaul_core::{MemoryId, TimeMs, UserId};
use longhaul_memory::{Item, MemoryError, when::Zone};
use longhaul_store::Tx;
use serde::Serialize;

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

/// What was erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// These, with their keywords and vectors.
    pub erased: Vec<MemoryId>,
    /// When.
    pub at: TimeMs,
    /// By whom.
    pub by: UserId,
    /// Why.
    pub reason: String,
}

/// A receipt for people.
#[must_use]
pub fn receipt_lines(receipt: &Receipt, zone: &Zone) -> Vec<String> {
    let many = receipt.erased.len();
    let erased = format!(
        "{many} {} erased for good at {}",
        if many == 1 { "memory" } else { "memories" },
        zone.minute(receipt.at)
    );
    vec![erased]
}

impl Memories {
    /// Erases memories, all or none of them.
    ///
    /// # Errors
    /// [`MemoriesError::Unknown`] for one that may not be written to; those of the store.
    pub async fn forget(&self, ids: &[MemoryId], reason: &str) -> Result<Receipt, MemoriesError> {
        let (memory, scope, all) = (self.memory.clone(), self.scope.clone(), ids.to_vec());
        let forget = move |tx: &mut Tx<'_>| {
            for id in &all {
                memory.forget(tx, &scope, id)?;
            }
            Ok::<_, MemoryError>(tx.now())
        };
        let at = self.store.write(forget).await?;
        Ok(Receipt { erased: ids.to_vec(), at, by: self.scope.user.clone(), reason: reason.to_owned() })
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
                    found.push(self.get(id).await?);
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

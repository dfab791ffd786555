//! What decides whether a chunk is done: nobody's word, but the store.
//!
//! Invariant: a sentence passes only if it cites a claim, the claim is not refuted, at least one piece of evidence
//! supports it, and each piece's quote is in its source as it was kept, with the number that the sentence names.

use longhaul_core::RecordId;
use longhaul_workspace::{Relation, TaskWorkspace};
use serde::{Deserialize, Serialize};

/// What is kept of one quote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Quote {
    pub(crate) value: String,
    pub(crate) quote: String,
    pub(crate) from: String,
    /// The record of the source.
    pub(crate) source: RecordId,
}

/// What is claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) question: String,
    pub(crate) value: String,
}

/// The ids in a text's brackets: `[rec_…]`.
pub(crate) fn citations(text: &str) -> Vec<String> {
    let ids = text.split('[').skip(1).filter_map(|rest| rest.split_once(']').map(|(id, _)| id));
    ids.filter(|id| id.starts_with("rec_")).map(str::to_owned).collect()
}

/// Why a sentence does not hold; nothing if it does.
pub(crate) async fn problem(task: &TaskWorkspace, sentence: &str) -> anyhow::Result<Option<String>> {
    let cited = citations(sentence);
    if cited.is_empty() {
        return Ok(Some("it cites nothing".to_owned()));
    }
    let words = sentence.split('[').next().unwrap_or(sentence);
    for id in cited {
        let Ok(record) = id.parse::<RecordId>() else { return Ok(Some(format!("{id} is no record"))) };
        let claim: Claim = match task.read(&record).await {
            Ok((_, bytes)) => serde_json::from_slice(&bytes)?,
            Err(error) => return Ok(Some(format!("{id} cannot be read: {error}"))),
        };
        if !words.contains(&claim.value) {
            return Ok(Some(format!("it does not say {}, which {id} claims", claim.value)));
        }
        let links = task.user().links(&id).await?;
        if let Some(against) = links.iter().find(|link| link.target == id && link.relation == Relation::Refutes) {
            return Ok(Some(format!("{id} claims {}, and {} refutes it", claim.value, against.source)));
        }
        let mut supported = 0;
        for link in links.iter().filter(|link| link.target == id && link.relation == Relation::Supports) {
            let (_, bytes) = task.read(&link.source.parse::<RecordId>()?).await?;
            let quote: Quote = serde_json::from_slice(&bytes)?;
            let (_, source) = task.read(&quote.source).await?;
            if !String::from_utf8_lossy(&source).contains(&quote.quote) || !quote.quote.contains(&claim.value) {
                return Ok(Some(format!("{} quotes what {} does not say", link.source, quote.from)));
            }
            supported += 1;
        }
        if supported == 0 {
            return Ok(Some(format!("nothing supports {id}")));
        }
    }
    Ok(None)
}

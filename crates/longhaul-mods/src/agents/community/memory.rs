//! What a community remembers of questions: their solutions, who was asked, and how that went.
//!
//! It owns the shape of the three collections and what counts as the same question. Invariant: a question counts as asked
//! before only by its own words or meaning, never by the answer's.

use std::collections::BTreeSet;

use longhaul_core::{Scope, TimeMs};
use longhaul_memory::{Hit, Kind, Memory, MemoryError, Namespace, NewMemory, Query, Source};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::coordinator::ExpertAnswer;
use crate::agents::heard::Message;

/// What experts found out.
pub const KNOWLEDGE: &str = "expert_knowledge";
/// Who was asked what, and how it went.
pub const COLLABORATION: &str = "collaboration_history";
/// Questions with their merged answers.
pub const SOLUTIONS: &str = "problem_solutions";

/// How much of the meaning (a cosine), or of the words, two questions have to share to be the same one.
const SAME_MEANING: f64 = 0.75;
const SAME_WORDS: f64 = 0.7;
/// The same for questions that say something about each other.
const ALIKE_MEANING: f64 = 0.5;
const ALIKE_WORDS: f64 = 0.4;
/// Longest answer that is kept beside its question, bytes.
const ANSWER_BYTES_MAX: usize = 12 * 1024;
/// Longest question that is kept, characters.
const QUESTION_CHARS_MAX: usize = 2_000;

/// What became of asking an expert something alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Who was asked.
    pub agent: String,
    /// Whether it answered.
    pub answered: bool,
    /// How alike the questions are, 0 to 1.
    pub alike: f64,
}

/// An answer that was given before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recalled {
    /// What was asked then.
    pub question: String,
    /// By whom.
    pub asked_by: String,
    /// What was answered.
    pub answer: String,
    /// Who had contributed.
    pub experts: String,
    /// When, milliseconds since the Unix epoch.
    pub at: i64,
    /// How alike the questions are, 0 to 1.
    pub alike: f64,
}

/// The same question's answer, if it was asked before, and what became of asking experts the like.
pub(super) async fn recall(
    memory: &Memory,
    scope: &Scope,
    partition: &Namespace,
    question: &str,
) -> Result<(Option<Recalled>, Vec<Outcome>), MemoryError> {
    let text: String = question.chars().take(QUESTION_CHARS_MAX).collect();
    let query = |collection: &str, k: usize| Query {
        namespaces: vec![partition.clone()],
        collections: vec![collection.to_owned()],
        ..Query::new(text.clone(), k)
    };
    let solutions = memory.search(scope, &query(SOLUTIONS, 3)).await?;
    let alike = solutions.hits.iter().filter_map(|hit| Some((hit, same(question, hit, SAME_MEANING, SAME_WORDS)?)));
    let best = alike.max_by(|a, b| a.1.total_cmp(&b.1));
    let word = |hit: &Hit, key: &str| hit.item.meta.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let recalled = best.map(|(hit, alike)| Recalled {
        question: hit.item.content.clone(),
        asked_by: word(hit, "asked_by"),
        answer: word(hit, "answer"),
        experts: word(hit, "experts"),
        at: hit.item.created_at.0,
        alike,
    });
    let history = memory.search(scope, &query(COLLABORATION, 12)).await?;
    let outcomes = history.hits.iter().filter_map(|hit| {
        let alike = same(question, hit, ALIKE_MEANING, ALIKE_WORDS)?;
        Some(Outcome { agent: word(hit, "agent"), answered: word(hit, "outcome") == "answered", alike })
    });
    Ok((recalled.filter(|recalled| !recalled.answer.is_empty()), outcomes.collect()))
}

/// How alike the question and the one of the hit are, if they are alike enough.
fn same(question: &str, hit: &Hit, meaning: f64, words: f64) -> Option<f64> {
    let cosine = hit.explain.meaning.raw.map_or(0.0, f64::from);
    let shared = shared_words(question, &hit.item.content);
    (cosine >= meaning || shared >= words).then_some(cosine.max(shared).clamp(0.0, 1.0))
}

/// Part of the words that two questions share, of the shorter one's; 0 for questions too short to tell.
fn shared_words(a: &str, b: &str) -> f64 {
    const EMPTY: &[&str] = &[
        "a", "an", "and", "are", "can", "do", "does", "for", "from", "how", "i", "in", "is", "it", "me", "my", "of",
        "on", "or", "should", "the", "to", "we", "what", "when", "which", "why", "with", "you",
    ];
    let words = |text: &str| -> BTreeSet<String> {
        let text = text.to_lowercase();
        let parts = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty() && !EMPTY.contains(word));
        // A script without spaces is compared by pairs of characters.
        let pieces = parts.flat_map(|word| {
            let chars: Vec<char> = word.chars().collect();
            if word.is_ascii() || chars.len() < 3 {
                return vec![word.trim_end_matches('s').to_owned()];
            }
            chars.windows(2).map(|pair| pair.iter().collect()).collect()
        });
        pieces.collect()
    };
    let (a, b) = (words(a), words(b));
    let (least, most) = (a.len().min(b.len()), a.len().max(b.len()));
    if least < 3 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "numbers of words")]
    let share = |of: usize| a.intersection(&b).count() as f64 / of as f64;
    // A short question that is part of a long one is not the same.
    share(least).min(share(most) * 2.0)
}

/// What is kept of a question that was worked on.
pub(super) fn kept(
    partition: &Namespace,
    question: &Message,
    answers: &[ExpertAnswer],
    merged: &str,
    at: TimeMs,
) -> Vec<NewMemory> {
    let asked: String = question.text.chars().take(QUESTION_CHARS_MAX).collect();
    let new = |collection: &str, kind: Kind, meta: &[(&str, String)]| {
        let mut memory = NewMemory::new(collection, kind, Source::Agent, asked.clone());
        memory.namespace = partition.clone();
        memory.happened_at = Some(at);
        for (key, value) in meta {
            memory.meta.insert((*key).to_owned(), value.clone().into());
        }
        memory.meta.insert("asked_by".into(), question.from.clone().into());
        // Where it was asked; its members find it through the network's shared memory, and nobody else.
        if let Some(channel) = &question.channel {
            memory.meta.insert("channel".into(), channel.clone().into());
        }
        memory.meta.insert("root".into(), question.root.clone().into());
        memory
    };
    let mut all = Vec::new();
    for answer in answers {
        let outcome = if answer.failed.is_none() { "answered" } else { "failed" };
        let meta = [("agent", answer.agent.clone()), ("outcome", outcome.to_owned()), ("why", answer.why())];
        all.push(new(COLLABORATION, Kind::Episode, &meta));
    }
    let good: Vec<&str> =
        answers.iter().filter(|answer| answer.failed.is_none()).map(|answer| answer.agent.as_str()).collect();
    // What is cut off would be given as if it were whole.
    if !good.is_empty() && merged.len() <= ANSWER_BYTES_MAX {
        let meta = [("answer", merged.to_owned()), ("experts", good.join(", "))];
        all.push(new(SOLUTIONS, Kind::Lesson, &meta));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::shared_words;

    #[test]
    fn questions_are_alike_by_their_words_and_not_by_common_ones() {
        let question = "How do I speed up vector search in Milvus for an async Python service?";
        assert!(shared_words(question, "How can I speed up Milvus vector searches in an async Python service?") > 0.7);
        assert!(shared_words(question, "How do I deploy an async Python service in Docker?") < 0.7);
        assert!(shared_words("怎么在Milvus里建立向量索引", "如何在Milvus里建立向量索引？") > 0.7);
        assert!(shared_words("What is it?", "What is it?").abs() < f64::EPSILON, "too short to tell");
    }
}

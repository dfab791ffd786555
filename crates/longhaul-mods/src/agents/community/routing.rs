//! Who is asked: by the words of a question, and by how the like went before. Pure.
//!
//! A score is the number of an expert's keywords in the question, plus what became of similar questions (between -1.5
//! and 1.5). Whoever has 0.9 or more is asked; nobody above it: all are. Ties go by name, so that the same question is
//! routed the same way.

use longhaul_network::AgentId;
use serde::{Deserialize, Serialize};

use super::memory::Outcome;

/// The keywords of each domain, where a network's file states none.
pub const KEYWORDS: &[(&str, &[&str])] = &[
    ("python", &["python", "django", "flask", "async"]),
    ("milvus", &["milvus", "vector", "index", "performance"]),
    ("devops", &["deployment", "docker", "kubernetes", "operations"]),
];

/// The keywords of a domain.
#[must_use]
pub fn keywords_of(domain: &str) -> Vec<String> {
    let known = KEYWORDS.iter().find(|(name, _)| *name == domain);
    known.map_or_else(|| vec![domain.to_owned()], |(_, words)| words.iter().map(|word| (*word).to_owned()).collect())
}

/// Somebody who can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expert {
    /// Its name.
    #[serde(with = "agent_id")]
    pub agent: AgentId,
    /// What it knows about.
    pub domain: String,
    /// Where it is asked.
    pub channel: String,
    /// Words that speak for asking it.
    pub keywords: Vec<String>,
}

/// One expert and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The expert's name.
    pub agent: String,
    /// How much speaks for it.
    pub score: f64,
    /// What, in words.
    pub why: String,
}

/// From which score on an expert is asked.
const ASKED_FROM: f64 = 0.9;
/// What the past may weigh at most, either way.
const PAST_MAX: f64 = 1.5;

/// Those who are asked, the best first, and the others in the order in which they stand in for them.
#[must_use]
pub fn route(question: &str, experts: &[Expert], past: &[Outcome]) -> (Vec<Choice>, Vec<Choice>) {
    let mut all: Vec<Choice> = experts.iter().map(|expert| weigh(question, expert, past)).collect();
    all.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.agent.cmp(&b.agent)));
    let (asked, others): (Vec<Choice>, Vec<Choice>) = all.into_iter().partition(|choice| choice.score >= ASKED_FROM);
    if asked.is_empty() {
        let everybody = others.into_iter().map(|choice| Choice { why: "nobody's words are in it".into(), ..choice });
        return (everybody.collect(), Vec::new());
    }
    (asked, others)
}

fn weigh(question: &str, expert: &Expert, past: &[Outcome]) -> Choice {
    let words: Vec<&str> = expert.keywords.iter().map(String::as_str).filter(|word| is_in(word, question)).collect();
    let of_expert = past.iter().filter(|outcome| outcome.agent == expert.agent.as_str());
    let sum: f64 = of_expert.clone().map(|outcome| if outcome.answered { outcome.alike } else { -outcome.alike }).sum();
    let sum = sum.clamp(-PAST_MAX, PAST_MAX);
    #[expect(clippy::cast_precision_loss, reason = "a handful of words")]
    let score = words.len() as f64 + sum;
    let mut why = words.join(", ");
    if of_expert.count() > 0 {
        let past = if sum >= 0.0 { "answered the like before" } else { "failed at the like before" };
        why = if why.is_empty() { past.to_owned() } else { format!("{why}; {past}") };
    }
    Choice { agent: expert.agent.to_string(), score, why }
}

/// Whether a word of the question begins with this one; within a text without spaces, whether it occurs.
fn is_in(keyword: &str, question: &str) -> bool {
    let (keyword, question) = (keyword.to_lowercase(), question.to_lowercase());
    if !keyword.is_ascii() {
        return question.contains(&keyword);
    }
    question.match_indices(&keyword).any(|(at, _)| {
        // Among Chinese characters an English word has no space before it.
        let before = question[..at].chars().next_back();
        !before.is_some_and(|c| c.is_ascii_alphanumeric())
    })
}

mod agent_id {
    //! A name as text.
    use longhaul_network::AgentId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(agent: &AgentId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(agent.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AgentId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experts() -> Vec<Expert> {
        let of = |(domain, _): &(&str, &[&str])| Expert {
            agent: format!("{domain}_expert").parse().unwrap(),
            domain: (*domain).to_owned(),
            channel: format!("{domain}_channel"),
            keywords: keywords_of(domain),
        };
        KEYWORDS.iter().map(of).collect()
    }

    fn asked(question: &str, past: &[Outcome]) -> Vec<String> {
        route(question, &experts(), past).0.into_iter().map(|choice| choice.agent).collect()
    }

    #[test]
    fn keywords_decide_in_any_script() {
        assert_eq!(asked("How do I build an index in Milvus?", &[]), ["milvus_expert"]);
        assert_eq!(
            asked("Flask with asyncio is slow with vectors, and the Docker deployment too", &[]),
            ["devops_expert", "python_expert", "milvus_expert"]
        );
        assert_eq!(asked("怎么用Docker部署Django？", &[]), ["devops_expert", "python_expert"]);
        assert_eq!(asked("Is a reindex needed?", &[]).len(), 3, "part of a word is none, so all are asked");
    }

    #[test]
    fn what_became_of_the_like_weighs_in() {
        let past = |agent: &str, answered: bool| Outcome { agent: agent.to_owned(), answered, alike: 0.95 };
        assert_eq!(asked("Why is my laptop warm?", &[past("devops_expert", true)]), ["devops_expert"]);
        let failed = [past("milvus_expert", false), past("python_expert", true)];
        assert_eq!(asked("Which index is best?", &failed), ["python_expert"]);
        let (chosen, others) = route("Which index is best?", &experts(), &failed);
        assert_eq!(chosen[0].why, "answered the like before");
        let others: Vec<&str> = others.iter().map(|choice| choice.agent.as_str()).collect();
        assert_eq!(others, ["milvus_expert", "devops_expert"], "who failed is the next best by its words alone");
    }
}

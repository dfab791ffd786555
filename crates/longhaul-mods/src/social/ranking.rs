//! Who fits a task best: capabilities that are needed, words of the question, trust, and how busy somebody is. Pure.
//!
//! What is needed decides who may be chosen at all; the words decide how well somebody fits; outcomes and load decide
//! between those. Invariant: the same candidates and the same question give the same order.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::finding::fold;

/// How the one is taken from those that fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// The best by words, trust and load.
    Best,
    /// Any of them; the random number decides.
    Random,
    /// Who has the fewest open tasks.
    LeastBusy,
    /// Whom outcomes speak for most.
    Trusted,
}

/// What a task needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Need {
    /// All of these, among skills, tags and keywords.
    pub(crate) all_of: Vec<String>,
    /// All of these, each in its own list.
    pub(crate) lists: Vec<(&'static str, Vec<String>)>,
    /// Anything else a filter of capabilities may say.
    pub(crate) filter: Map<String, Value>,
    /// The words of the question.
    pub(crate) words: Vec<String>,
}

impl Need {
    /// From `required_capabilities` in any of its shapes (an object, a list, one word) and the texts of the question.
    pub(crate) fn read(required: Option<&Value>, texts: &[&str]) -> Self {
        let mut need = Self { words: words(&texts.join(" ")), ..Self::default() };
        match required {
            Some(Value::String(one)) => need.all_of.push(fold(one)),
            Some(Value::Array(list)) => need.all_of.extend(texts_of(list)),
            Some(Value::Object(object)) => {
                for (key, wanted) in object {
                    let list = ["skills", "tags", "input_modes", "output_modes"].into_iter().find(|list| list == key);
                    match (list, wanted) {
                        (Some(list), Value::Array(wanted)) => need.lists.push((list, texts_of(wanted))),
                        (Some(list), Value::String(one)) => need.lists.push((list, vec![fold(one)])),
                        (_, Value::Null) => {}
                        _ => drop(need.filter.insert(key.clone(), wanted.clone())),
                    }
                }
            }
            _ => {}
        }
        need
    }

    /// Nothing but words is known of it.
    pub(crate) fn has_requirements(&self) -> bool {
        !self.all_of.is_empty() || self.lists.iter().any(|(_, list)| !list.is_empty()) || !self.filter.is_empty()
    }

    /// The areas in which its outcome counts.
    pub(crate) fn areas(&self) -> Vec<String> {
        let mut areas: Vec<String> = self.all_of.clone();
        areas.extend(
            self.lists.iter().filter(|(list, _)| matches!(*list, "skills" | "tags")).flat_map(|(_, l)| l.clone()),
        );
        areas.sort();
        areas.dedup();
        areas
    }
}

/// What an agent says of itself, in lists that can be compared.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Profile {
    pub(crate) skills: BTreeSet<String>,
    pub(crate) tags: BTreeSet<String>,
    pub(crate) keywords: BTreeSet<String>,
    pub(crate) input_modes: BTreeSet<String>,
    pub(crate) output_modes: BTreeSet<String>,
    /// Of the description.
    pub(crate) words: BTreeSet<String>,
    pub(crate) raw: Map<String, Value>,
}

impl Profile {
    /// From capabilities as agents write them: lists of texts, or of objects with an id, a name and tags.
    pub(crate) fn read(capabilities: &Map<String, Value>) -> Self {
        let mut profile = Self { raw: capabilities.clone(), ..Self::default() };
        for (key, value) in capabilities {
            match key.as_str() {
                "skills" | "tools" | "abilities" | "functions" => profile.read_skills(value),
                "tags" | "categories" | "labels" => profile.tags.extend(listed(value)),
                "keywords" | "domain" | "domains" | "expertise" => profile.keywords.extend(listed(value)),
                "input_modes" => profile.input_modes.extend(listed(value)),
                "output_modes" => profile.output_modes.extend(listed(value)),
                "description" => profile.words.extend(words(value.as_str().unwrap_or_default())),
                _ => {}
            }
        }
        for modes in [&mut profile.input_modes, &mut profile.output_modes] {
            if modes.is_empty() {
                modes.insert("text".to_owned());
            }
        }
        profile
    }

    fn read_skills(&mut self, value: &Value) {
        for skill in value.as_array().into_iter().flatten() {
            if let Value::Object(skill) = skill {
                self.skills.extend(["id", "name"].iter().filter_map(|key| Some(fold(skill.get(*key)?.as_str()?))));
                self.tags.extend(skill.get("tags").map(listed).unwrap_or_default());
                self.words.extend(words(skill.get("description").and_then(Value::as_str).unwrap_or_default()));
            } else {
                self.skills.extend(listed(skill));
            }
        }
        if value.is_string() {
            self.skills.extend(listed(value));
        }
    }

    fn has(&self, name: &str) -> bool {
        self.skills.contains(name) || self.tags.contains(name) || self.keywords.contains(name)
    }

    /// Whether everything that is needed is there.
    pub(crate) fn meets(&self, need: &Need) -> bool {
        let list = |name: &str| match name {
            "skills" => &self.skills,
            "tags" => &self.tags,
            "input_modes" => &self.input_modes,
            _ => &self.output_modes,
        };
        need.all_of.iter().all(|name| self.has(name))
            && need.lists.iter().all(|(name, wanted)| wanted.iter().all(|one| list(name).contains(one)))
            && super::fits(&need.filter, &self.raw)
    }

    /// What of the agent the question's words speak of: keywords, skills and tags count one, words of the description a
    /// quarter.
    pub(crate) fn matched(&self, question: &[String]) -> (Vec<String>, f64) {
        let named = self.keywords.iter().chain(&self.skills).chain(&self.tags);
        let mut matched: Vec<String> = named.filter(|name| speaks_of(question, name)).cloned().collect();
        matched.sort();
        matched.dedup();
        let described = self.words.iter().filter(|word| word.chars().count() > 3 && question.contains(word)).count();
        let weight = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let strength = weight(matched.len()) + weight(described.min(4)) / 4.0;
        (matched, strength)
    }
}

/// Somebody who might do it.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) agent: String,
    pub(crate) matched: Vec<String>,
    /// Of [`Profile::matched`].
    pub(crate) strength: f64,
    /// Everything that is needed is there, and something was needed.
    pub(crate) is_required: bool,
    pub(crate) trust: f64,
    pub(crate) open_tasks: i64,
    pub(crate) is_followed: bool,
}

impl Candidate {
    /// From 0 to 1.
    pub(crate) fn score(&self) -> f64 {
        let by_words = self.strength / (self.strength + 1.0);
        let relevance = if self.is_required { 0.5 + by_words / 2.0 } else { by_words };
        #[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 open tasks")]
        let idle = 1.0 / (1.0 + self.open_tasks.max(0) as f64);
        let followed = if self.is_followed { 0.02 } else { 0.0 };
        (0.55 * relevance + 0.35 * self.trust + 0.08 * idle + followed).min(1.0)
    }
}

/// In the order in which they are to be tried.
pub(crate) fn order(candidates: &mut [Candidate], strategy: Strategy, random: u64) {
    let by_score = |a: &Candidate, b: &Candidate| b.score().total_cmp(&a.score()).then_with(|| a.agent.cmp(&b.agent));
    candidates.sort_by(by_score);
    match strategy {
        Strategy::Best => {}
        Strategy::LeastBusy => candidates.sort_by_key(|one| one.open_tasks),
        Strategy::Trusted => candidates.sort_by(|a, b| b.trust.total_cmp(&a.trust)),
        Strategy::Random if candidates.is_empty() => {}
        Strategy::Random => {
            let count = u64::try_from(candidates.len()).unwrap_or(1);
            candidates.rotate_left(usize::try_from(random % count).unwrap_or(0));
        }
    }
}

/// Whether the words speak of this: each of its parts is a word of the question or has one with the same beginning of
/// four letters or more; in scripts without spaces it stands somewhere in a word.
fn speaks_of(question: &[String], name: &str) -> bool {
    let parts = words(name);
    let same = |word: &str, part: &str| {
        word == part
            || (!part.is_ascii() && word.contains(part))
            || (part.len() >= 4 && word.starts_with(part))
            || (word.len() >= 4 && part.starts_with(word))
    };
    !parts.is_empty() && parts.iter().all(|part| question.iter().any(|word| same(word, part)))
}

/// The words of a text, each once.
pub(crate) fn words(text: &str) -> Vec<String> {
    let folded = fold(text);
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '+' | '#');
    let mut found: Vec<String> =
        folded.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    found.truncate(2_000);
    found
}

fn listed(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => text.split(',').map(fold).filter(|word| !word.is_empty()).collect(),
        Value::Array(list) => texts_of(list),
        _ => Vec::new(),
    }
}

fn texts_of(list: &[Value]) -> Vec<String> {
    list.iter().filter_map(Value::as_str).map(fold).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn profile(capabilities: Value) -> Profile {
        Profile::read(capabilities.as_object().expect("an object"))
    }

    #[test]
    fn keywords_are_found_in_questions() {
        let python = profile(json!({"keywords": ["python", "django", "flask", "async"]}));
        let milvus = profile(json!({"keywords": ["milvus", "vector", "index", "performance", "向量"]}));
        let devops = profile(json!({"keywords": "deployment, docker, kubernetes, operations"}));
        let best = |question: &str| {
            let question = words(question);
            [&python, &milvus, &devops].map(|each| each.matched(&question).0.len())
        };
        assert_eq!(best("How do I make Flask handlers asynchronous?"), [2, 0, 0]);
        assert_eq!(best("Which vector indexes give the best performance?"), [0, 3, 0]);
        assert_eq!(best("deploy a Django app with Docker"), [1, 0, 2]);
        assert_eq!(best("如何建立向量索引"), [0, 1, 0]);
        assert_eq!(best("what is for lunch"), [0, 0, 0]);
    }

    #[test]
    fn what_is_needed_has_to_be_there_in_any_shape() {
        let agent = profile(json!({
            "skills": [{"id": "translate", "tags": ["language"]}, "summarise"], "languages": ["de", "fr"],
        }));
        let meets = |required: Value| agent.meets(&Need::read(Some(&required), &[]));
        assert!(meets(json!(["translate", "language"])));
        assert!(meets(json!("summarise")));
        assert!(meets(json!({"skills": ["translate"], "tags": ["language"], "input_modes": ["text"]})));
        assert!(meets(json!({"languages": ["fr"]})));
        assert!(!meets(json!({"skills": ["translate", "paint"]})));
        assert!(!meets(json!({"languages": ["zh"]})));
        assert!(!meets(json!({"output_modes": ["audio"]})));
    }

    #[test]
    fn outcomes_and_load_decide_between_equals() {
        let candidate = |agent: &str, trust, open_tasks| Candidate {
            agent: agent.to_owned(),
            matched: vec!["x".to_owned()],
            strength: 1.0,
            is_required: false,
            trust,
            open_tasks,
            is_followed: false,
        };
        let first = |mut candidates: Vec<Candidate>, strategy| {
            order(&mut candidates, strategy, 1);
            candidates[0].agent.clone()
        };
        assert_eq!(first(vec![candidate("a", 0.4, 0), candidate("b", 0.8, 0)], Strategy::Best), "b");
        assert_eq!(first(vec![candidate("a", 0.5, 5), candidate("b", 0.5, 0)], Strategy::Best), "b");
        assert_eq!(first(vec![candidate("a", 0.9, 5), candidate("b", 0.5, 0)], Strategy::LeastBusy), "b");
        assert_eq!(first(vec![candidate("a", 0.9, 9), candidate("b", 0.5, 0)], Strategy::Trusted), "a");
        assert_eq!(first(vec![candidate("a", 0.5, 0), candidate("b", 0.5, 0)], Strategy::Random), "b");
    }
}

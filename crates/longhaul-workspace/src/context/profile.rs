//! Profiles: what a context pack is to consist of. Those built in, and those read from settings.
//!
//! Plain data. Invariant: a profile that came out of [`Profiles`] has passed its checks: every weight and share is finite
//! and within its bounds.

use std::{collections::BTreeMap, path::PathBuf};

use super::{error::ContextError, pack::Origin};

/// Greatest weight of a kind or an owner.
const WEIGHT_MAX: f32 = 10.0;
/// Most hits taken from a search.
const CANDIDATES_MAX: u64 = 200;
/// Most of the newest records.
const RECENT_MAX: u64 = 50;
/// Most linked records taken in for one record.
const LINKS_MAX: u64 = 32;
/// Characters of a profile's name.
const NAME_CHARS_MAX: usize = 64;

/// How tokens are counted where the caller names no counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tokenizer {
    /// The estimate, corrected by what the model's service reported where that is known.
    Estimate,
    /// A `tokenizer.json` as Hugging Face's libraries write it.
    File(PathBuf),
}

/// In which order items stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Best first.
    Score,
    /// Oldest first.
    Time,
}

/// What a pack is to consist of.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Its name, `[a-z0-9_-]`.
    pub name: String,
    /// Weights of kinds, 0 to 10; 1 for a kind that is not named. With 0 a kind never becomes an item.
    pub kinds: BTreeMap<String, f32>,
    /// Weight of records.
    pub records: f32,
    /// Weight of messages.
    pub messages: f32,
    /// Weight of memories.
    pub memories: f32,
    /// Days after which half of what can fade of a score is gone; `None` where age does not matter.
    pub half_life_days: Option<f32>,
    /// What age leaves of a score in the end, 0 to 1.
    pub recency_floor: f32,
    /// Most of the budget for one item, above 0 to 1.
    pub item_share_max: f32,
    /// Most of the budget for messages together.
    pub messages_share_max: f32,
    /// Most of the budget for memories together.
    pub memories_share_max: f32,
    /// Hits taken from each search, 1 to 200.
    pub candidates: usize,
    /// The newest so many records of the scope are candidates whatever they say, 0 to 50.
    pub recent: usize,
    /// A candidate with less than this part of the best score is left out, 0 to 1.
    pub relevance_least: f32,
    /// Names of the relations that are followed from what was found, in both directions.
    pub follow: Vec<String>,
    /// Most linked records taken in for one record, 0 to 32.
    pub links_max: usize,
    /// How tokens are counted.
    pub tokenizer: Tokenizer,
    /// In which order items stand.
    pub order: Order,
}

fn weights(weights: &[(&str, f32)]) -> BTreeMap<String, f32> {
    weights.iter().map(|(kind, weight)| ((*kind).to_owned(), *weight)).collect()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Profile {
    /// For work of any kind.
    #[must_use]
    pub fn auto() -> Self {
        Self {
            name: "auto".to_owned(),
            kinds: weights(&[("decision", 1.2), ("checkpoint", 0.7)]),
            records: 1.0,
            messages: 0.9,
            memories: 0.9,
            half_life_days: Some(90.0),
            recency_floor: 0.6,
            item_share_max: 0.35,
            messages_share_max: 0.4,
            memories_share_max: 0.3,
            candidates: 64,
            recent: 4,
            relevance_least: 0.1,
            follow: names(&["supports", "refutes", "verifies", "derived_from", "answers", "cites", "supersedes"]),
            links_max: 8,
            tokenizer: Tokenizer::Estimate,
            order: Order::Score,
        }
    }

    /// For writing code: decisions, artifacts and what went wrong before; old talk counts less.
    #[must_use]
    pub fn software_dev() -> Self {
        Self {
            name: "software_dev".to_owned(),
            kinds: weights(&[
                ("decision", 1.3),
                ("artifact", 1.2),
                ("lesson", 1.3),
                ("commit", 1.1),
                ("observation", 0.9),
                ("checkpoint", 0.8),
            ]),
            messages: 0.7,
            memories: 1.1,
            half_life_days: Some(30.0),
            recency_floor: 0.5,
            messages_share_max: 0.25,
            memories_share_max: 0.4,
            ..Self::auto()
        }
    }

    /// For revising a document by what was decided and remarked: the draft, decisions with their evidence, the newest
    /// remarks.
    #[must_use]
    pub fn document_review() -> Self {
        Self {
            name: "document_review".to_owned(),
            kinds: weights(&[
                ("artifact", 1.3),
                ("decision", 1.3),
                ("evidence", 1.2),
                ("observation", 0.9),
                ("checkpoint", 0.5),
            ]),
            messages: 1.1,
            memories: 0.8,
            half_life_days: Some(14.0),
            recency_floor: 0.4,
            item_share_max: 0.5,
            recent: 8,
            ..Self::auto()
        }
    }

    /// For answering from sources: evidence before opinions, many sources before long ones, age does not matter.
    #[must_use]
    pub fn research() -> Self {
        Self {
            name: "research".to_owned(),
            kinds: weights(&[("evidence", 1.4), ("observation", 1.1), ("artifact", 1.1), ("checkpoint", 0.4)]),
            messages: 0.6,
            memories: 0.8,
            half_life_days: None,
            recency_floor: 1.0,
            item_share_max: 0.15,
            messages_share_max: 0.2,
            candidates: 128,
            recent: 2,
            relevance_least: 0.05,
            links_max: 16,
            ..Self::auto()
        }
    }

    /// The weight of a kind, 1 unless the profile names it.
    #[must_use]
    pub fn kind_weight(&self, kind: &str) -> f32 {
        self.kinds.get(kind).copied().unwrap_or(1.0)
    }

    /// The weight of who keeps something.
    #[must_use]
    pub fn origin_weight(&self, origin: Origin) -> f32 {
        match origin {
            Origin::Record => self.records,
            Origin::Message => self.messages,
            Origin::Memory => self.memories,
        }
    }

    /// Checks what was made by hand.
    ///
    /// # Errors
    /// [`ContextError::Profile`] naming the first field that is out of its bounds.
    pub fn check(&self) -> Result<(), ContextError> {
        let refuse = |key: &str, expected: &str| {
            let (profile, key, expected) = (self.name.clone(), key.to_owned(), expected.to_owned());
            Err(ContextError::Profile { profile, key, expected })
        };
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        if self.name.is_empty() || self.name.len() > NAME_CHARS_MAX || !self.name.chars().all(fits) {
            return refuse("name", "1 to 64 of a-z, 0-9, `_`, `-`");
        }
        let weight = |value: f32| (0.0..=WEIGHT_MAX).contains(&value);
        if let Some((kind, _)) = self.kinds.iter().find(|(_, value)| !weight(**value)) {
            return refuse(&format!("kinds.{kind}"), "a weight from 0 to 10");
        }
        for (key, value) in [("records", self.records), ("messages", self.messages), ("memories", self.memories)] {
            if !weight(value) {
                return refuse(key, "a weight from 0 to 10");
            }
        }
        if self.half_life_days.is_some_and(|days| !(0.01..=36_500.0).contains(&days)) {
            return refuse("half_life_days", "days from 0.01 to 36500, or `never`");
        }
        for (key, value) in [
            ("recency_floor", self.recency_floor),
            ("messages_share_max", self.messages_share_max),
            ("memories_share_max", self.memories_share_max),
            ("relevance_least", self.relevance_least),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return refuse(key, "a number from 0 to 1");
            }
        }
        if !(0.01..=1.0).contains(&self.item_share_max) {
            return refuse("item_share_max", "a number from 0.01 to 1");
        }
        for (key, value, min, max) in [
            ("candidates", self.candidates, 1, CANDIDATES_MAX),
            ("recent", self.recent, 0, RECENT_MAX),
            ("links_max", self.links_max, 0, LINKS_MAX),
        ] {
            if !(min..=max).contains(&(value as u64)) {
                return refuse(key, &format!("a number from {min} to {max}"));
            }
        }
        Ok(())
    }
}

/// Profiles by name: those built in, and those that settings or a program add.
#[derive(Debug, Clone)]
pub struct Profiles {
    all: BTreeMap<String, Profile>,
}

impl Default for Profiles {
    fn default() -> Self {
        let all = [Profile::auto(), Profile::software_dev(), Profile::document_review(), Profile::research()];
        Self { all: all.into_iter().map(|profile| (profile.name.clone(), profile)).collect() }
    }
}

impl Profiles {
    /// Adds a profile, or replaces the one of its name.
    ///
    /// # Errors
    /// Those of [`Profile::check`].
    pub fn add(&mut self, profile: Profile) -> Result<(), ContextError> {
        profile.check()?;
        self.all.insert(profile.name.clone(), profile);
        Ok(())
    }

    /// Adds a profile written as names and values, as a file of settings has them: `base` names the profile that it
    /// changes (`auto`), `kinds` is `decision=1.5, note=0.5`, `follow` is `supports, derived_from`, `tokenizer` is
    /// `estimate` or a path, `order` is `score` or `time`; every other name is a field of [`Profile`].
    ///
    /// # Errors
    /// [`ContextError::Profile`] for a name or value that is none, [`ContextError::UnknownProfile`] for the base.
    pub fn add_written<'a>(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), ContextError> {
        let values: Vec<(&str, &str)> = values.into_iter().collect();
        let base = values.iter().find(|(key, _)| *key == "base").map_or("auto", |(_, base)| base.trim());
        let mut profile = Profile { name: name.to_owned(), ..self.get(base)?.clone() };
        for (key, value) in values {
            profile.set(key, value.trim())?;
        }
        self.add(profile)
    }

    /// The profile of this name.
    ///
    /// # Errors
    /// [`ContextError::UnknownProfile`] with those there are.
    pub fn get(&self, name: &str) -> Result<&Profile, ContextError> {
        self.all
            .get(name)
            .ok_or_else(|| ContextError::UnknownProfile { name: name.chars().take(80).collect(), known: self.names() })
    }

    /// The names of all.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.all.keys().cloned().collect()
    }
}

/// The names that a written profile may have, for messages.
const KEYS: &str = "base, kinds, records, messages, memories, half_life_days, recency_floor, item_share_max, \
                    messages_share_max, memories_share_max, candidates, recent, relevance_least, follow, links_max, \
                    tokenizer, order";

impl Profile {
    fn set(&mut self, key: &str, value: &str) -> Result<(), ContextError> {
        let refused = |expected: &str| ContextError::Profile {
            profile: self.name.clone(),
            key: key.chars().take(80).collect(),
            expected: expected.to_owned(),
        };
        let number = || value.parse::<f32>().map_err(|_| refused("a number"));
        let count = || value.parse::<usize>().map_err(|_| refused("a whole number"));
        match key {
            "base" => {}
            "kinds" => {
                let entry = |entry: &str| {
                    let (kind, weight) = entry.split_once('=')?;
                    Some((kind.trim().to_owned(), weight.trim().parse().ok()?))
                };
                let entries = value.split(',').map(str::trim).filter(|part| !part.is_empty());
                let entries: Option<Vec<(String, f32)>> = entries.map(entry).collect();
                self.kinds.extend(entries.ok_or_else(|| refused("kinds with weights: decision=1.5, note=0.5"))?);
            }
            "records" => self.records = number()?,
            "messages" => self.messages = number()?,
            "memories" => self.memories = number()?,
            "half_life_days" if value == "never" => self.half_life_days = None,
            "half_life_days" => self.half_life_days = Some(number()?),
            "recency_floor" => self.recency_floor = number()?,
            "item_share_max" => self.item_share_max = number()?,
            "messages_share_max" => self.messages_share_max = number()?,
            "memories_share_max" => self.memories_share_max = number()?,
            "candidates" => self.candidates = count()?,
            "recent" => self.recent = count()?,
            "relevance_least" => self.relevance_least = number()?,
            "follow" => {
                let each = value.split(',').map(str::trim).filter(|name| !name.is_empty());
                self.follow = each.map(str::to_owned).collect();
            }
            "links_max" => self.links_max = count()?,
            "tokenizer" if value == "estimate" => self.tokenizer = Tokenizer::Estimate,
            "tokenizer" if value.is_empty() => return Err(refused("`estimate` or the path of a tokenizer.json")),
            "tokenizer" => self.tokenizer = Tokenizer::File(PathBuf::from(value)),
            "order" => {
                self.order = match value {
                    "score" => Order::Score,
                    "time" => Order::Time,
                    _ => return Err(refused("`score` or `time`")),
                }
            }
            _ => return Err(refused(&format!("one of {KEYS}"))),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_built_in_pass_their_own_checks() {
        let profiles = Profiles::default();
        assert_eq!(profiles.names(), ["auto", "document_review", "research", "software_dev"]);
        profiles.names().iter().for_each(|name| profiles.get(name).unwrap().check().unwrap());
    }

    #[test]
    fn an_unknown_profile_is_told_which_there_are() {
        let error = Profiles::default().get("document-review").unwrap_err().to_string();
        let expected = "there is no context profile \"document-review\"; there are: auto, document_review, research, \
                        software_dev (own ones stand in longhaul.toml under [context.profiles.NAME])";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_written_profile_changes_its_base() {
        let mut profiles = Profiles::default();
        let written = [
            ("base", "research"),
            ("kinds", "decision=2, note=0"),
            ("half_life_days", "7"),
            ("follow", "supports, cites"),
            ("tokenizer", "/models/tokenizer.json"),
            ("order", "time"),
        ];
        profiles.add_written("due_diligence", written).unwrap();
        let made = profiles.get("due_diligence").unwrap();
        assert!((made.kind_weight("decision") - 2.0).abs() < 1e-6 && made.kind_weight("note") == 0.0);
        assert!((made.kind_weight("evidence") - 1.4).abs() < 1e-6, "the rest is its base's");
        assert_eq!((made.half_life_days, made.candidates, made.order), (Some(7.0), 128, Order::Time));
        assert_eq!(made.follow, ["supports", "cites"]);
        assert_eq!(made.tokenizer, Tokenizer::File("/models/tokenizer.json".into()));
    }

    #[test]
    fn mistakes_are_named() {
        for (key, value, expected) in [
            ("kinds", "decision", "kinds of the context profile `mine` must be kinds with weights"),
            ("kinds", "note=NaN", "kinds.note of the context profile `mine` must be a weight from 0 to 10"),
            ("records", "-1", "records of the context profile `mine` must be a weight from 0 to 10"),
            ("half_life_days", "0", "must be days from 0.01 to 36500, or `never`"),
            ("recency_floor", "1.5", "must be a number from 0 to 1"),
            ("item_share_max", "0", "must be a number from 0.01 to 1"),
            ("candidates", "201", "must be a number from 1 to 200"),
            ("candidates", "many", "must be a whole number"),
            ("order", "random", "must be `score` or `time`"),
            ("weight", "1", "must be one of base, kinds, records"),
            ("base", "mine", "there is no context profile \"mine\""),
        ] {
            let error = Profiles::default().add_written("mine", [(key, value)]).unwrap_err().to_string();
            assert!(error.contains(expected), "{key} = {value}: {error}");
        }
        assert!(Profiles::default().add_written("My Own", []).unwrap_err().to_string().contains("a-z"));
    }
}

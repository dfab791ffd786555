//! What is proposed to be remembered for good, and the policy that decides on it. Plain data and pure decisions.
//!
//! Invariant: a policy never lets anything replace or remove what a person wrote, nor accepts what came from outside;
//! both wait for a person.

use std::{collections::BTreeSet, fmt, str::FromStr};

use longhaul_core::{MemoryId, TaskId, TimeMs, UserId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{Actor, Block, EntryId, Slot, block::plain, state::Op};
use crate::{Fact, Kind, MemoryError, Namespace, NewMemory, Source, item::field, item::words};

/// A proposal's id, printed `prop_…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProposalId(pub(crate) String);

impl fmt::Display for ProposalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ProposalId {
    type Err = MemoryError;
    fn from_str(text: &str) -> Result<Self, MemoryError> {
        let body = text.strip_prefix("prop_");
        let fits = |body: &str| (1..=64).contains(&body.len()) && body.bytes().all(|b| b.is_ascii_alphanumeric());
        if body.is_some_and(fits) {
            return Ok(Self(text.to_owned()));
        }
        Err(field("proposal id", text, "`prop_` and 1 to 64 letters or digits"))
    }
}

words! {
    /// What became of a proposal.
    ProposalState, "proposal state" {
        /// Waits for somebody to decide.
        Pending = "pending",
        /// Accepted, and written.
        Applied = "applied",
        /// Not wanted.
        Rejected = "rejected",
        /// Was applied, and taken back.
        Undone = "undone",
    }
}

/// What would change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A new entry of user memory.
    Add {
        /// Its block.
        block: Block,
        /// What it would say.
        text: String,
        /// What it is about.
        slot: Option<Slot>,
    },
    /// Another text for an entry.
    Replace {
        /// The entry.
        entry: EntryId,
        /// What it would say.
        text: String,
        /// What it is about.
        slot: Option<Slot>,
        /// What it said when this was proposed.
        before: String,
    },
    /// An entry would go.
    Remove {
        /// The entry.
        entry: EntryId,
        /// What it said when this was proposed.
        before: String,
    },
    /// A lasting memory that an agent wants to write.
    Memory(Box<ProposedMemory>),
}

impl Target {
    /// The kind of memory that it is about.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Add { block, .. } => block.kind(),
            Self::Replace { .. } | Self::Remove { .. } => Kind::Preference,
            Self::Memory(memory) => memory.kind,
        }
    }

    /// Equal for proposals that want the same. A digest, so that it outlives an erasure without telling anything.
    pub(crate) fn key(&self) -> String {
        let slot_or_text = |slot: &Option<Slot>, text: &str| match slot {
            Some(slot) => format!("{}\u{1}{}", slot.attribute, slot.value),
            None => plain(text),
        };
        let wanted = match self {
            Self::Add { text, slot, .. } => format!("keep\u{1}{}", slot_or_text(slot, text)),
            Self::Replace { entry, text, slot, .. } => format!("replace\u{1}{entry}\u{1}{}", slot_or_text(slot, text)),
            Self::Remove { entry, before } => format!("remove\u{1}{entry}\u{1}{before}"),
            Self::Memory(memory) => {
                format!("memory\u{1}{}\u{1}{}\u{1}{}", memory.namespace, memory.collection, plain(&memory.content))
            }
        };
        hex::encode(Sha256::digest(wanted.as_bytes()))
    }

    /// The change of user memory that it is; `None` for another memory.
    pub(crate) fn op(&self) -> Option<Op> {
        match self {
            Self::Add { block, text, slot } => Some(Op::Put { block: *block, text: text.clone(), slot: slot.clone() }),
            Self::Replace { entry, text, slot, .. } => {
                Some(Op::Replace { entry: *entry, text: text.clone(), slot: slot.clone() })
            }
            Self::Remove { entry, .. } => Some(Op::Remove { entry: *entry }),
            Self::Memory(_) => None,
        }
    }
}

/// A memory as it is kept while it waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProposedMemory {
    /// Where it would go.
    pub namespace: Namespace,
    /// Named group.
    pub collection: String,
    /// What sort of thing it is.
    pub kind: Kind,
    /// The text.
    pub content: String,
    /// Metadata.
    pub meta: Map<String, Value>,
    /// Tags.
    pub tags: Vec<String>,
    /// 0 to 1.
    pub importance: f32,
    /// Would stay hot.
    pub pinned: bool,
    /// The task it belongs to.
    pub task: Option<TaskId>,
    /// The conversation it belongs to.
    pub thread: Option<String>,
    /// Whose words.
    pub source: Source,
    /// When it happened.
    pub happened_at: Option<TimeMs>,
    /// When it would stop being found.
    pub expires_at: Option<TimeMs>,
    /// What it says of the world.
    pub fact: Option<Fact>,
    /// Until when the facts that it supersedes were true before; filled when it is applied.
    #[serde(default)]
    pub rivals: Vec<(MemoryId, Option<TimeMs>)>,
}

impl From<NewMemory> for ProposedMemory {
    fn from(memory: NewMemory) -> Self {
        Self {
            namespace: memory.namespace,
            collection: memory.collection,
            kind: memory.kind,
            content: memory.content,
            meta: memory.meta,
            tags: memory.tags,
            importance: memory.importance,
            pinned: memory.pinned,
            task: memory.task,
            thread: memory.thread,
            source: memory.source,
            happened_at: memory.happened_at,
            expires_at: memory.expires_at,
            fact: memory.fact,
            rivals: Vec::new(),
        }
    }
}

impl From<ProposedMemory> for NewMemory {
    fn from(memory: ProposedMemory) -> Self {
        Self {
            namespace: memory.namespace,
            meta: memory.meta,
            tags: memory.tags,
            importance: memory.importance,
            pinned: memory.pinned,
            task: memory.task,
            thread: memory.thread,
            happened_at: memory.happened_at,
            expires_at: memory.expires_at,
            fact: memory.fact,
            ..Self::new(&memory.collection, memory.kind, memory.source, memory.content)
        }
    }
}

/// One proposal, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// Identity.
    pub id: ProposalId,
    /// Whose decision it is.
    pub user: UserId,
    /// What became of it.
    pub state: ProposalState,
    /// What would change.
    pub target: Target,
    /// 0 to 1: how sure the proposer is.
    pub confidence: f32,
    /// Who proposes: a rule, a model, an agent.
    pub proposer: Actor,
    /// The user's own words behind it.
    pub quote: Option<String>,
    /// The conversations behind it.
    pub threads: BTreeSet<String>,
    /// When it was first made.
    pub created_at: TimeMs,
    /// When it was decided.
    pub decided_at: Option<TimeMs>,
    /// Who decided.
    pub decided_by: Option<Actor>,
    /// Why it waits, or was decided as it was.
    pub why: Option<String>,
    /// The version of user memory that it made.
    pub version: Option<u32>,
    /// The memory that it became.
    pub memory: Option<MemoryId>,
}

/// How proposals are reviewed when no person looks at them.
#[derive(Debug, Clone, PartialEq)]
pub enum ReviewPolicy {
    /// Applies proposals of these kinds when they are sure enough; the others wait for a person.
    AutoAccept {
        /// Which kinds.
        kinds: Vec<Kind>,
        /// From which confidence on, 0 to 1.
        confidence_min: f32,
    },
    /// Every proposal waits for a person.
    AskPerson,
    /// No proposal is accepted; each is kept as rejected, so that it can be seen what was wanted.
    Never,
}

impl Default for ReviewPolicy {
    /// What a user plainly said of themselves is applied; everything less sure waits.
    fn default() -> Self {
        Self::AutoAccept { kinds: vec![Kind::Preference, Kind::Fact], confidence_min: 0.8 }
    }
}

/// What a policy says of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ruling {
    Apply,
    Wait(&'static str),
    Reject(&'static str),
}

/// What a policy needs to know of a proposal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Case {
    pub(crate) kind: Kind,
    pub(crate) confidence: f32,
    /// It would change or remove what a person wrote.
    pub(crate) over_explicit: bool,
    /// The words are not the user's own.
    pub(crate) not_the_users: bool,
}

impl ReviewPolicy {
    pub(crate) fn rule(&self, case: Case) -> Ruling {
        match self {
            Self::Never => Ruling::Reject("the policy accepts no proposals"),
            Self::AskPerson => Ruling::Wait("a person is to decide"),
            Self::AutoAccept { .. } if case.over_explicit => Ruling::Wait("it would change what a person wrote"),
            Self::AutoAccept { .. } if case.not_the_users => Ruling::Wait("these are not the user's own words"),
            Self::AutoAccept { kinds, .. } if !kinds.contains(&case.kind) => {
                Ruling::Wait("the policy leaves this kind to a person")
            }
            Self::AutoAccept { confidence_min, .. } if case.confidence < *confidence_min => {
                Ruling::Wait("it is not sure enough")
            }
            Self::AutoAccept { .. } => Ruling::Apply,
        }
    }
}

/// What a person decides on a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// As it is.
    Accept,
    /// With this text instead.
    AcceptAs(String),
    /// Not at all.
    Reject,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_leaves_to_people_what_is_theirs() {
        let sure = Case { kind: Kind::Fact, confidence: 0.95, over_explicit: false, not_the_users: false };
        let policy = ReviewPolicy::default();
        assert_eq!(policy.rule(sure), Ruling::Apply);
        for case in [
            Case { confidence: 0.7, ..sure },
            Case { over_explicit: true, ..sure },
            Case { not_the_users: true, ..sure },
            Case { kind: Kind::Lesson, ..sure },
        ] {
            assert!(matches!(policy.rule(case), Ruling::Wait(_)), "{case:?}");
        }
        assert!(matches!(ReviewPolicy::AskPerson.rule(sure), Ruling::Wait(_)));
        assert!(matches!(ReviewPolicy::Never.rule(sure), Ruling::Reject(_)));
    }

    #[test]
    fn a_proposed_memory_loses_nothing_while_it_waits() {
        let mut memory = NewMemory::new("team", Kind::Fact, Source::Agent, "the port is 8080");
        memory.namespace = "shared".parse().unwrap();
        memory.tags = vec!["a".into()];
        memory.thread = Some("t1".into());
        memory.fact = Some(Fact { subject: "service".into(), attribute: "port".into(), ..Fact::default() });
        let target = Target::Memory(Box::new(memory.clone().into()));
        let text = serde_json::to_string(&target).unwrap();
        let Target::Memory(back) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
        assert_eq!(NewMemory::from(*back), memory);
    }
}

//! The gate between agents and lasting memory (M16): episodes are written at once, lasting facts, preferences and what
//! others read are proposed and reviewed.
//!
//! Invariant: what a model, a tool or the outside says becomes a lasting fact or preference only by a review; what the
//! outside says becomes a preference never, as a preference is a user's own word.

use std::collections::BTreeSet;

use longhaul_core::{MemoryId, Scope};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use super::{
    Actor, By, Proposal, ProposalState, Target, UserError, UserMemory,
    review::{Draft, Filed},
    versions,
};
use crate::{
    Kind, MemoryError, Namespace, NewMemory, Source,
    access::{self, Right},
};

/// How sure a review may be of what an agent says without a person's word behind it.
const AGENT_CONFIDENCE: f32 = 0.5;

/// What the gate says of a memory that is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// It is written at once.
    Write,
    /// It waits for a review; why.
    Propose(&'static str),
    /// It is not written at all; why, and what to do.
    Refuse(&'static str),
}

/// Where it would be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a namespace that only the user reads.
    Own,
    /// In a namespace that others read as well, or that belongs to somebody else.
    Shared,
}

/// The rule, from what the memory is, where it comes from, and who would read it.
#[must_use]
pub fn gate(kind: Kind, source: Source, place: Place) -> Gate {
    let lasting = matches!(kind, Kind::Fact | Kind::Preference);
    match (source, lasting, place) {
        (Source::Harness | Source::User, _, _) | (Source::Agent, false, Place::Own) => Gate::Write,
        (Source::Tool | Source::Outside, false, _) => Gate::Write,
        (Source::Tool | Source::Outside, true, _) if kind == Kind::Preference => {
            Gate::Refuse("a preference is a user's own word; keep the text as an episode, or ask the user")
        }
        (Source::Tool | Source::Outside, true, _) => {
            Gate::Propose("a lasting fact from outside needs a person's review")
        }
        (Source::Agent, true, _) => Gate::Propose("a lasting fact or preference needs a review"),
        (Source::Agent, false, Place::Shared) => Gate::Propose("others read this namespace, so it needs a review"),
    }
}

/// What became of a memory that went through the gate.
#[derive(Debug, Clone, PartialEq)]
pub enum Submitted {
    /// Written, and found from now on.
    Stored(MemoryId),
    /// Filed as a proposal; found once it is accepted. A policy may have accepted it already.
    Proposed(Box<Proposal>),
}

impl UserMemory {
    /// Writes a memory, or files it as a proposal, as [`gate`] says; in the caller's transaction.
    ///
    /// # Errors
    /// [`UserError::NotFromThere`] where the gate refuses; [`UserError::Off`]; those of [`crate::Memory::insert`].
    pub fn submit_in(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        memory: NewMemory,
        by: &By,
    ) -> Result<Submitted, MemoryError> {
        versions::check_on(&versions::head(tx, scope)?, scope)?;
        // What could not be written must not wait either.
        memory.clone().prepare()?;
        let place = place(tx, scope, &memory.namespace)?;
        match gate(memory.kind, memory.source, place.0) {
            Gate::Write => Ok(Submitted::Stored(self.memory.insert(tx, scope, &memory)?)),
            Gate::Refuse(why) => {
                let (what, source_label) = (memory.kind.as_str(), memory.source.as_str());
                Err(UserError::NotFromThere { what, source_label, why }.into())
            }
            Gate::Propose(_) => {
                let reviewer = Scope { tenant: scope.tenant.clone(), user: place.1 };
                let threads: BTreeSet<String> = by.thread.iter().chain(memory.thread.iter()).cloned().collect();
                let outside = matches!(memory.source, Source::Tool | Source::Outside);
                let draft = Draft {
                    confidence: AGENT_CONFIDENCE,
                    proposer: by.actor.clone(),
                    quote: None,
                    threads,
                    not_the_users: outside || memory.source == Source::Agent,
                    target: Target::Memory(Box::new(memory.into())),
                };
                match self.file(tx, &reviewer, draft)? {
                    Filed::As(proposal) => Ok(Submitted::Proposed(proposal)),
                    Filed::Refused(why) => Err(UserError::Unwanted { why }.into()),
                }
            }
        }
    }

    /// As [`UserMemory::submit_in`], in a transaction of its own.
    ///
    /// # Errors
    /// As [`UserMemory::submit_in`].
    pub async fn submit(&self, scope: &Scope, memory: NewMemory, by: By) -> Result<Submitted, MemoryError> {
        let (handle, scope) = (self.clone(), scope.clone());
        self.memory.shared.store.write(move |tx| handle.submit_in(tx, &scope, memory, &by)).await
    }

    /// An explicit edit that an agent makes for the user: at once if it can be the user's wish, else as a proposal that
    /// waits for a person. It can be when nothing from outside is in the conversation, or when the user's own words
    /// carry it: they ask for something to be remembered or forgotten, and hold most of its words.
    ///
    /// # Errors
    /// As [`UserMemory::edit_in`].
    pub async fn edit_for_user(
        &self,
        scope: &Scope,
        edit: super::UserMemoryEdit,
        turns: &[super::Turn],
        by: By,
    ) -> Result<AgentEdit, MemoryError> {
        let tainted = turns.iter().any(|turn| matches!(turn.source, Source::Outside | Source::Tool));
        if !tainted || edit == super::UserMemoryEdit::List {
            return self.edit_by(scope, edit, by).await.map(AgentEdit::Made);
        }
        let (handle, scope, turns) = (self.clone(), scope.clone(), turns.to_vec());
        let write = move |tx: &mut Tx<'_>| {
            let head = versions::lock(tx, &scope)?;
            versions::check_on(&head, &scope)?;
            let state = versions::state(tx, &scope)?;
            let Some(change) = super::state::Change::of_edit(&edit, &state, by.thread.clone())? else {
                return handle.edit_in(tx, &scope, &edit, &by).map(AgentEdit::Made);
            };
            if wanted_by_user(&change.op, &state, &turns) {
                return handle.edit_in(tx, &scope, &edit, &by).map(AgentEdit::Made);
            }
            let Some(target) = target_of(&change.op, &state) else {
                return handle.edit_in(tx, &scope, &edit, &by).map(AgentEdit::Made);
            };
            let draft = Draft {
                target,
                confidence: AGENT_CONFIDENCE,
                proposer: by.actor.clone(),
                quote: None,
                threads: by.thread.iter().cloned().collect(),
                not_the_users: true,
            };
            match handle.file(tx, &scope, draft)? {
                Filed::As(proposal) => Ok(AgentEdit::Proposed(proposal)),
                Filed::Refused(why) => Err(UserError::Unwanted { why }.into()),
            }
        };
        self.memory.shared.store.write(write).await
    }
}

/// What became of an edit that an agent made for a user.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEdit {
    /// It was made.
    Made(super::Edited),
    /// It waits for a person, unless a policy rejected it.
    Proposed(Box<Proposal>),
}

/// Share of an edit's words, in per cent, that the user must have said.
const SUPPORT_PERCENT: usize = 60;

fn wanted_by_user(op: &super::state::Op, state: &super::state::State, turns: &[super::Turn]) -> bool {
    use super::state::Op;
    let asks = |turn: &&super::Turn| turn.source == Source::User && super::rules::asks_to_remember(&turn.text);
    if !turns.iter().rev().filter(|turn| turn.source == Source::User).take(3).any(|turn| asks(&turn)) {
        return false;
    }
    let supported = |text: &str| super::observe::support(text, turns) >= SUPPORT_PERCENT;
    match op {
        Op::Put { text, .. } => supported(text),
        Op::Replace { text, .. } => supported(text),
        Op::Remove { entry } => state.entries.get(entry).is_some_and(|entry| supported(&entry.text)),
    }
}

fn target_of(op: &super::state::Op, state: &super::state::State) -> Option<Target> {
    use super::state::Op;
    Some(match op {
        Op::Put { block, text, slot } => Target::Add { block: *block, text: text.clone(), slot: slot.clone() },
        Op::Replace { entry, text, slot } => Target::Replace {
            entry: *entry,
            text: text.clone(),
            slot: slot.clone(),
            before: state.entries.get(entry)?.text.clone(),
        },
        Op::Remove { entry } => Target::Remove { entry: *entry, before: state.entries.get(entry)?.text.clone() },
    })
}

/// Who reads a namespace, and who decides on what is proposed for it: its owner.
fn place(
    read: &ReadTx<'_>,
    scope: &Scope,
    namespace: &Namespace,
) -> Result<(Place, longhaul_core::UserId), MemoryError> {
    let Some(partition) = access::open(read, scope, namespace, Right::Write)? else {
        return Ok((Place::Own, scope.user.clone()));
    };
    let granted: bool = read
        .query_optional(
            "SELECT 1 FROM memory_grants WHERE tenant_id = ?1 AND namespace = ?2 LIMIT 1",
            &values![&scope.tenant, namespace.as_str()],
            |row| row.get::<i64>(0),
        )
        .map(|found: Option<i64>| found.is_some())?;
    let shared = granted || partition.owner != scope.user;
    Ok((if shared { Place::Shared } else { Place::Own }, partition.owner))
}

/// Whether the user has memory switched on; what search and insert ask.
pub(crate) fn is_on(read: &ReadTx<'_>, scope: &Scope) -> Result<bool, StoreError> {
    Ok(versions::head(read, scope)?.switches.memory)
}

impl Submitted {
    /// For the one who asked, in a sentence.
    #[must_use]
    pub fn told(&self) -> String {
        match self {
            Self::Stored(id) => format!("remembered as {id}"),
            Self::Proposed(proposal) => match proposal.state {
                ProposalState::Applied => format!("remembered ({})", proposal.id),
                ProposalState::Rejected => format!("not remembered ({}): {}", proposal.id, why(proposal)),
                ProposalState::Pending | ProposalState::Undone => {
                    format!("proposed as {}: {}; it is remembered once it is accepted", proposal.id, why(proposal))
                }
            },
        }
    }
}

fn why(proposal: &Proposal) -> &str {
    proposal.why.as_deref().unwrap_or("it waits for a review")
}

impl By {
    /// The background's own act.
    #[must_use]
    pub fn system(why: &str) -> Self {
        Self { actor: Actor::System, thread: None, why: why.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_written_and_what_lasts_is_reviewed() {
        for (kind, source, place, expected) in [
            (Kind::Episode, Source::Agent, Place::Own, "write"),
            (Kind::Note, Source::Agent, Place::Own, "write"),
            (Kind::Note, Source::Agent, Place::Shared, "propose"),
            (Kind::Fact, Source::Agent, Place::Own, "propose"),
            (Kind::Preference, Source::Agent, Place::Own, "propose"),
            (Kind::Fact, Source::User, Place::Shared, "write"),
            (Kind::Fact, Source::Harness, Place::Own, "write"),
            (Kind::Episode, Source::Outside, Place::Own, "write"),
            (Kind::Fact, Source::Outside, Place::Own, "propose"),
            (Kind::Preference, Source::Outside, Place::Own, "refuse"),
            (Kind::Preference, Source::Tool, Place::Own, "refuse"),
        ] {
            let found = match gate(kind, source, place) {
                Gate::Write => "write",
                Gate::Propose(_) => "propose",
                Gate::Refuse(_) => "refuse",
            };
            assert_eq!(found, expected, "{kind} from {source}, {place:?}");
        }
    }
}

//! The background pass over conversations: what users say of themselves becomes proposals.
//!
//! Invariant (13): only turns of [`Source::User`] are read, by rules and proposers alike, and a proposer's suggestion
//! counts only if its quotation stands in one of them; so text of a tool, a page or a model never becomes user memory.
//! The pass over stored conversations keeps its place in the transaction of its proposals: a kill repeats nothing.

use std::collections::BTreeSet;

use async_trait::async_trait;
use longhaul_core::{Scope, TimeMs};
use longhaul_store::{ReadTx, Tx, values};

use super::{
    Actor, Block, Entry, Proposal, ProposalState, Slot, Target, UserMemory,
    block::{one_line, plain},
    review::{Draft, Filed},
    rules::{self, Wish},
    state::State,
    versions,
};
use crate::{MemoryError, Namespace, Source, text};

/// Most turns of one pass.
pub const TURNS_MAX: usize = 200;
/// Characters of one turn that are read.
const TURN_CHARS_MAX: usize = 20_000;
/// Most suggestions taken from a proposer for one pass.
const SUGGESTIONS_MAX: usize = 32;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The conversation.
    pub thread: String,
    /// Whose words it holds.
    pub source: Source,
    /// The words.
    pub text: String,
    /// When it was said.
    pub at: TimeMs,
}

/// What a proposer suggests.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// What to do.
    pub wish: Suggested,
    /// 0 to 1: how sure the proposer is that this is meant to last.
    pub confidence: f32,
    /// The user's own words that say so, as they stand in a turn.
    pub quote: String,
}

/// What a suggestion wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suggested {
    /// Something to keep.
    Keep {
        /// Where.
        block: Block,
        /// One line.
        text: String,
    },
    /// Something known that should go.
    Forget {
        /// What it says, or a part of that.
        text: String,
    },
}

/// Finds in conversations what rules do not: a model, behind this port.
#[async_trait]
pub trait Proposer: Send + Sync {
    /// Named in the proposals: the model's name.
    fn id(&self) -> &str;

    /// Suggestions for these turns, which are all the user's own, given what is known already. None is a good answer.
    ///
    /// # Errors
    /// When the model cannot be asked or answers nonsense. The rules have done their part then all the same.
    async fn propose(&self, turns: &[Turn], known: &[Entry]) -> Result<Vec<Suggestion>, ProposeError>;
}

/// Why a proposer failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the proposer {id} failed: {problem}; the rules were used alone")]
pub struct ProposeError {
    /// The proposer.
    pub id: String,
    /// What went wrong.
    pub problem: String,
}

/// What a pass came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observed {
    /// Turns of the user that were read.
    pub turns: usize,
    /// Proposals that are new, or that were said once more.
    pub proposals: Vec<Proposal>,
    /// Things found that were known already.
    pub known: usize,
    /// Suggestions without a quotation in the user's words, and others that could not be used.
    pub dropped: usize,
    /// What a person should know: memory is switched off, a proposer failed.
    pub notes: Vec<String>,
}

impl Observed {
    /// How many of the proposals were applied at once.
    #[must_use]
    pub fn applied(&self) -> usize {
        self.proposals.iter().filter(|proposal| proposal.state == ProposalState::Applied).count()
    }
}

/// Something found, with where it came from.
#[derive(Debug, Clone)]
struct Finding {
    wish: Wish,
    confidence: f32,
    proposer: Actor,
    quote: String,
    thread: String,
}

impl UserMemory {
    /// Reads turns of conversations and files proposals for what is worth keeping; the policy rules on each.
    ///
    /// # Errors
    /// Those of the store. A failing proposer is a note.
    pub async fn observe(
        &self,
        scope: &Scope,
        turns: &[Turn],
        proposer: Option<&dyn Proposer>,
    ) -> Result<Observed, MemoryError> {
        let (mut observed, findings) = self.found(scope, turns, proposer).await?;
        if findings.is_empty() {
            return Ok(observed);
        }
        let (handle, scope) = (self.clone(), scope.clone());
        let file = move |tx: &mut Tx<'_>| handle.file_all(tx, &scope, findings);
        let filed = self.memory.shared.store.write(file).await?;
        observed.take(filed);
        Ok(observed)
    }

    /// Reads what users said since the last pass, from their own memories of a namespace: those with the source `user`
    /// and a thread. Repeat it until no turns were read.
    ///
    /// # Errors
    /// Those of the store; [`MemoryError::NoAccess`].
    pub async fn observe_stored(
        &self,
        scope: &Scope,
        namespace: &Namespace,
        proposer: Option<&dyn Proposer>,
    ) -> Result<Observed, MemoryError> {
        let (reader, name) = (scope.clone(), namespace.clone());
        let read = move |read: &ReadTx<'_>| stored_turns(read, &reader, &name);
        let Some((turns, last)) = self.memory.shared.store.read(read).await? else { return Ok(Observed::default()) };
        let (mut observed, findings) = self.found(scope, &turns, proposer).await?;
        let (handle, scope, name) = (self.clone(), scope.clone(), namespace.clone());
        let file = move |tx: &mut Tx<'_>| {
            let moved = tx.execute(
                "INSERT INTO memory_user_cursors (tenant_id, user_id, namespace, seq) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (tenant_id, user_id, namespace) DO UPDATE SET seq = excluded.seq
                 WHERE memory_user_cursors.seq < excluded.seq",
                &values![&scope.tenant, &scope.user, name.as_str(), last],
            )?;
            // Another process was here in the meantime.
            if moved == 0 {
                return Ok(Vec::new());
            }
            handle.file_all(tx, &scope, findings)
        };
        let filed = self.memory.shared.store.write(file).await?;
        observed.take(filed);
        Ok(observed)
    }

    async fn found(
        &self,
        scope: &Scope,
        turns: &[Turn],
        proposer: Option<&dyn Proposer>,
    ) -> Result<(Observed, Vec<Finding>), MemoryError> {
        let mut observed = Observed::default();
        let switches = self.switches(scope).await?;
        if !switches.memory || !switches.implicit {
            let what = if switches.memory { "implicit writes are" } else { "memory is" };
            observed.notes.push(format!("{what} switched off for {}; nothing was learned", scope.user));
            return Ok((observed, Vec::new()));
        }
        let own: Vec<Turn> = own_turns(turns);
        observed.turns = own.len();
        let mut findings = Vec::new();
        for turn in &own {
            for found in rules::found_in(&turn.text) {
                findings.push(Finding {
                    wish: found.wish,
                    confidence: found.confidence,
                    proposer: Actor::Proposer(found.rule.to_owned()),
                    quote: found.quote,
                    thread: turn.thread.clone(),
                });
            }
        }
        if let Some(proposer) = proposer.filter(|_| !own.is_empty()) {
            let known = self.entries(scope).await?;
            match proposer.propose(&own, &known).await {
                Ok(suggestions) => {
                    for suggestion in suggestions.into_iter().take(SUGGESTIONS_MAX) {
                        match grounded(suggestion, &own, proposer.id()) {
                            Some(finding) => findings.push(finding),
                            None => observed.dropped += 1,
                        }
                    }
                }
                Err(error) => observed.notes.push(error.to_string()),
            }
        }
        Ok((observed, findings))
    }

    fn file_all(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        findings: Vec<Finding>,
    ) -> Result<Vec<Option<Proposal>>, MemoryError> {
        // The lock first: what is known must not change while it is compared.
        let head = versions::lock(tx, scope)?;
        if !head.switches.memory || !head.switches.implicit {
            return Ok(Vec::new());
        }
        let mut filed = Vec::new();
        for finding in findings {
            let state = versions::state(tx, scope)?;
            let Some(target) = target(&finding.wish, &state, &finding.thread) else {
                filed.push(None);
                continue;
            };
            let draft = Draft {
                target,
                confidence: finding.confidence,
                proposer: finding.proposer,
                quote: Some(finding.quote),
                threads: BTreeSet::from([finding.thread]),
                not_the_users: false,
            };
            filed.push(match self.file(tx, scope, draft)? {
                Filed::As(proposal) => Some(*proposal),
                Filed::Refused(_) => None,
            });
        }
        Ok(filed)
    }
}

impl Observed {
    fn take(&mut self, filed: Vec<Option<Proposal>>) {
        for proposal in filed {
            match proposal {
                Some(proposal) => self.proposals.push(proposal),
                None => self.known += 1,
            }
        }
    }
}

/// The turns that are the user's own, the newest, cut.
fn own_turns(turns: &[Turn]) -> Vec<Turn> {
    let own: Vec<&Turn> = turns.iter().filter(|turn| turn.source == Source::User).collect();
    let newest = own.len().saturating_sub(TURNS_MAX);
    let cut = |turn: &&Turn| Turn { text: turn.text.chars().take(TURN_CHARS_MAX).collect(), ..(*turn).clone() };
    own[newest..].iter().map(cut).collect()
}

/// What a wish means for what is known; nothing when it is known already and its reason too.
fn target(wish: &Wish, state: &State, thread: &str) -> Option<Target> {
    match wish {
        Wish::Keep { block, text, slot } => {
            if let Some(known) = state.same(text, slot.as_ref()).and_then(|id| state.entries.get(&id)) {
                let nothing_new = known.origin == super::Origin::Explicit || known.threads.contains(thread);
                return (!nothing_new).then(|| Target::Add { block: *block, text: text.clone(), slot: slot.clone() });
            }
            let against = state.against(slot.as_ref()).and_then(|id| state.entries.get(&id));
            Some(match against {
                Some(entry) => Target::Replace {
                    entry: entry.id,
                    text: text.clone(),
                    slot: slot.clone(),
                    before: entry.text.clone(),
                },
                None => Target::Add { block: *block, text: text.clone(), slot: slot.clone() },
            })
        }
        Wish::Forget { text } => {
            let entry = meant(text, state)?;
            Some(Target::Remove { entry: entry.id, before: entry.text.clone() })
        }
    }
}

/// The one entry that a text means: it says the same, or has most of its words, and more of them than any other.
fn meant<'a>(wanted: &str, state: &'a State) -> Option<&'a Entry> {
    let slot: Option<Slot> = rules::slot_of(wanted).and_then(|known| known.slot);
    if let Some(same) = state.same(wanted, slot.as_ref()) {
        return state.entries.get(&same);
    }
    let words: BTreeSet<String> = text::terms(wanted).into_iter().collect();
    if words.is_empty() {
        return None;
    }
    let share = |entry: &Entry| {
        let has: BTreeSet<String> = text::terms(&entry.text).into_iter().collect();
        words.intersection(&has).count() * 100 / words.len()
    };
    let mut ranked: Vec<(usize, &Entry)> = state.entries.values().map(|entry| (share(entry), entry)).collect();
    ranked.sort_by_key(|(share, _)| std::cmp::Reverse(*share));
    match ranked.as_slice() {
        [(best, entry), rest @ ..] if *best >= 60 && rest.first().is_none_or(|(second, _)| second < best) => {
            Some(entry)
        }
        _ => None,
    }
}

/// A suggestion whose quotation stands in a turn, as a finding of that turn's conversation.
fn grounded(suggestion: Suggestion, own: &[Turn], proposer: &str) -> Option<Finding> {
    let quote = letters(&suggestion.quote);
    if quote.chars().count() < 2 || !(0.0..=1.0).contains(&suggestion.confidence) {
        return None;
    }
    let turn = own.iter().find(|turn| letters(&rules::own_words(&turn.text)).contains(&quote))?;
    let wish = match suggestion.wish {
        Suggested::Keep { block, text } => {
            let text = one_line(&text).ok()?;
            let slot = rules::slot_of(&text).and_then(|known| known.slot);
            Wish::Keep { block, text, slot }
        }
        Suggested::Forget { text } => Wish::Forget { text: one_line(&text).ok()? },
    };
    Some(Finding {
        wish,
        confidence: suggestion.confidence,
        proposer: Actor::Proposer(proposer.to_owned()),
        quote: suggestion.quote.chars().take(400).collect(),
        thread: turn.thread.clone(),
    })
}

/// A text without anything but letters and digits, so that marks and spaces do not hide a quotation.
fn letters(text: &str) -> String {
    plain(text).chars().filter(|c| c.is_alphanumeric()).collect()
}

/// The share of a text's terms that the user's own words have, in per cent.
pub(crate) fn support(wanted: &str, turns: &[Turn]) -> usize {
    let words: BTreeSet<String> = text::terms(wanted).into_iter().collect();
    let said: BTreeSet<String> =
        own_turns(turns).iter().flat_map(|turn| text::terms(&rules::own_words(&turn.text))).collect();
    if words.is_empty() { 0 } else { words.intersection(&said).count() * 100 / words.len() }
}

type Stored = Option<(Vec<Turn>, i64)>;

fn stored_turns(read: &ReadTx<'_>, scope: &Scope, namespace: &Namespace) -> Result<Stored, MemoryError> {
    use crate::access::{self, Right};
    if access::open(read, scope, namespace, Right::Read)?.is_none() {
        return Ok(None);
    }
    let key = values![&scope.tenant, &scope.user, namespace.as_str()];
    let after: i64 = read
        .query_optional(
            "SELECT seq FROM memory_user_cursors WHERE tenant_id = ?1 AND user_id = ?2 AND namespace = ?3",
            &key,
            |row| row.get(0),
        )?
        .unwrap_or(0);
    let turns = read.query(
        "SELECT seq, thread, content, happened_at FROM memories
         WHERE tenant_id = ?1 AND user_id = ?2 AND namespace = ?3 AND seq > ?4 AND source = 'user' AND kind = 'episode'
           AND thread IS NOT NULL
         ORDER BY seq LIMIT ?5",
        &values![&scope.tenant, &scope.user, namespace.as_str(), after, TURNS_MAX],
        |row| {
            let turn = Turn { thread: row.get(1)?, source: Source::User, text: row.get(2)?, at: row.get(3)? };
            Ok((row.get::<i64>(0)?, turn))
        },
    )?;
    let last = turns.last().map(|(seq, _)| *seq);
    Ok(last.map(|last| (turns.into_iter().map(|(_, turn)| turn).collect(), last)))
}

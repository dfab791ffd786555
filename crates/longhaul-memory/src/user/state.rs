//! What a user's memory holds at one version, and how a change makes the next one. Pure: no store, no clock.
//!
//! Invariant: every change is a function of the state before it, so replaying the changes of the history gives every
//! state again; and no two entries of a state say the same thing.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::TimeMs;
use serde::{Deserialize, Serialize};

use super::{
    UserError,
    block::{BLOCK_CHARS_MAX, BLOCK_ENTRIES_MAX, Block, Entry, EntryId, Origin, Slot, THREADS_MAX, one_line, plain},
    rules,
};
use crate::MemoryError;

/// An explicit change: what the tool `memory_user_edits` does, at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserMemoryEdit {
    /// Keeps something new. What it contradicts is replaced, what says the same already is confirmed.
    Add {
        /// Where it belongs; left out, the text decides.
        block: Option<Block>,
        /// What to keep.
        text: String,
    },
    /// Says it otherwise.
    Replace {
        /// Which entry.
        entry: EntryRef,
        /// What it says from now on.
        text: String,
    },
    /// Takes it out.
    Remove {
        /// Which entry.
        entry: EntryRef,
    },
    /// Changes nothing and shows everything.
    List,
}

/// Names an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryRef {
    /// By its number.
    Id(EntryId),
    /// By a part of its text that no other entry has.
    Containing(String),
}

/// One change of a state, whoever wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) op: Op,
    pub(crate) origin: Origin,
    /// The conversations it comes from.
    pub(crate) threads: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    Put { block: Block, text: String, slot: Option<Slot> },
    Replace { entry: EntryId, text: String, slot: Option<Slot> },
    Remove { entry: EntryId },
}

/// What a change came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A new entry.
    Added,
    /// An entry says something else now; its former text.
    Replaced(String),
    /// It was known already; only the reasons for it grew, or nothing changed.
    Confirmed,
    /// An entry is gone; its text.
    Removed(String),
}

/// All entries at one version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct State {
    pub(crate) entries: BTreeMap<EntryId, Entry>,
}

/// A changed state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) state: State,
    pub(crate) entry: EntryId,
    pub(crate) effect: Effect,
}

impl Change {
    /// What an explicit edit means for this state; `None` for one that only reads.
    pub(crate) fn of_edit(
        edit: &UserMemoryEdit,
        state: &State,
        thread: Option<String>,
    ) -> Result<Option<Self>, MemoryError> {
        let op = match edit {
            UserMemoryEdit::List => return Ok(None),
            UserMemoryEdit::Add { block, text } => {
                let text = one_line(text)?;
                let known = rules::slot_of(&text);
                let block = block.or(known.as_ref().map(|known| known.block)).unwrap_or(Block::Other);
                Op::Put { block, text, slot: known.and_then(|known| known.slot) }
            }
            UserMemoryEdit::Replace { entry, text } => {
                let text = one_line(text)?;
                let slot = rules::slot_of(&text).and_then(|known| known.slot);
                Op::Replace { entry: state.find(entry)?, text, slot }
            }
            UserMemoryEdit::Remove { entry } => Op::Remove { entry: state.find(entry)? },
        };
        Ok(Some(Self { op, origin: Origin::Explicit, threads: thread.into_iter().collect() }))
    }
}

impl State {
    pub(crate) fn of(entries: impl IntoIterator<Item = Entry>) -> Self {
        Self { entries: entries.into_iter().map(|entry| (entry.id, entry)).collect() }
    }

    /// The entry this names.
    pub(crate) fn find(&self, entry: &EntryRef) -> Result<EntryId, UserError> {
        match entry {
            EntryRef::Id(id) if self.entries.contains_key(id) => Ok(*id),
            EntryRef::Id(id) => Err(UserError::NoEntry { id: *id }),
            EntryRef::Containing(text) => {
                let wanted = plain(text);
                let holds = |entry: &&Entry| !wanted.is_empty() && plain(&entry.text).contains(&wanted);
                let found: Vec<&Entry> = self.entries.values().filter(holds).collect();
                if let [only] = found.as_slice() {
                    return Ok(only.id);
                }
                let shown: Vec<String> = found.iter().take(5).map(|e| format!("{} ({})", e.id, cut(&e.text))).collect();
                let candidates = if shown.is_empty() { String::new() } else { format!(": {}", shown.join(", ")) };
                Err(UserError::NotOne { text: cut(text), found: found.len(), candidates })
            }
        }
    }

    /// The entry that says the same already.
    pub(crate) fn same(&self, text: &str, slot: Option<&Slot>) -> Option<EntryId> {
        let wanted = plain(text);
        let same = |entry: &&Entry| plain(&entry.text) == wanted || (slot.is_some() && entry.slot.as_ref() == slot);
        self.entries.values().find(same).map(|entry| entry.id)
    }

    /// The entry about the same thing that says something else of it.
    pub(crate) fn against(&self, slot: Option<&Slot>) -> Option<EntryId> {
        let slot = slot?;
        let against = |entry: &&Entry| {
            entry.slot.as_ref().is_some_and(|has| has.attribute == slot.attribute && has.value != slot.value)
        };
        self.entries.values().find(against).map(|entry| entry.id)
    }

    /// Makes the change. `next` is the number a new entry gets.
    pub(crate) fn changed(&self, change: &Change, next: u32, now: TimeMs) -> Result<Changed, UserError> {
        let mut state = self.clone();
        let (entry, effect) = match &change.op {
            Op::Put { block, text, slot } => state.put(change, *block, text, slot.as_ref(), next, now),
            Op::Replace { entry, text, slot } => state.replace(change, *entry, text, slot.as_ref(), now)?,
            Op::Remove { entry } => {
                let gone = state.entries.remove(entry).ok_or(UserError::NoEntry { id: *entry })?;
                (*entry, Effect::Removed(gone.text))
            }
        };
        if let Some(block) = state.entries.get(&entry).map(|entry| entry.block) {
            state.check_room(self, block)?;
        }
        Ok(Changed { state, entry, effect })
    }

    fn put(
        &mut self,
        change: &Change,
        block: Block,
        text: &str,
        slot: Option<&Slot>,
        next: u32,
        now: TimeMs,
    ) -> (EntryId, Effect) {
        if let Some(known) = self.same(text, slot).and_then(|id| self.entries.get_mut(&id)) {
            known.confirm(change, now);
            return (known.id, Effect::Confirmed);
        }
        if let Some(known) = self.against(slot).and_then(|id| self.entries.get_mut(&id)) {
            let before = known.say(change, text, slot, now);
            return (known.id, Effect::Replaced(before));
        }
        let id = EntryId(next);
        let entry = Entry {
            id,
            block,
            text: text.to_owned(),
            slot: slot.cloned(),
            origin: change.origin,
            threads: change.threads.iter().take(THREADS_MAX).cloned().collect(),
            created_at: now,
            updated_at: now,
        };
        self.entries.insert(id, entry);
        (id, Effect::Added)
    }

    fn replace(
        &mut self,
        change: &Change,
        id: EntryId,
        text: &str,
        slot: Option<&Slot>,
        now: TimeMs,
    ) -> Result<(EntryId, Effect), UserError> {
        if let Some(same) = self.same(text, slot).filter(|same| *same != id) {
            // Said twice from now on: the one that is replaced goes.
            let gone = self.entries.remove(&id).ok_or(UserError::NoEntry { id })?;
            if let Some(known) = self.entries.get_mut(&same) {
                known.confirm(change, now);
            }
            return Ok((same, Effect::Replaced(gone.text)));
        }
        let entry = self.entries.get_mut(&id).ok_or(UserError::NoEntry { id })?;
        if entry.text == text {
            entry.confirm(change, now);
            return Ok((id, Effect::Confirmed));
        }
        let before = entry.say(change, text, slot, now);
        Ok((id, Effect::Replaced(before)))
    }

    fn check_room(&self, before: &Self, block: Block) -> Result<(), UserError> {
        let (chars, entries) = self.size(block);
        let (chars_before, entries_before) = before.size(block);
        let over = (chars > BLOCK_CHARS_MAX && chars > chars_before)
            || (entries > BLOCK_ENTRIES_MAX && entries > entries_before);
        if !over {
            return Ok(());
        }
        let mut longest: Vec<&Entry> = before.entries.values().filter(|entry| entry.block == block).collect();
        longest.sort_by_key(|entry| (std::cmp::Reverse(entry.text.chars().count()), entry.id));
        let fullest: Vec<String> = longest.iter().take(3).map(|e| format!("{} ({})", e.id, cut(&e.text))).collect();
        Err(UserError::BlockFull {
            block,
            chars,
            chars_max: BLOCK_CHARS_MAX,
            entries,
            entries_max: BLOCK_ENTRIES_MAX,
            fullest: fullest.join(", "),
        })
    }

    /// Characters and entries of a block.
    fn size(&self, block: Block) -> (usize, usize) {
        let of_block = self.entries.values().filter(|entry| entry.block == block);
        of_block.fold((0, 0), |(chars, count), entry| (chars + entry.text.chars().count(), count + 1))
    }

    /// Without a conversation: implicit entries that nothing else is behind are gone, the others keep what is left.
    pub(crate) fn without_thread(&self, thread: &str, now: TimeMs) -> Self {
        let mut state = self.clone();
        state.entries.retain(|_, entry| {
            if !entry.threads.remove(thread) {
                return true;
            }
            entry.updated_at = now;
            entry.origin == Origin::Explicit || !entry.threads.is_empty()
        });
        state
    }

    /// The entries in which two states differ, by number: before and after.
    pub(crate) fn difference<'a>(&'a self, after: &'a Self) -> Vec<(Option<&'a Entry>, Option<&'a Entry>)> {
        let mut ids: Vec<EntryId> = self.entries.keys().chain(after.entries.keys()).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let pairs = ids.into_iter().map(|id| (self.entries.get(&id), after.entries.get(&id)));
        pairs.filter(|(before, after)| before != after).collect()
    }
}

impl Entry {
    /// It was said once more.
    fn confirm(&mut self, change: &Change, now: TimeMs) {
        let before = (self.origin, self.threads.clone());
        if change.origin == Origin::Explicit {
            self.origin = Origin::Explicit;
        }
        self.add_threads(&change.threads);
        if before != (self.origin, self.threads.clone()) {
            self.updated_at = now;
        }
    }

    /// It says something else; what was behind the former text is behind it no more. Gives the former text.
    fn say(&mut self, change: &Change, text: &str, slot: Option<&Slot>, now: TimeMs) -> String {
        self.origin = change.origin;
        self.threads.clear();
        self.add_threads(&change.threads);
        self.slot = slot.cloned();
        self.updated_at = now;
        std::mem::replace(&mut self.text, text.to_owned())
    }

    fn add_threads(&mut self, threads: &BTreeSet<String>) {
        let room = THREADS_MAX.saturating_sub(self.threads.len());
        let new: Vec<String> = threads.difference(&self.threads).take(room).cloned().collect();
        self.threads.extend(new);
    }
}

fn cut(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: TimeMs = TimeMs(1_000);

    /// Makes explicit additions one after the other.
    fn told(texts: &[&str]) -> State {
        let mut state = State::default();
        for (text, next) in texts.iter().zip(1..) {
            state = add(&state, text, next).unwrap().state;
        }
        state
    }

    fn add(state: &State, text: &str, next: u32) -> Result<Changed, UserError> {
        let edit = UserMemoryEdit::Add { block: None, text: text.to_owned() };
        let change = Change::of_edit(&edit, state, None).unwrap().unwrap();
        state.changed(&change, next, NOW)
    }

    fn implicit(op: Op, thread: &str) -> Change {
        Change { op, origin: Origin::Implicit, threads: [thread.to_owned()].into() }
    }

    fn put(text: &str) -> Op {
        Op::Put { block: Block::Other, text: text.to_owned(), slot: None }
    }

    fn texts(state: &State) -> Vec<&str> {
        state.entries.values().map(|entry| entry.text.as_str()).collect()
    }

    #[test]
    fn what_is_known_is_confirmed_and_what_contradicts_replaces() {
        let state = told(&["My name is Anna", "I prefer tabs over spaces"]);
        let again = add(&state, "my name is ANNA!", 3).unwrap();
        assert_eq!((again.entry, again.effect, again.state), (EntryId(1), Effect::Confirmed, state.clone()));
        let other = add(&state, "I prefer spaces over tabs", 3).unwrap();
        assert_eq!(other.effect, Effect::Replaced("I prefer tabs over spaces".into()));
        assert_eq!(texts(&other.state), ["My name is Anna", "I prefer spaces over tabs"]);
    }

    #[test]
    fn an_entry_is_named_by_number_or_by_words_of_its_own() {
        let state = told(&["The cat is called Minka", "The dog is called Rex"]);
        let by = |text: &str| state.find(&EntryRef::Containing(text.to_owned()));
        assert_eq!(by("minka"), Ok(EntryId(1)));
        assert!(matches!(by("is called"), Err(UserError::NotOne { found: 2, .. })));
        assert!(matches!(by("horse"), Err(UserError::NotOne { found: 0, .. })));
        assert!(matches!(by("."), Err(UserError::NotOne { found: 0, .. })));
        assert!(state.find(&EntryRef::Id(EntryId(9))).is_err());
    }

    #[test]
    fn a_block_has_an_end_and_says_what_could_go() {
        let mut state = State::default();
        for n in 0..BLOCK_ENTRIES_MAX as u32 {
            state = add(&state, &format!("thing number {n}"), n + 1).unwrap().state;
        }
        let full = add(&state, "one more", 1_000).unwrap_err();
        assert!(matches!(&full, UserError::BlockFull { block: Block::Other, .. }), "{full}");
        // Shorter, or in another block, there is room.
        let edit = UserMemoryEdit::Replace { entry: EntryRef::Id(EntryId(1)), text: "t".into() };
        let change = Change::of_edit(&edit, &state, None).unwrap().unwrap();
        assert!(state.changed(&change, 1_000, NOW).is_ok());
        assert!(add(&state, "My name is Anna", 1_000).is_ok());
    }

    #[test]
    fn an_implicit_entry_fades_with_its_last_conversation_and_an_explicit_one_stays() {
        let mut state = told(&["Explicit from the start"]);
        for (text, thread, next) in
            [("a", "t1", 2), ("a", "t2", 3), ("b", "t1", 4), ("Explicit from the start", "t1", 5)]
        {
            state = state.changed(&implicit(put(text), thread), next, NOW).unwrap().state;
        }
        let without = state.without_thread("t1", NOW);
        assert_eq!(texts(&without), ["Explicit from the start", "a"]);
        assert_eq!(texts(&without.without_thread("t2", NOW)), ["Explicit from the start"]);
        // A person who confirms it takes it out of the hands of its conversations.
        let kept = add(&without, "a", 9).unwrap().state;
        assert_eq!(texts(&kept.without_thread("t2", NOW)), ["Explicit from the start", "a"]);
    }

    #[test]
    fn replacing_by_what_another_entry_says_leaves_one() {
        let state = told(&["likes tea", "likes coffee"]);
        let edit = UserMemoryEdit::Replace { entry: EntryRef::Id(EntryId(2)), text: "Likes tea.".into() };
        let change = Change::of_edit(&edit, &state, None).unwrap().unwrap();
        assert_eq!(texts(&state.changed(&change, 3, NOW).unwrap().state), ["likes tea"]);
    }
}

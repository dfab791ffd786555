//! What filters and weights need of every memory, in RAM, by number: one set of columns for each partition.
//!
//! Derived from the rows: columns remember up to which change they have read, and every snapshot first reads what came
//! after it, deletions included, so writes of other processes are seen. They may be newer than a search's snapshot; a row
//! that the snapshot does not have is left out when it is read. Invariant: no lock is held while rows are read.

mod held;
mod values;

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

use longhaul_core::TimeMs;
use longhaul_store::{Row, StoreError};
use serde_json::{Map, Value};

use crate::{Kind, Source, bits::Bits, life::ColdRow};

pub(crate) use held::Shelf;
use values::{Column, Fields, Words};
pub(crate) use values::{Field, Scalar};

static GENERATIONS: AtomicU64 = AtomicU64::new(1);

/// Numbers whose last change is kept as one.
const GROUP: i64 = 256;

/// No such moment.
const NEVER: i64 = i64::MAX;
const ALWAYS: i64 = i64::MIN;

/// What is read of each row, in the order of [`Cells::read`].
const SELECTED: &str = "seq, kind, source, collection, user_id, task_id, thread, happened_at, created_at, expires_at,
    importance, pinned, indexed, tags, meta, subject, valid_from, valid_to, superseded_at, change_seq";

/// One row as it goes into columns.
#[derive(Debug)]
struct Cells {
    seq: i64,
    change: i64,
    kind: u8,
    source: u8,
    collection: String,
    user: String,
    task: Option<String>,
    thread: Option<String>,
    happened_at: i64,
    created_at: i64,
    expires_at: Option<i64>,
    importance: f32,
    pinned: bool,
    indexed: u32,
    tags: Vec<String>,
    meta: Map<String, Value>,
    subject: Option<String>,
    valid_from: Option<i64>,
    valid_to: Option<i64>,
    superseded_at: Option<i64>,
}

impl Cells {
    /// A damaged cell of a row does not hide the others: it reads as if it were empty.
    fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let place = |found: Option<usize>| found.and_then(|place| u8::try_from(place).ok()).unwrap_or(0);
        Ok(Self {
            seq: row.get(0)?,
            kind: place(Kind::ALL.iter().position(|kind| Ok(kind.as_str()) == row.text(1).map_err(drop))),
            source: place(Source::ALL.iter().position(|source| Ok(source.as_str()) == row.text(2).map_err(drop))),
            collection: row.get(3)?,
            user: row.get(4)?,
            task: row.get(5)?,
            thread: row.get(6)?,
            happened_at: row.get(7)?,
            created_at: row.get(8)?,
            expires_at: row.get(9)?,
            importance: row.get(10)?,
            pinned: row.get(11)?,
            indexed: row.get(12)?,
            tags: parsed(row.text(13)?),
            meta: parsed(row.text(14)?),
            subject: row.get(15)?,
            valid_from: row.get(16)?,
            valid_to: row.get(17)?,
            superseded_at: row.get(18)?,
            change: row.get(19)?,
        })
    }

    fn of_cold(seq: i64, row: &ColdRow) -> Self {
        let place = |found: Option<usize>| found.and_then(|place| u8::try_from(place).ok()).unwrap_or(0);
        Self {
            seq,
            kind: place(Kind::ALL.iter().position(|kind| kind.as_str() == row.kind)),
            source: place(Source::ALL.iter().position(|source| source.as_str() == row.source)),
            collection: row.collection.clone(),
            user: row.user_id.clone(),
            task: row.task_id.clone(),
            thread: row.thread.clone(),
            happened_at: row.happened_at,
            created_at: row.created_at,
            expires_at: row.expires_at,
            importance: row.importance,
            pinned: row.pinned,
            indexed: row.indexed,
            tags: parsed(&row.tags),
            meta: parsed(&row.meta),
            subject: row.subject.clone(),
            valid_from: row.valid_from,
            valid_to: row.valid_to,
            superseded_at: row.superseded_at,
            change: 0,
        }
    }
}

fn parsed<T: serde::de::DeserializeOwned + Default>(json: &str) -> T {
    if json == "[]" || json == "{}" {
        return T::default();
    }
    serde_json::from_str(json).unwrap_or_default()
}

/// A fact's part of the columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FactCells {
    pub(crate) seq: i64,
    subject: u32,
    pub(crate) valid_from: i64,
    pub(crate) valid_to: i64,
    pub(crate) superseded_at: i64,
}

/// One partition's columns.
#[derive(Debug)]
pub(crate) struct Columns {
    /// No two columns of this process have the same.
    generation: u64,
    /// All changes up to this number are in.
    change: i64,
    /// By group of 256 numbers, the last change of a memory.
    changed: HashMap<u32, i64>,
    alive: Vec<u64>,
    live: usize,
    words: Words,
    kind: Column<u8>,
    source: Column<u8>,
    collection: Column<u32>,
    user: Column<u32>,
    task: Column<u32>,
    thread: Column<u32>,
    happened_at: Column<i64>,
    created_at: Column<i64>,
    expires_at: Column<i64>,
    importance: Column<f32>,
    pinned: Column<bool>,
    indexed: Column<u8>,
    /// By word, the numbers that have it, in order.
    tags: HashMap<u32, Vec<u32>>,
    /// Tags of each memory that has some.
    tags_of: HashMap<u32, Vec<u32>>,
    /// By number, in order.
    facts: Vec<FactCells>,
    /// Numbers of each thread, in order.
    threads: HashMap<u32, Vec<u32>>,
    meta: Fields,
}

impl Columns {
    fn new() -> Self {
        Self {
            generation: GENERATIONS.fetch_add(1, Ordering::Relaxed),
            change: 0,
            changed: HashMap::new(),
            alive: Vec::new(),
            live: 0,
            words: Words::default(),
            kind: Column::new(0),
            source: Column::new(0),
            collection: Column::new(0),
            user: Column::new(0),
            task: Column::new(0),
            thread: Column::new(0),
            happened_at: Column::new(0),
            created_at: Column::new(0),
            expires_at: Column::new(NEVER),
            importance: Column::new(0.5),
            pinned: Column::new(false),
            indexed: Column::new(3),
            tags: HashMap::new(),
            tags_of: HashMap::new(),
            facts: Vec::new(),
            threads: HashMap::new(),
            meta: Fields::default(),
        }
    }

    /// Of the rows of a cold segment, which get the numbers 1, 2, … here.
    pub(crate) fn of_cold(rows: &[ColdRow]) -> Self {
        let mut columns = Self::new();
        (1..).zip(rows).for_each(|(number, row)| columns.put(&Cells::of_cold(number, row)));
        columns
    }

    fn is_alive(&self, number: usize) -> bool {
        self.alive.get(number / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    fn put(&mut self, cells: &Cells) {
        let Some((number, short)) = numbers(cells.seq) else { return };
        let is_new = !self.is_alive(number);
        if !is_new {
            self.unlink(short, number);
        }
        // Also of what is new: it may have come back from the cold, into a block of numbers that was given out long ago.
        self.note_change(cells.seq, cells.change);
        if self.alive.len() <= number / 64 {
            self.alive.resize(number / 64 + 1, 0);
        }
        self.alive[number / 64] |= 1 << (number % 64);
        self.live += usize::from(is_new);
        self.kind.set(number, cells.kind);
        self.source.set(number, cells.source);
        self.collection.set(number, self.words.number(&cells.collection));
        self.user.set(number, self.words.number(&cells.user));
        let mut word = |text: &Option<String>| text.as_deref().map_or(0, |text| self.words.number(text));
        let (task, thread) = (word(&cells.task), word(&cells.thread));
        let subject = word(&cells.subject);
        self.task.set(number, task);
        self.thread.set(number, thread);
        self.happened_at.set(number, cells.happened_at);
        self.created_at.set(number, cells.created_at);
        self.expires_at.set(number, cells.expires_at.unwrap_or(NEVER));
        self.importance.set(number, cells.importance);
        self.pinned.set(number, cells.pinned);
        self.indexed.set(number, u8::try_from(cells.indexed).unwrap_or(0));
        self.meta.set(number, &cells.meta, is_new);
        if thread != 0 {
            insert(self.threads.entry(thread).or_default(), short);
        }
        if !cells.tags.is_empty() {
            let tags: Vec<u32> = cells.tags.iter().map(|tag| self.words.number(tag)).collect();
            tags.iter().for_each(|tag| insert(self.tags.entry(*tag).or_default(), short));
            self.tags_of.insert(short, tags);
        }
        if subject != 0 {
            let fact = FactCells {
                seq: cells.seq,
                subject,
                valid_from: cells.valid_from.unwrap_or(ALWAYS),
                valid_to: cells.valid_to.unwrap_or(NEVER),
                superseded_at: cells.superseded_at.unwrap_or(NEVER),
            };
            let place = self.facts.partition_point(|other| other.seq < cells.seq);
            self.facts.insert(place, fact);
        }
    }

    fn remove(&mut self, seq: i64, change: i64) {
        let Some((number, short)) = numbers(seq) else { return };
        self.note_change(seq, change);
        if !self.is_alive(number) {
            return;
        }
        self.unlink(short, number);
        self.alive[number / 64] &= !(1 << (number % 64));
        self.live -= 1;
        self.meta.clear(number);
    }

    fn note_change(&mut self, seq: i64, change: i64) {
        let last = self.changed.entry(u32::try_from(seq / GROUP).unwrap_or(u32::MAX)).or_insert(change);
        *last = (*last).max(change);
    }

    /// Differs from all other columns of this process: what was derived with the help of others cannot be used.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Groups of `size` numbers below the group `until` in which a memory was changed or erased after this change; in
    /// order. `size` is a multiple of 256.
    pub(crate) fn blocks_changed_after(&self, size: i64, change: i64, until: i64) -> Vec<i64> {
        let changed = self.changed.iter().filter(|(_, last)| **last > change);
        let mut blocks: Vec<i64> = changed.map(|(group, _)| i64::from(*group) * GROUP / size).collect();
        blocks.retain(|block| *block < until);
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }

    /// Takes a memory out of what leads to it: its thread, tags and fact.
    fn unlink(&mut self, short: u32, number: usize) {
        let thread = self.thread.get(number);
        if thread != 0 {
            take_out(&mut self.threads, thread, short);
        }
        for tag in self.tags_of.remove(&short).unwrap_or_default() {
            take_out(&mut self.tags, tag, short);
        }
        if let Ok(place) = self.facts.binary_search_by_key(&i64::from(short), |fact| fact.seq) {
            self.facts.remove(place);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let narrow = self.kind.bytes() + self.source.bytes() + self.pinned.bytes() + self.indexed.bytes();
        let words = self.collection.bytes() + self.user.bytes() + self.task.bytes() + self.thread.bytes();
        let wide = self.happened_at.bytes() + self.created_at.bytes() + self.expires_at.bytes();
        let listed =
            |lists: &HashMap<u32, Vec<u32>>| lists.values().map(|list| 56 + 4 * list.capacity()).sum::<usize>();
        let lists = listed(&self.threads) + listed(&self.tags) + listed(&self.tags_of);
        let facts = self.facts.capacity() * size_of::<FactCells>();
        let rest = self.importance.bytes() + self.words.bytes() + self.meta.bytes() + self.alive.capacity() * 8;
        narrow + words + wide + lists + facts + rest
    }

    /// Memories that are there.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// All that are there.
    pub(crate) fn all(&self) -> Bits {
        Bits::of(self.alive.clone())
    }

    /// What sort of thing it is.
    pub(crate) fn kind(&self, seq: i64) -> Kind {
        Kind::ALL.get(usize::from(self.kind.get(seq as usize))).copied().unwrap_or(Kind::Note)
    }

    /// Where its text came from.
    pub(crate) fn source(&self, seq: i64) -> Source {
        Source::ALL.get(usize::from(self.source.get(seq as usize))).copied().unwrap_or(Source::Outside)
    }

    /// When it happened.
    pub(crate) fn happened_at(&self, seq: i64) -> TimeMs {
        TimeMs(self.happened_at.get(seq as usize))
    }

    /// 0 to 1.
    pub(crate) fn importance(&self, seq: i64) -> f32 {
        self.importance.get(seq as usize)
    }

    /// Whether it is pinned.
    pub(crate) fn is_pinned(&self, seq: i64) -> bool {
        self.pinned.get(seq as usize)
    }

    /// Its thread's number, within these columns; 0 for none. Equal numbers are equal threads.
    pub(crate) fn thread_number(&self, seq: i64) -> u32 {
        self.thread.get(seq as usize)
    }

    /// All memories of a thread by its number, in order of writing.
    pub(crate) fn of_thread(&self, thread: u32) -> &[u32] {
        self.threads.get(&thread).map_or(&[], Vec::as_slice)
    }

    /// The values of a field of the metadata.
    pub(crate) fn field(&self, key: &str) -> Option<&Field> {
        self.meta.get(key)
    }

    /// The fields that any memory's metadata has.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &String> {
        self.meta.names()
    }

    /// Facts, by number.
    pub(crate) fn facts(&self) -> &[FactCells] {
        &self.facts
    }

    pub(crate) fn is_about(&self, fact: &FactCells, subject: &str) -> bool {
        self.words.word(fact.subject) == Some(subject)
    }

    /// The numbers that have a tag, in order.
    pub(crate) fn tagged(&self, tag: &str) -> &[u32] {
        self.words.known(tag).and_then(|tag| self.tags.get(&tag)).map_or(&[], Vec::as_slice)
    }

    /// Keeps those of one of these kinds.
    pub(crate) fn keep_kinds(&self, bits: &mut Bits, kinds: &[Kind]) {
        let wanted: Vec<bool> = Kind::ALL.iter().map(|kind| kinds.contains(kind)).collect();
        bits.retain(|number| wanted.get(usize::from(self.kind.get(number))).copied().unwrap_or(false));
    }

    /// Keeps those of one of these collections.
    pub(crate) fn keep_collections(&self, bits: &mut Bits, collections: &[String]) {
        let wanted: Vec<u32> = collections.iter().filter_map(|name| self.words.known(name)).collect();
        bits.retain(|number| wanted.contains(&self.collection.get(number)));
    }

    pub(crate) fn keep_task(&self, bits: &mut Bits, task: &str) {
        Self::keep_word(bits, &self.task, self.words.known(task));
    }

    pub(crate) fn keep_user(&self, bits: &mut Bits, user: &str) {
        Self::keep_word(bits, &self.user, self.words.known(user));
    }

    pub(crate) fn keep_thread(&self, bits: &mut Bits, thread: &str) {
        let mut of_thread = Bits::up_to(self.alive.len() as i64 * 64);
        let thread = self.words.known(thread).unwrap_or(0);
        self.of_thread(thread).iter().for_each(|seq| of_thread.add(i64::from(*seq)));
        bits.intersect(&of_thread);
    }

    fn keep_word(bits: &mut Bits, column: &Column<u32>, word: Option<u32>) {
        let word = word.unwrap_or(u32::MAX);
        bits.retain(|number| column.get(number) == word);
    }

    /// Keeps what happened from `since` on and before `until`.
    pub(crate) fn keep_happened(&self, bits: &mut Bits, since: i64, until: i64) {
        bits.retain(|number| (since..until).contains(&self.happened_at.get(number)));
    }

    /// Keeps what was written at this moment or before.
    pub(crate) fn keep_known(&self, bits: &mut Bits, at: i64) {
        bits.retain(|number| self.created_at.get(number) <= at);
    }

    /// Keeps what has not expired.
    pub(crate) fn keep_unexpired(&self, bits: &mut Bits, now: i64) {
        if !self.expires_at.is_empty() {
            bits.retain(|number| self.expires_at.get(number) > now);
        }
    }
}

/// A number as an index and as it is kept in lists.
fn numbers(seq: i64) -> Option<(usize, u32)> {
    Some((usize::try_from(seq).ok()?, u32::try_from(seq).ok()?))
}

/// Adds to a sorted list.
fn insert(list: &mut Vec<u32>, short: u32) {
    if list.last().is_none_or(|last| *last < short) {
        list.push(short);
    } else if let Err(place) = list.binary_search(&short) {
        list.insert(place, short);
    }
}

fn take_out(lists: &mut HashMap<u32, Vec<u32>>, key: u32, short: u32) {
    let Some(list) = lists.get_mut(&key) else { return };
    if let Ok(place) = list.binary_search(&short) {
        list.remove(place);
    }
    if list.is_empty() {
        lists.remove(&key);
    }
}

//! BM25 from postings, in two passes: of the memory alone, and of the memory with its neighbours.
//!
//! Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009. For the window, counts and lengths are sums over
//! the neighbours, each times its part. Lengths are known of memories that share a term with the query; of the others
//! the mean is taken, which changes no figure (`docs/decisions/ranking.md`) and spares a column.

use crate::bits::Bits;

use super::{DatePart, Reach, Threads, Walker};

/// Saturation of repeats and weight of a text's length: the usual values.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// What a memory is lent of the words of those before and after it. More of those before: an answer follows its question.
const REACH: Reach = Reach { before: &[0.8, 0.5, 0.3, 0.2], after: &[0.5, 0.4, 0.3, 0.2] };
/// A term in more than this part of the memories is in nearly every window and tells no window from another.
const COMMON: f32 = 0.25;
/// Memories whose windows, and whose neighbours' windows, are looked at where more match: the best alone.
const SEEDS_MAX: usize = 1024;
/// A part of a date that more than this part of the memories have is not looked at.
const DATED_MAX: f32 = 0.5;
/// Below so many memories no term counts as common: parts of a handful say little.
const COMMON_FROM: usize = 64;

/// One memory under one term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Posting {
    pub(crate) seq: u32,
    /// How often the term occurs.
    pub(crate) count: u32,
    /// Terms of the memory in all.
    pub(crate) length: u32,
}

/// A term of the query with where it occurs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Term {
    /// In order of writing.
    pub(crate) postings: Vec<Posting>,
    /// The part of a date that it names: every memory of such a day has it once more.
    pub(crate) date: Option<DatePart>,
}

/// What is searched.
#[derive(Debug)]
pub(crate) struct Corpus<'a, T> {
    /// Memories with words.
    pub(crate) documents: i64,
    /// Terms of all of them.
    pub(crate) terms: i64,
    /// The highest number.
    pub(crate) last_seq: i64,
    /// Those that may be found.
    pub(crate) allowed: &'a Bits,
    pub(crate) threads: &'a T,
    /// Whether neighbours count.
    pub(crate) context: bool,
}

/// Scores of one query, by number.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    /// BM25 of each memory; 0 where nothing matches. Empty when nothing matches at all.
    pub(crate) own: Vec<f32>,
    /// BM25 of each memory with its neighbours; empty when neighbours do not count, or nobody has any.
    pub(crate) around: Vec<f32>,
    /// Those with a score, each once.
    pub(crate) found: Vec<u32>,
    /// What a text that repeats every term of the query for ever would get, alone and with neighbours.
    pub(crate) own_bound: f32,
    pub(crate) around_bound: f32,
}

/// Scores every allowed memory that shares a term with the query, and those whose neighbours do. Of many matches only the
/// best alone, and who stands beside them, are looked at with their neighbours.
pub(crate) fn score<T: Threads>(corpus: &Corpus<'_, T>, terms: &[Term]) -> Scores {
    let mut work = Work::new(corpus, terms);
    let seen: Vec<Seen> = terms.iter().map(|term| work.add_own(corpus, term)).collect();
    if corpus.context && work.choose_windows(corpus) {
        for (term, seen) in terms.iter().zip(&seen) {
            work.add_around(corpus, term, seen);
        }
    }
    work.scores
}

/// What the first pass found out about a term.
struct Seen {
    /// Memories that have it.
    containing: usize,
    /// Those that have it by their date.
    dated: Vec<u32>,
}

/// Values by number; a number out of range, which only a damaged index has, is left out.
struct Work<'a, T> {
    scores: Scores,
    walker: Walker<'a, T>,
    /// Occurrences of the term at hand, alone and with neighbours; 0 again after each term.
    count: Vec<f32>,
    count_around: Vec<f32>,
    /// Length as a multiple of the mean, alone and with neighbours; 0 for unknown, and for no window that is looked at.
    length: Vec<f32>,
    length_around: Vec<f32>,
    /// Memories whose occurrences count in some window that is looked at.
    near: Bits,
    /// Members of a window on average, where not all windows are looked at.
    members: Option<f32>,
    /// Memories that the term at hand has given a count.
    touched: Vec<u32>,
}

impl<'a, T: Threads> Work<'a, T> {
    fn new(corpus: &Corpus<'a, T>, terms: &[Term]) -> Self {
        let mut work = Self {
            scores: Scores::default(),
            walker: Walker::new(corpus.threads),
            count: Vec::new(),
            count_around: Vec::new(),
            length: Vec::new(),
            length_around: Vec::new(),
            near: Bits::default(),
            members: None,
            touched: Vec::new(),
        };
        if terms.iter().all(|term| term.postings.is_empty() && term.date.is_none()) {
            return work;
        }
        let places = usize::try_from(corpus.last_seq).unwrap_or(0) + 1;
        let mean = (corpus.terms as f32 / corpus.documents.max(1) as f32).max(1.0);
        (work.length, work.count, work.scores.own) = (vec![0.0; places], vec![0.0; places], vec![0.0; places]);
        for posting in terms.iter().flat_map(|term| &term.postings) {
            if let Some(length) = work.length.get_mut(posting.seq as usize) {
                *length = posting.length as f32 / mean;
            }
        }
        work
    }

    fn add_own(&mut self, corpus: &Corpus<'a, T>, term: &Term) -> Seen {
        if term.date.is_none() {
            return self.add_postings(corpus, term);
        }
        for posting in &term.postings {
            self.note_own(corpus, posting.seq, posting.count as f32);
        }
        let before = self.touched.len();
        let dated = term.date.map_or_else(Vec::new, |date| dated(corpus, date));
        dated.iter().for_each(|seq| self.note_own(corpus, *seq, 1.0));
        let containing = term.postings.len() + self.touched.len() - before;
        let rarity = rarity(containing as f32, corpus.documents.max(1) as f32);
        self.scores.own_bound += rarity * (K1 + 1.0);
        for seq in self.touched.drain(..) {
            let place = seq as usize;
            if self.scores.own[place] == 0.0 {
                self.scores.found.push(seq);
            }
            self.scores.own[place] += rarity * saturated(self.count[place], or_mean(self.length[place]));
            self.count[place] = 0.0;
        }
        Seen { containing, dated }
    }

    /// Of a term that names no date: each of its memories is there once, so nothing has to be summed up first.
    fn add_postings(&mut self, corpus: &Corpus<'a, T>, term: &Term) -> Seen {
        let containing = term.postings.len();
        let rarity = rarity(containing as f32, corpus.documents.max(1) as f32);
        self.scores.own_bound += rarity * (K1 + 1.0);
        for posting in &term.postings {
            let place = posting.seq as usize;
            let (Some(own), true) = (self.scores.own.get_mut(place), corpus.allowed.has(i64::from(posting.seq))) else {
                continue;
            };
            if *own == 0.0 {
                self.scores.found.push(posting.seq);
            }
            *own += rarity * saturated(posting.count as f32, or_mean(self.length[place]));
        }
        Seen { containing, dated: Vec::new() }
    }

    fn note_own(&mut self, corpus: &Corpus<'a, T>, seq: u32, count: f32) {
        let Some(own) = self.count.get_mut(seq as usize) else { return };
        if !corpus.allowed.has(i64::from(seq)) {
            return;
        }
        if *own == 0.0 {
            self.touched.push(seq);
        }
        *own += count;
    }

    /// Decides which windows are looked at, and measures them: lengths as multiples of the mean window. False if nobody
    /// has neighbours.
    fn choose_windows(&mut self, corpus: &Corpus<'a, T>) -> bool {
        let mut windows = self.scores.found.clone();
        let is_cut = windows.len() > SEEDS_MAX;
        if is_cut {
            let own = &self.scores.own;
            windows
                .select_nth_unstable_by(SEEDS_MAX, |a, b| own[*b as usize].total_cmp(&own[*a as usize]).then(b.cmp(a)));
            windows.truncate(SEEDS_MAX);
        }
        windows.sort_unstable();
        let seeds = windows.len();
        for at in 0..seeds {
            self.walker.borrowers(windows[at], REACH, |other, _| windows.push(other));
        }
        if windows.len() == seeds {
            return false;
        }
        windows.sort_unstable();
        windows.dedup();
        windows.retain(|seq| corpus.allowed.has(i64::from(*seq)) && (*seq as usize) < self.length.len());
        self.length_around = vec![0.0; self.length.len()];
        self.near = Bits::up_to(corpus.last_seq);
        let (mut parts, mut members) = (0.0, 0.0);
        for seq in &windows {
            self.near.add(i64::from(*seq));
            let (mut length, mut part) = (or_mean(self.length[*seq as usize]), 1.0);
            self.walker.lenders(*seq, REACH, |other, lent| {
                if corpus.allowed.has(i64::from(other)) {
                    self.near.add(i64::from(other));
                    length += lent * or_mean(self.length.get(other as usize).copied().unwrap_or(0.0));
                    part += lent;
                    members += 1.0;
                }
            });
            parts += part;
            self.length_around[*seq as usize] = length;
        }
        let mean = parts / windows.len().max(1) as f32;
        windows.iter().for_each(|seq| self.length_around[*seq as usize] /= mean);
        self.members = is_cut.then_some(1.0 + members / windows.len().max(1) as f32);
        (self.scores.around, self.count_around) = (vec![0.0; self.length.len()], vec![0.0; self.length.len()]);
        true
    }

    fn add_around(&mut self, corpus: &Corpus<'a, T>, term: &Term, seen: &Seen) {
        let documents = corpus.documents.max(1) as f32;
        if corpus.documents as usize >= COMMON_FROM && seen.containing as f32 > COMMON * documents {
            return;
        }
        for posting in &term.postings {
            if !self.near.has(i64::from(posting.seq)) {
                continue;
            }
            let (counts, touched, windows) = (&mut self.count_around, &mut self.touched, &self.length_around);
            let mut lend = |other: u32, count: f32| {
                let place = other as usize;
                if windows.get(place).is_some_and(|length| *length > 0.0) {
                    if counts[place] == 0.0 {
                        touched.push(other);
                    }
                    counts[place] += count;
                }
            };
            let count = posting.count as f32;
            lend(posting.seq, count);
            self.walker.borrowers(posting.seq, REACH, |other, part| lend(other, part * count));
        }
        for seq in seen.dated.iter().filter(|seq| self.length_around[**seq as usize] > 0.0) {
            if self.count_around[*seq as usize] == 0.0 {
                self.touched.push(*seq);
            }
            self.count_around[*seq as usize] += 1.0;
        }
        // Of all windows it is known how many have the term; else it is told from how many memories have it.
        let all = corpus.allowed.len().max(1) as f32;
        let apart = |members: f32| all * (1.0 - (1.0 - (seen.containing as f32 / documents).min(1.0)).powf(members));
        let rarity = rarity(self.members.map_or(self.touched.len() as f32, apart), all);
        self.scores.around_bound += rarity * (K1 + 1.0);
        for seq in self.touched.drain(..) {
            let place = seq as usize;
            if self.scores.own[place] == 0.0 && self.scores.around[place] == 0.0 {
                self.scores.found.push(seq);
            }
            self.scores.around[place] += rarity * saturated(self.count_around[place], self.length_around[place]);
            self.count_around[place] = 0.0;
        }
    }
}

/// A length, or the mean where it is unknown.
fn or_mean(length: f32) -> f32 {
    if length > 0.0 { length } else { 1.0 }
}

/// The memories of days that have this part; none if that says little, because most have it.
fn dated<T: Threads>(corpus: &Corpus<'_, T>, date: DatePart) -> Vec<u32> {
    let mut of_last = (i64::MIN, false);
    let mut is_of = |seq: i64| {
        let day = corpus.threads.day(seq);
        if day != of_last.0 {
            of_last = (day, date.is_of(day));
        }
        of_last.1
    };
    let all = corpus.allowed.iter().filter(|seq| is_of(*seq)).filter_map(|seq| u32::try_from(seq).ok());
    let all: Vec<u32> = all.collect();
    let is_common = all.len() >= COMMON_FROM && all.len() as f32 > DATED_MAX * corpus.allowed.len() as f32;
    if is_common { Vec::new() } else { all }
}

/// How much a term tells that so many of all have.
fn rarity(containing: f32, all: f32) -> f32 {
    let containing = containing.min(all);
    ((all - containing + 0.5) / (containing + 0.5)).ln_1p()
}

fn saturated(count: f32, length: f32) -> f32 {
    count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length))
}

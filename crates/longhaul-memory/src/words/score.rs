//! BM25 from postings, twice in one pass: of the memory alone, and of the memory with its neighbours.
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

/// Scores every allowed memory that shares a term with the query, or whose neighbours do.
pub(crate) fn score<T: Threads>(corpus: &Corpus<'_, T>, terms: &[Term]) -> Scores {
    let mut work = Work::new(corpus, terms);
    for term in terms {
        work.add(corpus, term);
    }
    work.scores
}

/// Values by number; a number out of range, which only a damaged index has, is left out.
struct Work<'a, T> {
    scores: Scores,
    walker: Walker<'a, T>,
    /// Occurrences of the term at hand, alone and with neighbours; 0 again after each term.
    count: Vec<f32>,
    count_around: Vec<f32>,
    /// Length as a multiple of the mean, alone and with neighbours; 0 for unknown.
    length: Vec<f32>,
    length_around: Vec<f32>,
    /// Memories that the term at hand has given a count.
    touched: Vec<u32>,
    touched_around: Vec<u32>,
}

impl<'a, T: Threads> Work<'a, T> {
    fn new(corpus: &Corpus<'a, T>, terms: &[Term]) -> Self {
        let places = usize::try_from(corpus.last_seq).unwrap_or(0) + 1;
        let mean = (corpus.terms as f32 / corpus.documents.max(1) as f32).max(1.0);
        let zeros = || vec![0.0_f32; places];
        let mut work = Self {
            scores: Scores::default(),
            walker: Walker::new(corpus.threads),
            count: Vec::new(),
            count_around: Vec::new(),
            length: Vec::new(),
            length_around: Vec::new(),
            touched: Vec::new(),
            touched_around: Vec::new(),
        };
        let dated = terms.iter().any(|term| term.date.is_some());
        let mut matching: Vec<u32> = Vec::new();
        for posting in terms.iter().flat_map(|term| &term.postings) {
            if work.length.is_empty() {
                work.length = zeros();
            }
            let Some(length) = work.length.get_mut(posting.seq as usize) else { continue };
            if *length == 0.0 && corpus.allowed.has(i64::from(posting.seq)) {
                *length = posting.length as f32 / mean;
                matching.push(posting.seq);
            }
        }
        if matching.is_empty() && !dated {
            return work;
        }
        if work.length.is_empty() {
            work.length = zeros();
        }
        (work.scores.own, work.count) = (zeros(), zeros());
        if corpus.context && work.measure_windows(corpus, &matching) {
            (work.scores.around, work.count_around) = (zeros(), zeros());
        }
        work
    }

    /// Lengths of the windows of what matches and of its neighbours, as multiples of the mean window. False if nobody
    /// has neighbours.
    fn measure_windows(&mut self, corpus: &Corpus<'a, T>, matching: &[u32]) -> bool {
        let mut windows: Vec<u32> = matching.to_vec();
        for seq in matching {
            self.walker.borrowers(*seq, REACH, |other, _| windows.push(other));
        }
        if windows.len() == matching.len() {
            return false;
        }
        windows.sort_unstable();
        windows.dedup();
        self.length_around = vec![0.0; self.length.len()];
        let known = |lengths: &[f32], seq: u32| lengths.get(seq as usize).copied().filter(|length| *length > 0.0);
        let mut parts = 0.0;
        for seq in &windows {
            let (mut length, mut part) = (known(&self.length, *seq).unwrap_or(1.0), 1.0);
            self.walker.lenders(*seq, REACH, |other, lent| {
                if corpus.allowed.has(i64::from(other)) {
                    length += lent * known(&self.length, other).unwrap_or(1.0);
                    part += lent;
                }
            });
            parts += part;
            if let Some(around) = self.length_around.get_mut(*seq as usize) {
                *around = length;
            }
        }
        let mean = parts / windows.len() as f32;
        for seq in &windows {
            if let Some(around) = self.length_around.get_mut(*seq as usize) {
                *around /= mean;
            }
        }
        true
    }

    fn add(&mut self, corpus: &Corpus<'a, T>, term: &Term) {
        for posting in &term.postings {
            self.note(corpus, posting.seq, posting.count as f32, true);
        }
        let mut containing = term.postings.len();
        if let Some(date) = term.date {
            let before = self.touched.len();
            dated(corpus, date).into_iter().for_each(|seq| self.note(corpus, seq, 1.0, false));
            containing += self.touched.len() - before;
        }
        let documents = corpus.documents.max(1) as f32;
        let rarity = rarity(containing as f32, documents);
        self.scores.own_bound += rarity * (K1 + 1.0);
        self.pour_own(rarity);
        if self.scores.around.is_empty() {
            return;
        }
        let is_common = corpus.documents as usize >= COMMON_FROM && containing as f32 > COMMON * documents;
        let windows = corpus.allowed.len().max(1) as f32;
        let rarity = if is_common { 0.0 } else { self::rarity(self.touched_around.len() as f32, windows) };
        self.scores.around_bound += rarity * (K1 + 1.0);
        self.pour_around(rarity);
    }

    /// Counts occurrences in one memory, and lends them to its neighbours.
    fn note(&mut self, corpus: &Corpus<'a, T>, seq: u32, count: f32, lends: bool) {
        if !corpus.allowed.has(i64::from(seq)) {
            return;
        }
        let Some(own) = self.count.get_mut(seq as usize) else { return };
        if *own == 0.0 {
            self.touched.push(seq);
        }
        *own += count;
        if self.count_around.is_empty() {
            return;
        }
        let (counts, touched) = (&mut self.count_around, &mut self.touched_around);
        let mut lend = |other: u32, count: f32| {
            let Some(around) = counts.get_mut(other as usize) else { return };
            if *around == 0.0 {
                touched.push(other);
            }
            *around += count;
        };
        lend(seq, count);
        if lends {
            let allowed = corpus.allowed;
            self.walker.borrowers(seq, REACH, |other, part| {
                if allowed.has(i64::from(other)) {
                    lend(other, part * count);
                }
            });
        }
    }

    fn pour_own(&mut self, rarity: f32) {
        for seq in self.touched.drain(..) {
            let place = seq as usize;
            let length = if self.length[place] > 0.0 { self.length[place] } else { 1.0 };
            if self.scores.own[place] == 0.0 && self.scores.around.get(place).is_none_or(|around| *around == 0.0) {
                self.scores.found.push(seq);
            }
            self.scores.own[place] += rarity * saturated(self.count[place], length);
            self.count[place] = 0.0;
        }
    }

    fn pour_around(&mut self, rarity: f32) {
        for seq in self.touched_around.drain(..) {
            let place = seq as usize;
            let length = if self.length_around[place] > 0.0 { self.length_around[place] } else { 1.0 };
            if rarity > 0.0 {
                if self.scores.own[place] == 0.0 && self.scores.around[place] == 0.0 {
                    self.scores.found.push(seq);
                }
                self.scores.around[place] += rarity * saturated(self.count_around[place], length);
            }
            self.count_around[place] = 0.0;
        }
    }
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

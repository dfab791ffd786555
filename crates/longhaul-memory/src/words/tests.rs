//! What words score, compared with a plain computation over whole texts.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::{Corpus, Posting, Reach, Scores, Term, Threads, Walker, dates, score};
use crate::{bits::Bits, item::counted, text};

/// Texts with their thread and day, numbered from 1 on.
struct Talk {
    texts: Vec<(u32, i64, String)>,
    members: HashMap<u32, Vec<u32>>,
}

impl Threads for Talk {
    fn thread(&self, seq: i64) -> u32 {
        self.texts[seq as usize - 1].0
    }

    fn members(&self, thread: u32) -> &[u32] {
        self.members.get(&thread).map_or(&[], Vec::as_slice)
    }

    fn day(&self, seq: i64) -> i64 {
        self.texts[seq as usize - 1].1
    }
}

impl Talk {
    fn new(texts: &[(u32, i64, &str)]) -> Self {
        let mut members: HashMap<u32, Vec<u32>> = HashMap::new();
        for ((thread, ..), seq) in texts.iter().zip(1..) {
            if *thread != 0 {
                members.entry(*thread).or_default().push(seq);
            }
        }
        Self { texts: texts.iter().map(|(thread, day, text)| (*thread, *day, (*text).to_owned())).collect(), members }
    }

    fn terms(&self, query: &str) -> Vec<Term> {
        let mut postings: BTreeMap<String, Vec<Posting>> = BTreeMap::new();
        for ((.., text), seq) in self.texts.iter().zip(1..) {
            let (terms, length) = counted(text);
            for (term, count) in terms {
                postings.entry(term).or_default().push(Posting { seq, count, length });
            }
        }
        let dates = dates(query);
        let of_date =
            |term: &str| dates.iter().find(|(_, other)| other.as_deref() == Some(term)).map(|(part, _)| *part);
        let found = |term: String| Term { date: of_date(&term), postings: postings.remove(&term).unwrap_or_default() };
        text::terms(query).into_iter().map(found).collect()
    }

    fn search_among(&self, query: &str, allowed: impl Fn(i64) -> bool, context: bool) -> Scores {
        let last_seq = self.texts.len() as i64;
        let mut bits = Bits::up_to(last_seq);
        (1..=last_seq).filter(|seq| allowed(*seq)).for_each(|seq| bits.add(seq));
        let terms = self.texts.iter().map(|(.., text)| i64::from(counted(text).1)).sum();
        let corpus = Corpus { documents: last_seq, terms, last_seq, allowed: &bits, threads: self, context };
        score(&corpus, &self.terms(query))
    }

    fn search(&self, query: &str) -> Scores {
        self.search_among(query, |_| true, true)
    }
}

fn best(scores: &[f32]) -> usize {
    (1..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap()
}

#[test]
fn an_answer_is_found_by_the_words_of_its_question() {
    let talk = Talk::new(&[
        (1, 0, "Good morning, the kettle is broken"),
        (1, 0, "Which database should the billing service use?"),
        (1, 0, "Postgres, because of its row locks"),
        (2, 0, "Lunch was late again and the soup cold"),
        (2, 0, "Postgres needs an update on the old server"),
    ]);
    let scores = talk.search("database of billing: postgres");
    // Alone, both mentions of the database look the same, nearly; beside its question the answer stands out.
    assert!(scores.own[3] < 1.2 * scores.own[5] && scores.around[3] > 5.0 * scores.around[5], "{scores:?}");
    assert!(scores.around[1] > 0.0 && scores.own[1] == 0.0 && scores.found.contains(&1), "lent: {scores:?}");
}

#[test]
fn threads_keep_their_words_to_themselves() {
    let talk = Talk::new(&[(1, 0, "zebra"), (2, 0, "apple"), (0, 0, "pear"), (1, 0, "melon"), (0, 0, "plum")]);
    let scores = talk.search("zebra");
    assert!(scores.around[4] > 0.0 && scores.around[1] > scores.around[4], "{scores:?}");
    assert!([2, 3, 5].iter().all(|seq| scores.around[*seq] == 0.0 && !scores.found.contains(&(*seq as u32))));
}

#[test]
fn what_the_filter_leaves_out_lends_no_words() {
    let talk = Talk::new(&[(1, 0, "zebra"), (1, 0, "apple"), (1, 0, "melon")]);
    let scores = talk.search_among("zebra apple", |seq| seq != 1, true);
    assert_eq!((scores.own[1], scores.around.first().copied().unwrap_or(0.0)), (0.0, 0.0));
    let without = Talk::new(&[(1, 0, "stone"), (1, 0, "apple"), (1, 0, "melon")]);
    let expected = without.search_among("zebra apple", |seq| seq != 1, true);
    assert_eq!((scores.around, scores.own), (expected.around, expected.own));
}

#[test]
fn without_threads_neighbours_change_nothing() {
    let texts = [(0, 0, "red fox jumps"), (0, 0, "the fox sleeps, the fox dreams"), (0, 0, "a bear in the wood")];
    let with = Talk::new(&texts).search("fox dreams");
    let without = Talk::new(&texts).search_among("fox dreams", |_| true, false);
    assert!(with.around.is_empty() && with.own == without.own);
    assert_eq!(best(&with.own), 2);
}

#[test]
fn a_memory_is_found_by_the_day_it_happened() {
    let talk = Talk::new(&[
        (0, 19_485, "we chose the blue logo"),  // 8 May 2023
        (0, 19_516, "we chose the green logo"), // 8 June 2023
        (0, 19_486, "the logo is too small"),   // 9 May 2023
    ]);
    let scores = talk.search("which logo was chosen on 8 May 2023");
    assert_eq!(best(&scores.own), 1, "{scores:?}");
    assert!(scores.own[1] > scores.own[2] && scores.own[1] > scores.own[3]);
}

#[test]
fn lending_and_borrowing_are_two_sides_of_the_same() {
    let texts: Vec<(u32, i64, &str)> = (0..20).map(|n| (n % 3, 0, "x")).collect();
    let talk = Talk::new(&texts);
    let reach = Reach { before: &[0.8, 0.5, 0.3], after: &[0.4, 0.2] };
    let (mut lent, mut borrowed) = (Vec::new(), Vec::new());
    let mut walker = Walker::new(&talk);
    for seq in [7, 8, 1, 20, 19, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18] {
        walker.lenders(seq, reach, |other, part| lent.push((other, seq, part.to_bits())));
        walker.borrowers(seq, reach, |other, part| borrowed.push((seq, other, part.to_bits())));
    }
    lent.sort_unstable();
    borrowed.sort_unstable();
    assert!(lent == borrowed && !lent.is_empty(), "{lent:?} {borrowed:?}");
}

#[test]
fn a_damaged_posting_is_left_out() {
    let talk = Talk::new(&[(1, 0, "zebra"), (1, 0, "apple")]);
    let mut bits = Bits::up_to(2);
    (1..=2).for_each(|seq| bits.add(seq));
    let corpus = Corpus { documents: 2, terms: 2, last_seq: 2, allowed: &bits, threads: &talk, context: true };
    let broken = Posting { seq: u32::MAX, count: u32::MAX, length: 0 };
    let whole = Posting { seq: 2, count: 1, length: 1 };
    let scores = score(&corpus, &[Term { postings: vec![broken, whole], date: None }]);
    assert_eq!(best(&scores.own), 2);
}

proptest! {
    #[test]
    fn scores_are_finite_and_everything_found_is_allowed(
        texts in proptest::collection::vec((0..4_u32, 19_000..19_010_i64, "[a-d ]{1,12}"), 1..30),
        query in "[a-d ]{0,12}( may 2022)?", barred in 1..30_i64,
    ) {
        let texts: Vec<(u32, i64, &str)> = texts.iter().map(|(t, d, text)| (*t, *d, text.as_str())).collect();
        let scores = Talk::new(&texts).search_among(&query, |seq| seq != barred, true);
        let mut found = scores.found.clone();
        found.sort_unstable();
        found.dedup();
        prop_assert_eq!(found.len(), scores.found.len());
        prop_assert!(!scores.found.contains(&(barred as u32)));
        prop_assert!(scores.own.iter().chain(&scores.around).all(|score| score.is_finite() && *score >= 0.0));
        for seq in scores.found {
            let around = scores.around.get(seq as usize).copied().unwrap_or(0.0);
            prop_assert!(scores.own[seq as usize] + around > 0.0);
        }
    }
}

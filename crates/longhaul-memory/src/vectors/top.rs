//! The best so far of a search. Of equals the newer wins, so that the answer is always the same.

use std::{cmp::Ordering, collections::BinaryHeap};

/// One candidate; the heap's greatest is the worst.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    cosine: f32,
    seq: i64,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        other.cosine.total_cmp(&self.cosine).then(other.seq.cmp(&self.seq))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// At most so many candidates, the best of those added.
#[derive(Debug)]
pub(super) struct Top {
    heap: BinaryHeap<Candidate>,
    len_max: usize,
    floor: f32,
}

impl Top {
    pub(super) fn new(len_max: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(len_max + 1), len_max, floor: f32::NEG_INFINITY }
    }

    /// What a candidate must reach to be kept.
    pub(super) fn floor(&self) -> f32 {
        self.floor
    }

    pub(super) fn add(&mut self, cosine: f32, seq: i64) {
        if cosine < self.floor {
            return;
        }
        self.heap.push(Candidate { cosine, seq });
        if self.heap.len() > self.len_max {
            self.heap.pop();
        }
        if self.heap.len() == self.len_max {
            self.floor = self.heap.peek().map_or(f32::NEG_INFINITY, |worst| worst.cosine);
        }
    }

    /// Best first.
    pub(super) fn into_sorted(self) -> Vec<(f32, i64)> {
        self.heap.into_sorted_vec().into_iter().map(|candidate| (candidate.cosine, candidate.seq)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Top;

    proptest! {
        #[test]
        fn it_keeps_the_best(cosines in proptest::collection::vec(-9_i8..9, 0..60), len in 1_usize..20) {
            let mut top = Top::new(len);
            let mut all: Vec<(f32, i64)> = cosines.iter().map(|cosine| f32::from(*cosine)).zip(0..).collect();
            all.iter().for_each(|(cosine, seq)| top.add(*cosine, *seq));
            all.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
            all.truncate(len);
            prop_assert_eq!(top.into_sorted(), all);
        }
    }
}

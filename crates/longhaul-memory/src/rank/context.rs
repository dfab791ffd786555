//! The meaning of a memory together with its neighbours: a weighted mean of cosines that are there anyway or cheap.

use std::collections::HashMap;

use crate::words::{Reach, Threads, Walker};

/// Parts of the two memories before and after.
const REACH: Reach = Reach { before: &[0.8, 0.5], after: &[0.8, 0.5] };

/// The candidates and the neighbours whose cosines are needed too, each once.
pub(crate) fn beside<T: Threads>(threads: &T, candidates: &[u32]) -> Vec<u32> {
    let mut walker = Walker::new(threads);
    let mut all = candidates.to_vec();
    for seq in candidates {
        walker.lenders(*seq, REACH, |other, _| all.push(other));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// The mean of the memory's cosine and its neighbours'; `None` where it has no cosine, or nobody beside it that has one.
pub(crate) fn meaning_around<T: Threads>(
    walker: &mut Walker<'_, T>,
    seq: u32,
    cosines: &HashMap<i64, f32>,
) -> Option<f32> {
    let (mut sum, mut parts) = (*cosines.get(&i64::from(seq))?, 1.0);
    walker.lenders(seq, REACH, |other, part| {
        if let Some(cosine) = cosines.get(&i64::from(other)) {
            sum += part * cosine;
            parts += part;
        }
    });
    (parts > 1.0).then(|| sum / parts)
}

//! The index of a large partition: one list for each centre, with a sketch of one bit a dimension for every vector.
//!
//! A search visits the lists nearest to the query until it has seen enough allowed vectors. A sketch gives an unbiased
//! estimate of the cosine and how far it may be off (Gao and Long, RaBitQ: Quantizing High-Dimensional Vectors with a
//! Theoretical Error Bound for Approximate Nearest Neighbor Search, 2024); only what may still reach the best so far is
//! compared by its bytes. So hard data make it slower rather than worse. Unlike a graph it takes and loses vectors one by
//! one, and filters cost nothing; `docs/decisions/vector-index.md` has the measurements.
//!
//! With `x = c + r`, `s` the signs of `r` and `f = |r|² / Σ|r|`:
//! `<q, x> = <q, c> + <c, r> + <q - c, r>`, and `<q - c, r>` is estimated by `f · (<s, q> - <s, c>)`.

use std::sync::Arc;

use crate::bits::Bits;

use super::{
    centres::{Centres, Products},
    kernels::{self, LANES, PLANES},
    slots::{Asked, Slots},
    top::Top,
};

/// Fewest allowed vectors that a search looks at by their sketches, and the least part of all. Real sentences lie
/// in no clear groups: looking at 40 % of them gives a recall of 0.987, at half 0.993.
const SEEN_MIN: usize = 100_000;
const SEEN_PART: usize = 2;
/// Standard deviations an estimate may be off before a vector is missed. 1.8 lost nothing on real sentences, 2.0 cost
/// 0.4 % of recall in tight clusters.
const DEVIATIONS: f32 = 2.5;

/// Sums kept side by side where a vector is summed up.
const SUMS: usize = 16;

/// A vector's place in the index, computed without a lock.
#[derive(Debug)]
pub(super) struct Sketch {
    list: u32,
    words: Vec<u64>,
    /// `<c, r> - f · <s, c>`
    base: f32,
    /// `f`
    factor: f32,
    /// Standard deviation of the estimate, for a query at distance one from the centre.
    deviation: f32,
}

#[derive(Debug, Default)]
struct List {
    /// Sketches, [`LANES`] of them word by word.
    blocks: Vec<u64>,
    bases: Vec<f32>,
    factors: Vec<f32>,
    deviations: Vec<f32>,
    slots: Vec<u32>,
    /// Number of each memory; negative once it is dead.
    seqs: Vec<i64>,
}

#[derive(Debug)]
pub(super) struct Lists {
    centres: Arc<Centres>,
    lists: Vec<List>,
    /// List of each slot, by slot; dead slots are in none.
    list_of: Vec<u32>,
}

pub(super) const NO_LIST: u32 = u32::MAX;

impl Lists {
    pub(super) fn new(centres: Arc<Centres>) -> Self {
        let lists = (0..centres.len()).map(|_| List::default()).collect();
        Self { centres, lists, list_of: Vec::new() }
    }

    pub(super) fn centres(&self) -> &Arc<Centres> {
        &self.centres
    }

    /// Slots that the index covers: all below this number.
    pub(super) fn covered(&self) -> usize {
        self.list_of.len()
    }

    /// List of each covered slot.
    pub(super) fn list_of(&self) -> &[u32] {
        &self.list_of
    }

    pub(super) fn bytes(&self) -> usize {
        let list = |list: &List| 8 * list.blocks.capacity() + 24 * list.seqs.capacity();
        self.lists.iter().map(list).sum::<usize>() + 4 * self.list_of.capacity() + self.centres.bytes().len()
    }

    /// Takes the next slot in, where it is alive.
    pub(super) fn push(&mut self, slots: &Slots, sketch: &Sketch) {
        let slot = self.list_of.len();
        let Some(seq) = slots.seq(slot) else {
            self.list_of.push(NO_LIST);
            return;
        };
        self.list_of.push(sketch.list);
        let list = &mut self.lists[sketch.list as usize];
        let lane = list.seqs.len() % LANES;
        if lane == 0 {
            list.blocks.resize(list.blocks.len() + sketch.words.len() * LANES, 0);
        }
        let start = list.blocks.len() - sketch.words.len() * LANES;
        for (word, value) in sketch.words.iter().enumerate() {
            list.blocks[start + word * LANES + lane] = *value;
        }
        list.bases.push(sketch.base);
        list.factors.push(sketch.factor);
        list.deviations.push(sketch.deviation);
        list.slots.push(slot as u32);
        list.seqs.push(seq);
    }

    /// Takes a slot out.
    pub(super) fn kill(&mut self, slot: usize) {
        let Some(list) = self.list_of.get(slot).filter(|list| **list != NO_LIST) else { return };
        let list = &mut self.lists[*list as usize];
        // A list's slots are in order.
        if let Ok(place) = list.slots.binary_search(&(slot as u32)) {
            list.seqs[place] = -1;
        }
    }

    /// Compares the query, given rotated and as bytes, with the covered slots.
    pub(super) fn search(&self, slots: &Slots, asked: &Asked, turned: &[f32], allowed: &Bits, top: &mut Top) {
        let planes = Planes::new(turned);
        let mut products = Products::default();
        self.centres.products(asked.level, &asked.code.bytes, asked.code.scale, &mut products);
        let distance = |list: usize| (1.0 - 2.0 * products.real[list] + self.centres.centre(list).2).max(0.0);
        let mut order: Vec<(f32, usize)> = (0..self.lists.len()).map(|list| (distance(list), list)).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let enough = SEEN_MIN.max(slots.live() / SEEN_PART);
        // With most allowed, counting them would take longer than it could save.
        let is_counted = allowed.len() < slots.live() / 2;
        let (mut seen, mut sums, mut bounds) = (0, Vec::new(), Vec::new());
        for (distance, list) in order {
            let (centre, slack, list) = (products.real[list], DEVIATIONS * distance.sqrt(), &self.lists[list]);
            list.bounds(asked, &planes, centre, slack, &mut sums, &mut bounds);
            for (place, bound) in bounds.iter().enumerate() {
                if *bound >= top.floor() && allowed.has(list.seqs[place]) {
                    top.add(slots.cosine(asked, list.slots[place] as usize), list.seqs[place]);
                }
            }
            seen +=
                if is_counted { list.seqs.iter().filter(|seq| allowed.has(**seq)).count() } else { list.seqs.len() };
            if seen >= enough {
                break;
            }
        }
    }
}

impl List {
    /// The greatest cosine that each sketch makes likely.
    fn bounds(
        &self,
        asked: &Asked,
        planes: &Planes,
        centre: f32,
        slack: f32,
        sums: &mut Vec<i32>,
        bounds: &mut Vec<f32>,
    ) {
        sums.resize(self.seqs.len().next_multiple_of(LANES), 0);
        kernels::sketch_sums(asked.level, &planes.words, &self.blocks, sums);
        let estimates = sums.iter().zip(&self.bases).zip(&self.factors).zip(&self.deviations);
        bounds.clear();
        bounds.extend(estimates.map(|(((sum, base), factor), deviation)| {
            let signed = planes.step * sum.wrapping_mul(2).wrapping_sub(planes.total) as f32;
            centre + base + factor * signed + slack * deviation
        }));
    }
}

impl Sketch {
    pub(super) fn new(centres: &Centres, bytes: &[i8], scale: f32, products: &mut Products) -> Self {
        let list = centres.nearest(kernels::Level::best(), bytes, scale, products);
        Self::in_list(centres, list, bytes, scale)
    }

    /// Of a vector whose list is known.
    pub(super) fn in_list(centres: &Centres, list: u32, bytes: &[i8], scale: f32) -> Self {
        let (centre, centre_scale, _) = centres.centre(list as usize);
        let mut words = vec![0_u64; bytes.len() / 64];
        // Sums of their own for each lane, so that the compiler makes vector instructions of it.
        let (mut squares, mut totals) = ([0.0_f32; SUMS], [0.0_f32; SUMS]);
        let (mut alongs, mut signs) = ([0.0_f32; SUMS], [0.0_f32; SUMS]);
        for (word, (bytes, centre)) in words.iter_mut().zip(bytes.chunks_exact(64).zip(centre.chunks_exact(64))) {
            let mut rests = [0.0_f32; 64];
            for start in (0..64).step_by(SUMS) {
                for lane in 0..SUMS {
                    let of = f32::from(centre[start + lane]) * centre_scale;
                    let rest = f32::from(bytes[start + lane]) * scale - of;
                    rests[start + lane] = rest;
                    squares[lane] += rest * rest;
                    totals[lane] += rest.abs();
                    alongs[lane] += of * rest;
                    signs[lane] += if rest >= 0.0 { of } else { -of };
                }
            }
            for (bit, rest) in rests.iter().enumerate() {
                *word |= u64::from(*rest >= 0.0) << bit;
            }
        }
        let [square, total, along, signed] = [squares, totals, alongs, signs].map(|sums| sums.iter().sum::<f32>());
        let factor = if total > 0.0 { square / total } else { 0.0 };
        // Cosine of the angle between the rest and its signs, from 0 to 1.
        let width = bytes.len() as f32;
        let angle = total / (square * width).sqrt();
        let deviation =
            if total > 0.0 { (square * (1.0 - angle * angle).max(0.0) / (width - 1.0)).sqrt() / angle } else { 0.0 };
        Self { list, words, base: along - factor * signed, factor, deviation }
    }
}

/// A query's values in [`PLANES`] bits.
#[derive(Debug)]
struct Planes {
    words: Vec<u64>,
    step: f32,
    total: i32,
}

impl Planes {
    fn new(turned: &[f32]) -> Self {
        let words = turned.len() / 64;
        let largest = turned.iter().fold(0.0_f32, |largest, value| largest.max(value.abs())).max(1e-12);
        let step = largest / 7.0;
        let mut planes = Self { words: vec![0; words * PLANES], step, total: 0 };
        for (index, value) in turned.iter().enumerate() {
            let level = (value / step).round() as i32;
            planes.total += level;
            for plane in 0..PLANES {
                planes.words[plane * words + index / 64] |= ((level >> plane & 1) as u64) << (index % 64);
            }
        }
        planes
    }
}

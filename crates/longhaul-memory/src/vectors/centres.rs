//! Centres of the groups that a large partition is divided into, found by k-means (Lloyd, 1982) on a sample.
//!
//! Pure and repeatable: the same vectors give the same centres. A centre is bytes and a scale like any vector; what is
//! computed from it uses these, so nothing depends on how exact they are.

use super::{
    kernels::{self, Level},
    quantise::{self, Code},
    slots::Slots,
};

/// Vectors of the sample for each centre.
const SAMPLE: usize = 40;
const ROUNDS: usize = 6;

/// The centres of a partition.
#[derive(Debug, PartialEq)]
pub(super) struct Centres {
    width: usize,
    /// All centres' bytes, one after the other.
    bytes: Vec<i8>,
    scales: Vec<f32>,
    /// Squared lengths.
    squares: Vec<f32>,
}

impl Centres {
    pub(super) fn new(width: usize, bytes: Vec<i8>, scales: Vec<f32>) -> Self {
        let square = |(bytes, scale): (&[i8], &f32)| {
            let sum: i32 = bytes.iter().map(|byte| i32::from(*byte).pow(2)).sum();
            sum as f32 * scale * scale
        };
        let squares = bytes.chunks_exact(width).zip(&scales).map(square).collect();
        Self { width, bytes, scales, squares }
    }

    pub(super) fn len(&self) -> usize {
        self.scales.len()
    }

    pub(super) fn bytes(&self) -> &[i8] {
        &self.bytes
    }

    pub(super) fn scales(&self) -> &[f32] {
        &self.scales
    }

    /// One centre's bytes, scale and squared length.
    pub(super) fn centre(&self, index: usize) -> (&[i8], f32, f32) {
        (&self.bytes[index * self.width..][..self.width], self.scales[index], self.squares[index])
    }

    /// Dot products with all centres.
    pub(super) fn products(&self, level: Level, bytes: &[i8], scale: f32, products: &mut Products) {
        products.whole.resize(self.len(), 0);
        kernels::dots(level, bytes, &self.bytes, &mut products.whole);
        products.real.clear();
        products.real.extend(products.whole.iter().zip(&self.scales).map(|(whole, of)| *whole as f32 * of * scale));
    }

    /// The centre at the smallest distance.
    pub(super) fn nearest(&self, level: Level, bytes: &[i8], scale: f32, products: &mut Products) -> u32 {
        self.products(level, bytes, scale, products);
        let mut best = (f32::NEG_INFINITY, 0);
        for ((product, square), index) in products.real.iter().zip(&self.squares).zip(0..) {
            let nearness = 2.0 * product - square;
            if nearness > best.0 {
                best = (nearness, index);
            }
        }
        best.1
    }

    /// Finds so many centres of the live vectors; `None` when told to stop.
    pub(super) fn found(slots: &Slots, count: usize, is_stopped: &dyn Fn() -> bool) -> Option<Self> {
        let live: Vec<usize> = (0..slots.len()).filter(|slot| slots.seq(*slot).is_some()).collect();
        let sample = spread(&live, (count * SAMPLE).min(live.len()));
        let start = spread(&sample, count);
        let (mut bytes, mut scales) = (Vec::new(), Vec::new());
        for slot in &start {
            let (code, scale) = slots.code(*slot);
            bytes.extend_from_slice(code);
            scales.push(scale);
        }
        let mut centres = Self::new(slots.width(), bytes, scales);
        for round in 0..ROUNDS {
            centres = centres.moved(slots, &sample, round, is_stopped)?;
        }
        Some(centres)
    }

    /// One round: every centre moves to the mean of the vectors nearest to it; one without vectors, onto a vector.
    fn moved(&self, slots: &Slots, sample: &[usize], round: usize, is_stopped: &dyn Fn() -> bool) -> Option<Self> {
        let level = Level::best();
        let mut products = Products::default();
        let mut sums = vec![0.0_f32; self.bytes.len()];
        let mut counts = vec![0_u32; self.len()];
        for (index, slot) in sample.iter().enumerate() {
            if index % 1024 == 0 && is_stopped() {
                return None;
            }
            let (bytes, scale) = slots.code(*slot);
            let nearest = self.nearest(level, bytes, scale, &mut products) as usize;
            let sum = &mut sums[nearest * self.width..][..self.width];
            sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum += f32::from(*byte) * scale);
            counts[nearest] += 1;
        }
        let (mut bytes, mut scales) = (Vec::with_capacity(self.bytes.len()), Vec::with_capacity(self.len()));
        for (index, (sum, count)) in sums.chunks_exact_mut(self.width).zip(&counts).enumerate() {
            if *count == 0 {
                let (code, scale) = slots.code(sample[(index * 7919 + round * 104_729) % sample.len()]);
                bytes.extend_from_slice(code);
                scales.push(scale);
                continue;
            }
            sum.iter_mut().for_each(|value| *value /= *count as f32);
            let Code { bytes: code, scale } = quantise::quantised(sum);
            bytes.extend_from_slice(&code);
            scales.push(scale);
        }
        Some(Self::new(self.width, bytes, scales))
    }
}

/// Room for the dot products with all centres, used again and again.
#[derive(Debug, Default)]
pub(super) struct Products {
    whole: Vec<i32>,
    pub(super) real: Vec<f32>,
}

/// So many of these, evenly spread.
fn spread(all: &[usize], count: usize) -> Vec<usize> {
    let count = count.min(all.len());
    (0..count).map(|index| all[index * all.len() / count]).collect()
}

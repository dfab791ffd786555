//! From a unit vector to what the index compares: turned by a fixed random rotation, then one byte for each dimension.
//!
//! The rotation spreads every vector's length evenly over all dimensions, whatever the model did with them; bytes and
//! sign bits then lose equally little of each (Gao and Long, RaBitQ, 2024). It is orthogonal, so dot products stay as
//! they are. Invariant: it depends on nothing but the number of dimensions, and files depend on it: [`ROTATION`] changes
//! when it does.

/// Version of the rotation and the quantisation.
pub(super) const ROTATION: u32 = 1;

/// A vector of one byte for each dimension, to be multiplied by the scale.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Code {
    pub(super) bytes: Vec<i8>,
    pub(super) scale: f32,
}

/// The rotation for vectors of one length.
#[derive(Debug, Clone)]
pub(super) struct Rotation {
    /// Signs of each round, 1 or -1.
    signs: Vec<f32>,
    dimensions: usize,
    width: usize,
}

const ROUNDS: usize = 4;

impl Rotation {
    pub(super) fn new(dimensions: usize) -> Self {
        let width = dimensions.max(1).next_multiple_of(64);
        // xorshift (Marsaglia, 2003) from a fixed start.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state >> 63 == 0 { 1.0 } else { -1.0 }
        };
        Self { signs: (0..ROUNDS * width).map(next).collect(), dimensions, width }
    }

    /// Length of a rotated vector: the dimensions, rounded up to a multiple of 64.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The vector in the rotated space.
    pub(super) fn turn(&self, vector: &[f32]) -> Vec<f32> {
        let mut turned = vec![0.0; self.width];
        turned.iter_mut().zip(vector).for_each(|(place, value)| *place = *value);
        // The transform needs a power of two: it is applied to the first and to the last so many, which overlap.
        let span = 1 << self.width.ilog2();
        for (round, signs) in self.signs.chunks_exact(self.width).enumerate() {
            turned.iter_mut().zip(signs).for_each(|(value, sign)| *value *= sign);
            let from = if round % 2 == 0 { 0 } else { self.width - span };
            hadamard(&mut turned[from..from + span]);
        }
        turned
    }

    /// The rotated vector in bytes.
    pub(super) fn code(&self, vector: &[f32]) -> Code {
        quantised(&self.turn(vector))
    }
}

/// One byte for each value; the largest becomes 127.
pub(super) fn quantised(values: &[f32]) -> Code {
    let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    if largest <= 0.0 {
        return Code { bytes: vec![0; values.len()], scale: 0.0 };
    }
    let factor = 127.0 / largest;
    let byte = |value: &f32| {
        let scaled = value * factor;
        (scaled + 0.5_f32.copysign(scaled)) as i8
    };
    Code { bytes: values.iter().map(byte).collect(), scale: largest / 127.0 }
}

/// The normalised Walsh–Hadamard transform of a power of two of values.
fn hadamard(values: &mut [f32]) {
    let mut half = 1;
    while half < values.len() {
        for pair in values.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                (*low, *high) = (*low + *high, *low - *high);
            }
        }
        half *= 2;
    }
    let factor = 1.0 / (values.len() as f32).sqrt();
    values.iter_mut().for_each(|value| *value *= factor);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Rotation;

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    proptest! {
        #[test]
        fn a_rotation_keeps_dot_products_and_bytes_keep_them_nearly(
            pairs in proptest::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 1..500),
        ) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let rotation = Rotation::new(a.len());
            let (turned, code) = (rotation.turn(&a), rotation.code(&b));
            let bytes: Vec<f32> = code.bytes.iter().map(|byte| f32::from(*byte) * code.scale).collect();
            let lengths = (dot(&a, &a) * dot(&b, &b)).sqrt().max(1e-3);
            prop_assert!((dot(&turned, &rotation.turn(&b)) - dot(&a, &b)).abs() < 1e-4 * lengths);
            prop_assert!((dot(&turned, &bytes) - dot(&a, &b)).abs() < 0.02 * lengths);
        }
    }
}

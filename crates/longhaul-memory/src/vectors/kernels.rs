//! The inner loops, compiled once for each instruction set of the processor and chosen when first used.
//!
//! Here is this crate's only `unsafe`: calling a function that was compiled for instructions which the compiler cannot
//! know to be there. Each such call is behind the detection of exactly those instructions. The loops themselves are
//! plain safe Rust, written so that the compiler turns them into vector instructions; every level runs the same source,
//! so all levels give the same integers. On aarch64, NEON is part of the baseline and the portable level uses it.

use std::sync::OnceLock;

/// Vectors whose sketches are stored side by side, one in each lane.
pub(super) const LANES: usize = 8;
/// Bits of a query's value when it is compared with sketches: two's complement, so the last plane counts negative.
pub(super) const PLANES: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Level {
    /// The levels this processor has, best first.
    pub(super) fn available() -> Vec<Self> {
        let mut levels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni")
                && is_x86_feature_detected!("avx512vpopcntdq")
            {
                levels.push(Self::Avx512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
                levels.push(Self::Avx2);
            }
        }
        levels.push(Self::Portable);
        levels
    }

    /// The best level of this processor.
    pub(super) fn best() -> Self {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().first().copied().unwrap_or(Self::Portable))
    }
}

/// One loop at every level: the body is inlined into a function that is compiled for the level's instructions.
macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident($level:ident, $($arg:ident: $type:ty),*) = $body:ident) => {
        $(#[$doc])*
        #[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "the level says that its instructions were detected"))]
        pub(super) fn $name($level: Level, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vpopcntdq")]
            fn avx512($($arg: $type),*) {
                $body($($arg),*);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,popcnt")]
            fn avx2($($arg: $type),*) {
                $body($($arg),*);
            }
            match $level {
                // SAFETY: `Level::available` gives this level only where all of its instructions were detected.
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => unsafe { avx2($($arg),*) },
                Level::Portable => $body($($arg),*),
            }
        }
    };
}

kernel! {
    /// Dot products of the query with each of `out.len()` codes of its length, one after the other in `codes`.
    dots(level, query: &[i8], codes: &[i8], out: &mut [i32]) = dots_body
}

kernel! {
    /// For each sketch of `blocks`, the sum of the query's values where the sketch has a one. `planes` holds the
    /// query's bits, plane after plane; a block holds [`LANES`] sketches, word by word.
    sketch_sums(level, planes: &[u64], blocks: &[u64], out: &mut [i32]) = sketch_sums_body
}

#[inline(always)]
fn dots_body(query: &[i8], codes: &[i8], out: &mut [i32]) {
    for (code, out) in codes.chunks_exact(query.len()).zip(out) {
        let products = query.iter().zip(code).map(|(a, b)| i32::from(*a).wrapping_mul(i32::from(*b)));
        *out = products.fold(0, i32::wrapping_add);
    }
}

#[inline(always)]
fn sketch_sums_body(planes: &[u64], blocks: &[u64], out: &mut [i32]) {
    let words = planes.len() / PLANES;
    for (block, out) in blocks.chunks_exact(words * LANES).zip(out.chunks_exact_mut(LANES)) {
        let mut sums = [0_u64; LANES];
        for (word, lanes) in block.chunks_exact(LANES).enumerate() {
            let bits = [planes[word], planes[words + word], planes[2 * words + word], planes[3 * words + word]];
            for lane in 0..LANES {
                let ones = |plane: usize| u64::from((lanes[lane] & bits[plane]).count_ones());
                let sum = ones(0).wrapping_add(ones(1) << 1).wrapping_add(ones(2) << 2);
                sums[lane] = sums[lane].wrapping_add(sum).wrapping_sub(ones(3) << 3);
            }
        }
        for lane in 0..LANES {
            out[lane] = sums[lane] as i32;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{LANES, Level, PLANES, dots, sketch_sums};

    proptest! {
        #[test]
        fn every_level_gives_the_sums_of_the_definition(
            words in 1_usize..8, vectors in 1_usize..5, seed in proptest::collection::vec(any::<u64>(), 700),
        ) {
            let bytes: Vec<i8> = seed.iter().flat_map(|word| word.to_le_bytes()).map(|byte| byte as i8).collect();
            let (query, codes) = bytes.split_at(words * 64);
            let codes = &codes[..words * 64 * vectors];
            let expected: Vec<i32> = codes
                .chunks_exact(words * 64)
                .map(|code| code.iter().zip(query).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum())
                .collect();
            let planes = &seed[..words * PLANES];
            let blocks = &seed[100..100 + words * LANES * vectors];
            let value = |bit: usize| {
                let plane = |plane: usize| (planes[plane * words + bit / 64] >> (bit % 64) & 1) as i32;
                plane(0) + 2 * plane(1) + 4 * plane(2) - 8 * plane(3)
            };
            let has = |vector: usize, bit: usize| {
                blocks[vector / LANES * LANES * words + bit / 64 * LANES + vector % LANES] >> (bit % 64) & 1 == 1
            };
            let sums: Vec<i32> = (0..vectors * LANES)
                .map(|vector| (0..words * 64).filter(|bit| has(vector, *bit)).map(value).sum())
                .collect();
            for level in Level::available() {
                let mut out = vec![0; vectors];
                dots(level, query, codes, &mut out);
                prop_assert_eq!(&out, &expected, "{:?}", level);
                let mut out = vec![0; vectors * LANES];
                sketch_sums(level, planes, blocks, &mut out);
                prop_assert_eq!(&out, &sums, "{:?}", level);
            }
        }
    }
}

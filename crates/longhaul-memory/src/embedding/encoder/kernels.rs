//! The inner loops of the encoder, compiled once for each instruction set of the processor and chosen when first used.
//!
//! Here is the encoder's only `unsafe`: calling a function compiled for instructions that the compiler cannot know to be
//! there (each call is behind their detection), and the loads of the product's two innermost loops, whose intrinsics take
//! pointers (each behind one check of the lengths before the loop). The compiler does not keep a block of sums in
//! registers by itself, and that is four fifths of the time. All else is plain Rust that it turns into vector
//! instructions. On aarch64 NEON is part of the baseline and the portable level uses it.

use std::sync::OnceLock;

/// Values of one line: one cache line, aligned to it.
pub(super) const LINE: usize = 16;
/// Rows of the largest tile, at any level.
pub(super) const ROWS_MAX: usize = 12;
/// Lines of a tile's row, at any level.
pub(super) const LINES_MAX: usize = 2;

/// Sixteen values that begin at a cache line, so that no load crosses one.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [f32; LINE]);

impl Line {
    pub(super) const ZERO: Self = Self([0.0; LINE]);
}

/// The sums of a few rows by a few lines, row after row.
pub(super) type Tile = [Line; ROWS_MAX * LINES_MAX];

/// Which instructions are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

/// How the layer between the two halves of a block bends its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activation {
    None,
    /// x · Φ(x) with the error function.
    Gelu,
    /// The same by its approximation with the hyperbolic tangent.
    GeluTanh,
    Relu,
    Tanh,
}

impl Level {
    /// The levels this processor has, best first.
    pub(super) fn available() -> Vec<Self> {
        let mut levels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
            {
                levels.push(Self::Avx512);
            }
            if avx2 {
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

    /// Most rows of a tile: as many sums as the registers hold.
    pub(super) fn rows(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => 12,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 6,
            Self::Portable => 4,
        }
    }

    /// Lines of a tile's row, and of each step of a packed panel.
    pub(super) fn lines(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => 2,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 1,
            Self::Portable => 1,
        }
    }
}

/// One loop at every level: the body is inlined into a function that is compiled for the level's instructions. Its
/// constant says whether a fused multiply-add is one instruction.
macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident($level:ident, $($arg:ident: $type:ty),*) = $body:ident) => {
        $(#[$doc])*
        #[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "the level says that its instructions were detected"))]
        pub(super) fn $name($level: Level, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
            fn avx512($($arg: $type),*) {
                $body::<true>($($arg),*);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $type),*) {
                $body::<true>($($arg),*);
            }
            match $level {
                // SAFETY: `Level::available` gives this level only where all of its instructions were detected.
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => unsafe { avx2($($arg),*) },
                Level::Portable => $body::<{ cfg!(target_arch = "aarch64") }>($($arg),*),
            }
        }
    };
}

kernel! {
    /// Adds the bias of a panel (a line for each of a row's) to a tile's rows and bends the sums.
    finish(level, tile: &mut [Line], bias: &[Line], activation: Activation) = finish_body
}

kernel! {
    /// exp(value − greatest) / sum, in place.
    softmax(level, row: &mut [f32]) = softmax_body
}

kernel! {
    /// Adds `residual` to `row`, then takes the mean away, divides by the deviation, scales and shifts.
    add_and_normalise(level, row: &mut [f32], residual: &[f32], scale: &[f32], shift: &[f32], epsilon: f32) = normalise_body
}

/// The product of `rows` packed rows and a panel. `rows_packed` holds step after step, in each one value of every row;
/// `panel` step after step [`Level::lines`] lines. The sums come row after row.
///
/// # Panics
/// When the lengths do not fit each other: the caller packs both.
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "the level says that its instructions were detected"))]
pub(super) fn product(level: Level, rows: usize, rows_packed: &[f32], panel: &[Line], tile: &mut Tile) {
    #[cfg(target_arch = "x86_64")]
    macro_rules! by_rows {
        ($function:ident: $($rows:literal)*) => {
            match rows {
                // SAFETY: `Level::available` gives this level only where all of its instructions were detected.
                $($rows => unsafe { x86::$function::<$rows>(rows_packed, panel, tile) },)*
                _ => unreachable!("a tile of {rows} rows"),
            }
        };
    }
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => by_rows!(avx512: 1 2 3 4 5 6 7 8 9 10 11 12),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => by_rows!(avx2: 1 2 3 4 5 6),
        Level::Portable => match rows {
            1 => portable::<1>(rows_packed, panel, tile),
            2 => portable::<2>(rows_packed, panel, tile),
            3 => portable::<3>(rows_packed, panel, tile),
            4 => portable::<4>(rows_packed, panel, tile),
            _ => unreachable!("a tile of {rows} rows"),
        },
    }
}

fn portable<const ROWS: usize>(rows_packed: &[f32], panel: &[Line], tile: &mut Tile) {
    let mut sums = [[0.0_f32; LINE]; ROWS];
    for (values, Line(line)) in rows_packed.as_chunks::<ROWS>().0.iter().zip(panel) {
        for (sums, value) in sums.iter_mut().zip(values) {
            for (sum, weight) in sums.iter_mut().zip(line) {
                *sum = fused::<{ cfg!(target_arch = "aarch64") }>(*value, *weight, *sum);
            }
        }
    }
    for (line, sums) in tile.iter_mut().zip(sums) {
        *line = Line(sums);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm256_fmadd_ps, _mm256_load_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_store_ps, _mm512_fmadd_ps,
        _mm512_load_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_store_ps,
    };

    use super::{LINE, Line, Tile};

    #[target_feature(enable = "avx512f")]
    #[expect(unsafe_code, reason = "aligned loads take pointers; the lengths are checked before the loop")]
    pub(super) fn avx512<const ROWS: usize>(rows_packed: &[f32], panel: &[Line], tile: &mut Tile) {
        let steps = panel.len() / 2;
        assert!(rows_packed.len() == steps * ROWS && panel.len() == steps * 2 && ROWS * 2 <= tile.len());
        let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
        for step in 0..steps {
            // SAFETY: `panel` has two lines for each step, and a `Line` is 64 bytes aligned to 64.
            let weights = unsafe {
                let line = panel.as_ptr().add(step * 2);
                [_mm512_load_ps(line.cast()), _mm512_load_ps(line.add(1).cast())]
            };
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: `rows_packed` has `ROWS` values for each step.
                let value = _mm512_set1_ps(unsafe { *rows_packed.get_unchecked(step * ROWS + row) });
                sums[0] = _mm512_fmadd_ps(value, weights[0], sums[0]);
                sums[1] = _mm512_fmadd_ps(value, weights[1], sums[1]);
            }
        }
        for (lines, sums) in tile.as_chunks_mut::<2>().0.iter_mut().zip(sums) {
            for (Line(line), sum) in lines.iter_mut().zip(sums) {
                // SAFETY: a `Line` is 64 bytes aligned to 64.
                unsafe { _mm512_store_ps(line.as_mut_ptr(), sum) };
            }
        }
    }

    #[target_feature(enable = "avx2,fma")]
    #[expect(unsafe_code, reason = "aligned loads take pointers; the lengths are checked before the loop")]
    pub(super) fn avx2<const ROWS: usize>(rows_packed: &[f32], panel: &[Line], tile: &mut Tile) {
        assert!(rows_packed.len() == panel.len() * ROWS && ROWS <= tile.len());
        let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
        for (step, Line(line)) in panel.iter().enumerate() {
            // SAFETY: a `Line` is 64 bytes aligned to 64: two aligned vectors of 32 bytes.
            let weights = unsafe { [_mm256_load_ps(line.as_ptr()), _mm256_load_ps(line.as_ptr().add(LINE / 2))] };
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: `rows_packed` has `ROWS` values for each step.
                let value = _mm256_set1_ps(unsafe { *rows_packed.get_unchecked(step * ROWS + row) });
                sums[0] = _mm256_fmadd_ps(value, weights[0], sums[0]);
                sums[1] = _mm256_fmadd_ps(value, weights[1], sums[1]);
            }
        }
        for (Line(line), sums) in tile.iter_mut().zip(sums) {
            // SAFETY: as for the loads.
            unsafe {
                _mm256_store_ps(line.as_mut_ptr(), sums[0]);
                _mm256_store_ps(line.as_mut_ptr().add(LINE / 2), sums[1]);
            }
        }
    }
}

#[inline(always)]
fn fused<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn polynomial<const FUSED: bool, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[0];
    for coefficient in &coefficients[1..] {
        sum = fused::<FUSED>(sum, x, *coefficient);
    }
    sum
}

#[inline(always)]
fn within(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > low { x } else { low };
    if x < high { x } else { high }
}

/// e^x to 1.2e-7 of its value, between −87 and 88, by Cephes' reduction and polynomial
/// (<https://www.netlib.org/cephes>, `expf`).
#[inline(always)]
fn exponential<const FUSED: bool>(x: f32) -> f32 {
    /// Added to a number, it leaves the nearest whole number in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let x = within(x, -87.0, 88.0);
    let shifted = fused::<FUSED>(x, std::f32::consts::LOG2_E, ROUND);
    let whole = shifted - ROUND;
    let rest = fused::<FUSED>(whole, 2.121_944_4e-4, fused::<FUSED>(whole, -0.693_359_375, x));
    let series = [1.987_569_2e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5.000_000_1e-1];
    let power = fused::<FUSED>(polynomial::<FUSED, 6>(rest, series), rest * rest, rest) + 1.0;
    power * f32::from_bits(shifted.to_bits().wrapping_add(127) << 23)
}

/// The error function to 1e-6, by the rational approximation of Eigen and XLA (`erf_float`), which has no branches.
#[inline(always)]
fn error_function<const FUSED: bool>(x: f32) -> f32 {
    let x = within(x, -4.0, 4.0);
    let square = x * x;
    let above = [
        -2.726_142_3e-10,
        2.770_681_4e-8,
        -2.101_024e-6,
        -5.692_506_4e-5,
        -7.349_906_3e-4,
        -2.954_6e-3,
        -1.609_603_3e-2,
    ];
    let below = [-1.456_607_2e-5, -2.133_740_5e-4, -1.682_827e-3, -7.373_329_2e-3, -1.426_473_9e-2];
    x * polynomial::<FUSED, 7>(square, above) / polynomial::<FUSED, 5>(square, below)
}

#[inline(always)]
fn tanh<const FUSED: bool>(x: f32) -> f32 {
    1.0 - 2.0 / (exponential::<FUSED>(2.0 * within(x, -20.0, 20.0)) + 1.0)
}

#[inline(always)]
fn finish_body<const FUSED: bool>(tile: &mut [Line], bias: &[Line], activation: Activation) {
    for lines in tile.chunks_exact_mut(bias.len()) {
        for (Line(line), Line(bias)) in lines.iter_mut().zip(bias) {
            for (value, bias) in line.iter_mut().zip(bias) {
                *value += bias;
            }
        }
    }
    let each = tile.iter_mut().flat_map(|line| &mut line.0);
    match activation {
        Activation::None => {}
        Activation::Gelu => {
            for Line(line) in tile {
                for value in line {
                    let x = *value;
                    *value = 0.5 * x * (1.0 + error_function::<FUSED>(x * std::f32::consts::FRAC_1_SQRT_2));
                }
            }
        }
        Activation::GeluTanh => each.for_each(|value| {
            let x = *value;
            let inner = 0.797_884_6 * fused::<FUSED>(0.044_715 * x * x, x, x);
            *value = 0.5 * x * (1.0 + tanh::<FUSED>(inner));
        }),
        Activation::Relu => each.for_each(|value| *value = value.max(0.0)),
        Activation::Tanh => each.for_each(|value| *value = tanh::<FUSED>(*value)),
    }
}

/// Sums in sixteen lanes, so that the compiler may add them side by side.
#[inline(always)]
fn sum_by(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = values.as_chunks::<LINE>();
    let mut lanes = [0.0_f32; LINE];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += term(*value);
        }
    }
    let rest: f32 = rest.iter().map(|value| term(*value)).sum();
    lanes.iter().sum::<f32>() + rest
}

#[inline(always)]
fn softmax_body<const FUSED: bool>(row: &mut [f32]) {
    let (chunks, rest) = row.as_chunks::<LINE>();
    let mut lanes = [f32::NEG_INFINITY; LINE];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    let greatest = lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |most, value| most.max(*value));
    for value in row.iter_mut() {
        *value = exponential::<FUSED>(*value - greatest);
    }
    let factor = 1.0 / sum_by(row, |value| value);
    for value in row {
        *value *= factor;
    }
}

#[inline(always)]
fn normalise_body<const FUSED: bool>(row: &mut [f32], residual: &[f32], scale: &[f32], shift: &[f32], epsilon: f32) {
    for (value, residual) in row.iter_mut().zip(residual) {
        *value += residual;
    }
    let count = row.len() as f32;
    let mean = sum_by(row, |value| value) / count;
    let variance = sum_by(row, |value| (value - mean) * (value - mean)) / count;
    let factor = 1.0 / (variance + epsilon).sqrt();
    for ((value, scale), shift) in row.iter_mut().zip(scale).zip(shift) {
        *value = fused::<FUSED>((*value - mean) * factor, *scale, *shift);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Activation, LINE, LINES_MAX, Level, Line, ROWS_MAX, Tile, add_and_normalise, finish, product, softmax,
    };

    /// Made up, between −3 and 3, the same at every run.
    fn values(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 * 6.0 - 3.0
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    #[test]
    fn every_level_gives_the_product_of_the_definition() {
        for level in Level::available() {
            for (rows, steps) in (1..=level.rows()).flat_map(|rows| [1, 7, 384].map(|steps| (rows, steps))) {
                let columns = level.lines() * LINE;
                let left = values(rows * steps, 3);
                let right = values(columns * steps, 5);
                let panel: Vec<Line> = right.as_chunks().0.iter().copied().map(Line).collect();
                let mut tile: Tile = [Line::ZERO; ROWS_MAX * LINES_MAX];
                product(level, rows, &left, &panel, &mut tile);
                for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                    let term =
                        |step: usize| f64::from(left[step * rows + row]) * f64::from(right[step * columns + column]);
                    let expected: f64 = (0..steps).map(term).sum();
                    let found = tile[row * level.lines() + column / LINE].0[column % LINE];
                    assert!((f64::from(found) - expected).abs() < 1e-3, "{level:?}: {found} is not {expected}");
                }
            }
        }
    }

    /// The error function by its series, in double precision.
    fn erf(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    #[test]
    fn every_level_bends_values_as_the_definition_says() {
        let gelu = |x: f64| 0.5 * x * (1.0 + erf(x / 2_f64.sqrt()));
        let tanh =
            |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh());
        let kinds: [(Activation, &dyn Fn(f64) -> f64); 5] = [
            (Activation::None, &|x| x),
            (Activation::Gelu, &gelu),
            (Activation::GeluTanh, &tanh),
            (Activation::Relu, &|x| x.max(0.0)),
            (Activation::Tanh, &f64::tanh),
        ];
        let inputs: Vec<f32> = (-320..320).map(|n| n as f32 / 64.0).collect();
        for (level, (activation, expected)) in
            Level::available().into_iter().flat_map(|level| kinds.map(|kind| (level, kind)))
        {
            let mut tile: Vec<Line> = inputs.as_chunks().0.iter().copied().map(Line).collect();
            finish(level, &mut tile, &[Line([0.5; LINE])], activation);
            for (input, found) in inputs.iter().zip(tile.iter().flat_map(|line| line.0)) {
                let expected = expected(f64::from(*input) + 0.5);
                let problem = (f64::from(found) - expected).abs();
                assert!(problem < 2e-6, "{level:?} {activation:?} of {input}: {found} is not {expected}");
            }
        }
    }

    #[test]
    fn every_level_takes_shares_and_normalises_as_the_definition_says() {
        for (level, length) in
            Level::available().into_iter().flat_map(|level| [1, 15, 16, 102, 384].map(|length| (level, length)))
        {
            let input = values(length, 9);
            let mut shares = input.clone();
            softmax(level, &mut shares);
            let sum: f64 = input.iter().map(|value| f64::from(*value).exp()).sum();
            for (share, value) in shares.iter().zip(&input) {
                let expected = f64::from(*value).exp() / sum;
                assert!((f64::from(*share) - expected).abs() < 1e-6, "{level:?}: {share} is not {expected}");
            }

            let (residual, scale, shift) = (values(length, 1), values(length, 2), values(length, 3));
            let mut row = input.clone();
            add_and_normalise(level, &mut row, &residual, &scale, &shift, 1e-5);
            let added: Vec<f64> = input.iter().zip(&residual).map(|(a, b)| f64::from(*a) + f64::from(*b)).collect();
            let mean = added.iter().sum::<f64>() / length as f64;
            let variance = added.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / length as f64;
            for (n, found) in row.iter().enumerate() {
                let expected = (added[n] - mean) / (variance + 1e-5).sqrt() * f64::from(scale[n]) + f64::from(shift[n]);
                assert!((f64::from(*found) - expected).abs() < 1e-4, "{level:?}: {found} is not {expected}");
            }
        }
    }
}

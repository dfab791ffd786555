//! Products of matrices, blocked so that the inner loop reads from the processor's nearest caches.
//!
//! The right side is packed once: panels of a few columns, each step of a panel one or two lines, so that the inner loop
//! reads it in order. The left side is packed block by block of rows. Invariant: a panel is at most a few hundred
//! kilobytes and a block of rows no more, whatever the sizes of the matrices.

use super::kernels::{self, Activation, LINE, LINES_MAX, Level, Line, ROWS_MAX, Tile};

/// Values of one packed block of rows: 256 KB, which leaves room for a panel in a cache of 512 KB.
const BLOCK_VALUES: usize = 64 * 1024;

/// The right side of a product, packed for a level, with what is added to each column and done to the sum.
pub(super) struct Packed {
    level: Level,
    /// Rows of this matrix: values of each row on the left.
    pub(super) depth: usize,
    pub(super) columns: usize,
    panels: Vec<Line>,
    bias: Vec<Line>,
    activation: Activation,
}

/// Rows that lie `stride` values apart.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) values: &'a [f32],
    pub(super) stride: usize,
    pub(super) count: usize,
}

/// Where the rows of a product go: `stride` values apart.
pub(super) struct Target<'a> {
    pub(super) values: &'a mut [f32],
    pub(super) stride: usize,
}

/// Memory that products use again and again.
#[derive(Default)]
pub(super) struct Scratch {
    rows: Vec<f32>,
}

impl Packed {
    /// An empty matrix; [`Packed::fill`] gives it its values.
    pub(super) fn new(level: Level) -> Self {
        Self { level, depth: 0, columns: 0, panels: Vec::new(), bias: Vec::new(), activation: Activation::None }
    }

    /// The transpose of `weights`, which has a row of `depth` values for each output, as models store them; `factor`
    /// multiplies all of it, the bias included.
    pub(super) fn linear(level: Level, weights: &[f32], bias: &[f32], factor: f32, activation: Activation) -> Self {
        let mut packed = Self::new(level);
        let depth = weights.len() / bias.len().max(1);
        packed.fill(depth, bias.len(), |step, column| weights[column * depth + step] * factor);
        packed.bias = vec![Line::ZERO; packed.panels_count() * level.lines()];
        for (column, value) in bias.iter().enumerate() {
            packed.bias[column / LINE].0[column % LINE] = value * factor;
        }
        packed.activation = activation;
        packed
    }

    /// Packs `value(row, column)`, keeping the memory of what was packed before.
    pub(super) fn fill(&mut self, depth: usize, columns: usize, value: impl Fn(usize, usize) -> f32) {
        let lines = self.level.lines();
        (self.depth, self.columns) = (depth, columns);
        self.panels.clear();
        self.panels.resize(self.panels_count() * depth * lines, Line::ZERO);
        for (panel, steps) in self.panels.chunks_exact_mut((depth * lines).max(1)).enumerate() {
            for (step, step_lines) in steps.chunks_exact_mut(lines).enumerate() {
                for (at, Line(line)) in step_lines.iter_mut().enumerate() {
                    let first = (panel * lines + at) * LINE;
                    for (column, slot) in (first..columns).zip(line) {
                        *slot = value(step, column);
                    }
                }
            }
        }
    }

    /// Bytes of memory it holds.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.panels.as_slice()) + size_of_val(self.bias.as_slice())
    }

    fn panels_count(&self) -> usize {
        self.columns.div_ceil(self.level.lines() * LINE)
    }

    /// `target` = activation(`left` × this + bias).
    pub(super) fn multiply(&self, left: Rows<'_>, target: Target<'_>, scratch: &mut Scratch) {
        let (rows_max, lines) = (self.level.rows(), self.level.lines());
        let Target { values, stride } = target;
        // As many rows at once as fit, in tiles of nearly the same height: a tile of one row costs as much as one of four.
        let block = (BLOCK_VALUES / self.depth.max(1) / rows_max).max(1) * rows_max;
        let mut tile: Tile = [Line::ZERO; ROWS_MAX * LINES_MAX];
        for first in (0..left.count).step_by(block) {
            let count = block.min(left.count - first);
            let tiles = count.div_ceil(rows_max);
            let bounds = |index: usize| (count * index / tiles, count * (index + 1) / tiles);
            scratch.rows.clear();
            for (from, to) in (0..tiles).map(bounds) {
                pack_rows(&mut scratch.rows, left, self.depth, first + from, first + to);
            }
            for (panel_at, panel) in self.panels.chunks_exact((self.depth * lines).max(1)).enumerate() {
                let column = panel_at * lines * LINE;
                let width = (lines * LINE).min(self.columns - column);
                for (from, to) in (0..tiles).map(bounds) {
                    let packed = &scratch.rows[from * self.depth..to * self.depth];
                    kernels::product(self.level, to - from, packed, panel, &mut tile);
                    let sums = &mut tile[..(to - from) * lines];
                    if let Some(bias) = self.bias.get(panel_at * lines..(panel_at + 1) * lines) {
                        kernels::finish(self.level, sums, bias, self.activation);
                    }
                    for (row, sums) in (first + from..).zip(sums.chunks_exact(lines)) {
                        copy_row(sums, &mut values[row * stride + column..][..width]);
                    }
                }
            }
        }
    }
}

/// Appends the rows step by step: in each step one value of every row.
fn pack_rows(packed: &mut Vec<f32>, left: Rows<'_>, depth: usize, from: usize, to: usize) {
    let (start, count) = (packed.len(), to - from);
    packed.resize(start + count * depth, 0.0);
    let packed = &mut packed[start..];
    for (at, row) in (from..to).enumerate() {
        let values = &left.values[row * left.stride..][..depth];
        for (slot, value) in packed[at..].iter_mut().step_by(count).zip(values) {
            *slot = *value;
        }
    }
}

#[inline(always)]
fn copy_row(sums: &[Line], target: &mut [f32]) {
    for (Line(line), target) in sums.iter().zip(target.chunks_mut(LINE)) {
        match target.as_chunks_mut().0 {
            [whole] => *whole = *line,
            _ => target.copy_from_slice(&line[..target.len()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Activation, Level, Packed, Rows, Scratch, Target};

    #[test]
    fn a_product_of_any_shape_is_that_of_the_definition() {
        for level in Level::available() {
            for (rows, depth, columns) in [(1, 1, 1), (5, 3, 33), (15, 384, 40), (200, 700, 17), (13, 8, 64), (0, 4, 4)]
            {
                let value = |n: usize| ((n * 7_919) % 101) as f32 / 50.0 - 1.0;
                let left: Vec<f32> = (0..rows * (depth + 2)).map(value).collect();
                let weights: Vec<f32> = (0..depth * columns).map(|n| value(n + 31)).collect();
                let bias: Vec<f32> = (0..columns).map(|n| value(n + 57)).collect();
                let packed = Packed::linear(level, &weights, &bias, 0.5, Activation::None);
                let mut found = vec![9.0; rows * (columns + 1)];
                let left_rows = Rows { values: &left, stride: depth + 2, count: rows };
                let target = Target { values: &mut found, stride: columns + 1 };
                packed.multiply(left_rows, target, &mut Scratch::default());
                for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                    let term = |step: usize| left[row * (depth + 2) + step] * weights[column * depth + step];
                    let expected = 0.5 * ((0..depth).map(term).sum::<f32>() + bias[column]);
                    let found = found[row * (columns + 1) + column];
                    assert!((found - expected).abs() < 1e-3, "{level:?} {rows} {depth} {columns}: {found} {expected}");
                }
                assert!(found.iter().skip(columns).step_by(columns + 1).all(|value| *value == 9.0));
            }
        }
    }
}

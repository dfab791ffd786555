//! Attention of every token to the tokens of its own text, head by head.
//!
//! Invariant: the shares of at most [`QUERY_ROWS`] tokens are in memory at a time, so a long text costs time and not memory.

use super::{
    kernels::{Level, softmax},
    matrix::{Packed, Rows, Scratch, Target},
};

/// Tokens whose shares are computed at a time.
const QUERY_ROWS: usize = 48;

/// Attention with its memory, used again in each layer.
pub(super) struct Attention {
    level: Level,
    heads: usize,
    width: usize,
    /// Query, key and value of each token, side by side.
    parts: Vec<f32>,
    attended: Vec<f32>,
    shares: Vec<f32>,
    keys: Packed,
    values: Packed,
}

impl Attention {
    pub(super) fn new(level: Level, heads: usize, width: usize) -> Self {
        Self {
            level,
            heads,
            width,
            parts: Vec::new(),
            attended: Vec::new(),
            shares: Vec::new(),
            keys: Packed::new(level),
            values: Packed::new(level),
        }
    }

    /// What each token gathers: a row for each row of `hidden`.
    pub(super) fn apply(
        &mut self,
        weights: &Packed,
        lengths: &[usize],
        hidden: &[f32],
        scratch: &mut Scratch,
    ) -> &[f32] {
        let (width, stride) = (self.width, 3 * self.width);
        let count = hidden.len() / width;
        self.parts.resize(count * stride, 0.0);
        self.attended.resize(count * width, 0.0);
        let left = Rows { values: hidden, stride: width, count };
        weights.multiply(left, Target { values: &mut self.parts, stride }, scratch);
        let mut first = 0;
        for length in lengths {
            for head in 0..self.heads {
                self.head(first, *length, head, scratch);
            }
            first += length;
        }
        &self.attended
    }

    fn head(&mut self, first: usize, length: usize, head: usize, scratch: &mut Scratch) {
        let (width, stride, head_width) = (self.width, 3 * self.width, self.width / self.heads);
        let column = head * head_width;
        let parts = &self.parts[first * stride..(first + length) * stride];
        self.keys.fill(head_width, length, |at, token| parts[token * stride + width + column + at]);
        self.values.fill(length, head_width, |token, at| parts[token * stride + 2 * width + column + at]);
        self.shares.resize(QUERY_ROWS * length, 0.0);
        for from in (0..length).step_by(QUERY_ROWS) {
            let count = QUERY_ROWS.min(length - from);
            let queries = Rows { values: &parts[from * stride + column..], stride, count };
            self.keys.multiply(queries, Target { values: &mut self.shares, stride: length }, scratch);
            for row in self.shares[..count * length].chunks_exact_mut(length) {
                softmax(self.level, row);
            }
            let shares = Rows { values: &self.shares, stride: length, count };
            let target = &mut self.attended[(first + from) * width + column..];
            self.values.multiply(shares, Target { values: target, stride: width }, scratch);
        }
    }
}

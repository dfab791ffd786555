//! The bytes of every vector of a partition, by slot, in the order in which they were embedded.
//!
//! Invariants: a slot is never given to another vector; a vector that was deleted or replaced leaves a dead slot, which
//! [`Slots::compacted`] leaves out; clones share their chunks, so a copy for the background costs almost nothing.

use std::sync::Arc;

use crate::bits::Bits;

use super::{
    kernels::{self, Level},
    quantise::Code,
    top::Top,
};

/// Vectors of one chunk.
const CHUNK: usize = 4096;
/// Vectors compared at a time.
const BLOCK: usize = 256;
/// The number of a dead slot's memory.
const DEAD: i64 = -1;
const NO_SLOT: u32 = u32::MAX;

/// A query, ready to be compared with codes.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) code: Code,
    pub(super) level: Level,
}

#[derive(Debug, Clone, Default)]
struct Chunk {
    bytes: Vec<i8>,
    scales: Vec<f32>,
}

#[derive(Debug, Clone)]
pub(super) struct Slots {
    width: usize,
    chunks: Vec<Arc<Chunk>>,
    /// Number of the memory in each slot.
    seqs: Vec<i64>,
    /// Slot of each memory, by its number.
    slot_of: Vec<u32>,
    /// The memories that have one, as bits.
    present: Vec<u64>,
    live: usize,
}

impl Slots {
    pub(super) fn new(width: usize) -> Self {
        Self { width, chunks: Vec::new(), seqs: Vec::new(), slot_of: Vec::new(), present: Vec::new(), live: 0 }
    }

    /// Slots given so far, dead ones included.
    pub(super) fn len(&self) -> usize {
        self.seqs.len()
    }

    pub(super) fn live(&self) -> usize {
        self.live
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(|chunk| chunk.bytes.capacity() + 4 * chunk.scales.capacity()).sum();
        chunks + 8 * (self.seqs.capacity() + self.present.capacity()) + 4 * self.slot_of.capacity()
    }

    /// Number of the memory in this slot, if it is alive.
    pub(super) fn seq(&self, slot: usize) -> Option<i64> {
        self.seqs.get(slot).copied().filter(|seq| *seq != DEAD)
    }

    pub(super) fn slot(&self, seq: i64) -> Option<usize> {
        let slot = *self.slot_of.get(usize::try_from(seq).ok()?)?;
        (slot != NO_SLOT).then_some(slot as usize)
    }

    /// How many of these memories have a vector.
    pub(super) fn known(&self, allowed: &Bits) -> usize {
        allowed.common(&self.present)
    }

    /// Bytes and scale of a slot's vector.
    pub(super) fn code(&self, slot: usize) -> (&[i8], f32) {
        let chunk = &self.chunks[slot / CHUNK];
        let place = slot % CHUNK;
        (&chunk.bytes[place * self.width..][..self.width], chunk.scales[place])
    }

    /// Gives the memory's vector a slot; one it had before dies and is given back.
    pub(super) fn put(&mut self, seq: i64, bytes: &[i8], scale: f32) -> Option<usize> {
        let index = usize::try_from(seq).ok()?;
        let replaced = self.kill(seq);
        if self.slot_of.len() <= index {
            self.slot_of.resize(index + 1, NO_SLOT);
            self.present.resize(index / 64 + 1, 0);
        }
        self.present[index / 64] |= 1 << (index % 64);
        self.slot_of[index] = u32::try_from(self.seqs.len()).unwrap_or(NO_SLOT);
        self.push(seq, bytes, scale);
        self.live += 1;
        replaced
    }

    fn push(&mut self, seq: i64, bytes: &[i8], scale: f32) {
        if self.seqs.len().is_multiple_of(CHUNK) {
            self.chunks.push(Arc::default());
        }
        self.seqs.push(seq);
        if let Some(chunk) = self.chunks.last_mut() {
            let chunk = Arc::make_mut(chunk);
            chunk.bytes.extend_from_slice(bytes);
            chunk.scales.push(scale);
        }
    }

    /// Takes the memory out. Gives the slot it had.
    pub(super) fn kill(&mut self, seq: i64) -> Option<usize> {
        let slot = self.slot(seq)?;
        let index = usize::try_from(seq).ok()?;
        self.slot_of[index] = NO_SLOT;
        self.present[index / 64] &= !(1 << (index % 64));
        self.seqs[slot] = DEAD;
        self.live -= 1;
        Some(slot)
    }

    /// The same without dead slots, and so with other numbers for the slots.
    pub(super) fn compacted(&self) -> Self {
        let mut new = Self::new(self.width);
        for slot in 0..self.len() {
            if let Some(seq) = self.seq(slot) {
                let (bytes, scale) = self.code(slot);
                new.put(seq, bytes, scale);
            }
        }
        new
    }

    /// Compares the query with the allowed among the slots of a range.
    pub(super) fn scan(&self, asked: &Asked, from: usize, allowed: &Bits, top: &mut Top) {
        let mut products = [0_i32; BLOCK];
        let mut slot = from;
        while slot < self.len() {
            let chunk = &self.chunks[slot / CHUNK];
            let place = slot % CHUNK;
            let count = BLOCK.min(chunk.scales.len() - place);
            let seqs = &self.seqs[slot..slot + count];
            slot += count;
            if !seqs.iter().any(|seq| allowed.has(*seq)) {
                continue;
            }
            let bytes = &chunk.bytes[place * self.width..][..count * self.width];
            kernels::dots(asked.level, &asked.code.bytes, bytes, &mut products[..count]);
            for ((seq, scale), product) in seqs.iter().zip(&chunk.scales[place..]).zip(products) {
                let cosine = product as f32 * scale * asked.code.scale;
                if cosine >= top.floor() && allowed.has(*seq) {
                    top.add(cosine, *seq);
                }
            }
        }
    }

    /// Compares the query with every allowed memory, looked up one by one: for filters that let few through.
    pub(super) fn look_up(&self, asked: &Asked, allowed: &Bits, top: &mut Top) {
        for seq in allowed.iter() {
            if let Some(slot) = self.slot(seq) {
                top.add(self.cosine(asked, slot), seq);
            }
        }
    }

    /// The query's cosine with one slot's vector, as far as bytes tell.
    pub(super) fn cosine(&self, asked: &Asked, slot: usize) -> f32 {
        let (bytes, scale) = self.code(slot);
        let mut product = [0];
        kernels::dots(asked.level, &asked.code.bytes, bytes, &mut product);
        product[0] as f32 * scale * asked.code.scale
    }
}

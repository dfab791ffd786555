//! Bounded buffers for what untrusted programs print: both ends of a command's output, the end of a log.

use std::collections::VecDeque;

/// Keeps the first and the last half of a byte stream and counts what fell out between them.
#[derive(Debug)]
pub(super) struct BothEnds {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half_bytes_max: usize,
    cut: u64,
}

impl BothEnds {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half_bytes_max: bytes_max.div_ceil(2), cut: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = self.half_bytes_max - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        self.cut += push_bounded(&mut self.tail, rest, self.half_bytes_max);
    }

    /// The text, with a line where something was cut, and the number of bytes cut.
    pub(super) fn finish(self) -> (String, u64) {
        let tail: Vec<u8> = self.tail.into();
        if self.cut == 0 {
            let mut all = self.head;
            all.extend(tail);
            return (String::from_utf8_lossy(&all).into_owned(), 0);
        }
        let head = String::from_utf8_lossy(&self.head);
        let tail = String::from_utf8_lossy(&tail);
        let cut = self.cut;
        (
            format!(
                "{head}\n[{cut} bytes cut here; send output to a file and read parts of it to see the rest]\n{tail}"
            ),
            cut,
        )
    }
}

/// Keeps the end of a byte stream.
#[derive(Debug)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
    bytes_max: usize,
}

impl Tail {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: VecDeque::new(), bytes_max }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        push_bounded(&mut self.bytes, bytes, self.bytes_max);
    }

    /// At most the last `lines_max` lines.
    pub(super) fn lines(&self, lines_max: usize) -> String {
        let (front, back) = self.bytes.as_slices();
        let text = String::from_utf8_lossy(&[front, back].concat()).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(lines_max)..].join("\n")
    }
}

/// Appends, dropping from the front what is above the bound; gives the number of bytes dropped.
fn push_bounded(buffer: &mut VecDeque<u8>, bytes: &[u8], bytes_max: usize) -> u64 {
    let skipped = bytes.len().saturating_sub(bytes_max);
    buffer.extend(&bytes[skipped..]);
    let above = buffer.len().saturating_sub(bytes_max);
    buffer.drain(..above);
    (skipped + above) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_survive_and_the_cut_is_counted() {
        let mut ends = BothEnds::new(8);
        for piece in ["ab", "cdef", "ghijklmnop", "q"] {
            ends.push(piece.as_bytes());
        }
        let (text, cut) = ends.finish();
        assert_eq!(cut, 17 - 8);
        assert!(text.starts_with("abcd\n[9 bytes cut here") && text.ends_with("]\nnopq"), "{text}");

        let mut whole = BothEnds::new(8);
        whole.push("abcdéf".as_bytes());
        assert_eq!(whole.finish(), ("abcdéf".to_owned(), 0));
    }

    #[test]
    fn the_tail_keeps_the_end() {
        let mut tail = Tail::new(10);
        tail.push(b"one\ntwo\nthree\n");
        tail.push(b"four\n");
        assert_eq!(tail.lines(10), "hree\nfour");
        assert_eq!(tail.lines(1), "four");
    }
}

//! The format of a cold segment: an immutable object that holds whole memories with their vectors.
//!
//! It knows bytes and not where they are kept. Layout, all numbers little-endian: the magic `LHCOLD01`; the length of the
//! header (u32) and the header as JSON; each row's length (u32) and the row as JSON; for each embedder of the header and
//! each row one byte that tells whether a vector follows, and the vector as 32-bit floats; at last the SHA-256 of
//! everything before it. Invariants: whatever the bytes, reading them is an answer and never a panic; what is read is
//! exactly what was written, or an error.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Version of the layout and of the rows in it.
pub(crate) const SEGMENT_VERSION: u32 = 1;
/// Most rows of one segment: what one transaction moves, and what a deletion rewrites.
pub(crate) const SEGMENT_ROWS_MAX: usize = 512;
/// Bytes of content after which a segment is full.
pub(crate) const SEGMENT_BYTES_MAX: usize = 4 * 1024 * 1024;

const MAGIC: &[u8; 8] = b"LHCOLD01";
const DIGEST_LEN: usize = 32;
/// Longest vector that is believed.
const DIMENSIONS_MAX: usize = 16_384;

/// A row of `memories` as it was, column by column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColdRow {
    pub(crate) seq: i64,
    pub(crate) memory_id: String,
    pub(crate) v: u32,
    pub(crate) user_id: String,
    pub(crate) task_id: Option<String>,
    pub(crate) thread: Option<String>,
    pub(crate) collection: String,
    pub(crate) kind: String,
    pub(crate) source: String,
    pub(crate) content: String,
    pub(crate) meta: String,
    pub(crate) tags: String,
    pub(crate) importance: f32,
    pub(crate) pinned: bool,
    pub(crate) indexed: u32,
    pub(crate) created_at: i64,
    pub(crate) happened_at: i64,
    pub(crate) expires_at: Option<i64>,
    pub(crate) subject: Option<String>,
    pub(crate) attribute: Option<String>,
    pub(crate) valid_from: Option<i64>,
    pub(crate) valid_to: Option<i64>,
    pub(crate) superseded_by: Option<String>,
    pub(crate) superseded_at: Option<i64>,
}

/// All vectors that one embedder made of a segment's rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ColdVectors {
    pub(crate) embedder: String,
    pub(crate) dimensions: usize,
    /// One for each row; `None` where it has none.
    pub(crate) of_row: Vec<Option<Vec<f32>>>,
}

/// What one segment holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Segment {
    pub(crate) tenant: String,
    pub(crate) namespace: String,
    pub(crate) segment: String,
    pub(crate) rows: Vec<ColdRow>,
    pub(crate) vectors: Vec<ColdVectors>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    v: u32,
    tenant: String,
    namespace: String,
    segment: String,
    rows: usize,
    vectors: Vec<HeaderVectors>,
}

#[derive(Debug, Serialize, Deserialize)]
struct HeaderVectors {
    embedder: String,
    dimensions: usize,
}

/// A segment as bytes, and their digest in hexadecimal.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) digest: String,
}

impl Segment {
    /// The segment as bytes.
    pub(crate) fn encode(&self) -> Result<Encoded, serde_json::Error> {
        let vectors = self.vectors.iter();
        let header = Header {
            v: SEGMENT_VERSION,
            tenant: self.tenant.clone(),
            namespace: self.namespace.clone(),
            segment: self.segment.clone(),
            rows: self.rows.len(),
            vectors: vectors
                .map(|of| HeaderVectors { embedder: of.embedder.clone(), dimensions: of.dimensions })
                .collect(),
        };
        let mut bytes = MAGIC.to_vec();
        put_json(&mut bytes, &header)?;
        self.rows.iter().try_for_each(|row| put_json(&mut bytes, row))?;
        for of in &self.vectors {
            for place in 0..self.rows.len() {
                match of.of_row.get(place).and_then(Option::as_ref).filter(|vector| vector.len() == of.dimensions) {
                    Some(vector) => {
                        bytes.push(1);
                        vector.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
                    }
                    None => bytes.push(0),
                }
            }
        }
        let digest = Sha256::digest(&bytes);
        bytes.extend(digest);
        Ok(Encoded { bytes, digest: hex::encode(digest) })
    }

    /// Reads a segment, which must be the one whose digest was recorded.
    ///
    /// # Errors
    /// In words, what is wrong with the bytes.
    pub(crate) fn decode(bytes: &[u8], digest: &str) -> Result<Self, String> {
        let (body, trailer) = bytes.split_last_chunk::<DIGEST_LEN>().ok_or("it is cut off")?;
        let found = Sha256::digest(body);
        if found.as_slice() != trailer {
            return Err("its content does not match its digest".to_owned());
        }
        if hex::encode(found) != digest {
            return Err("it is not the segment that was recorded".to_owned());
        }
        Self::read(body)
    }

    /// Reads the bytes before the digest.
    fn read(body: &[u8]) -> Result<Self, String> {
        let mut rest = body.strip_prefix(MAGIC).ok_or("it is no cold segment, or of a newer version")?;
        let header: Header = take_json(&mut rest)?;
        if header.v != SEGMENT_VERSION {
            return Err(format!("it has version {}, and this program reads {SEGMENT_VERSION}", header.v));
        }
        // A row takes at least its length: no header makes us reserve more than there is.
        if header.rows > rest.len() / 4 {
            return Err("it has fewer rows than it says".to_owned());
        }
        let rows: Vec<ColdRow> = (0..header.rows).map(|_| take_json(&mut rest)).collect::<Result<_, _>>()?;
        let vectors = header.vectors.into_iter();
        let vectors = vectors.map(|of| of.take(rows.len(), &mut rest)).collect::<Result<_, String>>()?;
        if !rest.is_empty() {
            return Err("it has bytes that belong to nothing".to_owned());
        }
        let Header { tenant, namespace, segment, .. } = header;
        Ok(Self { tenant, namespace, segment, rows, vectors })
    }

    /// RAM that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let rows = self.rows.iter().map(|row| size_of::<ColdRow>() + row.content.len() + row.meta.len() + 128);
        let vectors = self.vectors.iter().map(|of| of.of_row.iter().flatten().count() * of.dimensions * 4);
        rows.sum::<usize>() + vectors.sum::<usize>()
    }

    /// Without the rows that are not wanted, under another name.
    pub(crate) fn without(&self, segment: String, gone: impl Fn(usize) -> bool) -> Self {
        fn kept<T: Clone>(all: &[T], gone: &impl Fn(usize) -> bool) -> Vec<T> {
            all.iter().enumerate().filter(|(place, _)| !gone(*place)).map(|(_, one)| one.clone()).collect()
        }
        let vectors = self.vectors.iter().map(|of| ColdVectors {
            embedder: of.embedder.clone(),
            dimensions: of.dimensions,
            of_row: kept(&of.of_row, &gone),
        });
        Self {
            tenant: self.tenant.clone(),
            namespace: self.namespace.clone(),
            segment,
            rows: kept(&self.rows, &gone),
            vectors: vectors.collect(),
        }
    }
}

impl HeaderVectors {
    fn take(self, rows: usize, rest: &mut &[u8]) -> Result<ColdVectors, String> {
        let Self { embedder, dimensions } = self;
        if dimensions > DIMENSIONS_MAX {
            return Err(format!("it has vectors of {dimensions} dimensions"));
        }
        let mut of_row = Vec::with_capacity(rows.min(rest.len()));
        for _ in 0..rows {
            let present = take(rest, 1)?[0];
            of_row.push(match present {
                0 => None,
                1 => {
                    let values = take(rest, dimensions * 4)?.chunks_exact(4);
                    Some(values.map(|value| f32::from_le_bytes([value[0], value[1], value[2], value[3]])).collect())
                }
                _ => return Err("a vector begins with a byte that means nothing".to_owned()),
            });
        }
        Ok(ColdVectors { embedder, dimensions, of_row })
    }
}

fn put_json(bytes: &mut Vec<u8>, value: &impl Serialize) -> Result<(), serde_json::Error> {
    let json = serde_json::to_vec(value)?;
    bytes.extend(u32::try_from(json.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(json);
    Ok(())
}

fn take_json<T: serde::de::DeserializeOwned>(rest: &mut &[u8]) -> Result<T, String> {
    let length = take(rest, 4)?;
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
    serde_json::from_slice(take(rest, length)?).map_err(|error| format!("a part of it cannot be read: {error}"))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], String> {
    let (taken, left) = rest.split_at_checked(length).ok_or("it ends in the middle")?;
    *rest = left;
    Ok(taken)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn row(seq: i64, content: &str) -> ColdRow {
        ColdRow {
            seq,
            memory_id: format!("mem_{seq}"),
            v: 2,
            user_id: "user_1".to_owned(),
            task_id: None,
            thread: Some("t".to_owned()),
            collection: "project".to_owned(),
            kind: "note".to_owned(),
            source: "agent".to_owned(),
            content: content.to_owned(),
            meta: "{}".to_owned(),
            tags: "[]".to_owned(),
            importance: 0.5,
            pinned: false,
            indexed: 3,
            created_at: seq,
            happened_at: seq,
            expires_at: None,
            subject: None,
            attribute: None,
            valid_from: None,
            valid_to: None,
            superseded_by: None,
            superseded_at: None,
        }
    }

    fn segment(contents: &[String], dimensions: usize, with: &[bool]) -> Segment {
        let vector = |place: usize| (0..dimensions).map(|at| (place * 7 + at) as f32 / 3.0).collect();
        let of_row =
            (0..contents.len()).map(|place| with.get(place).copied().unwrap_or(true).then(|| vector(place))).collect();
        Segment {
            tenant: "tenant_1".to_owned(),
            namespace: "main".to_owned(),
            segment: "s1".to_owned(),
            rows: contents.iter().zip(1..).map(|(content, seq)| row(seq, content)).collect(),
            vectors: vec![ColdVectors { embedder: "e".to_owned(), dimensions, of_row }],
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_segment_comes_back_as_it_went_in(
            contents in proptest::collection::vec(".{0,40}", 0..12),
            dimensions in 0..5_usize,
            with in proptest::collection::vec(any::<bool>(), 12),
        ) {
            let before = segment(&contents, dimensions, &with);
            let encoded = before.encode().expect("it encodes");
            prop_assert_eq!(Segment::decode(&encoded.bytes, &encoded.digest), Ok(before));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Segment::decode(&bytes, "").is_err());
            let _ = Segment::read(&bytes);
            let _ = Segment::read(&[MAGIC.as_slice(), &bytes].concat());
        }

        #[test]
        fn damaged_insides_are_read_without_panic(
            contents in proptest::collection::vec(".{0,20}", 1..5),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let encoded = segment(&contents, 3, &[]).encode().expect("it encodes");
            let mut body = encoded.bytes[..encoded.bytes.len() - DIGEST_LEN].to_vec();
            for (place, byte) in changes {
                let place = place.index(body.len());
                body[place] = byte;
            }
            let _ = Segment::read(&body);
            let _ = Segment::read(&body[..cut.index(body.len())]);
        }

        #[test]
        fn one_changed_byte_is_noticed(place in any::<prop::sample::Index>(), change in 1..=255_u8) {
            let encoded = segment(&["tea".to_owned(), "coffee".to_owned()], 2, &[]).encode().expect("it encodes");
            let mut bytes = encoded.bytes;
            let place = place.index(bytes.len());
            bytes[place] ^= change;
            prop_assert!(Segment::decode(&bytes, &encoded.digest).is_err());
        }
    }

    #[test]
    fn another_whole_segment_in_its_place_is_noticed() {
        let (mine, other) = (segment(&["mine".to_owned()], 2, &[]), segment(&["other".to_owned()], 2, &[]));
        let (mine, other) = (mine.encode().expect("it encodes"), other.encode().expect("it encodes"));
        let error = Segment::decode(&other.bytes, &mine.digest).expect_err("it is another");
        assert!(error.contains("not the segment that was recorded"), "{error}");
    }

    #[test]
    fn rows_can_be_left_out() {
        let before = segment(&["a".to_owned(), "b".to_owned(), "c".to_owned()], 2, &[true, false, true]);
        let after = before.without("s2".to_owned(), |place| place == 0);
        let contents: Vec<&str> = after.rows.iter().map(|row| row.content.as_str()).collect();
        assert_eq!(contents, ["b", "c"]);
        assert_eq!(after.vectors[0].of_row, before.vectors[0].of_row[1..]);
        assert_eq!(after.segment, "s2");
    }
}

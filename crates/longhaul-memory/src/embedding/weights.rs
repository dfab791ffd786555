//! Reads a weights file in the safetensors format, and believes nothing in it that was not checked.
//!
//! Format: 8 bytes of header length, a JSON header, then the data (<https://huggingface.co/docs/safetensors>). The
//! table of words is the largest part of most models and a text touches a few rows of it, so those are read from the
//! file when they are needed (the system's file cache keeps them); the rest is read once.
//! Invariant: a file that is cut, replaced in place or damaged after it was opened gives an error, never other numbers
//! silently: its size and time of change are compared before its rows are used.

use std::{
    collections::BTreeMap,
    fs::{File, Metadata},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::Deserialize;

use crate::EmbedError;

/// Largest header that is believed, in bytes; a model of 24 layers has 50 thousand.
const HEADER_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// An open weights file.
pub(super) struct Weights {
    path: PathBuf,
    file: File,
    stamp: Stamp,
    data_at: u64,
    entries: BTreeMap<String, Entry>,
}

/// One entry of the header.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// Rows of one tensor, read on demand.
pub(super) struct Table {
    path: PathBuf,
    file: File,
    stamp: Stamp,
    at: u64,
    kind: Kind,
    pub(super) rows: usize,
    columns: usize,
}

/// Tells whether a file was touched.
#[derive(Clone, PartialEq, Eq)]
struct Stamp(u64, Option<SystemTime>);

impl From<Metadata> for Stamp {
    fn from(metadata: Metadata) -> Self {
        Self(metadata.len(), metadata.modified().ok())
    }
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    F16,
    Bf16,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        match name {
            "F32" => Some(Self::F32),
            "F16" => Some(Self::F16),
            "BF16" => Some(Self::Bf16),
            _ => None,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    fn read(self, bytes: &[u8], values: &mut Vec<f32>) {
        match self {
            Self::F32 => values.extend(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))),
            Self::F16 => values.extend(bytes.as_chunks().0.iter().map(|bytes| half(u16::from_le_bytes(*bytes)))),
            Self::Bf16 => values.extend(
                bytes.as_chunks().0.iter().map(|bytes| f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16)),
            ),
        }
    }
}

/// An IEEE half-precision number: one sign bit, five of exponent, ten of fraction.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let (exponent, fraction) = (u32::from(bits >> 10 & 31), u32::from(bits & 1023));
    match exponent {
        0 => f32::from_bits(sign | (fraction as f32 / 16_777_216.0).to_bits()),
        31 => f32::from_bits(sign | 255 << 23 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

impl Weights {
    /// Reads and checks the header.
    pub(super) fn open(path: &Path) -> Result<Self, EmbedError> {
        let io = |source: io::Error| EmbedError::Io { action: "read", path: path.to_owned(), source };
        let unusable = |problem: String| EmbedError::Unusable { path: path.to_owned(), problem };
        let mut file = File::open(path).map_err(io)?;
        let stamp = Stamp::from(file.metadata().map_err(io)?);
        let size = stamp.0;
        if size < 8 {
            return Err(unusable(format!("it has only {size} bytes")));
        }
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(io)?;
        let length = u64::from_le_bytes(length);
        if length > HEADER_BYTES_MAX || length + 8 > size {
            return Err(unusable(format!("its header claims {length} bytes of the file's {size}")));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(io)?;
        let header: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(&header).map_err(|error| unusable(format!("its header is damaged: {error}")))?;
        let mut entries = BTreeMap::new();
        for (name, entry) in header {
            if name == "__metadata__" {
                continue;
            }
            let entry: Entry = serde_json::from_value(entry).map_err(|error| unusable(format!("{name}: {error}")))?;
            let (from, to) = entry.data_offsets;
            if from > to || to > size - length - 8 {
                return Err(unusable(format!("{name} lies outside the file: it is cut or damaged")));
            }
            entries.insert(name, entry);
        }
        Ok(Self { path: path.to_owned(), file, stamp, data_at: 8 + length, entries })
    }

    /// What stands before `embeddings.word_embeddings.weight`: nothing, or the model's name and a dot.
    pub(super) fn prefix(&self) -> Result<String, EmbedError> {
        let words = "embeddings.word_embeddings.weight";
        let prefix = self.entries.keys().find_map(|name| name.strip_suffix(words));
        let problem = || format!("it has no {words}: this is not a BERT or XLM-RoBERTa model");
        prefix.map(str::to_owned).ok_or_else(|| self.unusable(problem()))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// A whole tensor, which must have this shape and only finite values.
    pub(super) fn read(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EmbedError> {
        let (at, kind) = self.place(name, shape)?;
        let count: usize = shape.iter().product();
        let mut bytes = vec![0; count * kind.bytes()];
        let io = |source| EmbedError::Io { action: "read", path: self.path.clone(), source };
        self.file.read_exact_at(&mut bytes, at).map_err(io)?;
        let mut values = Vec::with_capacity(count);
        kind.read(&bytes, &mut values);
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(at) => Err(self.unusable(format!("value {at} of {name} is not a finite number"))),
        }
    }

    /// A tensor of this shape whose rows are read on demand.
    pub(super) fn table(&self, name: &str, rows: usize, columns: usize) -> Result<Table, EmbedError> {
        let (at, kind) = self.place(name, &[rows, columns])?;
        let io = |source| EmbedError::Io { action: "read", path: self.path.clone(), source };
        let file = self.file.try_clone().map_err(io)?;
        Ok(Table { path: self.path.clone(), file, stamp: self.stamp.clone(), at, kind, rows, columns })
    }

    /// Where a tensor of this shape begins, and how its values are written.
    fn place(&self, name: &str, shape: &[usize]) -> Result<(u64, Kind), EmbedError> {
        let entry = self.entries.get(name).ok_or_else(|| self.unusable(format!("{name} is missing")))?;
        if entry.shape != shape {
            let problem = format!("{name} has the shape {:?}, and the configuration says {shape:?}", entry.shape);
            return Err(self.unusable(problem));
        }
        let kind = Kind::of(&entry.dtype).ok_or_else(|| {
            let dtype = &entry.dtype;
            self.unusable(format!("{name} is written as {dtype}; F32, F16 and BF16 can be read"))
        })?;
        let bytes = shape.iter().try_fold(kind.bytes(), |bytes, side| bytes.checked_mul(*side));
        let (from, to) = entry.data_offsets;
        if bytes.map(|bytes| bytes as u64) != Some(to - from) {
            return Err(self.unusable(format!("{name} has {} bytes, which is not its shape {shape:?}", to - from)));
        }
        Ok((self.data_at + from, kind))
    }

    fn unusable(&self, problem: String) -> EmbedError {
        EmbedError::Unusable { path: self.path.clone(), problem }
    }
}

impl Table {
    /// Whether the file is still the one that was opened.
    pub(super) fn check(&self) -> Result<(), EmbedError> {
        let io = |source| EmbedError::Io { action: "read", path: self.path.clone(), source };
        if Stamp::from(self.file.metadata().map_err(io)?) == self.stamp {
            return Ok(());
        }
        let problem = "it was changed while it was in use; start the program again".to_owned();
        Err(EmbedError::Unusable { path: self.path.clone(), problem })
    }

    /// Puts a row's values in place of what is in `values`. `bytes` is scratch.
    pub(super) fn row(&self, row: usize, bytes: &mut Vec<u8>, values: &mut Vec<f32>) -> Result<(), EmbedError> {
        let length = self.columns * self.kind.bytes();
        values.clear();
        bytes.resize(length, 0);
        let io = |source| EmbedError::Io { action: "read", path: self.path.clone(), source };
        self.file.read_exact_at(bytes, self.at + (row * length) as u64).map_err(io)?;
        self.kind.read(bytes, values);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn a_half_is_read_as_the_standard_says() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65_504.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x3555, 0.333_251_95),
            (0x7c00, f32::INFINITY),
        ] {
            assert_eq!(half(bits), value, "{bits:#06x}");
        }
        assert!(half(0x7e00).is_nan());
    }
}

//! How content lies where it is kept: as it is, or compressed when that pays.
//!
//! It owns the decision and both directions. Invariant: a digest is always that of the content, however it lies; what
//! is read back is content only when its digest has been found to be right.

use std::{
    io::{Cursor, Error, ErrorKind, Read},
    path::PathBuf,
};

use longhaul_core::{Digest, Digester};
use serde::{Deserialize, Serialize};

use crate::{StoreError, error::from_io};

/// So much of the beginning decides whether the whole is compressed.
pub(crate) const SAMPLE_BYTES: usize = 128 * 1024;

/// Smaller files take as many blocks of a disk either way, and can be linked to as they are.
const FILE_BYTES_MIN: usize = 8 * 1024;

/// Below this a frame's own bytes eat what it saves.
const PACKED_BYTES_MIN: usize = 128;

/// zstd's own default: most of what can be gained, at the speed of a disk.
const LEVEL: i32 = 3;

/// How content lies where it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// As it is.
    Raw,
    /// As a stream of zstd (RFC 8878).
    Zstd,
}

impl Encoding {
    /// The name in rows: `raw`, `zstd`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zstd => "zstd",
        }
    }

    /// The encoding of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Raw, Self::Zstd].into_iter().find(|encoding| encoding.name() == name)
    }

    /// What follows the digest in the name of a file.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Raw => "",
            Self::Zstd => ".zst",
        }
    }

    /// What pays for a file that begins like this: at least an eighth must be gained. Pictures, archives and sound do
    /// not gain that, and so they lie as they are.
    pub(crate) fn for_file(beginning: &[u8]) -> Self {
        let sample = &beginning[..beginning.len().min(SAMPLE_BYTES)];
        if beginning.len() < FILE_BYTES_MIN { Self::Raw } else { Self::pack(sample).0 }
    }

    /// Small content as it is best kept in a row, with how it lies there: compressed if at least an eighth is gained.
    #[must_use]
    pub fn pack(content: &[u8]) -> (Self, Vec<u8>) {
        if content.len() >= PACKED_BYTES_MIN {
            let packed = Self::Zstd.encode(content);
            if packed.len() <= content.len() - content.len() / 8 {
                return (Self::Zstd, packed);
            }
        }
        (Self::Raw, content.to_vec())
    }

    /// What [`Self::pack`] was given. At most `bytes_max` bytes come back, so that damaged bytes cannot fill the memory.
    ///
    /// # Errors
    /// When the bytes are damaged or hold more than `bytes_max`.
    pub fn unpack(self, packed: &[u8], bytes_max: usize) -> std::io::Result<Vec<u8>> {
        let mut content = Vec::new();
        let mut reader = self.reader(Cursor::new(packed))?.take(bytes_max as u64 + 1);
        reader.read_to_end(&mut content)?;
        if content.len() > bytes_max {
            return Err(Error::new(ErrorKind::InvalidData, format!("holds more than {bytes_max} bytes")));
        }
        Ok(content)
    }

    pub(crate) fn encode(self, content: &[u8]) -> Vec<u8> {
        match self {
            Self::Raw => content.to_vec(),
            // Only a writer can fail, and this one is memory.
            Self::Zstd => zstd::stream::encode_all(content, LEVEL).expect("memory can be written"),
        }
    }

    fn reader<'a>(self, packed: impl Read + Send + 'a) -> std::io::Result<Box<dyn Read + Send + 'a>> {
        Ok(match self {
            Self::Raw => Box::new(packed),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::new(packed)?),
        })
    }
}

/// Something that content is written to, compressed on its way where that pays.
pub(crate) enum Packing<W: std::io::Write> {
    Raw(W),
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: std::io::Write> Packing<W> {
    pub(crate) fn new(encoding: Encoding, to: W) -> std::io::Result<Self> {
        Ok(match encoding {
            Encoding::Raw => Self::Raw(to),
            Encoding::Zstd => Self::Zstd(zstd::stream::write::Encoder::new(to, LEVEL)?),
        })
    }

    pub(crate) fn add(&mut self, piece: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Raw(to) => to.write_all(piece),
            Self::Zstd(encoder) => std::io::Write::write_all(encoder, piece),
        }
    }

    pub(crate) fn finish(self) -> std::io::Result<W> {
        match self {
            Self::Raw(to) => Ok(to),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

/// Content as it lies somewhere. Its reader's errors are [`StoreError`]s within those of I/O.
pub(crate) struct Stored {
    pub(crate) reader: Box<dyn Read + Send>,
    pub(crate) encoding: Encoding,
    /// What to call the place.
    pub(crate) path: PathBuf,
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stored").field("encoding", &self.encoding).field("path", &self.path).finish_non_exhaustive()
    }
}

/// Content on its way out. Whoever has been told of its end has read what was put.
pub(crate) struct Verified {
    content: Box<dyn Read + Send>,
    /// Of what has been read; nothing once that has been compared.
    hash: Option<Digester>,
    digest: Digest,
    path: PathBuf,
}

impl Verified {
    pub(crate) fn new(stored: Stored, digest: Digest) -> Result<Self, StoreError> {
        let Stored { reader, encoding, path } = stored;
        let content = encoding.reader(reader).map_err(|error| from_stream(&path, error))?;
        Ok(Self { content, hash: Some(Digester::new()), digest, path })
    }

    /// Fills the piece as far as there is content; what comes back is shorter only at the verified end.
    pub(crate) fn read(&mut self, piece: &mut [u8]) -> Result<usize, StoreError> {
        let mut filled = 0;
        while filled < piece.len() {
            match self.content.read(&mut piece[filled..]) {
                Ok(0) => {
                    self.compare()?;
                    break;
                }
                Ok(read) => {
                    if let Some(hash) = &mut self.hash {
                        hash.update(&piece[filled..filled + read]);
                    }
                    filled += read;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(filled)
    }

    fn compare(&mut self) -> Result<(), StoreError> {
        let Some(hash) = self.hash.take() else { return Ok(()) };
        let found = hash.finish();
        if found == self.digest { Ok(()) } else { Err(self.damaged(found)) }
    }

    /// What is no error of reading is one of decoding: the bytes are not those that were written.
    fn failed(&mut self, error: Error) -> StoreError {
        match error.downcast::<StoreError>() {
            Ok(error) => error,
            Err(error) if error.raw_os_error().is_some() => from_io(&self.path, error),
            Err(_) => self.damaged(self.hash.clone().unwrap_or_default().finish()),
        }
    }

    fn damaged(&self, found: Digest) -> StoreError {
        StoreError::BlobDamaged { digest: self.digest, found, path: self.path.clone() }
    }

    /// All of it, if that is at most this much.
    pub(crate) fn whole(mut self, bytes_max: u64) -> Result<Vec<u8>, StoreError> {
        let (mut content, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            let read = self.read(&mut piece)?;
            content.extend_from_slice(&piece[..read]);
            if content.len() as u64 > bytes_max {
                return Err(StoreError::BlobNotWhole { digest: self.digest, bytes_max });
            }
            if read < piece.len() {
                return Ok(content);
            }
        }
    }

    /// Reads it and keeps nothing.
    pub(crate) fn check(mut self) -> Result<(), StoreError> {
        let mut piece = vec![0; 256 * 1024];
        while self.read(&mut piece)? == piece.len() {}
        Ok(())
    }

    /// Whether it is this content.
    pub(crate) fn is(mut self, content: &[u8]) -> Result<bool, StoreError> {
        let mut piece = vec![0; content.len().clamp(1, 64 * 1024)];
        let mut rest = content;
        loop {
            let read = self.read(&mut piece)?;
            let Some(after) = rest.strip_prefix(&piece[..read]) else { return Ok(false) };
            rest = after;
            if read < piece.len() {
                return Ok(rest.is_empty());
            }
        }
    }
}

/// An error of a reader or writer of ours, or of the system.
pub(crate) fn from_stream(path: &std::path::Path, error: Error) -> StoreError {
    error.downcast::<StoreError>().unwrap_or_else(|error| from_io(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gains_is_compressed_and_what_does_not_is_left() {
        let text = "the harbour opens at six, 港は六時に開く. ".repeat(2_000);
        let noise: Vec<u8> =
            (0..40_000_u32).flat_map(|n| Digest::of(n.to_le_bytes()).as_bytes()[..1].to_vec()).collect();
        for (content, expected) in [(text.as_bytes(), Encoding::Zstd), (&noise, Encoding::Raw), (b"", Encoding::Raw)] {
            assert_eq!(Encoding::for_file(content), expected);
            let (encoding, packed) = Encoding::pack(content);
            assert_eq!(encoding, expected);
            assert!(packed.len() <= content.len());
            assert_eq!(encoding.unpack(&packed, content.len()).expect("it is whole"), content);
        }
        assert_eq!(Encoding::for_file(&text.as_bytes()[..4_000]), Encoding::Raw, "a block is a block");
    }

    #[test]
    fn damaged_bytes_and_endless_ones_are_refused() {
        let (encoding, mut packed) = Encoding::pack("aaaa".repeat(10_000).as_bytes());
        assert!(encoding.unpack(&packed, 39_999).is_err());
        packed.truncate(packed.len() - 1);
        assert!(encoding.unpack(&packed, 40_000).is_err());
        assert!(Encoding::Zstd.unpack(b"no frame", 100).is_err());
    }
}

//! Reading one file: its digest, its document, and the pieces of it as they are stored. No store.
//!
//! Invariant: pieces are made of the very bytes whose digest was taken; a file that changes in between is refused.

use std::{fs, io::Read, path::Path};

use longhaul_core::Digest;
use serde_json::{Map, Value, json};

use crate::{
    Chunk, chunks,
    parse::{self, Format, Refusal},
    walk::Found,
};

/// Largest file that is read.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A file as it is now.
pub(crate) struct Candidate {
    pub(crate) found: Found,
    pub(crate) digest: String,
    pub(crate) bytes: u64,
    pub(crate) refusal: Option<Refusal>,
}

/// A chunk as it is stored.
pub(crate) struct Piece {
    pub(crate) digest: String,
    pub(crate) content: String,
    pub(crate) meta: Map<String, Value>,
}

/// Reads a file for its digest.
pub(crate) fn examined(found: Found) -> Candidate {
    let unreadable = |error: std::io::Error| Refusal::Unreadable { problem: error.to_string() };
    let examine = || -> Result<(String, u64), Refusal> {
        let bytes = fs::metadata(&found.path).map_err(unreadable)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(Refusal::TooLarge { bytes, bytes_max: FILE_BYTES_MAX });
        }
        Ok((Digest::of(read(&found.path)?).hex(), bytes))
    };
    match examine() {
        Ok((digest, bytes)) => Candidate { found, digest, bytes, refusal: None },
        Err(refusal) => Candidate { found, digest: String::new(), bytes: 0, refusal: Some(refusal) },
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Refusal> {
    let unreadable = |error: std::io::Error| Refusal::Unreadable { problem: error.to_string() };
    let mut bytes = Vec::new();
    // It may grow while it is read.
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Refusal::TooLarge { bytes: bytes.len() as u64, bytes_max: FILE_BYTES_MAX });
    }
    Ok(bytes)
}

pub(crate) type Pieces = (Format, Option<String>, Vec<Piece>);

/// Reads, understands and divides a file.
pub(crate) fn read_pieces(path: &Path, name: &str, digest: &str, tokens: usize) -> Result<Pieces, Refusal> {
    let bytes = read(path)?;
    if Digest::of(&bytes).hex() != digest {
        return Err(Refusal::Unreadable { problem: "it is being changed; add it again when that is over".to_owned() });
    }
    let document = parse::parse(Path::new(name), &bytes)?;
    let format = Format::of(Path::new(name), &bytes);
    let pieces: Vec<Piece> = chunks(&document, tokens)
        .into_iter()
        .map(|chunk| piece(&chunk, document.title.as_deref(), digest, format))
        .collect();
    Ok((format, document.title.clone(), pieces))
}

fn piece(chunk: &Chunk, title: Option<&str>, file_digest: &str, format: Format) -> Piece {
    let content = chunk.searched().replace('\0', "\u{fffd}");
    let mut meta = Map::new();
    meta.insert("place".to_owned(), json!(chunk.place));
    meta.insert("heading".to_owned(), Value::from(chunk.path_line()));
    meta.insert("file_digest".to_owned(), Value::from(file_digest));
    meta.insert("format".to_owned(), Value::from(format.as_str()));
    if let Some(title) = title {
        meta.insert("title".to_owned(), Value::from(title.chars().take(200).collect::<String>()));
    }
    if let Some(anchor) = &chunk.anchor {
        meta.insert("anchor".to_owned(), Value::from(anchor.chars().take(200).collect::<String>()));
    }
    Piece { digest: Digest::of(&content).hex(), content, meta }
}

//! The model's files: where they are, whether they are the right ones, and what the model in a folder is called.
//!
//! It does not fetch them. Invariant: the installed folder is only ever given out when its digests were checked since
//! a file in it last changed; a note beside the files remembers the check, so that it costs nothing at each start.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use longhaul_core::Digest;
use sha2::{Digest as _, Sha256};

use super::{
    TOKENS_MAX,
    config::{Description, Pooling},
};
use crate::EmbedError;

pub(super) const WEIGHTS: &str = "model.safetensors";
pub(super) const TOKENIZER: &str = "tokenizer.json";
pub(super) const CONFIG: &str = "config.json";

/// Name of the folder under the models folder, and of the embedder.
pub(super) const NAME: &str = "all-MiniLM-L6-v2";

/// The files of the default model and their SHA-256.
pub(super) const FILES: [(&str, &str); 3] = [
    (CONFIG, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
    (TOKENIZER, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
    (WEIGHTS, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
];

/// Remembers that the digests were right, for files of these sizes and times.
const CHECKED: &str = ".checked";

/// [`fingerprint`] of the default model's weights.
const FINGERPRINT: &str = "f18d6914c8072d2b";

const SAMPLES: u64 = 64;
const SAMPLE_BYTES: u64 = 4096;

/// The folder of the embedding model: `configured` if given (any BERT sentence model with the three files, taken as it
/// is), else the default model below `models_dir`, whose digests are checked after every change of a file.
///
/// # Errors
/// [`EmbedError::NotInstalled`], [`EmbedError::Corrupt`] or [`EmbedError::NotAModel`], each naming what to do.
pub fn locate(configured: Option<&Path>, models_dir: &Path) -> Result<PathBuf, EmbedError> {
    if let Some(dir) = configured {
        return match missing(dir) {
            Some(missing) => Err(EmbedError::NotAModel { path: dir.to_owned(), missing }),
            None => Ok(dir.to_owned()),
        };
    }
    let dir = models_dir.join(NAME);
    if missing(&dir).is_some() {
        return Err(EmbedError::NotInstalled { path: dir });
    }
    let state = state(&dir)?;
    if fs::read_to_string(dir.join(CHECKED)).is_ok_and(|checked| checked == state) {
        return Ok(dir);
    }
    check(&dir)?;
    // A folder we may not write to is checked again next time, which is slow and not wrong.
    if let Err(error) = fs::write(dir.join(CHECKED), state) {
        tracing::debug!(dir = %dir.display(), %error, "the check of the embedding model could not be noted");
    }
    Ok(dir)
}

/// Compares every file's digest.
pub(super) fn check(dir: &Path) -> Result<(), EmbedError> {
    for (name, expected) in FILES {
        let path = dir.join(name);
        let found = sha256(&path)?;
        if found != expected {
            return Err(EmbedError::Corrupt { path, expected: expected.to_owned(), found });
        }
    }
    Ok(())
}

/// The file's SHA-256 in hexadecimal.
pub(super) fn sha256(path: &Path) -> Result<String, EmbedError> {
    let mut hash = Sha256::new();
    File::open(path).and_then(|mut file| io::copy(&mut file, &mut hash)).map_err(|source| unread(path, source))?;
    Ok(hex::encode(hash.finalize()))
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, EmbedError> {
    fs::read(path).map_err(|source| unread(path, source))
}

fn unread(path: &Path, source: io::Error) -> EmbedError {
    EmbedError::Io { action: "read", path: path.to_owned(), source }
}

fn missing(dir: &Path) -> Option<&'static str> {
    [WEIGHTS, TOKENIZER, CONFIG].into_iter().find(|name| !dir.join(name).is_file())
}

/// Size and time of change of every file: what tells a cheap check that nothing was touched.
fn state(dir: &Path) -> Result<String, EmbedError> {
    let mut state = String::new();
    for (name, digest) in FILES {
        let path = dir.join(name);
        let metadata = fs::metadata(&path).map_err(|source| unread(&path, source))?;
        let changed = metadata.modified().map_err(|source| unread(&path, source))?;
        let changed = changed.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        state.push_str(&format!("{digest} {} {changed} {name}\n", metadata.len()));
    }
    Ok(state)
}

/// Refuses a folder without the files that every model has.
pub(super) fn require(dir: &Path) -> Result<(), EmbedError> {
    let Some(missing) = missing(dir) else { return Ok(()) };
    for (other, problem) in [
        ("model.safetensors.index.json", "its weights are in several files; save them as one model.safetensors"),
        ("pytorch_model.bin", "its weights are a pickle, which can run programs; save them as model.safetensors"),
    ] {
        if missing == WEIGHTS && dir.join(other).exists() {
            return Err(EmbedError::Unusable { path: dir.join(other), problem: problem.to_owned() });
        }
    }
    Err(EmbedError::NotAModel { path: dir.to_owned(), missing })
}

/// Whether this folder holds the default model's weights.
pub(super) fn is_default(dir: &Path) -> Result<bool, EmbedError> {
    let path = dir.join(WEIGHTS);
    Ok(fingerprint(&path).map_err(|source| unread(&path, source))? == FINGERPRINT)
}

/// What the model in this folder is called: the default model by its name wherever it lies, any other by its
/// fingerprint and that of all that decides its vectors.
pub(super) fn identity(dir: &Path, description: &Description) -> Result<String, EmbedError> {
    let path = dir.join(WEIGHTS);
    let fingerprint = fingerprint(&path).map_err(|source| unread(&path, source))?;
    let is_plain = description.window == TOKENS_MAX
        && description.prompts.document.is_empty()
        && description.shape.pooling == [Pooling::Mean]
        && description.dense.is_empty()
        && !description.lower_case;
    if fingerprint == FINGERPRINT && is_plain {
        return Ok(NAME.to_owned());
    }
    let mut decides = fingerprint.into_bytes();
    decides.extend(read(&dir.join(TOKENIZER))?);
    decides.extend(description.stated().bytes());
    Ok(format!("{}-{}", description.family(), &Digest::of(decides).hex()[..16]))
}

/// Tells models apart without reading 90 MB: a digest over the size and evenly spread samples. Guards against mixing
/// vectors of different models, not against malice.
fn fingerprint(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut sampled = size.to_le_bytes().to_vec();
    for sample in 0..SAMPLES {
        file.seek(SeekFrom::Start(size.saturating_sub(SAMPLE_BYTES) / (SAMPLES - 1) * sample))?;
        (&mut file).take(SAMPLE_BYTES).read_to_end(&mut sampled)?;
    }
    Ok(Digest::of(sampled).hex()[..16].to_owned())
}

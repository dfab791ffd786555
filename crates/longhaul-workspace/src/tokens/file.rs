//! Counting tokens by a `tokenizer.json`, and keeping those that were read.
//!
//! Invariant: a file is read once as long as it does not change.

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use tokenizers::Tokenizer;

use super::TokenCounter;
use crate::context::ContextError;

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Counts as the model whose `tokenizer.json` it has.
pub struct TokenizerFile {
    path: PathBuf,
    tokenizer: Tokenizer,
}

impl TokenizerFile {
    /// Reads the file; a truncation or padding stated in it is not applied.
    ///
    /// # Errors
    /// [`ContextError::Tokenizer`] when it cannot be read or is none.
    pub fn open(path: &Path) -> Result<Self, ContextError> {
        let refused = |problem: String| ContextError::Tokenizer { path: path.to_owned(), problem };
        let bytes = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(refused(format!("it has {bytes} bytes, {FILE_BYTES_MAX} at most")));
        }
        let bytes = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
        let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(|error| refused(error.to_string()))?;
        tokenizer.with_truncation(None).map_err(|error| refused(error.to_string()))?;
        tokenizer.with_padding(None);
        Ok(Self { path: path.to_owned(), tokenizer })
    }
}

impl TokenCounter for TokenizerFile {
    /// A text that the tokenizer refuses counts a token a byte, which no tokenizer exceeds.
    fn count(&self, text: &str) -> u64 {
        self.tokenizer.encode_fast(text, false).map_or(text.len(), |encoding| encoding.len()) as u64
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

impl fmt::Debug for TokenizerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenizerFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Tokenizers that were read, by path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tokenizers {
    read: Arc<Mutex<HashMap<PathBuf, (Option<SystemTime>, Arc<TokenizerFile>)>>>,
}

impl Tokenizers {
    /// The tokenizer of this file, read anew when the file was changed.
    pub(crate) fn get(&self, path: &Path) -> Result<Arc<TokenizerFile>, ContextError> {
        let changed = std::fs::metadata(path).and_then(|file| file.modified()).ok();
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, tokenizer)) = read.get(path)
            && *at == changed
        {
            return Ok(tokenizer.clone());
        }
        let tokenizer = Arc::new(TokenizerFile::open(path)?);
        read.insert(path.to_owned(), (changed, tokenizer.clone()));
        Ok(tokenizer)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A byte-pair tokenizer with no merges: every byte is a token.
    pub(crate) fn bytewise() -> String {
        // The printable stand-ins of the 256 bytes, as byte-level tokenizers write them.
        let mut stands = Vec::new();
        let mut next = 256_u32;
        for byte in 0..=255_u8 {
            let plain = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
            let stand = if plain { char::from(byte) } else { char::from_u32(next).unwrap() };
            if !plain {
                next += 1;
            }
            stands.push(stand);
        }
        let vocab: serde_json::Map<String, serde_json::Value> =
            stands.iter().enumerate().map(|(id, stand)| (stand.to_string(), id.into())).collect();
        let level = serde_json::json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
        serde_json::json!({
            "version": "1.0", "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
            "padding": null, "added_tokens": [], "normalizer": null, "pre_tokenizer": level, "post_processor": null,
            "decoder": level,
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                      "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": []}
        })
        .to_string()
    }

    #[test]
    fn a_file_is_read_and_counts_whole_texts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, bytewise()).unwrap();
        let tokenizers = Tokenizers::default();
        let counter = tokenizers.get(&path).unwrap();
        // Beyond the truncation that the file states.
        assert_eq!((counter.count("hello world"), counter.count("你好"), counter.count("")), (11, 6, 0));
        assert!(Arc::ptr_eq(&counter, &tokenizers.get(&path).unwrap()));
    }

    #[test]
    fn what_is_no_tokenizer_is_refused_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        for content in [None, Some("{}"), Some("no json")] {
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let error = Tokenizers::default().get(&path).unwrap_err().to_string();
            assert!(error.contains("tokenizer.json cannot be used") && error.contains("\"estimate\""), "{error}");
        }
    }
}

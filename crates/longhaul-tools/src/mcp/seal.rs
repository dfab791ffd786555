//! What a call keeps while its client is asked travels through the client; the seal tells whether it was changed.
//!
//! Invariant: what [`Seal::open`] gives was closed by this process, byte for byte.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::hmac;
use serde_json::Value;

/// Longest state that is read.
const STATE_BYTES_MAX: usize = 64 * 1024;

/// A key of this process.
#[derive(Debug)]
pub(super) struct Seal(hmac::Key);

impl Seal {
    /// With a key made of these random words.
    pub(super) fn new(words: [u64; 4]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
    }

    pub(super) fn close(&self, state: &Value) -> String {
        let text = state.to_string();
        let mut bytes = hmac::sign(&self.0, text.as_bytes()).as_ref().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    pub(super) fn open(&self, sealed: &str) -> Option<Value> {
        if sealed.len() > STATE_BYTES_MAX {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (tag, text) = bytes.split_at_checked(ring::digest::SHA256_OUTPUT_LEN)?;
        hmac::verify(&self.0, text, tag).ok()?;
        serde_json::from_slice(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_closed_here_is_opened() {
        let (seal, other) = (Seal::new([1, 2, 3, 4]), Seal::new([1, 2, 3, 5]));
        let state = json!({ "round": 1 });
        let sealed = seal.close(&state);
        assert_eq!(seal.open(&sealed), Some(state.clone()));
        assert_eq!(other.open(&sealed), None);
        let mut changed = sealed.clone().into_bytes();
        changed[50] = if changed[50] == b'A' { b'B' } else { b'A' };
        assert_eq!(seal.open(std::str::from_utf8(&changed).unwrap()), None);
        for wrong in ["", "x", "tampered", &sealed[..10], &sealed[..sealed.len() - 1]] {
            assert_eq!(seal.open(wrong), None, "{wrong}");
        }
    }
}

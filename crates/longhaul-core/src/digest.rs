//! SHA-256 digests, printed as `sha256:` and 64 hexadecimal digits.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of some content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

const PREFIX: &str = "sha256:";

/// A text that is not a printed digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a digest: expected `sha256:` and 64 hexadecimal digits")]
pub struct DigestError(String);

impl Digest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(content: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(content.as_ref()).into())
    }

    /// The digest of several parts, each preceded by its length, so that no two different lists of parts agree.
    #[must_use]
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hexadecimal digits without the prefix, fit for a file name.
    #[must_use]
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

/// Makes the digest of content that comes piece by piece: it is that of the pieces put together.
#[derive(Debug, Clone, Default)]
pub struct Digester(Sha256);

impl Digester {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The digest of all pieces.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// A printed digest. States carry many as refs, so nothing is allocated for one.
struct Printed([u8; PREFIX.len() + 64]);

impl Printed {
    fn of(digest: &Digest) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; PREFIX.len() + 64];
        text[..PREFIX.len()].copy_from_slice(PREFIX.as_bytes());
        for (pair, byte) in text[PREFIX.len()..].chunks_exact_mut(2).zip(&digest.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Self(text)
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a prefix and digits are ASCII")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Printed::of(self).as_str())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Printed::of(self).as_str())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Digest;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`sha256:` and 64 hexadecimal digits")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Digest, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The digest whose bytes these are, as [`Digest::as_bytes`] gave them.
impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl FromStr for Digest {
    type Err = DigestError;
    fn from_str(text: &str) -> Result<Self, DigestError> {
        let mut bytes = [0; 32];
        text.strip_prefix(PREFIX)
            .and_then(|digits| hex::decode_to_slice(digits, &mut bytes).ok())
            .map(|()| Self(bytes))
            .ok_or_else(|| DigestError(text.chars().take(80).collect()))
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;
    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_prints_and_parses() {
        let digest = Digest::of("abc");
        assert_eq!(digest.to_string(), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        let json = format!("\"{digest}\"");
        assert_eq!(serde_json::to_string(&digest).unwrap(), json);
        assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), digest);
        assert!(serde_json::from_str::<Digest>("\"sha256:00\"").is_err());
        assert_eq!(Digest::from(*digest.as_bytes()), digest);
        assert!("sha256:00".parse::<Digest>().is_err());
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(Digest::of_parts([&b"ab"[..], b"c"]), Digest::of_parts([&b"a"[..], b"bc"]));
    }
}

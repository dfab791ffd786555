//! API keys: who may come in, as whom, to do what.
//!
//! A key is `lh_`, twelve digits by which it is found and named, `_`, and 256 random bits. The store holds its digest;
//! the text is shown once, where it was made. Invariant: nothing but [`Secret::expose`] prints a key.

mod ring;
mod rows;

use std::{fmt, str::FromStr};

use longhaul_core::{Digest, Rng, Scope, TimeMs};
use serde::{Deserialize, Serialize};

pub use ring::KeyRing;
pub(crate) use ring::Refused;

/// Hears that keys have changed, with the prefix of the key. See [`longhaul_store::Store::listen`].
pub(crate) const CHANGED: &str = "server.keys";

/// What a key may do. Each may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look.
    Viewer,
    /// Make tasks, answer, cancel, retry, write.
    Operator,
    /// Manage the tenant's keys and read its audit log.
    Owner,
}

impl Role {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Viewer, "viewer"), (Self::Operator, "operator"), (Self::Owner, "owner")];

    /// As it is stored and printed.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(role, _)| *role == self).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no role: write viewer, operator or owner")]
pub struct RoleError(String);

impl FromStr for Role {
    type Err = RoleError;
    fn from_str(text: &str) -> Result<Self, RoleError> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text).map(|(role, _)| *role);
        found.ok_or_else(|| RoleError(text.chars().take(40).collect()))
    }
}

/// The name of one key: `key_` and letters, digits or hyphens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(String);

/// A text that is not the id of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of a key: expected `key_` and 1 to 64 letters, digits or hyphens")]
pub struct KeyIdError(String);

impl KeyId {
    /// The printed form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_body(body: &str) -> Self {
        Self(format!("key_{body}"))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for KeyId {
    type Err = KeyIdError;
    fn from_str(text: &str) -> Result<Self, KeyIdError> {
        let fits =
            |body: &str| (1..=64).contains(&body.len()) && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        match text.strip_prefix("key_") {
            Some(body) if fits(body) => Ok(Self(text.to_owned())),
            Some(_) | None => Err(KeyIdError(text.chars().take(80).collect())),
        }
    }
}

impl TryFrom<String> for KeyId {
    type Error = KeyIdError;
    fn try_from(text: String) -> Result<Self, KeyIdError> {
        text.parse()
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> String {
        id.0
    }
}

/// A key as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Identity.
    pub id: KeyId,
    /// Whose data it reaches.
    pub scope: Scope,
    /// What it may do.
    pub role: Role,
    /// By which it is found and named: the twelve digits behind `lh_`.
    pub prefix: String,
    /// What a person calls it.
    pub label: String,
    /// Who made it: `cli`, or the actor of the key it was made with.
    pub created_by: String,
    /// When it was made.
    pub created_at: TimeMs,
    /// From when on it no longer holds.
    pub expires_at: Option<TimeMs>,
    /// When it was revoked.
    pub revoked_at: Option<TimeMs>,
    /// The SHA-256 of its text.
    digest: [u8; 32],
}

impl Key {
    /// Whether it holds at this moment.
    #[must_use]
    pub fn holds_at(&self, now: TimeMs) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    /// Whether this is its text. Digests are compared, byte by byte to the end, so the time it takes does not tell where
    /// a guess goes wrong.
    fn is_opened_by(&self, text: &str) -> bool {
        let theirs = Digest::of(text);
        let differing = self.digest.iter().zip(theirs.as_bytes()).fold(0, |differing, (a, b)| differing | (a ^ b));
        std::hint::black_box(differing) == 0
    }
}

/// A key to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Whose data it reaches.
    pub scope: Scope,
    /// What it may do.
    pub role: Role,
    /// What a person calls it; at most 200 characters.
    pub label: String,
    /// From when on it no longer holds.
    pub expires_at: Option<TimeMs>,
    /// Who makes it.
    pub created_by: String,
}

impl NewKey {
    /// An owner's key without an end, made by `cli`.
    #[must_use]
    pub fn first(scope: Scope) -> Self {
        Self {
            scope,
            role: Role::Owner,
            label: "the first key".to_owned(),
            expires_at: None,
            created_by: "cli".to_owned(),
        }
    }
}

/// A key that was just made, with its text.
#[derive(Debug, Clone)]
pub struct MadeKey {
    /// As stored.
    pub key: Key,
    /// What callers send. It cannot be had again.
    pub secret: Secret,
}

/// The text of a key; `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    fn random(prefix: &str, rng: &dyn Rng) -> Self {
        let words: [u64; 4] = std::array::from_fn(|_| rng.next_u64());
        Self(format!("lh_{prefix}_{}", words.map(|word| format!("{word:016x}")).concat()))
    }

    /// The text itself, for whoever is to have it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

const PREFIX_DIGITS: usize = 12;
const SECRET_DIGITS: usize = 64;

/// The prefix of a text that has the form of a key.
fn prefix_of(text: &str) -> Option<&str> {
    let is_hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let (prefix, secret) = text.strip_prefix("lh_")?.split_once('_')?;
    (is_hex(prefix, PREFIX_DIGITS) && is_hex(secret, SECRET_DIGITS)).then_some(prefix)
}

//! Keys with which components seal what must not be read in the database's files.
//!
//! It owns the keys, the form of a sealed text and the cipher (ChaCha20-Poly1305 of `ring`, a random nonce for each
//! text); what is sealed is each component's own decision. Invariants: a sealed text can be opened only with the key
//! and at the place that it was sealed for; keys are in no error and no debug output.

use std::{collections::BTreeMap, fmt, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom, SystemRandom},
};

use crate::{ReadTx, StoreError};

/// The variable in which a process finds its keys.
pub const STATE_KEY: &str = "LONGHAUL_STATE_KEY";

/// How a sealed text begins; JSON never does.
const MARK: &str = "sealed:1:";

/// The keys that seal and open. The first one seals; the others only open what earlier ones have sealed.
#[derive(Clone)]
pub struct StateKeys {
    current: Arc<str>,
    keys: Arc<BTreeMap<Arc<str>, LessSafeKey>>,
}

impl fmt::Debug for StateKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<&str> = self.keys.keys().map(|id| &**id).collect();
        f.debug_struct("StateKeys").field("current", &self.current).field("ids", &ids).finish_non_exhaustive()
    }
}

/// A text that holds no keys. It is not repeated here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateKeysError {
    /// There is none.
    #[error("there is no key: give `ID:KEY`, where KEY is the base64 of 32 random bytes")]
    None,
    /// The id of a key is missing or none.
    #[error("key {number} has no id: give `ID:KEY`, where ID is 1 to 32 of `a-z`, `0-9`, `_`, `-`")]
    Id {
        /// Which, from 1.
        number: usize,
    },
    /// Two keys have one id.
    #[error("two keys are called {id}: rename one of them")]
    Twice {
        /// The id.
        id: String,
    },
    /// A key is not the base64 of 32 bytes.
    #[error("the key {id} is not the base64 of 32 bytes: make one with `openssl rand -base64 32`")]
    Key {
        /// Its id.
        id: String,
    },
}

impl StateKeys {
    /// Reads `ID:KEY` or, for rotation, `NEW:KEY,OLD:KEY,…`: the first seals, all open.
    ///
    /// # Errors
    /// [`StateKeysError`].
    pub fn parse(text: &str) -> Result<Self, StateKeysError> {
        let (mut current, mut keys) = (None, BTreeMap::new());
        for (index, part) in text.split(',').map(str::trim).filter(|part| !part.is_empty()).enumerate() {
            let (id, key) =
                part.split_once(':').filter(|(id, _)| is_id(id)).ok_or(StateKeysError::Id { number: index + 1 })?;
            let wrong = || StateKeysError::Key { id: id.to_owned() };
            let bytes = BASE64.decode(key).map_err(|_| wrong())?;
            let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| wrong())?);
            let id: Arc<str> = id.into();
            if keys.insert(id.clone(), key).is_some() {
                return Err(StateKeysError::Twice { id: id.to_string() });
            }
            current.get_or_insert(id);
        }
        let current = current.ok_or(StateKeysError::None)?;
        Ok(Self { current, keys: Arc::new(keys) })
    }

    /// The keys in [`STATE_KEY`]; nothing where it is not set or empty.
    ///
    /// # Errors
    /// [`StateKeysError`].
    pub fn from_env() -> Result<Option<Self>, StateKeysError> {
        match std::env::var(STATE_KEY) {
            Ok(text) if !text.trim().is_empty() => Self::parse(&text).map(Some),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    fn seal(&self, place: &str, text: &str) -> Result<String, StoreError> {
        let failed = || StoreError::Unsealed {
            key: self.current.to_string(),
            place: place.to_owned(),
            why: "it cannot be sealed",
        };
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| failed())?;
        let key = self.keys.get(&self.current).ok_or_else(failed)?;
        let mut sealed = text.as_bytes().to_vec();
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(place), &mut sealed)
            .map_err(|_| failed())?;
        let mut bytes = nonce.to_vec();
        bytes.append(&mut sealed);
        Ok(format!("{MARK}{}:{}", self.current, BASE64.encode(bytes)))
    }
}

fn is_id(id: &str) -> bool {
    (1..=32).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
}

impl ReadTx<'_> {
    /// Whether the store was opened with keys.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.context.keys.is_some()
    }

    /// The text as it may stand in the database at this place: sealed if the store was opened with keys, else as it
    /// is. The place is part of the seal: tenant, table, and what else tells the row from others.
    ///
    /// # Errors
    /// [`StoreError::Unsealed`] when the system gives no random numbers.
    pub fn seal(&self, place: impl FnOnce() -> String, text: String) -> Result<String, StoreError> {
        match &self.context.keys {
            Some(keys) => keys.seal(&place(), &text),
            None => Ok(text),
        }
    }

    /// The text that was given to [`Self::seal`] for this place. What was written without keys is given as it is.
    ///
    /// # Errors
    /// [`StoreError::Unsealed`], which names the key: it is not at hand, it is another one than the text was sealed
    /// with, or the text was changed or moved.
    pub fn unseal(&self, place: impl FnOnce() -> String, text: String) -> Result<String, StoreError> {
        let Some((id, sealed)) = text.strip_prefix(MARK).and_then(|rest| rest.split_once(':')) else { return Ok(text) };
        let place = place();
        let failed = |why| StoreError::Unsealed { key: id.to_owned(), place: place.clone(), why };
        let key = self.context.keys.as_ref().and_then(|keys| keys.keys.get(id));
        let key = key.ok_or_else(|| failed("the key is not at hand"))?;
        let changed = "the key is another one, or what was sealed was changed or moved";
        let mut bytes = BASE64.decode(sealed).map_err(|_| failed(changed))?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN).ok_or_else(|| failed(changed))?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| failed(changed))?;
        let plain = key.open_in_place(nonce, Aad::from(place.as_bytes()), sealed).map_err(|_| failed(changed))?;
        String::from_utf8(plain.to_vec()).map_err(|_| failed(changed))
    }
}

//! Groups' credentials: who may come into which group.
//!
//! What a client shows is the hexadecimal SHA-256 of a password, as the wire contract has it; the file keeps either
//! that, or `pbkdf2$ITERATIONS$SALT$HASH` of it, which is of no use to whoever reads the file. Invariants: credentials
//! are kept in RAM as digests only; guessing is bounded for all strangers together.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
};

use longhaul_core::{Ambient, TimeMs};
use ring::pbkdf2;

use crate::{
    Refusal, RefusalKind,
    digest::{self, Digest},
    rate::Bucket,
    settings::GroupSettings,
};

/// Wrong credentials a second, and at once, from all who come.
const WRONG_PER_SECOND: u32 = 10;
const WRONG_BURST: u32 = 100;
/// How often the derivation repeats itself for a new credential.
const ITERATIONS: u32 = 100_000;
/// Credentials whose group is remembered, so that a derivation is made once.
const REMEMBERED_MAX: usize = 64;

#[derive(Debug)]
enum Kept {
    Digest(Digest),
    Derived {
        iterations: NonZeroU32,
        salt: Vec<u8>,
        hash: Vec<u8>,
    },
    /// Nobody can show it.
    Unusable,
}

#[derive(Debug)]
pub(crate) struct Credentials {
    groups: BTreeMap<String, Kept>,
    right: Mutex<HashMap<Digest, String>>,
    wrong: Mutex<Bucket>,
}

impl Credentials {
    pub(crate) fn new(groups: &BTreeMap<String, GroupSettings>, now: TimeMs) -> Self {
        let kept = |(name, group): (&String, &GroupSettings)| Some((name.clone(), keep(group.credential.as_ref()?)));
        Self {
            groups: groups.iter().filter_map(kept).collect(),
            right: Mutex::default(),
            wrong: Mutex::new(Bucket::full(WRONG_BURST, now)),
        }
    }

    pub(crate) fn has(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// The group whose credential this is.
    ///
    /// # Errors
    /// [`RefusalKind::Forbidden`] when it is nobody's; [`RefusalKind::TooMany`] while too many wrong ones come.
    pub(crate) fn group_of(&self, shown: &str, now: TimeMs) -> Result<String, Refusal> {
        let shown = shown.trim().to_ascii_lowercase();
        let of = digest::of(&shown);
        if let Some(group) = self.right.lock().unwrap_or_else(PoisonError::into_inner).get(&of) {
            return Ok(group.clone());
        }
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.take(WRONG_PER_SECOND, WRONG_BURST, now).map_err(|ms| Refusal {
            kind: RefusalKind::TooMany,
            message: "too many wrong credentials have been shown: try again in a moment".to_owned(),
            retry_after_ms: Some(ms),
        })?;
        drop(wrong);
        let found = self.groups.iter().find(|(_, kept)| kept.is(&shown, &of));
        let (group, _) = found.ok_or_else(|| {
            Refusal::forbidden("invalid credentials: show the hexadecimal SHA-256 of the group's password")
        })?;
        let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        if right.len() < REMEMBERED_MAX {
            right.insert(of, group.clone());
        }
        Ok(group.clone())
    }
}

impl Kept {
    fn is(&self, shown: &str, of: &Digest) -> bool {
        match self {
            Self::Digest(kept) => digest::same(kept, of),
            Self::Derived { iterations, salt, hash } => {
                pbkdf2::verify(pbkdf2::PBKDF2_HMAC_SHA256, *iterations, salt, shown.as_bytes(), hash).is_ok()
            }
            Self::Unusable => false,
        }
    }
}

fn keep(credential: &str) -> Kept {
    let credential = credential.trim().to_ascii_lowercase();
    let Some(derived) = credential.strip_prefix("pbkdf2$") else {
        let hexadecimal = credential.len() == 64 && credential.bytes().all(|b| b.is_ascii_hexdigit());
        return if hexadecimal { Kept::Digest(digest::of(&credential)) } else { Kept::Unusable };
    };
    let mut parts = derived.split('$');
    let (iterations, salt, hash) = (parts.next(), parts.next(), parts.next());
    let iterations = iterations.and_then(|text| text.parse().ok()).filter(|n: &NonZeroU32| n.get() <= 10_000_000);
    match (iterations, salt.and_then(|text| hex::decode(text).ok()), hash.and_then(|text| hex::decode(text).ok())) {
        (Some(iterations), Some(salt), Some(hash)) if hash.len() == 32 => Kept::Derived { iterations, salt, hash },
        _ => Kept::Unusable,
    }
}

/// What a file keeps of a password, as `password_hash`, and what a client shows.
#[must_use]
pub fn of_password(password: &str, ambient: &Ambient) -> (String, String) {
    let shown = hex::encode(digest::of(password));
    let salt: Vec<u8> = [ambient.rng.next_u64(), ambient.rng.next_u64()].iter().flat_map(|n| n.to_le_bytes()).collect();
    let mut hash = [0; 32];
    let iterations = NonZeroU32::new(ITERATIONS).unwrap_or(NonZeroU32::MIN);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, shown.as_bytes(), &mut hash);
    (format!("pbkdf2${ITERATIONS}${}${}", hex::encode(salt), hex::encode(hash)), shown)
}

//! The secrets of an endpoint or a subscription as rows keep them: sealed where the store has keys.
//!
//! Invariant: a secret that has been replaced is good until its time is over, and the newest one always is.

use longhaul_core::{TenantId, TimeMs};
use longhaul_store::{ReadTx, StoreError};
use serde::{Deserialize, Serialize};

use super::signature::Secret;

/// How long a replaced secret stays good, milliseconds: for changing it at the other end without losing anything.
pub(crate) const REPLACED_MS: i64 = 24 * 60 * 60 * 1_000;
/// Secrets that are good at once.
const SECRETS_MAX: usize = 4;

/// The newest first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Secrets(Vec<(Secret, Option<TimeMs>)>);

#[derive(Serialize, Deserialize)]
struct Kept {
    secret: String,
    until: Option<TimeMs>,
}

impl Secrets {
    pub(crate) fn new(secret: Secret) -> Self {
        Self(vec![(secret, None)])
    }

    /// No secret at all: nothing fits.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Those that are good now.
    pub(crate) fn good(&self, now: TimeMs) -> Vec<Secret> {
        let good = self.0.iter().filter(|(_, until)| until.is_none_or(|until| until > now));
        good.map(|(secret, _)| secret.clone()).collect()
    }

    /// With a new one; the one before is good for a while, or not at all any more.
    pub(crate) fn replaced(self, secret: Secret, now: TimeMs, at_once: bool) -> Self {
        let mut all = vec![(secret, None)];
        if !at_once {
            let end = TimeMs(now.0.saturating_add(REPLACED_MS));
            let old =
                self.0.into_iter().map(|(secret, until)| (secret, Some(until.map_or(end, |until| until.min(end)))));
            all.extend(old.filter(|(_, until)| until.is_some_and(|until| until > now)).take(SECRETS_MAX - 1));
        }
        Self(all)
    }

    pub(crate) fn seal(&self, read: &ReadTx<'_>, tenant: &TenantId, owner: &str) -> Result<String, StoreError> {
        let kept: Vec<Kept> =
            self.0.iter().map(|(secret, until)| Kept { secret: secret.reveal(), until: *until }).collect();
        let text = serde_json::to_string(&kept).unwrap_or_default();
        read.seal(|| place(tenant, owner), text)
    }

    pub(crate) fn unseal(read: &ReadTx<'_>, tenant: &TenantId, owner: &str, text: String) -> Result<Self, StoreError> {
        let text = read.unseal(|| place(tenant, owner), text)?;
        let kept: Vec<Kept> = serde_json::from_str(&text).unwrap_or_default();
        Ok(Self(kept.into_iter().filter_map(|kept| Some((kept.secret.parse().ok()?, kept.until))).collect()))
    }
}

fn place(tenant: &TenantId, owner: &str) -> String {
    format!("webhooks/{tenant}/{owner}")
}

#[cfg(test)]
mod tests {
    use longhaul_core::SeededRng;

    use super::*;

    #[test]
    fn a_replaced_secret_is_good_for_a_while() {
        let rng = SeededRng::new(3);
        let (first, second, third) = (Secret::random(&rng), Secret::random(&rng), Secret::random(&rng));
        let day = REPLACED_MS;
        let secrets = Secrets::new(first.clone()).replaced(second.clone(), TimeMs(0), false);
        assert_eq!(secrets.good(TimeMs(day - 1)), [second.clone(), first]);
        assert_eq!(secrets.good(TimeMs(day)), [second.clone()]);
        let later = secrets.clone().replaced(third.clone(), TimeMs(day), false);
        assert_eq!(later.good(TimeMs(day)), [third.clone(), second]);
        assert_eq!(secrets.replaced(third.clone(), TimeMs(1), true).good(TimeMs(1)), [third]);
    }
}

//! Signatures of webhooks, coming in and going out, as the Standard Webhooks specification has them:
//! `webhook-id`, `webhook-timestamp` (seconds) and `webhook-signature` (`v1,` and the base64 of an HMAC-SHA256 over
//! `id.timestamp.body`, several with spaces between them). <https://www.standardwebhooks.com>
//!
//! It owns secrets and what a signature is good for; not who has which secret. Invariants: a secret is printed by
//! [`Secret::reveal`] only; signatures are compared in constant time; a signature of another time, another id or
//! another body is none.

use std::{fmt, str::FromStr};

use axum::http::HeaderMap;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use longhaul_core::{Rng, TimeMs};
use ring::hmac;

/// The header that names a message: the same on each attempt.
pub const ID: &str = "webhook-id";
/// The header with the second at which an attempt was signed.
pub const TIMESTAMP: &str = "webhook-timestamp";
/// The header with the signatures.
pub const SIGNATURE: &str = "webhook-signature";

/// How far the clocks of sender and receiver may lie apart, milliseconds.
pub const WINDOW_MS: i64 = 5 * 60 * 1_000;

/// Signatures of one message that are looked at.
const SIGNATURES_MAX: usize = 8;
/// Longest id of a message.
const ID_CHARS_MAX: usize = 128;
const PREFIX: &str = "whsec_";
const BYTES_MIN: usize = 24;
const BYTES_MAX: usize = 64;

/// A secret shared by the sender and the receiver of webhooks: `whsec_` and the base64 of 24 to 64 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// A text that is no secret. It is not repeated here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a secret: expected `whsec_` and the base64 of {BYTES_MIN} to {BYTES_MAX} random bytes")]
pub struct SecretError;

impl Secret {
    /// A new one of 32 random bytes.
    #[must_use]
    pub fn random(rng: &dyn Rng) -> Self {
        Self((0..4).flat_map(|_| rng.next_u64().to_be_bytes()).collect())
    }

    /// The printed form, for whoever shares it.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", BASE64.encode(&self.0))
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl FromStr for Secret {
    type Err = SecretError;
    fn from_str(text: &str) -> Result<Self, SecretError> {
        let bytes = text.strip_prefix(PREFIX).and_then(|digits| BASE64.decode(digits).ok()).ok_or(SecretError)?;
        if (BYTES_MIN..=BYTES_MAX).contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(SecretError) }
    }
}

/// The value of [`SIGNATURE`] for a message: one signature for each secret, so that a receiver may have either while
/// one replaces the other. `at_s` is what [`TIMESTAMP`] says, in seconds.
#[must_use]
pub fn sign(secrets: &[Secret], id: &str, at_s: i64, body: &[u8]) -> String {
    let one = |secret: &Secret| {
        let mut signing = hmac::Context::with_key(&secret.key());
        signing.update(format!("{id}.{at_s}.").as_bytes());
        signing.update(body);
        format!("v1,{}", BASE64.encode(signing.sign()))
    };
    secrets.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Why a message is not believed. It says no more than its sender needs to mend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    /// A header is missing, or there more than once.
    #[error("the header {0} is missing or there more than once: sign as standardwebhooks.com says")]
    Header(&'static str),
    /// A header is not what it should be.
    #[error("the header {0} is malformed: sign as standardwebhooks.com says")]
    Malformed(&'static str),
    /// It was signed too long ago, or lies in the future: a replay, or a clock that is wrong.
    #[error("it was signed {away_s} s away from now, more than {} s: sign each attempt anew and check the clock", WINDOW_MS / 1_000, away_s = .away_s)]
    Time {
        /// How far away, seconds.
        away_s: i64,
    },
    /// No signature is one of ours.
    #[error("no signature fits: check the secret, and sign the very bytes that are sent")]
    Signature,
}

/// What the headers of a message claim; nothing of it is to be believed before [`Claim::verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The name of the message.
    pub id: String,
    at_s: i64,
    signatures: Vec<Vec<u8>>,
}

impl Claim {
    /// Reads the headers and refuses what is malformed or not of now, before anybody looks at the body.
    ///
    /// # Errors
    /// [`Untrusted`].
    pub fn read(headers: &HeaderMap, now: TimeMs) -> Result<Self, Untrusted> {
        let id = only(headers, ID)?;
        let is_id = id.len() <= ID_CHARS_MAX && !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_id || id.contains('.') {
            // A full stop would make two readings of what was signed.
            return Err(Untrusted::Malformed(ID));
        }
        let digits = only(headers, TIMESTAMP)?;
        let number = (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits);
        let at_s = number.and_then(|digits| digits.parse::<i64>().ok()).ok_or(Untrusted::Malformed(TIMESTAMP))?;
        let away = at_s.saturating_mul(1_000).saturating_sub(now.0).saturating_abs();
        if away > WINDOW_MS {
            return Err(Untrusted::Time { away_s: away / 1_000 });
        }
        let given = only(headers, SIGNATURE)?.split_ascii_whitespace().take(SIGNATURES_MAX);
        let ours = given.filter_map(|one| BASE64.decode(one.strip_prefix("v1,")?).ok());
        let signatures: Vec<Vec<u8>> = ours.collect();
        if signatures.is_empty() {
            return Err(Untrusted::Malformed(SIGNATURE));
        }
        Ok(Self { id: id.to_owned(), at_s, signatures })
    }

    /// Whether somebody who has one of these secrets signed this body under this id and time.
    ///
    /// # Errors
    /// [`Untrusted::Signature`].
    pub fn verify(&self, secrets: &[Secret], body: &[u8]) -> Result<(), Untrusted> {
        let mut signed = format!("{}.{}.", self.id, self.at_s).into_bytes();
        signed.extend_from_slice(body);
        let fits = |secret: &Secret| {
            let key = secret.key();
            self.signatures.iter().any(|given| hmac::verify(&key, &signed, given).is_ok())
        };
        if secrets.iter().any(fits) { Ok(()) } else { Err(Untrusted::Signature) }
    }
}

fn only<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, Untrusted> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(value), None) => value.to_str().map_err(|_| Untrusted::Malformed(name)),
        _ => Err(Untrusted::Header(name)),
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::SeededRng;

    use super::*;

    const NOW: TimeMs = TimeMs(1_614_265_330_000);
    const BODY: &[u8] = br#"{"test": 2432232314}"#;

    fn headers(id: &str, at: &str, signature: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [(ID, id), (TIMESTAMP, at), (SIGNATURE, signature)] {
            headers.insert(name, value.parse().unwrap());
        }
        headers
    }

    /// The example that the libraries of the specification test themselves with.
    #[test]
    fn the_example_of_the_specification_is_signed_and_verified() {
        let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let signature = sign(std::slice::from_ref(&secret), id, 1_614_265_330, BODY);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let claim = Claim::read(&headers(id, "1614265330", &signature), NOW).unwrap();
        assert_eq!(claim.verify(&[secret], BODY), Ok(()));
    }

    #[test]
    fn anything_else_under_the_same_signature_is_refused() {
        let rng = SeededRng::new(1);
        let (secret, other) = (Secret::random(&rng), Secret::random(&rng));
        let signature = sign(std::slice::from_ref(&secret), "m1", 1_614_265_330, BODY);
        let verify = |id: &str, at: &str, signature: &str, secrets: &[Secret], body: &[u8]| {
            Claim::read(&headers(id, at, signature), NOW)?.verify(secrets, body)
        };
        let ours = std::slice::from_ref(&secret);
        assert_eq!(verify("m1", "1614265330", &signature, ours, BODY), Ok(()));
        assert_eq!(verify("m2", "1614265330", &signature, ours, BODY), Err(Untrusted::Signature));
        assert_eq!(verify("m1", "1614265331", &signature, ours, BODY), Err(Untrusted::Signature));
        assert_eq!(verify("m1", "1614265330", &signature, ours, b"{}"), Err(Untrusted::Signature));
        assert_eq!(
            verify("m1", "1614265330", &signature, std::slice::from_ref(&other), BODY),
            Err(Untrusted::Signature)
        );
        assert_eq!(verify("m1", "1614265330", &signature, &[], BODY), Err(Untrusted::Signature));
        let cut = &signature[..signature.len() - 5];
        assert!(verify("m1", "1614265330", &format!("{cut}A="), ours, BODY).is_err());
        // While one secret replaces the other, either is good.
        assert_eq!(verify("m1", "1614265330", &signature, &[other.clone(), secret.clone()], BODY), Ok(()));
        let both = sign(&[other.clone(), secret.clone()], "m1", 1_614_265_330, BODY);
        assert_eq!(verify("m1", "1614265330", &both, &[other], BODY), Ok(()));
    }

    #[test]
    fn what_is_old_or_malformed_is_refused_before_the_body_is_read() {
        let good = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let read = |id: &str, at: &str, signature: &str| Claim::read(&headers(id, at, signature), NOW).unwrap_err();
        assert_eq!(read("m", "1614265029", good), Untrusted::Time { away_s: 301 });
        assert_eq!(read("m", "1614265631", good), Untrusted::Time { away_s: 301 });
        assert_eq!(read("m", "9223372036854775807", good), Untrusted::Time { away_s: (i64::MAX - NOW.0) / 1_000 });
        for at in ["", "+1614265330", "-1", "1614265330.0", "now", "99999999999999999999"] {
            assert_eq!(read("m", at, good), Untrusted::Malformed(TIMESTAMP), "{at:?}");
        }
        for signature in ["", "v1", "v1,", "v1a,g0hM9SsE", "v1,!!!"] {
            let refused = Claim::read(&headers("m", "1614265330", signature), NOW);
            assert!(refused.is_err() || refused.is_ok_and(|claim| claim.verify(&[Secret(vec![0; 24])], BODY).is_err()));
        }
        for id in ["", "a.b", "a b", &"x".repeat(129)] {
            assert_eq!(read(id, "1614265330", good), Untrusted::Malformed(ID), "{id:?}");
        }
        let mut twice = headers("m", "1614265330", good);
        twice.append(ID, "n".parse().unwrap());
        assert_eq!(Claim::read(&twice, NOW), Err(Untrusted::Header(ID)));
        assert_eq!(Claim::read(&HeaderMap::new(), NOW), Err(Untrusted::Header(ID)));
    }

    #[test]
    fn a_secret_is_printed_on_purpose_only() {
        let secret = Secret::random(&SeededRng::new(7));
        assert_eq!(secret.reveal().parse(), Ok(secret.clone()));
        assert!(!format!("{secret:?}").contains(&secret.reveal()[8..]));
        for wrong in ["", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_not base64"] {
            assert_eq!(wrong.parse::<Secret>(), Err(SecretError), "{wrong:?}");
        }
    }
}

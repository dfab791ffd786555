//! The bearer token of the HTTP server: made or given, shown once, compared in constant time (invariant 12).
//!
//! Invariant: a token is never printed but by [`BearerToken::expose`], and has at least 16 characters.

use std::fmt;

use longhaul_core::{Digest, Rng};

use super::McpError;

/// Fewest characters of a token that is given.
const CHARS_MIN: usize = 16;

/// The secret a client sends as `Authorization: Bearer …`.
#[derive(Clone)]
pub struct BearerToken(String);

impl BearerToken {
    /// A token from outside, such as the environment.
    ///
    /// # Errors
    /// When it is short, or has characters that a header cannot carry.
    pub fn given(text: &str) -> Result<Self, McpError> {
        let text = text.trim();
        if text.len() < CHARS_MIN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(McpError::WeakToken { chars: text.chars().count(), chars_min: CHARS_MIN });
        }
        Ok(Self(text.to_owned()))
    }

    /// A fresh token of 256 random bits.
    #[must_use]
    pub fn random(rng: &dyn Rng) -> Self {
        let words: [u64; 4] = std::array::from_fn(|_| rng.next_u64());
        Self(format!("lhm-{}", words.map(|word| format!("{word:016x}")).concat()))
    }

    /// The token itself, for whoever has to give it to a client.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether an `Authorization` header carries this token. Digests are compared, byte by byte to the end, so the time
    /// it takes tells neither how long the token is nor where a guess goes wrong.
    pub(super) fn opens(&self, header: &str) -> bool {
        let Some((scheme, given)) = header.split_once(' ') else { return false };
        let (ours, theirs) = (Digest::of(&self.0), Digest::of(given.trim()));
        let differing = ours.as_bytes().iter().zip(theirs.as_bytes()).fold(0, |differing, (a, b)| differing | (a ^ b));
        scheme.eq_ignore_ascii_case("bearer") && std::hint::black_box(differing) == 0
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_opens() {
        let token = BearerToken::given("0123456789abcdef").unwrap();
        assert!(token.opens("Bearer 0123456789abcdef") && token.opens("bearer  0123456789abcdef"));
        for wrong in
            ["", "Bearer", "Bearer ", "Basic 0123456789abcdef", "Bearer 0123456789abcde", "Bearer 0123456789abcdeF"]
        {
            assert!(!token.opens(wrong), "{wrong:?} opened");
        }
        assert_eq!(format!("{token:?}"), "BearerToken(***)");
        assert!(BearerToken::given("short").is_err() && BearerToken::given("with a space in it").is_err());
    }
}

//! A credential that cannot be printed by accident (invariant 12).
//!
//! Invariant: neither `Debug` nor any serialisation of a [`Secret`] exists that shows it; reading it is the explicit
//! call [`Secret::expose`].

use std::fmt;

use longhaul_core::Rng;

/// An API key. It prints as `***` and is not serialisable.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes the key, without the white space that copying often adds around it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// A fresh key of 128 random bits, for a server that we start ourselves.
    #[must_use]
    pub fn random(rng: &dyn Rng) -> Self {
        Self(format!("lh-{:016x}{:016x}", rng.next_u64(), rng.next_u64()))
    }

    /// The key itself, for the one place that sends or compares it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this text is the key, in a time that depends on the lengths only.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let differing = self.0.bytes().zip(text.bytes()).fold(0, |differing, (a, b)| differing | (a ^ b));
        self.0.len() == text.len() && differing == 0
    }

    /// `text` with every occurrence of the key replaced, for messages that come from outside.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "***") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::SeededRng;

    use super::*;

    #[test]
    fn a_secret_does_not_print_and_is_cut_out_of_what_others_print() {
        let secret = Secret::new(" sk-very-secret\n");
        assert_eq!(format!("{secret:?}"), "Secret(***)");
        assert_eq!(secret.expose(), "sk-very-secret");
        assert_eq!(secret.redact("Incorrect API key: sk-very-secret."), "Incorrect API key: ***.");
        assert_eq!(Secret::new("").redact("as it is"), "as it is");
    }

    #[test]
    fn only_the_same_text_matches() {
        let secret = Secret::random(&SeededRng::new(1));
        assert!(secret.matches(secret.clone().expose()));
        assert!(!secret.matches(&secret.expose()[1..]));
        assert!(!secret.matches(""));
        assert!(!secret.matches(Secret::random(&SeededRng::new(2)).expose()));
    }
}

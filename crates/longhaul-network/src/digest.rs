//! Digests: of secrets and credentials, which are kept in no other form, and of what a draft says.
//!
//! Invariant: nothing here is compared in a time that depends on where two texts differ.

use longhaul_core::Ambient;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::Draft;

/// SHA-256.
pub(crate) type Digest = [u8; 32];

pub(crate) fn of(text: &str) -> Digest {
    Sha256::digest(text.as_bytes()).into()
}

/// Whether two digests are equal.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// 64 letters and digits that nobody can guess.
pub(crate) fn new_secret(ambient: &Ambient) -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut secret = String::with_capacity(64);
    while secret.len() < 64 {
        // Six bits at a time; the two values that are no letter are left out, so that each letter is equally likely.
        let mut bits = ambient.rng.next_u64();
        for _ in 0..10 {
            if let Some(letter) = LETTERS.get(usize::try_from(bits & 63).unwrap_or(63))
                && secret.len() < 64
            {
                secret.push(char::from(*letter));
            }
            bits >>= 6;
        }
    }
    secret
}

/// What a draft says, in 32 hexadecimal digits: equal for the same content, in whatever order a client writes the keys
/// of an object, and however it writes numbers.
pub(crate) fn of_draft(draft: &Draft) -> String {
    let mut hasher = Sha256::new();
    text(&mut hasher, draft.name.as_str());
    text(&mut hasher, &draft.to.to_string());
    object(&mut hasher, &draft.payload);
    for agent in draft.allowed_agents.iter().flatten() {
        text(&mut hasher, agent.as_str());
    }
    for part in [&draft.relevant_mod, &draft.response_to, &draft.thread_name, &draft.text] {
        text(&mut hasher, part.as_deref().unwrap_or("\0"));
    }
    hasher.update([u8::from(draft.requires_response), draft.visibility as u8]);
    hex::encode(&hasher.finalize()[..16])
}

fn text(hasher: &mut Sha256, text: &str) {
    hasher.update((text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}

fn object(hasher: &mut Sha256, object: &serde_json::Map<String, Value>) {
    let mut keys: Vec<_> = object.iter().collect();
    keys.sort_unstable_by_key(|(key, _)| *key);
    hasher.update(b"{");
    hasher.update((keys.len() as u64).to_le_bytes());
    for (key, of) in keys {
        text(hasher, key);
        value(hasher, of);
    }
}

fn value(hasher: &mut Sha256, of: &Value) {
    match of {
        Value::Null => hasher.update(b"n"),
        Value::Bool(is) => hasher.update([b'b', u8::from(*is)]),
        Value::Number(number) => {
            hasher.update(b"#");
            hasher.update(number.as_f64().unwrap_or(f64::NAN).to_bits().to_le_bytes());
        }
        Value::String(is) => {
            hasher.update(b"s");
            text(hasher, is);
        }
        Value::Array(items) => {
            hasher.update(b"[");
            hasher.update((items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| value(hasher, item));
        }
        Value::Object(is) => object(hasher, is),
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::Ambient;
    use serde_json::json;

    use super::*;
    use crate::Address;

    #[test]
    fn content_is_the_same_whatever_the_order_of_keys_and_the_form_of_numbers() {
        let draft = |payload: Value| {
            let payload = payload.as_object().cloned().expect("an object");
            of_draft(&Draft::new("1", "agent.message".parse().expect("a name"), Address::Everybody, payload))
        };
        assert_eq!(draft(json!({"a": 1, "b": [2.0]})), draft(json!({"b": [2], "a": 1.0})));
        for other in [json!({"a": 1, "b": [3]}), json!({"a": 1}), json!({"a": {"b": [2]}}), json!({"a": "1", "b": [2]})]
        {
            assert_ne!(draft(json!({"a": 1, "b": [2]})), draft(other));
        }
    }

    #[test]
    fn secrets_are_64_letters_and_digits_and_never_the_same() {
        let ambient = Ambient::system();
        let (one, other) = (new_secret(&ambient), new_secret(&ambient));
        assert!(one.len() == 64 && one.bytes().all(|b| b.is_ascii_alphanumeric()), "{}", one.len());
        assert_ne!(one, other);
    }
}

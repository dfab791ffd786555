//! Texts as a user reads them: white space folded, long ones cut.

/// Every run of white space as one space, none at the ends.
#[must_use]
pub fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At most `chars_max` characters, with `…` where something was cut.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

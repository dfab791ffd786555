//! How many tokens a text has, near enough to fill an embedder's window without passing it.
//!
//! Invariant: the estimate is not below what a WordPiece or SentencePiece model makes of ordinary prose. A text that is
//! longer than estimated loses only the end of its vector; its words are all found.

/// Characters of a word that are taken for one token. Real vocabularies hold longer pieces; the rest is margin.
const LETTERS_A_TOKEN: usize = 5;

/// An upper estimate of the tokens of a text.
#[must_use]
pub fn estimate(text: &str) -> usize {
    let (mut tokens, mut letters) = (0, 0_usize);
    for char in text.chars() {
        let alone = is_wide(char);
        if !alone && char.is_alphanumeric() {
            // Scripts outside Latin are cut finer by most vocabularies.
            letters += if char.is_ascii_alphabetic() { 2 } else { 4 };
            continue;
        }
        tokens += letters.div_ceil(LETTERS_A_TOKEN * 2);
        letters = 0;
        tokens += usize::from(!char.is_whitespace());
    }
    tokens + letters.div_ceil(LETTERS_A_TOKEN * 2)
}

/// Characters that are words or syllables of their own: Chinese, Japanese, Korean.
pub(crate) fn is_wide(char: char) -> bool {
    matches!(u32::from(char), 0x2E80..=0x9FFF | 0xA960..=0xA97F | 0xAC00..=0xD7FF | 0xF900..=0xFAFF | 0xFF66..=0xFF9D | 0x20000..=0x3FFFF)
}

#[cfg(test)]
mod tests {
    use super::estimate;

    #[test]
    fn prose_of_many_scripts_is_not_underestimated() {
        // What the tokeniser of all-MiniLM-L6-v2 (first) and of XLM-R (second) made of them, without special tokens.
        assert_eq!(estimate(""), 0);
        assert!(
            estimate("A feature counts as done only when its steps have been carried out in a real browser.") >= 17
        );
        assert!(estimate("长期任务需要记忆。") >= 9);
        assert!(estimate("memory_user_edits(add, replace, 0x1f)") >= 15);
    }
}

//! From text to search terms, the same way for memories and for queries.
//!
//! Words of scripts that put spaces between them are folded and stemmed; Chinese, Japanese, Korean and other scripts
//! written without spaces (or glued to their particles) become characters, pairs and threes of neighbours, which finds
//! `会话` in `新建会话按钮` without a dictionary. Invariant: a change of what comes out of here changes [`VERSION`],
//! so that indexes built by the old rules are rebuilt.

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::{UnicodeNormalization, char::decompose_canonical, char::is_combining_mark};

/// Version of the rules in this file, stored with each keyword index.
pub(crate) const VERSION: u32 = 2;

/// Characters of one word that count; the rest of longer ones (encoded data, mostly) is dropped.
const WORD_CHARS_MAX: usize = 64;

/// English words that occur everywhere and tell nothing apart. Sorted.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "before", "but", "by",
    "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he", "her", "his", "how", "i", "if",
    "in", "into", "is", "it", "its", "just", "me", "my", "no", "not", "of", "on", "or", "our", "s", "she", "should",
    "so", "such", "t", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "to", "too",
    "us", "very", "was", "we", "were", "what", "when", "where", "which", "who", "will", "with", "would", "you", "your",
];

/// The terms of a text in order, repeats included.
pub(crate) fn terms(text: &str) -> Vec<String> {
    let mut terms = Terms::default();
    for c in text.nfkc() {
        match class(c) {
            Class::Unspaced => {
                terms.end_word();
                terms.run.push(c);
            }
            Class::Word => {
                terms.end_run();
                terms.word.push(c);
            }
            // An accent that has no composed form belongs to the word it stands in.
            Class::Mark => {}
            Class::Gap => {
                terms.end_word();
                terms.end_run();
            }
        }
    }
    terms.end_word();
    terms.end_run();
    terms.found
}

enum Class {
    /// Written without spaces between words.
    Unspaced,
    /// Part of a word.
    Word,
    /// A combining accent.
    Mark,
    /// Ends a word.
    Gap,
}

fn class(c: char) -> Class {
    match c {
        '\u{0E00}'..='\u{0EFF}' // Thai, Lao
        | '\u{1000}'..='\u{109F}' // Myanmar
        | '\u{1100}'..='\u{11FF}' | '\u{3130}'..='\u{318F}' | '\u{AC00}'..='\u{D7AF}' // Hangul
        | '\u{1780}'..='\u{17FF}' // Khmer
        | '々' | '〇'
        | '\u{3041}'..='\u{309F}' | '\u{30A1}'..='\u{30FA}' | '\u{30FC}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' // kana
        | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' // Han
            => Class::Unspaced,
        _ if c.is_alphanumeric() => Class::Word,
        _ if is_combining_mark(c) => Class::Mark,
        _ => Class::Gap,
    }
}

/// A sound of Japanese, which says nothing alone. Hangul are whole syllables, and many are words.
fn is_kana(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}')
}

/// Letters of Thai, Lao, Burmese and Khmer: two of them tell words apart badly, three well.
fn is_spelt(c: char) -> bool {
    matches!(c, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}')
}

#[derive(Default)]
struct Terms {
    found: Vec<String>,
    word: String,
    run: Vec<char>,
}

impl Terms {
    /// Adds the word read so far; of a `camelCase` name its parts as well.
    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let parts = camel_parts(&word);
        if parts.len() > 1 {
            self.found.push(cut(&folded(&word)));
            self.found.extend(parts.into_iter().filter_map(term));
        } else {
            self.found.extend(term(&word));
        }
    }

    /// Adds the characters read so far, as far as they say something by themselves, and each two neighbours; of scripts
    /// that spell words out in letters each three as well.
    fn end_run(&mut self) {
        let is_alone = self.run.len() == 1;
        let alone = self.run.iter().filter(|c| is_alone || !(is_kana(**c) || is_spelt(**c)));
        self.found.extend(alone.map(char::to_string));
        self.found.extend(self.run.windows(2).map(|pair| pair.iter().collect::<String>()));
        let spelt = self.run.windows(3).filter(|three| three.iter().all(|c| is_spelt(*c)));
        self.found.extend(spelt.map(|three| three.iter().collect::<String>()));
        self.run.clear();
    }
}

fn camel_parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut before_is_lower) = (0, false);
    for (at, c) in word.char_indices() {
        if before_is_lower && c.is_uppercase() {
            parts.push(&word[start..at]);
            start = at;
        }
        before_is_lower = c.is_lowercase();
    }
    parts.push(&word[start..]);
    parts
}

/// The term a word is found under; stop words have none.
fn term(word: &str) -> Option<String> {
    let word = cut(&folded(word));
    if STOP_WORDS.binary_search(&word.as_str()).is_ok() {
        return None;
    }
    if word.chars().any(|c| c.is_ascii_digit()) {
        return Some(word); // ids, versions, digests
    }
    let algorithm = match word.chars().next()? {
        '\u{0370}'..='\u{03FF}' => Algorithm::Greek,
        '\u{0400}'..='\u{04FF}' => Algorithm::Russian,
        '\u{0600}'..='\u{06FF}' => Algorithm::Arabic,
        '\u{0B80}'..='\u{0BFF}' => Algorithm::Tamil,
        // The language of a Latin text is not known; English rules are applied to all, to both sides alike.
        'a'..='z' => Algorithm::English,
        _ => return Some(word),
    };
    // Of an ornament alone (the Arabic tatweel) the stemmer leaves nothing.
    Some(Stemmer::create(algorithm).stem(&word).into_owned()).filter(|stem| !stem.is_empty())
}

/// Lower case, and Latin letters without their accents.
fn folded(word: &str) -> String {
    let mut folded = String::with_capacity(word.len());
    for c in word.chars().flat_map(char::to_lowercase) {
        if ('\u{00C0}'..='\u{024F}').contains(&c) || ('\u{1E00}'..='\u{1EFF}').contains(&c) {
            decompose_canonical(c, |part| {
                if !is_combining_mark(part) {
                    folded.push(part);
                }
            });
        } else if !is_combining_mark(c) {
            folded.push(c);
        }
    }
    folded
}

fn cut(word: &str) -> String {
    word.chars().take(WORD_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{STOP_WORDS, terms};

    fn check(text: &str, expected: &str) {
        assert_eq!(terms(text).join(" "), expected, "{text}");
    }

    #[test]
    fn words_are_folded_and_stemmed() {
        check("The sessions were authenticated", "session authent");
        check("user authentication", "user authent");
        check("ＦＵＬＬ－ｗｉｄｔｈ Café naïve", "full width cafe naiv");
        check("сессии пользователей", "сесс пользовател");
        check("e\u{0301}t\u{0301}e", "ete");
        check("\u{FE71} \u{0640}", "");
    }

    #[test]
    fn names_in_code_are_found_whole_and_by_part() {
        check("getUserById", "getuserbyid get user id");
        check("feature_list.json F03 v1.2 sha256", "featur list json f03 v1 2 sha256");
    }

    #[test]
    fn scripts_without_spaces_become_characters_and_pairs() {
        check("新建会话", "新 建 会 话 新建 建会 会话");
        check("東京タワー", "東 京 東京 京タ タワ ワー");
        check("세션을 만든다", "세 션 을 세션 션을 만 든 다 만든 든다");
        check("JWT刷新token", "jwt 刷 新 刷新 token");
        check("ﾃｽﾄ と", "テス スト と");
        check("ไทยดี", "ไท ทย ยด ดี ไทย ทยด ยดี");
    }

    #[test]
    fn a_word_without_end_is_cut() {
        let terms = terms(&"9".repeat(10_000));
        assert_eq!(terms, ["9".repeat(64)]);
    }

    #[test]
    fn stop_words_are_sorted_for_their_search() {
        assert!(STOP_WORDS.is_sorted());
    }

    proptest! {
        #[test]
        fn any_text_gives_short_terms_without_spaces(text in "\\PC{0,200}") {
            for term in terms(&text) {
                prop_assert!(!term.is_empty() && term.chars().count() <= 64 && !term.contains(' '), "{term:?}");
            }
        }
    }
}

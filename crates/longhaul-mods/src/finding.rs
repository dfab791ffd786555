//! Finding texts by parts of them, in any language: how a text is folded, what a search asks for, how hits are ordered.
//!
//! Rows keep a folded copy of their text, and the database looks for parts of it. There is no index: a forum or a wiki
//! has thousands of texts and not millions, and parts of words are found the same in scripts that put no spaces between
//! them. Invariant: what is asked for goes into a statement as a parameter, with its wildcards escaped.

use std::cmp::Reverse;

/// Words of a query that count.
const WORDS_MAX: usize = 12;

/// A text as it is compared: small letters, full-width forms as ordinary ones, white space as single spaces.
pub(crate) fn fold(text: &str) -> String {
    let narrow = |c: char| match c {
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(c) - 0xFEE0).unwrap_or(c),
        '\u{3000}' => ' ',
        c => c,
    };
    let folded: String = text.chars().map(narrow).flat_map(char::to_lowercase).collect();
    folded.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a query asks for: its words, longest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The whole of it, folded.
    pub(crate) phrase: String,
    /// Its words; where `all` of them were not to be found, what may stand for them.
    pub(crate) words: Vec<String>,
}

impl Wanted {
    /// The words as they were written.
    pub(crate) fn all(query: &str) -> Self {
        let phrase = fold(query);
        let mut words: Vec<String> = phrase.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        words.sort_by_key(|word| Reverse(word.len()));
        words.dedup();
        words.truncate(WORDS_MAX);
        Self { phrase, words }
    }

    /// Parts that say about the same, for when not every word is found: words, and of words without spaces between them
    /// each two neighbours.
    pub(crate) fn some(query: &str) -> Self {
        let Self { phrase, words } = Self::all(query);
        let mut parts = Vec::new();
        for word in words {
            let letters: Vec<char> = word.chars().collect();
            if letters.iter().any(|c| is_unspaced(*c)) && letters.len() > 2 {
                parts.extend(letters.windows(2).map(|pair| pair.iter().collect::<String>()));
            } else {
                parts.push(word);
            }
        }
        parts.dedup();
        parts.truncate(WORDS_MAX);
        Self { phrase, words: parts }
    }

    /// The patterns for `LIKE … ESCAPE '\'`.
    pub(crate) fn patterns(&self) -> Vec<String> {
        self.words.iter().map(|word| format!("%{}%", escaped(word))).collect()
    }

    /// How well a text answers, by its folded title and its folded whole.
    pub(crate) fn score(&self, title: &str, whole: &str) -> u32 {
        let found =
            |text: &str| u32::try_from(self.words.iter().filter(|word| text.contains(*word)).count()).unwrap_or(0);
        let phrase = |text: &str| u32::from(text.contains(&self.phrase));
        8 * phrase(title) + 4 * phrase(whole) + 2 * found(title) + found(whole)
    }
}

/// `a LIKE ?n ESCAPE '\'` for each pattern, joined by `and` or `or`, numbered from `first`.
pub(crate) fn condition(column: &str, patterns: usize, first: usize, joined_by: &str) -> String {
    let each: Vec<String> =
        (first..first + patterns).map(|number| format!("{column} LIKE ?{number} ESCAPE '\\'")).collect();
    format!("({})", each.join(joined_by))
}

/// A beginning of a text for lists, at most so many characters.
pub(crate) fn snippet(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn escaped(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        if matches!(c, '%' | '_' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Scripts that put no spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{3041}'..='\u{30FF}'
        | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_without_case_width_and_spaces() {
        assert_eq!(fold("  Ｐｙｔｈｏｎ　入门 \n ASYNC"), "python 入门 async");
    }

    #[test]
    fn wildcards_in_a_query_are_letters() {
        assert_eq!(Wanted::all("50%_ \\x").patterns(), ["%50\\%\\_%", "%\\\\x%"]);
    }

    #[test]
    fn words_without_spaces_fall_into_pairs() {
        assert_eq!(Wanted::some("新建会话 rust").words, ["新建", "建会", "会话", "rust"]);
        let wanted = Wanted::all("会话");
        assert!(wanted.score("会话", "会话 按钮") > wanted.score("按钮", "按钮 会话"));
    }
}

//! A token count without a tokenizer, for budgets and for services that do not count.
//!
//! It does not bill anybody: a service's own count always wins.

/// About how many tokens a model of today makes of this text. Same text, same number, on every machine.
///
/// The rule, chosen to err on the high side since it guards a window:
/// - a run of ASCII letters: 1 token, plus 1 for every 6 letters beyond the first 6;
/// - a run of ASCII digits: 1 token for every 3;
/// - one space: nothing (it belongs to the word after it); a longer run of white space, or a line break: 1 token a run;
/// - ASCII punctuation: 1 token for every 2 that stand together;
/// - a Chinese, Japanese or Korean character: 1 token;
/// - any other character beyond ASCII: 1 token for every 2 letters, 2 tokens for each beyond the basic plane (emoji).
#[must_use]
pub fn estimate_tokens(text: &str) -> u64 {
    let mut tokens = 0;
    let mut run: Option<(Class, u64)> = None;
    for character in text.chars() {
        let class = Class::of(character);
        run = match run {
            Some((same, length)) if same == class => Some((class, length + 1)),
            other => {
                tokens += other.map_or(0, |(class, length)| class.tokens(length));
                Some((class, 1))
            }
        };
        if character == '\n' {
            // A line break counts even when it stands alone.
            run = run.map(|(class, length)| (class, length.max(2)));
        }
    }
    tokens + run.map_or(0, |(class, length)| class.tokens(length))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Digit,
    Space,
    Mark,
    Ideograph,
    OtherLetter,
    Astral,
}

impl Class {
    fn of(character: char) -> Self {
        match character {
            'a'..='z' | 'A'..='Z' => Self::Letter,
            '0'..='9' => Self::Digit,
            _ if character.is_whitespace() => Self::Space,
            _ if character.is_ascii() => Self::Mark,
            // Hangul jamo; CJK marks, kana, ideographs; Hangul syllables; compatibility and full-width forms.
            '\u{1100}'..='\u{11FF}'
            | '\u{2E80}'..='\u{9FFF}'
            | '\u{AC00}'..='\u{D7FF}'
            | '\u{F900}'..='\u{FAFF}'
            | '\u{FF00}'..='\u{FFEF}'
            | '\u{20000}'..='\u{3FFFF}' => Self::Ideograph,
            '\u{10000}'.. => Self::Astral,
            _ => Self::OtherLetter,
        }
    }

    fn tokens(self, length: u64) -> u64 {
        match self {
            Self::Letter => 1 + (length - 1) / 6,
            Self::Digit => length.div_ceil(3),
            Self::Space => u64::from(length > 1),
            Self::Mark | Self::OtherLetter => length.div_ceil(2),
            Self::Ideograph => length,
            Self::Astral => 2 * length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_is_counted_by_its_rule() {
        for (text, tokens) in [
            ("", 0),
            ("the cat sat on the mat", 6),
            ("internationalization", 4),
            ("1234567", 3),
            ("a  b", 3),
            ("a\nb", 3),
            ("f(x);", 4),
            ("你好世界", 4),
            ("カタカナ", 4),
            ("안녕하세요", 5),
            ("привет", 3),
            ("🦀", 2),
            ("建一个 chat 应用", 6),
        ] {
            assert_eq!(estimate_tokens(text), tokens, "{text:?}");
        }
    }

    #[test]
    fn a_long_text_stays_within_what_tokenizers_give() {
        // 4 characters a token is the usual rule of thumb for English; half to double of it is what a budget needs.
        let english =
            "The harness, not the model, runs this order. A session also ends cleanly when its budget nears it.\n";
        let text = english.repeat(100);
        let by_thumb = text.len() as u64 / 4;
        let estimate = estimate_tokens(&text);
        assert!((by_thumb * 3 / 4..by_thumb * 3 / 2).contains(&estimate), "{estimate} against {by_thumb}");
    }
}

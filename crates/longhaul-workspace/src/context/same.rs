//! What says the same: equal content by its digest, nearly equal text by its shingles.
//!
//! Pure. A shingle is five neighbouring words, or five characters of scripts that put no spaces between words. Invariant:
//! a text that is left out as nearly equal is, for the most part, in the one that stays; of two that are each other's
//! equal the newer stays.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher},
};

use longhaul_core::TimeMs;

/// Words of one shingle.
const WORDS: usize = 5;
/// Share of a text's shingles in another from which on it is nearly the same.
const LIKENESS_MIN: f32 = 0.85;
/// Texts with fewer shingles are the same only if they are equal: a word more or less may turn their meaning.
const SHINGLES_MIN: usize = 8;
/// Characters of a text that are compared.
const CHARS_MAX: usize = 16_384;

/// Shingles are hashes already: they are not hashed again.
#[derive(Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

type Shingles = HashSet<u64, BuildHasherDefault<AsIs>>;
type Holders = HashMap<u64, Vec<usize>, BuildHasherDefault<AsIs>>;

/// A text with what it is compared by.
#[derive(Debug)]
pub(super) struct Text<'a> {
    /// The text.
    pub(super) text: &'a str,
    /// Which content it is of, where that is known.
    pub(super) digest: Option<[u8; 32]>,
    /// When it was made.
    pub(super) at: TimeMs,
}

/// What becomes of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// It stays.
    Stays,
    /// The same content is in this one.
    Equal(usize),
    /// So much of it is in this one.
    Near(usize, f32),
}

/// Judges texts that come best first; a later one that is better known by its newer self takes the earlier one's place.
pub(super) fn judge(texts: &[Text<'_>]) -> Vec<Verdict> {
    let mut verdicts = vec![Verdict::Stays; texts.len()];
    let mut digests: HashMap<[u8; 32], usize> = HashMap::new();
    let shingles: Vec<Shingles> = texts.iter().map(|text| shingles(text.text)).collect();
    let mut holders = Holders::default();
    for (at, text) in texts.iter().enumerate() {
        if let Some(first) = text.digest.and_then(|digest| digests.get(&digest)) {
            verdicts[at] = Verdict::Equal(stays(&verdicts, *first));
            continue;
        }
        if let Some(digest) = text.digest {
            digests.insert(digest, at);
        }
        if let Some((of, likeness)) = nearest(&shingles, &verdicts, &holders, at) {
            let back = share(&shingles[of], &shingles[at]);
            if texts[at].at > texts[of].at && back >= LIKENESS_MIN {
                verdicts[of] = Verdict::Near(at, back);
            } else {
                verdicts[at] = Verdict::Near(of, likeness);
                continue;
            }
        }
        shingles[at].iter().for_each(|shingle| holders.entry(*shingle).or_default().push(at));
    }
    // What was equal to one that went later is equal to the one that took its place.
    for at in 0..texts.len() {
        verdicts[at] = match verdicts[at] {
            Verdict::Stays => Verdict::Stays,
            Verdict::Equal(of) => Verdict::Equal(stays(&verdicts, of)),
            Verdict::Near(of, likeness) => Verdict::Near(stays(&verdicts, of), likeness),
        };
    }
    verdicts
}

/// Follows from one that went to the one that stays.
fn stays(verdicts: &[Verdict], mut at: usize) -> usize {
    for _ in 0..verdicts.len() {
        match verdicts[at] {
            Verdict::Stays => break,
            Verdict::Equal(of) | Verdict::Near(of, _) => at = of,
        }
    }
    at
}

/// The one that stays and holds most of this text, if it holds enough.
fn nearest(shingles: &[Shingles], verdicts: &[Verdict], holders: &Holders, at: usize) -> Option<(usize, f32)> {
    let own = &shingles[at];
    let mut shared: HashMap<usize, usize> = HashMap::new();
    for shingle in own {
        for holder in holders.get(shingle).into_iter().flatten() {
            *shared.entry(*holder).or_default() += 1;
        }
    }
    let staying = shared.into_iter().filter(|(of, _)| verdicts[*of] == Verdict::Stays);
    // Of equals the better, which comes first.
    let (of, count) = staying.max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)))?;
    let likeness = count as f32 / own.len() as f32;
    let is_short = own.len() < SHINGLES_MIN || shingles[of].len() < SHINGLES_MIN;
    let is_near = if is_short { *own == shingles[of] } else { likeness >= LIKENESS_MIN };
    is_near.then_some((of, likeness))
}

/// How much of the first is in the second.
fn share(of: &Shingles, within: &Shingles) -> f32 {
    of.intersection(within).count() as f32 / of.len().max(1) as f32
}

/// The shingles of a text; of a short one its words as one.
fn shingles(text: &str) -> Shingles {
    let words = words(text);
    if words.is_empty() {
        return Shingles::default();
    }
    words.windows(WORDS.min(words.len())).map(hashed).collect()
}

fn hashed<T: Hash>(value: T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The words of a text by their hashes, in lower case; a character of a script without spaces is a word.
fn words(text: &str) -> Vec<u64> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut end = |word: &mut String| {
        if !word.is_empty() {
            words.push(hashed(word.as_str()));
            word.clear();
        }
    };
    for c in text.chars().take(CHARS_MAX) {
        if is_unspaced(c) {
            end(&mut word);
            word.push(c);
            end(&mut word);
        } else if c.is_ascii_alphanumeric() {
            word.push(c.to_ascii_lowercase());
        } else if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        } else {
            end(&mut word);
        }
    }
    end(&mut word);
    words
}

/// Characters of scripts that put no spaces between words, and of Korean, whose words end in particles.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1100}'..='\u{11FF}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[(&str, i64)], expected: &[Verdict]) {
        let texts: Vec<Text<'_>> =
            texts.iter().map(|(text, at)| Text { text, digest: None, at: TimeMs(*at) }).collect();
        assert_eq!(judge(&texts), expected, "{texts:#?}");
    }

    const LONG: &str = "The supplier delivers the first twenty units by the end of March and the rest by the end of May, \
                        each with a signed protocol of its test, or pays two percent a week for what is late until then.";

    #[test]
    fn short_texts_are_the_same_only_if_they_are_equal() {
        use Verdict::{Near, Stays};
        check(&[("approved", 2), ("not approved", 1)], &[Stays, Stays]);
        check(&[("Approved.", 2), ("approved", 1)], &[Stays, Near(0, 1.0)]);
        check(&[("", 1), ("", 2), ("!", 3)], &[Stays, Stays, Stays]);
    }

    #[test]
    fn nearly_equal_texts_stand_once_and_the_newer_stays() {
        use Verdict::Stays;
        let newer = LONG.replace("two percent", "three percent");
        let verdicts = |texts: &[(&str, i64)]| {
            let texts: Vec<Text<'_>> =
                texts.iter().map(|(text, at)| Text { text, digest: None, at: TimeMs(*at) }).collect();
            judge(&texts)
        };
        assert!(matches!(verdicts(&[(LONG, 1), (&newer, 2)])[..], [Verdict::Near(1, _), Stays]));
        assert!(matches!(verdicts(&[(LONG, 2), (&newer, 1)])[..], [Stays, Verdict::Near(0, _)]));
        // The longer one says more: both stay, unless the longer one is there already.
        let longer =
            format!("{LONG} {}", "Beyond that the buyer may cancel the order without any cost of its own. ".repeat(2));
        assert_eq!(verdicts(&[(LONG, 1), (&longer, 2)]), [Stays, Stays]);
        assert!(matches!(verdicts(&[(&longer, 1), (LONG, 2)])[..], [Stays, Verdict::Near(0, _)]));
    }

    #[test]
    fn scripts_without_spaces_are_compared_by_characters() {
        let text = "供应商应在三月底之前交付前二十台设备，其余设备在五月底之前交付，逾期每周支付百分之二的违约金，直至全部交付完毕为止。";
        let other = "买方在收到货物后三十天内付款，发票须注明合同编号和交付日期，否则付款期限自补正之日起重新计算。";
        let near = format!("{text}以上");
        let texts = [text, &near, other].map(|text| Text { text, digest: None, at: TimeMs(0) });
        assert!(matches!(judge(&texts)[..], [Verdict::Stays, Verdict::Near(0, _), Verdict::Stays]));
    }

    #[test]
    fn the_same_content_stands_once() {
        let text = |text, digest: u8, at| Text { text, digest: Some([digest; 32]), at: TimeMs(at) };
        let verdicts = judge(&[text("a", 1, 0), text("b", 1, 5), text("c", 2, 0)]);
        assert_eq!(verdicts, [Verdict::Stays, Verdict::Equal(0), Verdict::Stays]);
        // An equal of one whose place was taken points to the one that stays.
        let newer = LONG.replace("two percent", "three percent");
        let verdicts = judge(&[text(LONG, 1, 0), text("x", 1, 0), text(&newer, 2, 9)]);
        assert!(matches!(verdicts[..], [Verdict::Near(2, _), Verdict::Equal(2), Verdict::Stays]));
    }
}

//! What a pattern is, and what its value means. The patterns themselves stand in one file for each group of languages.
//!
//! Of the patterns that could read a part of a sentence the first one in the table does, so a language's negations stand
//! before what they negate. `v` is what is said, `k` what it is said of.

mod asian;
mod english;
mod european;

use super::super::block::Block;

pub(super) use english::THIRD_PERSON;

/// One pattern.
pub(super) struct Rule {
    /// Named in the proposals that come from it.
    pub(super) name: &'static str,
    /// With a group `v`.
    pub(super) pattern: &'static str,
    /// Where what it finds belongs.
    pub(super) block: Block,
    /// What its value means.
    pub(super) about: About,
    /// Where its value ends.
    pub(super) cut: Cut,
    /// 0 to 1.
    pub(super) confidence: f32,
}

/// What the value of a pattern means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// The one value of an attribute: somebody has one name.
    Single(&'static str),
    /// The one value of what group `k` names.
    Keyed(&'static str),
    /// One of many values.
    Many(&'static str),
    /// Liked (true) or not.
    Taste(bool),
    /// To be done always (true) or never.
    Habit(bool),
    /// "x over y", or liked.
    Choice,
    /// The user asked for it to be kept.
    Kept,
    /// The user asked for it to be forgotten.
    Forgotten,
}

/// Where a value ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// At the next word that no name holds.
    Name,
    /// At the next clause.
    Clause,
    /// With the sentence.
    Whole,
}

pub(super) const NAME_ENDS: &[&str] = &[
    ",",
    ";",
    "(",
    " and ",
    " but ",
    " because ",
    " so ",
    " since ",
    " now",
    " where ",
    " which ",
    " who ",
    " not ",
    " by the way",
    " und ",
    " aber ",
    " nicht ",
    " et ",
    " mais ",
    " pas ",
    " y ",
    " pero ",
    " no ",
    "，",
    "、",
    "；",
    "（",
    "而",
    "但",
    "不是",
    "ですが",
    "けど",
];
pub(super) const CLAUSE_ENDS: &[&str] = &[
    ";",
    ", but ",
    ", so ",
    ", and i ",
    " and i ",
    " and my ",
    ", because ",
    " because ",
    " but i ",
    " und ich ",
    " aber ",
    " weil ",
    " et je ",
    " mais ",
    " parce que ",
    " y yo ",
    " pero ",
    " porque ",
    "，",
    "；",
    "因为",
    "但是",
    "ので",
    "ですが",
    "けど",
];

pub(super) const fn rule(
    name: &'static str,
    block: Block,
    about: About,
    cut: Cut,
    confidence: f32,
    pattern: &'static str,
) -> Rule {
    Rule { name, pattern, block, about, cut, confidence }
}

/// What users say of themselves and ask for, by groups of languages.
pub(super) const PATTERNS: &[&[Rule]] = &[english::PATTERNS, european::PATTERNS, asian::PATTERNS];

/// "x over y" taken apart.
pub(super) fn choice(value: &str) -> Option<(String, String)> {
    for between in [" over ", " rather than ", " instead of ", " to "] {
        if let Some((better, worse)) = value.split_once(between)
            && !better.is_empty()
            && !worse.is_empty()
            && !(between == " to " && better.split(' ').count() > 3)
        {
            return Some((bare(better), bare(worse)));
        }
    }
    None
}

/// Without the small words before and after a thing, so that "the coffee" and "coffee" are one.
pub(super) fn bare(value: &str) -> String {
    let mut rest = value.trim();
    let before = [
        "the ",
        "a ",
        "an ",
        "some ",
        "using ",
        "to use ",
        "drinking ",
        "eating ",
        "my ",
        "die ",
        "der ",
        "das ",
        "den ",
    ];
    while let Some(shorter) = before.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = shorter.trim_start();
    }
    for word in [" very much", " a lot", " so much", " any more", " anymore", " mehr", " sehr"] {
        rest = rest.strip_suffix(word).unwrap_or(rest);
    }
    rest.trim().to_owned()
}

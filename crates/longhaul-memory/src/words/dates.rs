//! Dates as words: which parts of a date a query names, and which days have them.
//!
//! A memory is found by the date on which it happened as if its text said so, without anything being stored: the parts
//! are compared with the column of moments. Understood are English names of months and weekdays, years, days beside a
//! month, ISO dates, and Chinese, Japanese and Korean dates. Invariant: a query without such parts costs nothing here.

use unicode_normalization::UnicodeNormalization;

use crate::text;

/// One part of a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum DatePart {
    /// As in 2023.
    Year(i64),
    /// 1 to 12.
    Month(u8),
    /// 1 to 31.
    Day(u8),
    /// 0 for Monday.
    Weekday(u8),
}

const MONTHS: [(&str, &str); 12] = [
    ("january", "jan"),
    ("february", "feb"),
    ("march", "mar"),
    ("april", "apr"),
    ("may", "may"),
    ("june", "jun"),
    ("july", "jul"),
    ("august", "aug"),
    ("september", "sep"),
    ("october", "oct"),
    ("november", "nov"),
    ("december", "dec"),
];
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// The parts of dates that a query names, each with the search term that says the same in a text, if one does.
pub(crate) fn dates(query: &str) -> Vec<(DatePart, Option<String>)> {
    let query: String = query.nfkc().flat_map(char::to_lowercase).collect();
    let words = split(&query);
    let mut found: Vec<(DatePart, Option<String>)> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let next = words.get(at + 1);
        let part = if word.text.starts_with(|c: char| c.is_ascii_digit()) {
            number(word, next, at.checked_sub(1).and_then(|at| words.get(at)))
        } else {
            named(word.text)
        };
        if let Some(part) = part
            && !found.iter().any(|(other, _)| *other == part)
        {
            found.push((part, term(part, word.text)));
        }
    }
    // A lone "3" is rarely a day.
    let has_month = found.iter().any(|(part, _)| matches!(part, DatePart::Month(_)));
    found.retain(|(part, _)| has_month || !matches!(part, DatePart::Day(_)));
    found
}

/// A run of digits or of letters, and the character that follows it.
struct Word<'a> {
    text: &'a str,
    then: Option<char>,
}

fn split(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(char::is_alphanumeric) {
        rest = &rest[start..];
        let is_number = rest.starts_with(|c: char| c.is_ascii_digit());
        let ends = |c: char| !c.is_alphanumeric() || c.is_ascii_digit() != is_number;
        let end = rest.find(ends).unwrap_or(rest.len());
        words.push(Word { text: &rest[..end], then: rest[end..].chars().next() });
        rest = &rest[end..];
    }
    words
}

fn number(word: &Word<'_>, next: Option<&Word<'_>>, before: Option<&Word<'_>>) -> Option<DatePart> {
    let value: i64 = word.text.parse().ok()?;
    let day = || (1..=31).contains(&value).then_some(DatePart::Day(value as u8));
    let month = || (1..=12).contains(&value).then_some(DatePart::Month(value as u8));
    match word.then {
        Some('年' | '년') => return Some(DatePart::Year(value)),
        Some('月' | '월') => return month(),
        Some('日' | '号' | '號' | '일') => return day(),
        Some(_) | None => {}
    }
    let is_year = |text: &str| text.len() == 4 && matches!(text.as_bytes(), [b'1', b'9', ..] | [b'2', b'0', ..]);
    if is_year(word.text) {
        return Some(DatePart::Year(value));
    }
    // The middle of 2023-05-08.
    if word.text.len() == 2 && before.is_some_and(|before| is_year(before.text) && before.then == Some('-')) {
        return month();
    }
    let is_glued = word.then.is_some_and(char::is_alphanumeric);
    let is_ordinal = next.is_some_and(|next| ["st", "nd", "rd", "th"].contains(&next.text));
    (!is_glued || is_ordinal).then(day).flatten()
}

fn named(word: &str) -> Option<DatePart> {
    let place = |place: usize| u8::try_from(place).ok();
    let is_month =
        |(long, short): &(&str, &str)| word == *long || word == *short || (word == "sept" && *short == "sep");
    if let Some(month) = MONTHS.iter().position(is_month) {
        return place(month + 1).map(DatePart::Month);
    }
    let weekday = WEEKDAYS.iter().position(|day| word == *day || word.strip_suffix('s') == Some(*day))?;
    place(weekday).map(DatePart::Weekday)
}

/// The term of a text that says the same: the word's own, and of a month always that of its whole name.
fn term(part: DatePart, word: &str) -> Option<String> {
    let text = match part {
        DatePart::Month(month) => MONTHS.get(usize::from(month).checked_sub(1)?)?.0,
        DatePart::Weekday(day) => WEEKDAYS.get(usize::from(day))?,
        DatePart::Year(_) | DatePart::Day(_) => word,
    };
    text::terms(text).pop()
}

impl DatePart {
    /// Whether this day, counted from 1970-01-01, has it.
    pub(crate) fn is_of(self, day: i64) -> bool {
        let (year, month, of_month) = civil(day);
        match self {
            Self::Year(wanted) => wanted == year,
            Self::Month(wanted) => wanted == month,
            Self::Day(wanted) => wanted == of_month,
            // The first of January 1970 was a Thursday.
            Self::Weekday(wanted) => i64::from(wanted) == (day + 3).rem_euclid(7),
        }
    }
}

/// Year, month and day of the month in the Gregorian calendar; after Howard Hinnant, chrono-Compatible Low-Level Date
/// Algorithms, `civil_from_days`.
fn civil(day: i64) -> (i64, u8, u8) {
    let shifted = day.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u8, of_month as u8)
}

#[cfg(test)]
mod tests {
    use super::{DatePart, DatePart::*, civil, dates};

    fn check(query: &str, expected: &[DatePart]) {
        let found: Vec<DatePart> = dates(query).into_iter().map(|(part, _)| part).collect();
        assert_eq!(found, expected, "{query}");
    }

    #[test]
    fn parts_of_dates_are_found_in_queries() {
        check("What did we decide on 8 May, 2023?", &[Day(8), Month(5), Year(2023)]);
        check("the standup of Tuesday, Sept. 3rd", &[Weekday(1), Month(9), Day(3)]);
        check("errors of 2024-02-29", &[Year(2024), Month(2), Day(29)]);
        check("2023年5月8日的会议", &[Year(2023), Month(5), Day(8)]);
        check("2023년 12월 25일에 무엇을", &[Year(2023), Month(12), Day(25)]);
        check("the 3 sidebars of v2 use 12px and port 1883, 3000 times", &[]);
        check("Mondays", &[Weekday(0)]);
        check("", &[]);
    }

    #[test]
    fn a_part_knows_the_term_that_says_the_same() {
        let terms: Vec<Option<String>> = dates("Jan 8th 2023, July").into_iter().map(|(_, term)| term).collect();
        assert_eq!(terms, ["januari", "8", "2023", "juli"].map(|term| Some(term.to_owned())));
    }

    #[test]
    fn days_are_counted_from_1970() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(19_485), (2023, 5, 8));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(-1), (1969, 12, 31));
        assert!(Weekday(3).is_of(0) && Weekday(0).is_of(19_485) && Weekday(2).is_of(-1));
        civil(i64::MAX);
        civil(i64::MIN);
    }
}

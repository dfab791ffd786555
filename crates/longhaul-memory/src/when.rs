//! Times as people write them: `7d`, `last week`, `2026-10..2026-11`, `昨天`, `先週`, `지난주`. Pure: the moment it is now
//! and the time zone are given.
//!
//! Days, weeks and months are those of the zone; weeks begin on Monday. A period runs from its first moment to the
//! first moment after it, so that neighbouring periods share nothing and leave nothing out. Invariant: what is not
//! understood is an error that shows how to write it, never a guess.

mod mentioned;
mod words;

#[cfg(test)]
mod tests;

use jiff::{Span, Timestamp, Zoned, civil, tz::TimeZone};
use longhaul_core::TimeMs;
use unicode_normalization::UnicodeNormalization;

pub use mentioned::{Mention, mentioned};
use words::{Named, Unit};

/// Longest expression that is looked at, in bytes.
const EXPRESSION_BYTES_MAX: usize = 200;

/// A text that names no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no time{}; write 7d, 2 weeks ago, yesterday, last week, 2026-11, 2026-11-01, 2026-11-01T09:30, \
     2026-11-01T09:30:00Z or 2026-10..2026-11", .problem.map(|problem| format!(" ({problem})")).unwrap_or_default()
)]
pub struct WhenError {
    /// The text, cut.
    pub text: String,
    /// What is wrong, where more is known than that it is not understood.
    pub problem: Option<&'static str>,
}

/// The time zone in which days begin and end.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone(TimeZone);

/// A stretch of time; an end that is missing is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Period {
    /// Its first moment.
    pub since: Option<TimeMs>,
    /// The first moment after it.
    pub until: Option<TimeMs>,
}

/// What an expression names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// A point in time.
    Moment(i64),
    /// From the first to just before the second.
    Stretch(i64, i64),
}

impl Zone {
    /// The zone of this machine: `TZ`, else the system's.
    #[must_use]
    pub fn local() -> Self {
        Self(TimeZone::system())
    }

    /// Coordinated universal time.
    #[must_use]
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// A zone by its name in the time zone database, such as `Asia/Tokyo`; nothing for a name that is not there.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TimeZone::get(name).ok().map(Self)
    }

    /// What it is called: `Europe/Berlin`, `UTC`, or its offset now.
    #[must_use]
    pub fn name(&self) -> String {
        match self.0.iana_name() {
            Some(name) if name != "Etc/Unknown" => name.to_owned(),
            Some(_) => "UTC".to_owned(),
            None => self.0.to_fixed_offset().map_or_else(|_| "local time".to_owned(), |offset| offset.to_string()),
        }
    }

    /// The day of a moment here: `2026-11-01`.
    #[must_use]
    pub fn day(&self, time: TimeMs) -> String {
        self.zoned(time.0).map_or_else(|_| time.0.to_string(), |zoned| zoned.strftime("%Y-%m-%d").to_string())
    }

    /// A moment here to the minute: `2026-11-01 09:30`.
    #[must_use]
    pub fn minute(&self, time: TimeMs) -> String {
        self.zoned(time.0).map_or_else(|_| time.0.to_string(), |zoned| zoned.strftime("%Y-%m-%d %H:%M").to_string())
    }

    fn zoned(&self, ms: i64) -> Result<Zoned, jiff::Error> {
        Ok(Timestamp::from_millisecond(ms)?.to_zoned(self.0.clone()))
    }
}

/// The beginning of a time: `since("last week")` is Monday's first moment, `since("7d")` is seven days before `now`.
///
/// # Errors
/// [`WhenError`] for what names no time, or a time without a beginning.
pub fn since(text: &str, now: TimeMs, zone: &Zone) -> Result<TimeMs, WhenError> {
    let period = period(text, now, zone)?;
    period.since.ok_or_else(|| error(text, Some("it has no beginning")))
}

/// The end of a time, as the first moment after it: `until("2026-11-01")` lets the whole day through, `until("7d")`
/// ends seven days before `now`.
///
/// # Errors
/// [`WhenError`] for what names no time, or a time without an end.
pub fn until(text: &str, now: TimeMs, zone: &Zone) -> Result<TimeMs, WhenError> {
    let folded = fold(text)?;
    if folded.contains("..") {
        return range(text, &folded, now, zone)?.until.ok_or_else(|| error(text, Some("it has no end")));
    }
    match (Reading { now, zone }).when(&folded) {
        Some(When::Moment(at) | When::Stretch(_, at)) => Ok(TimeMs(at)),
        None => Err(error(text, None)),
    }
}

/// A moment: `at("2026-11-01")` is the first of that day, `at("3h")` is three hours before `now`.
///
/// # Errors
/// [`WhenError`] for what names no time, or a time without a beginning.
pub fn at(text: &str, now: TimeMs, zone: &Zone) -> Result<TimeMs, WhenError> {
    since(text, now, zone)
}

/// A moment that is to come: `ahead("30d")` is thirty days after `now`, `ahead("2026-12-31")` lets that day pass.
///
/// # Errors
/// [`WhenError`] for what names no time, and for what is over.
pub fn ahead(text: &str, now: TimeMs, zone: &Zone) -> Result<TimeMs, WhenError> {
    let folded = fold(text)?;
    let amount = folded.strip_prefix("in ").unwrap_or(&folded);
    let reading = Reading { now, zone };
    let at = match words::amount(amount) {
        Some((count, unit)) => reading.shifted(count, unit),
        None => until(text, now, zone).map(|at| Some(at.0))?,
    };
    match at {
        Some(at) if at > now.0 => Ok(TimeMs(at)),
        Some(_) => Err(error(text, Some("it is over"))),
        None => Err(error(text, Some("too far away"))),
    }
}

/// A stretch of time: `period("last week")` is Monday to Sunday, `period("2026-10..2026-11")` both months whole,
/// `period("7d")` the time from seven days ago until it ends with the present; `2026-10..` and `..yesterday` are open
/// on one side.
///
/// # Errors
/// [`WhenError`] for what names no time, and for a range that ends before it begins.
pub fn period(text: &str, now: TimeMs, zone: &Zone) -> Result<Period, WhenError> {
    let folded = fold(text)?;
    if folded.contains("..") {
        return range(text, &folded, now, zone);
    }
    match (Reading { now, zone }).when(&folded) {
        Some(When::Moment(at)) => Ok(Period { since: Some(TimeMs(at)), until: None }),
        Some(When::Stretch(from, to)) => Ok(Period { since: Some(TimeMs(from)), until: Some(TimeMs(to)) }),
        None => Err(error(text, None)),
    }
}

fn range(text: &str, folded: &str, now: TimeMs, zone: &Zone) -> Result<Period, WhenError> {
    let reading = Reading { now, zone };
    let Some((from, to)) = folded.split_once("..") else { return Err(error(text, None)) };
    let side = |side: &str| match side.trim() {
        "" => Ok(None),
        side => reading.when(side).map(Some).ok_or_else(|| error(text, Some("one side of `..` is not understood"))),
    };
    let (from, to) = (side(from)?, side(to)?);
    let since = from.map(|when| match when {
        When::Moment(at) | When::Stretch(at, _) => TimeMs(at),
    });
    let until = to.map(|when| match when {
        When::Moment(at) | When::Stretch(_, at) => TimeMs(at),
    });
    match (since, until) {
        (None, None) => Err(error(text, Some("both sides of `..` are empty"))),
        (Some(since), Some(until)) if since >= until => Err(error(text, Some("it ends before it begins"))),
        (since, until) => Ok(Period { since, until }),
    }
}

fn error(text: &str, problem: Option<&'static str>) -> WhenError {
    WhenError { text: text.trim().chars().take(80).collect(), problem }
}

/// Case, width and white space do not matter.
fn fold(text: &str) -> Result<String, WhenError> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(error(text, Some("it is too long")));
    }
    let folded = text.nfkc().collect::<String>().to_lowercase();
    let folded = folded.split_whitespace().collect::<Vec<_>>().join(" ");
    if folded.is_empty() { Err(error(text, Some("it is empty"))) } else { Ok(folded) }
}

/// One expression at one moment.
struct Reading<'a> {
    now: TimeMs,
    zone: &'a Zone,
}

impl Reading<'_> {
    fn when(&self, text: &str) -> Option<When> {
        let text = text.trim();
        self.relative(text).or_else(|| self.named(text)).or_else(|| self.calendar(text)).or_else(|| self.instant(text))
    }

    /// `7d`, `last 7 days`, `2 weeks ago`, `3天前`.
    fn relative(&self, text: &str) -> Option<When> {
        let (count, unit) = words::amount_back(text)?;
        self.shifted(-count, unit).map(When::Moment)
    }

    /// The moment so much after now.
    fn shifted(&self, count: i64, unit: Unit) -> Option<i64> {
        let span = Span::new();
        let span = match unit {
            Unit::Minute => span.try_minutes(count),
            Unit::Hour => span.try_hours(count),
            Unit::Day => span.try_days(count),
            Unit::Week => span.try_weeks(count),
            Unit::Month => span.try_months(count),
            Unit::Year => span.try_years(count),
        };
        let moved = self.zone.zoned(self.now.0).ok()?.checked_add(span.ok()?).ok()?;
        Some(moved.timestamp().as_millisecond())
    }

    /// `yesterday`, `last month`, `上周`, `monday`.
    fn named(&self, text: &str) -> Option<When> {
        if matches!(text, "now" | "现在" | "現在" | "今" | "지금") {
            return Some(When::Moment(self.now.0));
        }
        let today = self.zone.zoned(self.now.0).ok()?.date();
        match words::named(text)? {
            Named::Day(back) => self.days(moved(today, -back)?, 1),
            Named::Week(back) => {
                let monday = moved(today, -i64::from(today.weekday().to_monday_zero_offset()))?;
                self.days(moved(monday, -7 * back)?, 7)
            }
            Named::Month(back) => {
                let first = today.first_of_month().checked_sub(Span::new().try_months(back).ok()?).ok()?;
                self.months(first, 1)
            }
            Named::Year(back) => {
                let first = today.first_of_year().checked_sub(Span::new().try_years(back).ok()?).ok()?;
                self.months(first, 12)
            }
            // The latest such day before today.
            Named::Weekday(day) => {
                let back = (i64::from(today.weekday().to_monday_zero_offset()) - day).rem_euclid(7);
                self.days(moved(today, -if back == 0 { 7 } else { back })?, 1)
            }
            // The latest such month that has begun.
            Named::MonthOfYear(month) => {
                let year = if month <= today.month() { today.year() } else { today.year() - 1 };
                self.months(civil::Date::new(year, month, 1).ok()?, 1)
            }
        }
    }

    /// `2026`, `2026-11`, `2026-q3`, `2026-w45`, `2026-11-01`, `2026年11月1日`, `november 2026`.
    fn calendar(&self, text: &str) -> Option<When> {
        let text = words::numbered(text);
        let mut parts = text.split(['-', '/']);
        let year: i16 = parts.next().filter(|year| year.len() == 4)?.parse().ok()?;
        let (second, third) = (parts.next(), parts.next());
        if parts.next().is_some() {
            return None;
        }
        let Some(second) = second else { return self.months(civil::Date::new(year, 1, 1).ok()?, 12) };
        if let (Some(quarter), None) = (second.strip_prefix('q'), third) {
            let quarter: i8 = quarter.parse().ok().filter(|quarter| (1..=4).contains(quarter))?;
            return self.months(civil::Date::new(year, quarter * 3 - 2, 1).ok()?, 3);
        }
        if let (Some(week), None) = (second.strip_prefix('w'), third) {
            let monday = civil::ISOWeekDate::new(year, week.parse().ok()?, civil::Weekday::Monday).ok()?;
            return self.days(monday.date(), 7);
        }
        let month: i8 = second.parse().ok()?;
        match third {
            None => self.months(civil::Date::new(year, month, 1).ok()?, 1),
            Some(day) => self.days(civil::Date::new(year, month, day.parse().ok()?).ok()?, 1),
        }
    }

    /// RFC 3339, or a date and a time of the zone.
    fn instant(&self, text: &str) -> Option<When> {
        let text = text.to_uppercase();
        if let Ok(at) = text.parse::<Timestamp>() {
            return Some(When::Moment(at.as_millisecond()));
        }
        let (date, time) = text.split_once(['T', ' '])?;
        let (date, time) = (date.parse::<civil::Date>().ok()?, time.parse::<civil::Time>().ok()?);
        let at = date.to_datetime(time).to_zoned(self.zone.0.clone()).ok()?;
        Some(When::Moment(at.timestamp().as_millisecond()))
    }

    fn days(&self, first: civil::Date, count: i64) -> Option<When> {
        self.stretch(first, moved(first, count)?)
    }

    fn months(&self, first: civil::Date, count: i64) -> Option<When> {
        self.stretch(first, first.checked_add(Span::new().try_months(count).ok()?).ok()?)
    }

    fn stretch(&self, first: civil::Date, after: civil::Date) -> Option<When> {
        let begin = |day: civil::Date| Some(day.to_zoned(self.zone.0.clone()).ok()?.timestamp().as_millisecond());
        Some(When::Stretch(begin(first)?, begin(after)?))
    }
}

fn moved(day: civil::Date, days: i64) -> Option<civil::Date> {
    day.checked_add(Span::new().try_days(days).ok()?).ok()
}

//! Amounts of money and what models cost. Integers only: millionths of whatever currency the price table is in.

use std::{collections::BTreeMap, fmt, str::FromStr};

use longhaul_model::Usage;
use serde::{Deserialize, Serialize};

/// Digits behind the point that count.
const DECIMALS: usize = 6;
const MILLION: u128 = 1_000_000;

/// An amount, in millionths of the price table's currency. Written `1.25`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Money(pub u64);

/// A text that is no amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no amount; write a number such as 25 or 0.75, with at most {DECIMALS} digits behind the point")]
pub struct MoneyError(String);

impl FromStr for Money {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let wrong = || MoneyError(text.chars().take(40).collect());
        let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > DECIMALS {
            return Err(wrong());
        }
        let units: u64 = whole.parse().map_err(|_| wrong())?;
        let parts: u64 = format!("{fraction:0<DECIMALS$}").parse().map_err(|_| wrong())?;
        units.checked_mul(1_000_000).and_then(|micros| micros.checked_add(parts)).map(Self).ok_or_else(wrong)
    }
}

impl From<Money> for String {
    fn from(money: Money) -> Self {
        money.to_string()
    }
}

impl TryFrom<String> for Money {
    type Error = MoneyError;

    fn try_from(text: String) -> Result<Self, MoneyError> {
        text.parse()
    }
}

impl fmt::Display for Money {
    /// With two digits behind the point, more where they say something.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = format!("{:06}", self.0 % 1_000_000);
        let shown = fraction.trim_end_matches('0');
        write!(f, "{}.{shown:0<2}", self.0 / 1_000_000)
    }
}

/// What a model costs, for a million tokens each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Price {
    /// Of the prompt.
    pub input: Money,
    /// Of the answer.
    pub output: Money,
    /// Of the part of a prompt that came from the service's cache; as `input` where it is not stated.
    pub cache_read: Option<Money>,
    /// Of the part of a prompt that was put into the cache; as `input` where it is not stated.
    pub cache_write: Option<Money>,
}

impl Price {
    /// What an answer cost.
    #[must_use]
    pub fn of(&self, usage: &Usage) -> Money {
        let cached = usage.cached_tokens.min(usage.prompt_tokens);
        let written = usage.written_tokens.min(usage.prompt_tokens - cached);
        total(&[
            (usage.prompt_tokens - cached - written, self.input),
            (cached, self.cache_read.unwrap_or(self.input)),
            (written, self.cache_write.unwrap_or(self.input)),
            (usage.answer_tokens, self.output),
        ])
    }

    /// The most that a request may cost.
    #[must_use]
    pub fn at_most(&self, prompt_tokens: u64, answer_tokens: u64) -> Money {
        let input = self.input.max(self.cache_write.unwrap_or_default()).max(self.cache_read.unwrap_or_default());
        total(&[(prompt_tokens, input), (answer_tokens, self.output)])
    }
}

/// Rounded up, once.
fn total(parts: &[(u64, Money)]) -> Money {
    let sum: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(price.0)).sum();
    Money(u64::try_from(sum.div_ceil(MILLION)).unwrap_or(u64::MAX))
}

/// What each model costs, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// Sets what a model costs.
    pub fn set(&mut self, model: &str, price: Price) {
        self.0.insert(model.to_owned(), price);
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What this model costs: by its name, or by the longest name in the table that its own continues, as services name
    /// dated versions (`gpt-5.1-2026-03-01`).
    #[must_use]
    pub fn find(&self, model: &str) -> Option<Price> {
        let continues = |name: &String| {
            model.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '@', ':']))
        };
        self.0.iter().filter(|(name, _)| continues(name)).max_by_key(|(name, _)| name.len()).map(|(_, price)| *price)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_printed_as_people_write_them() {
        let parse = |text: &str| text.parse::<Money>();
        assert_eq!(parse("0.1").unwrap(), Money(100_000));
        assert_eq!(parse(" 25 ").unwrap().to_string(), "25.00");
        assert_eq!(parse("0.000001").unwrap().to_string(), "0.000001");
        assert_eq!(parse("3.").unwrap(), Money(3_000_000));
        for nonsense in ["", ".5", "1,5", "-1", "1e3", "0.0000001", "99999999999999999999", "1.2.3"] {
            assert!(parse(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn a_request_costs_at_most_what_was_reserved_for_it() {
        let price = Price {
            input: Money(2_500_000),
            output: Money(10_000_000),
            cache_read: Some(Money(250_000)),
            cache_write: Some(Money(3_125_000)),
        };
        let usage = Usage {
            prompt_tokens: 10_000,
            answer_tokens: 1_000,
            cached_tokens: 8_000,
            written_tokens: 2_000,
            estimated: false,
        };
        // 2,000 at 3.125, 8,000 at 0.25 and 1,000 at 10 a million.
        assert_eq!(price.of(&usage), Money(6_250 + 2_000 + 10_000));
        assert!(price.of(&usage) <= price.at_most(10_000, 1_000));
        assert_eq!(Price { input: Money(1), ..Price::default() }.at_most(1, 0), Money(1), "rounded up");
    }

    #[test]
    fn a_dated_version_costs_what_its_model_costs() {
        let mut prices = Prices::default();
        let of = |n| Price { input: Money(n), ..Price::default() };
        prices.set("gpt-5", of(1));
        prices.set("gpt-5-mini", of(2));
        assert_eq!(prices.find("gpt-5-mini-2026-01-01"), Some(of(2)));
        assert_eq!(prices.find("gpt-5-2026-01-01"), Some(of(1)));
        assert_eq!(prices.find("gpt-5.1"), None);
    }
}

//! What may be spent, as plain data, and the one decision: may this request be made? Pure.

use longhaul_core::TimeMs;

use super::{
    money::{Money, Prices},
    rows::Spent,
};

const HOUR_MS: u64 = 3_600_000;
/// So long before a time limit an agent is asked to hand over.
const NOTICE_MS: u64 = 120_000;

/// What a project may use, over all its runs. Nothing of it is limited by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BudgetSettings {
    /// Tokens, sent and received.
    pub tokens_max: Option<u64>,
    /// Money, in the currency of the prices.
    pub money_max: Option<Money>,
    /// Hours that runs work.
    pub hours_max: Option<u64>,
    /// Coding sessions.
    pub sessions_max: Option<u32>,
    /// Failed sessions until a feature is parked; the project's own setting may be stricter.
    pub attempts: Option<u32>,
    /// What models cost.
    pub prices: Prices,
}

impl BudgetSettings {
    /// Each limit with what is used of it, for people.
    #[must_use]
    pub fn used(&self, spent: &Spent, sessions: usize) -> Vec<String> {
        let tokens = self.tokens_max.map(|max| format!("{} of {} tokens", grouped(spent.tokens), grouped(max)));
        let money = self.money_max.map(|max| format!("{} of {max} of money", spent.money));
        let tenths = spent.worked_ms / (HOUR_MS / 10);
        let hours = self.hours_max.map(|max| format!("{}.{} of {max} hours", tenths / 10, tenths % 10));
        let sessions = self.sessions_max.map(|max| format!("{sessions} of {max} sessions"));
        [tokens, money, hours, sessions].into_iter().flatten().collect()
    }
}

/// What one run may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunBudget {
    /// Tokens, sent and received.
    pub tokens_max: Option<u64>,
    /// Money.
    pub money_max: Option<Money>,
    /// When it ends.
    pub until: Option<TimeMs>,
}

/// All limits of a run with what was used when it began.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    pub(super) project: BudgetSettings,
    pub(super) run: RunBudget,
    pub(super) before: Spent,
}

/// What a request would take.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Claim {
    pub(super) tokens: u64,
    /// None where no price is known.
    pub(super) money: Option<Money>,
}

impl Limits {
    /// The limit that a request would go beyond, in words; nothing when it may be made.
    pub(super) fn refusal(&self, spent: &Spent, claim: Claim, now: TimeMs) -> Option<String> {
        let tokens = spent.tokens.saturating_add(claim.tokens);
        let of_run = tokens.saturating_sub(self.before.tokens);
        if let Some(max) = self.project.tokens_max.filter(|max| tokens > *max) {
            return Some(format!("{} of the project's {} tokens are used", grouped(spent.tokens), grouped(max)));
        }
        if let Some(max) = self.run.tokens_max.filter(|max| of_run > *max) {
            let used = spent.tokens.saturating_sub(self.before.tokens);
            return Some(format!("{} of this run's {} tokens are used", grouped(used), grouped(max)));
        }
        if let Some(refusal) = self.money_refusal(spent, claim.money) {
            return Some(refusal);
        }
        if let Some(max) = self.project.hours_max.filter(|max| spent.worked_ms >= max.saturating_mul(HOUR_MS)) {
            return Some(format!("the project has worked for its {max} hours"));
        }
        self.run.until.filter(|until| now >= *until).map(|_| "this run's time is up".to_owned())
    }

    fn money_refusal(&self, spent: &Spent, money: Option<Money>) -> Option<String> {
        if self.project.money_max.is_none() && self.run.money_max.is_none() {
            return None;
        }
        let Some(money) = money else { return Some("no price is known for the model".to_owned()) };
        let total = Money(spent.money.0.saturating_add(money.0));
        if let Some(max) = self.project.money_max.filter(|max| total > *max) {
            return Some(format!("{} of the project's {max} of money are used", spent.money));
        }
        let of_run = Money(total.0.saturating_sub(self.before.money.0));
        let max = self.run.money_max.filter(|max| of_run > *max)?;
        let used = Money(spent.money.0.saturating_sub(self.before.money.0));
        Some(format!("{used} of this run's {max} of money are used"))
    }

    /// Whether time is nearly up, or another request after this one would be refused.
    pub(super) fn nearly(&self, spent: &Spent, claim: Claim, now: TimeMs) -> Option<String> {
        let twice = Claim {
            tokens: claim.tokens.saturating_mul(2),
            money: claim.money.map(|money| Money(money.0.saturating_mul(2))),
        };
        let soon = TimeMs(now.0.saturating_add(i64::try_from(NOTICE_MS).unwrap_or(0)));
        let later = Spent { worked_ms: spent.worked_ms.saturating_add(NOTICE_MS), ..*spent };
        self.refusal(&later, twice, soon)
    }

    /// Whether money is limited.
    pub(super) fn money(&self) -> bool {
        self.project.money_max.is_some() || self.run.money_max.is_some()
    }
}

/// `1234567` as `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let parts: Vec<&str> = {
        let first = digits.len() % 3;
        let (head, rest) = digits.split_at(first);
        let groups = rest.as_bytes().chunks(3).filter_map(|group| std::str::from_utf8(group).ok());
        std::iter::once(head).filter(|head| !head.is_empty()).chain(groups).collect()
    };
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(tokens: u64) -> Limits {
        Limits {
            project: BudgetSettings { tokens_max: Some(tokens), ..BudgetSettings::default() },
            ..Limits::default()
        }
    }

    fn tokens(tokens: u64) -> Claim {
        Claim { tokens, money: None }
    }

    #[test]
    fn a_request_that_could_go_beyond_is_refused_and_the_last_that_fits_is_known() {
        let spent = Spent { tokens: 900, ..Spent::default() };
        assert_eq!(limits(1_000).refusal(&spent, tokens(100), TimeMs(0)), None);
        let refusal = limits(1_000).refusal(&spent, tokens(101), TimeMs(0)).unwrap();
        assert_eq!(refusal, "900 of the project's 1,000 tokens are used");
        assert!(limits(1_000).nearly(&spent, tokens(60), TimeMs(0)).is_some());
        assert_eq!(limits(1_000).nearly(&spent, tokens(50), TimeMs(0)), None);
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn a_runs_own_limits_begin_where_it_began() {
        let before = Spent { tokens: 5_000, money: Money(2_000_000), ..Spent::default() };
        let run =
            RunBudget { tokens_max: Some(1_000), money_max: Some(Money(500_000)), until: Some(TimeMs(1_000_000)) };
        let limits = Limits { run, before, ..Limits::default() };
        let spent = Spent { tokens: 5_900, money: Money(2_100_000), ..before };
        let claim = |tokens, money| Claim { tokens, money: Some(Money(money)) };
        assert_eq!(limits.refusal(&spent, claim(100, 400_000), TimeMs(0)), None);
        assert!(limits.refusal(&spent, claim(101, 0), TimeMs(0)).unwrap().contains("900 of this run's 1,000 tokens"));
        assert!(limits.refusal(&spent, claim(1, 400_001), TimeMs(0)).unwrap().contains("0.10 of this run's 0.50"));
        assert!(limits.refusal(&spent, tokens(1), TimeMs(0)).unwrap().contains("no price"));
        assert!(limits.refusal(&spent, claim(0, 0), TimeMs(1_000_000)).unwrap().contains("time is up"));
        assert!(limits.nearly(&spent, claim(0, 0), TimeMs(900_000)).is_some(), "two minutes before");
    }

    #[test]
    fn hours_are_those_of_work() {
        let project = BudgetSettings { hours_max: Some(2), ..BudgetSettings::default() };
        let limits = Limits { project, ..Limits::default() };
        let spent = |worked_ms| Spent { worked_ms, ..Spent::default() };
        assert_eq!(limits.refusal(&spent(2 * HOUR_MS - 1), tokens(1), TimeMs(i64::MAX)), None);
        assert!(limits.refusal(&spent(2 * HOUR_MS), tokens(1), TimeMs(0)).unwrap().contains("2 hours"));
    }
}

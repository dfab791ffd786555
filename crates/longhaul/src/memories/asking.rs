//! What is asked of memory in words: filters as they are typed, made into a query. Pure but for the clock given.

use longhaul_core::{TaskId, TimeMs, UserId};
use longhaul_memory::{
    Kind, Namespace, Query, Tiers,
    when::{self, Zone},
};

use super::{MemoriesError, condition::condition};

/// Which memories are meant. Every filter that is given must hold.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    /// The namespaces; none for `main`.
    pub namespaces: Vec<Namespace>,
    /// Only of these collections.
    pub collections: Vec<String>,
    /// Only of these kinds.
    pub kinds: Vec<Kind>,
    /// Only with all of these tags.
    pub tags: Vec<String>,
    /// Only of this thread.
    pub thread: Option<String>,
    /// Only of this task.
    pub task: Option<TaskId>,
    /// Only what this user wrote or had written for them.
    pub user: Option<UserId>,
    /// Only what happened from then on: `last week`, `2026-11`, `7d`.
    pub since: Option<String>,
    /// Only what happened until then, the day, week or month included.
    pub until: Option<String>,
    /// Only what happened within this time: `yesterday`, `2026-10..2026-11`.
    pub when: Option<String>,
    /// Conditions on metadata: `session=3`, `stars>=4`.
    pub conditions: Vec<String>,
    /// Only facts about this subject.
    pub subject: Option<String>,
    /// Facts as they were true then.
    pub as_of: Option<String>,
    /// What was believed then.
    pub known_at: Option<String>,
    /// Facts that were superseded as well.
    pub history: bool,
    /// Which tiers.
    pub tiers: Tiers,
}

impl Filters {
    /// The query for `text`.
    ///
    /// # Errors
    /// [`MemoriesError::When`], [`MemoriesError::Condition`].
    pub fn query(&self, text: &str, k: usize, now: TimeMs, zone: &Zone) -> Result<Query, MemoriesError> {
        let within = self.when.as_deref().map(|text| when::period(text, now, zone)).transpose()?.unwrap_or_default();
        let since = self.since.as_deref().map(|text| when::since(text, now, zone)).transpose()?;
        let until = self.until.as_deref().map(|text| when::until(text, now, zone)).transpose()?;
        let at = |text: &Option<String>| text.as_deref().map(|text| when::at(text, now, zone)).transpose();
        Ok(Query {
            namespaces: self.namespaces.clone(),
            collections: self.collections.clone(),
            kinds: self.kinds.clone(),
            tags: self.tags.clone(),
            thread: self.thread.clone(),
            task: self.task.clone(),
            user: self.user.clone(),
            since: latest(within.since, since),
            until: earliest(within.until, until),
            filter: self.conditions.iter().map(|text| condition(text)).collect::<Result<_, _>>()?,
            subject: self.subject.clone(),
            as_of: at(&self.as_of)?,
            known_at: at(&self.known_at)?,
            include_superseded: self.history,
            tiers: self.tiers,
            ..Query::new(text, k)
        })
    }
}

fn latest(a: Option<TimeMs>, b: Option<TimeMs>) -> Option<TimeMs> {
    a.max(b)
}

fn earliest(a: Option<TimeMs>, b: Option<TimeMs>) -> Option<TimeMs> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_given_in_several_ways_all_hold() {
        const NOW: TimeMs = TimeMs(1_795_285_800_000); // 2026-11-21T18:30:00Z, a Saturday
        let day = |day: i64| TimeMs(1_793_491_200_000 + (day - 1) * 86_400_000);
        let given = Filters {
            when: Some("2026-11".to_owned()),
            since: Some("last week".to_owned()),
            until: Some("2026-11-12".to_owned()),
            ..Filters::default()
        };
        let query = given.query("x", 5, NOW, &Zone::utc()).expect("a query");
        assert_eq!((query.since, query.until), (Some(day(9)), Some(day(13))));
        let wrong = Filters { since: Some("soon".to_owned()), ..Filters::default() };
        assert!(matches!(wrong.query("x", 5, NOW, &Zone::utc()), Err(MemoriesError::When(_))));
    }
}

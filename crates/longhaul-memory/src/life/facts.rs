//! Facts in two times: when something was true, and when we believed it. What is superseded stays.
//!
//! The rule for two facts on the same subject and attribute of a partition whose times overlap: the one that began to be
//! true later holds from its beginning on, whichever was learned first; of two that began at the same time the one
//! learned later is right, and the other is kept as an error we once believed. Invariant: writing a fact never removes
//! or changes a word of another; it closes the other's time and says by what and when.

use longhaul_core::{MemoryId, Scope, TimeMs};
use longhaul_store::{ReadTx, StoreError, Tx, values};
use serde::{Deserialize, Serialize};

use crate::{
    Item, Memory, MemoryError, Namespace,
    access::{self, Right},
    item::check_name,
    namespace::PartitionId,
    rows::{self, COLUMNS},
};

use super::shelf::{self, STUB};

/// Facts about one attribute that are looked at when another is written.
const RIVALS_MAX: i64 = 1_000;

/// A believed fact, as far as deciding needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Believed {
    id: MemoryId,
    from: Option<TimeMs>,
    to: Option<TimeMs>,
}

/// What becomes of a fact when another is written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// Their times do not meet.
    Untouched,
    /// The older one ends where the new one begins.
    Ends { at: TimeMs },
    /// The older one was never right.
    Withdrawn,
    /// The new one ends where the older one begins: it tells of an earlier time.
    EndsNew { at: TimeMs },
}

/// Decides between a fact that is believed and a new one.
fn decide(old: &Believed, from: Option<TimeMs>, to: Option<TimeMs>) -> Outcome {
    let begins = |from: Option<TimeMs>| from.map_or(i64::MIN, |at| at.0);
    let ends = |to: Option<TimeMs>| to.map_or(i64::MAX, |at| at.0);
    if begins(from) >= ends(old.to) || begins(old.from) >= ends(to) {
        return Outcome::Untouched;
    }
    match (begins(old.from).cmp(&begins(from)), from, old.from) {
        (std::cmp::Ordering::Less, Some(at), _) => Outcome::Ends { at },
        (std::cmp::Ordering::Greater, _, Some(at)) => Outcome::EndsNew { at },
        _ => Outcome::Withdrawn,
    }
}

/// Settles a fact that was just written against those that are believed. Call it in the transaction that wrote it.
pub(crate) fn settle(
    tx: &mut Tx<'_>,
    id: &PartitionId,
    seq: i64,
    memory_id: &MemoryId,
    fact: &crate::Fact,
    happened_at: TimeMs,
) -> Result<(), StoreError> {
    let namespace = id.namespace.as_str();
    let rivals: Vec<(i64, Believed)> = tx.query(
        "SELECT seq, memory_id, valid_from, valid_to FROM memories
         WHERE tenant_id = ?1 AND namespace = ?2 AND subject = ?3 AND attribute = ?4 AND seq <> ?5
           AND superseded_at IS NULL
         ORDER BY seq DESC LIMIT ?6",
        &values![&id.tenant, namespace, &fact.subject, &fact.attribute, seq, RIVALS_MAX],
        |row| Ok((row.get(0)?, Believed { id: row.get(1)?, from: row.get(2)?, to: row.get(3)? })),
    )?;
    if rivals.is_empty() {
        return Ok(());
    }
    // Something was believed before: a new statement without a beginning is true from when it was made.
    let (from, mut to) = (fact.valid_from.or(Some(happened_at)), fact.valid_to);
    if from.zip(to).is_some_and(|(from, to)| from >= to) {
        return Ok(());
    }
    let now = tx.now();
    for (rival, old) in rivals {
        let close = match decide(&old, from, to) {
            Outcome::Untouched => continue,
            Outcome::EndsNew { at } => {
                to = Some(to.map_or(at, |to| to.min(at)));
                continue;
            }
            Outcome::Ends { at } => Some(at),
            Outcome::Withdrawn => old.from.or(Some(TimeMs(i64::MIN))),
        };
        let change = access::next_change(tx, id)?;
        tx.execute(
            "UPDATE memories SET superseded_by = ?4, superseded_at = ?5, valid_to = ?6, change_seq = ?7
             WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3",
            &values![&id.tenant, namespace, rival, memory_id, now, close, change],
        )?;
    }
    tx.execute(
        "UPDATE memories SET valid_from = ?4, valid_to = ?5 WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3",
        &values![&id.tenant, namespace, seq, from, to],
    )?;
    Ok(())
}

/// One entry of a fact's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastFact {
    /// The memory that states it.
    pub item: Item,
    /// It is what we believe today, of its time.
    pub is_believed: bool,
    /// It is believed and true at this moment.
    pub holds_now: bool,
}

impl Memory {
    /// Everything ever stated about an attribute of a subject in a namespace, in the order in which it was learned: what
    /// holds, what held, and what we once believed by mistake.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`], [`MemoryError::Field`]; [`MemoryError::Cold`] when a part of it is cold and cannot be
    /// read; those of the store.
    pub async fn history(
        &self,
        scope: &Scope,
        namespace: &Namespace,
        subject: &str,
        attribute: &str,
    ) -> Result<Vec<PastFact>, MemoryError> {
        check_name("subject", subject)?;
        check_name("attribute", attribute)?;
        let (scope, namespace) = (scope.clone(), namespace.clone());
        let (subject, attribute) = (subject.to_owned(), attribute.to_owned());
        let history = move |read: &ReadTx<'_>| {
            let now = read.now();
            if access::open(read, &scope, &namespace, Right::Read)?.is_none() {
                return Ok((Vec::new(), Vec::new()));
            }
            let sql = format!(
                "SELECT {COLUMNS} FROM memories
                 WHERE tenant_id = ?1 AND namespace = ?2 AND subject = ?3 AND attribute = ?4
                   AND (expires_at IS NULL OR expires_at > ?5)
                 ORDER BY seq"
            );
            let key = values![&scope.tenant, namespace.as_str(), &subject, &attribute, now];
            let items = read.query(&sql, &key, rows::item)?;
            let sql = format!(
                "SELECT {STUB} FROM memory_cold
                 WHERE tenant_id = ?1 AND namespace = ?2 AND subject = ?3 AND attribute = ?4
                   AND (expires_at IS NULL OR expires_at > ?5)"
            );
            let stubs = read.query(&sql, &key, |row| shelf::read_stub(row, &scope.tenant))?;
            Ok::<_, MemoryError>((items, stubs))
        };
        let (mut items, stubs) = self.shared.store.read(history).await?;
        for stub in stubs {
            // What was forgotten or came back since is not asked for again.
            items.extend(self.cold_whole(&stub).await?.map(|(item, _)| item));
        }
        items.sort_by(|a, b| a.created_at.cmp(&b.created_at).then_with(|| a.id.cmp(&b.id)));
        let now = self.shared.store.ambient().clock.now();
        Ok(items.into_iter().map(|item| past(item, now)).collect())
    }
}

fn past(item: Item, now: TimeMs) -> PastFact {
    let (from, to) = item.fact.as_ref().map_or((None, None), |fact| (fact.valid_from, fact.valid_to));
    // Closed, but not at its very beginning: true in its time.
    let has_time = !to.is_some_and(|to| to == TimeMs(i64::MIN) || from.is_some_and(|from| from >= to));
    let is_valid = from.is_none_or(|from| from <= now) && to.is_none_or(|to| now < to);
    let holds_now = item.superseded_at.is_none() && is_valid;
    PastFact { is_believed: has_time, holds_now, item }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at: i64) -> Option<TimeMs> {
        Some(TimeMs(at))
    }

    fn check(old: (Option<TimeMs>, Option<TimeMs>), new: (Option<TimeMs>, Option<TimeMs>), expected: &Outcome) {
        let id = MemoryId::from_body("0123456789abcdef0123456789");
        let old = Believed { id, from: old.0, to: old.1 };
        assert_eq!(decide(&old, new.0, new.1), *expected, "{old:?} and {new:?}");
    }

    #[test]
    fn the_later_beginning_holds_from_its_beginning_on() {
        check((at(10), None), (at(20), None), &Outcome::Ends { at: TimeMs(20) });
        check((None, None), (at(20), None), &Outcome::Ends { at: TimeMs(20) });
        // Learned later, but about an earlier time.
        check((at(20), None), (at(10), None), &Outcome::EndsNew { at: TimeMs(20) });
        check((at(20), None), (None, None), &Outcome::EndsNew { at: TimeMs(20) });
    }

    #[test]
    fn the_same_beginning_is_a_correction() {
        check((at(10), None), (at(10), None), &Outcome::Withdrawn);
        check((at(10), at(15)), (at(10), None), &Outcome::Withdrawn);
        check((None, None), (None, None), &Outcome::Withdrawn);
    }

    #[test]
    fn times_that_do_not_meet_do_not_contradict() {
        check((at(10), at(20)), (at(20), None), &Outcome::Untouched);
        check((at(20), None), (at(10), at(20)), &Outcome::Untouched);
        check((None, at(5)), (at(5), at(9)), &Outcome::Untouched);
    }
}

//! What the server has been given, per partition: the watermarks in `memory_remote`.
//!
//! It owns that table. Three watermarks follow each other: applied (acknowledged by the server), waiting and settled
//! (acknowledged so long ago that a search need not wait for them). Invariant: a watermark is only moved after the server
//! has acknowledged everything below it, and in a transaction of its own.

use longhaul_core::TimeMs;
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};

use super::{Mark, Space};
use crate::namespace::PartitionId;

/// The table of this part.
pub(crate) const STEP_6: &str = "
CREATE TABLE memory_remote (
    tenant_id          TEXT    NOT NULL,
    namespace          TEXT    NOT NULL,
    embedder           TEXT    NOT NULL,
    place              TEXT    NOT NULL,
    partition_key      TEXT    NOT NULL,
    incarnation        TEXT    NOT NULL,
    seq_max            INTEGER NOT NULL,
    vector_seq         INTEGER NOT NULL,
    change_seq         INTEGER NOT NULL,
    mark               INTEGER NOT NULL,
    applied_at         INTEGER NOT NULL,
    waiting_vector_seq INTEGER NOT NULL,
    waiting_change_seq INTEGER NOT NULL,
    waiting_mark       INTEGER NOT NULL,
    waiting_at         INTEGER NOT NULL,
    settled_vector_seq INTEGER NOT NULL,
    settled_change_seq INTEGER NOT NULL,
    settled_mark       INTEGER NOT NULL,
    holder             TEXT,
    held_until         INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, namespace, embedder, place)
) STRICT;
";

/// How long after the server's acknowledgement a row is still compared here as well. A server that is asked for writes
/// this old has them and need not be waited for; that it has them is what the mark makes sure of.
const GRACE_MS: i64 = 2_000;
/// How long a process may be busy with one batch before another takes the work over, as after a kill.
const HOLD_MS: i64 = 45_000;

/// Everything up to these numbers, and the server's moment at which it has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Watermark {
    pub(crate) vector_seq: i64,
    pub(crate) change_seq: i64,
    pub(crate) mark: Mark,
}

/// One row of `memory_remote`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// What the server knows the partition by.
    pub(crate) partition_key: String,
    /// The incarnation of the server's collection that was filled; empty when none was.
    pub(crate) incarnation: String,
    /// Highest number of a memory that was ever sent.
    pub(crate) seq_max: i64,
    pub(crate) applied: Watermark,
    applied_at: TimeMs,
    waiting: Watermark,
    waiting_at: TimeMs,
    settled: Watermark,
}

impl State {
    /// What a search may leave to the server.
    pub(crate) fn settled(&self, now: TimeMs) -> Watermark {
        let old = |at: TimeMs| now.0.saturating_sub(at.0) >= GRACE_MS;
        if old(self.applied_at) {
            self.applied
        } else if old(self.waiting_at) {
            self.waiting
        } else {
            self.settled
        }
    }

    /// Notes that the server has acknowledged everything up to here.
    pub(crate) fn advance(&mut self, applied: Watermark, now: TimeMs) {
        if now.0.saturating_sub(self.waiting_at.0) >= GRACE_MS {
            self.settled = self.waiting;
            self.waiting = applied;
            self.waiting_at = now;
        }
        self.applied = applied;
        self.applied_at = now;
    }

    /// Begins anew with an empty partition of this incarnation. Rows are sent as they are now, so older changes need not
    /// be.
    pub(crate) fn reset(&mut self, incarnation: &str, last_change: i64) {
        let start = Watermark { change_seq: last_change, ..Watermark::default() };
        self.incarnation = incarnation.to_owned();
        (self.applied, self.waiting, self.settled) = (start, start, start);
        (self.applied_at, self.waiting_at, self.seq_max) = (TimeMs(0), TimeMs(0), 0);
    }
}

const COLUMNS: &str =
    "partition_key, incarnation, seq_max, vector_seq, change_seq, mark, applied_at, waiting_vector_seq,
    waiting_change_seq, waiting_mark, waiting_at, settled_vector_seq, settled_change_seq, settled_mark";
const KEY: &str = "tenant_id = ?1 AND namespace = ?2 AND embedder = ?3 AND place = ?4";

fn state(row: &Row<'_>) -> Result<State, StoreError> {
    let watermark = |at: usize| -> Result<Watermark, StoreError> {
        Ok(Watermark { vector_seq: row.get(at)?, change_seq: row.get(at + 1)?, mark: Mark(row.get(at + 2)?) })
    };
    Ok(State {
        partition_key: row.get(0)?,
        incarnation: row.get(1)?,
        seq_max: row.get(2)?,
        applied: watermark(3)?,
        applied_at: row.get(6)?,
        waiting: watermark(7)?,
        waiting_at: row.get(10)?,
        settled: watermark(11)?,
    })
}

/// A row of `memory_remote` by its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) id: PartitionId,
    pub(crate) space: Space,
    pub(crate) place: String,
}

impl Key {
    fn values(&self) -> Vec<longhaul_store::Value> {
        values![&self.id.tenant, self.id.namespace.as_str(), &self.space.embedder, &self.place].into()
    }

    /// What the server has been given of this partition; `None` when nothing.
    pub(crate) fn find(&self, read: &ReadTx<'_>) -> Result<Option<State>, StoreError> {
        read.query_optional(&format!("SELECT {COLUMNS} FROM memory_remote WHERE {KEY}"), &self.values(), state)
    }

    /// Takes the work on this partition for a while. `None` when another process has it.
    pub(crate) fn claim(&self, tx: &mut Tx<'_>, holder: &str) -> Result<Option<State>, StoreError> {
        let key = format!("{}/{}/{}", tx.ambient().ids.body().to_lowercase(), self.id.tenant, self.id.namespace);
        let mut params = self.values();
        params.push(key.into());
        tx.execute(
            "INSERT INTO memory_remote (tenant_id, namespace, embedder, place, partition_key, incarnation, seq_max,
                 vector_seq, change_seq, mark, applied_at, waiting_vector_seq, waiting_change_seq, waiting_mark, waiting_at,
                 settled_vector_seq, settled_change_seq, settled_mark, holder, held_until)
             VALUES (?1, ?2, ?3, ?4, ?5, '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0)
             ON CONFLICT (tenant_id, namespace, embedder, place) DO NOTHING",
            &params,
        )?;
        let mut params = self.values();
        let now = tx.now();
        params.extend([holder.into(), now.into(), TimeMs(now.0 + HOLD_MS).into()]);
        let taken = tx.execute(
            &format!(
                "UPDATE memory_remote SET holder = ?5, held_until = ?7
                 WHERE {KEY} AND (holder IS NULL OR holder = ?5 OR held_until <= ?6)"
            ),
            &params,
        )?;
        if taken == 0 { Ok(None) } else { self.find(tx) }
    }

    /// Writes what was reached, if the work is still ours. Tells whether it is; then it is ours for another while.
    pub(crate) fn keep(&self, tx: &mut Tx<'_>, holder: &str, state: &State) -> Result<bool, StoreError> {
        let mut params = self.values();
        let State { incarnation, seq_max, applied, applied_at, waiting, waiting_at, settled, .. } = state;
        params.extend([holder.into(), TimeMs(tx.now().0 + HOLD_MS).into(), incarnation.as_str().into()]);
        params.extend([(*seq_max).into(), applied.vector_seq.into(), applied.change_seq.into(), applied.mark.0.into()]);
        params.extend([(*applied_at).into(), waiting.vector_seq.into(), waiting.change_seq.into()]);
        params.extend([waiting.mark.0.into(), (*waiting_at).into()]);
        params.extend([settled.vector_seq.into(), settled.change_seq.into(), settled.mark.0.into()]);
        let kept = tx.execute(
            &format!(
                "UPDATE memory_remote SET held_until = ?6, incarnation = ?7, seq_max = ?8, vector_seq = ?9,
                     change_seq = ?10, mark = ?11, applied_at = ?12, waiting_vector_seq = ?13, waiting_change_seq = ?14,
                     waiting_mark = ?15, waiting_at = ?16, settled_vector_seq = ?17, settled_change_seq = ?18,
                     settled_mark = ?19
                 WHERE {KEY} AND holder = ?5"
            ),
            &params,
        )?;
        Ok(kept == 1)
    }

    /// Gives the work back.
    pub(crate) fn release(&self, tx: &mut Tx<'_>, holder: &str) -> Result<(), StoreError> {
        let mut params = self.values();
        params.push(holder.into());
        tx.execute(
            &format!("UPDATE memory_remote SET holder = NULL, held_until = 0 WHERE {KEY} AND holder = ?5"),
            &params,
        )?;
        Ok(())
    }

    /// Forgets that the server ever had anything of this partition.
    pub(crate) fn remove(&self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        tx.execute(&format!("DELETE FROM memory_remote WHERE {KEY}"), &self.values())?;
        Ok(())
    }
}

/// The partitions of which the server lacks something, or may lack it, in all tenants: for work in the background.
pub(crate) fn behind(read: &ReadTx<'_>, space: &Space, place: &str) -> Result<Vec<PartitionId>, StoreError> {
    read.query(
        "SELECT p.tenant_id, p.namespace FROM memory_partitions p LEFT JOIN memory_remote r
             ON r.tenant_id = p.tenant_id AND r.namespace = p.namespace AND r.embedder = ?1 AND r.place = ?2
         WHERE r.vector_seq IS NULL OR r.incarnation = '' OR r.vector_seq < p.last_vector_seq
             OR r.change_seq < p.last_change
         ORDER BY p.tenant_id, p.namespace",
        &values![&space.embedder, place],
        |row| {
            let name = row.text(1)?;
            let wrong =
                |_| StoreError::Column { column: 1, expected: "a namespace", found: name.chars().take(80).collect() };
            Ok(PartitionId { tenant: row.get(0)?, namespace: name.parse().map_err(wrong)? })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: i64) -> Watermark {
        Watermark { vector_seq: number, change_seq: number, mark: Mark(number) }
    }

    #[test]
    fn what_was_acknowledged_settles_after_the_grace() {
        let mut state = State {
            partition_key: String::new(),
            incarnation: String::new(),
            seq_max: 0,
            applied: at(0),
            applied_at: TimeMs(0),
            waiting: at(0),
            waiting_at: TimeMs(0),
            settled: at(0),
        };
        // One number every 100 ms: what is settled is never younger than the grace and never older than twice that.
        for number in 1..200 {
            let now = TimeMs(1_000_000 + 100 * number);
            state.advance(at(number), now);
            let settled = state.settled(now).vector_seq;
            assert!(settled <= number - GRACE_MS / 100 || settled == 0, "{settled} at {number}");
            assert!(settled >= number - 2 * GRACE_MS / 100 - 1, "{settled} at {number}");
        }
        assert_eq!(state.settled(TimeMs(1_000_000 + 100 * 199 + GRACE_MS)), at(199));
        state.reset("new", 7);
        assert_eq!(state.settled(TimeMs(i64::MAX)), Watermark { change_seq: 7, ..Watermark::default() });
    }
}

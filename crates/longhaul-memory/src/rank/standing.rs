//! What ranking reads from a partition's columns: threads and days, and where each memory stands.

use longhaul_core::TimeMs;

use crate::{columns::Columns, words::Threads};

use super::{Standing, TAG_ACTION, TAG_CACHE, TAG_TEMPORARY};

const MS_A_DAY: i64 = 86_400_000;

impl Threads for Columns {
    fn thread(&self, seq: i64) -> u32 {
        self.thread_number(seq)
    }

    fn members(&self, thread: u32) -> &[u32] {
        self.of_thread(thread)
    }

    fn day(&self, seq: i64) -> i64 {
        self.happened_at(seq).0.div_euclid(MS_A_DAY)
    }
}

/// Looks up where memories stand at one moment.
#[derive(Debug)]
pub(crate) struct Stand<'a> {
    columns: &'a Columns,
    now: TimeMs,
    temporary: [&'a [u32]; 2],
    actions: &'a [u32],
}

impl<'a> Stand<'a> {
    pub(crate) fn new(columns: &'a Columns, now: TimeMs) -> Self {
        let temporary = [columns.tagged(TAG_TEMPORARY), columns.tagged(TAG_CACHE)];
        Self { columns, now, temporary, actions: columns.tagged(TAG_ACTION) }
    }

    /// As far as the columns tell: how often it was used is not among them.
    pub(crate) fn of(&self, seq: u32) -> Standing {
        let number = i64::from(seq);
        let is_in = |list: &[u32]| list.binary_search(&seq).is_ok();
        Standing {
            kind: self.columns.kind(number),
            source: self.columns.source(number),
            is_action: is_in(self.actions),
            is_temporary: self.temporary.into_iter().any(is_in),
            pinned: self.columns.is_pinned(number),
            stated: self.columns.importance(number),
            age_ms: self.now.0.saturating_sub(self.columns.happened_at(number).0),
            unused_ms: None,
            uses: 0.0,
        }
    }
}

//! How many messages a channel has, without walking through all of them and without a row for each post.
//!
//! Now and then a post writes how many there are up to here. A count is then the difference of two such marks and what
//! lies before the first and behind the last of them, a few hundred rows at most. What retention has removed at the
//! beginning is not counted, as the first mark behind it still stands.

use std::sync::PoisonError;

use longhaul_network::{Address, Refusal, Stage};
use longhaul_store::values;

use super::{Messaging, POSTED, REPLIED};
use crate::place::Place;

/// Posts in a channel between two marks.
const INTERVAL: u32 = 256;
/// What counts as a message.
pub(super) const MESSAGES: [&str; 2] = [POSTED, REPLIED];

impl Messaging {
    /// To be called for each post, after it was written.
    pub(super) fn count_now_and_then(&self, stage: &mut Stage<'_, '_>, channel: &str) -> Result<(), Refusal> {
        let is_due = {
            let mut uncounted = self.uncounted.lock().unwrap_or_else(PoisonError::into_inner);
            match uncounted.get_mut(channel) {
                Some(posts) => {
                    *posts = (*posts + 1) % INTERVAL;
                    *posts == 0
                }
                // The first post since this process began: how long ago the last mark is, nobody knows.
                None => uncounted.insert(channel.to_owned(), 0).is_none(),
            }
        };
        if is_due { mark(stage, channel) } else { Ok(()) }
    }
}

/// Writes how many messages there are up to here.
fn mark(stage: &mut Stage<'_, '_>, channel: &str) -> Result<(), Refusal> {
    let (place, to) = (Place::of(stage), Address::Channel(channel.to_owned()));
    let head = stage.history().head()?;
    let (seq, count) = last_mark(stage, &place, channel)?.unwrap_or_default();
    let since = stage.history().count(&to, &MESSAGES, seq, head)?;
    if since < i64::from(INTERVAL) / 2 {
        return Ok(());
    }
    stage.tx().execute(
        "INSERT INTO messaging_counts (tenant_id, network_id, channel, seq, count) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO NOTHING",
        &values![&place.tenant, &place.network, channel, head, count + since],
    )?;
    Ok(())
}

fn last_mark(stage: &Stage<'_, '_>, place: &Place, channel: &str) -> Result<Option<(i64, i64)>, Refusal> {
    Ok(stage.rows().query_optional(
        "SELECT seq, count FROM messaging_counts WHERE tenant_id = ?1 AND network_id = ?2 AND channel = ?3
         ORDER BY seq DESC LIMIT 1",
        &values![&place.tenant, &place.network, channel],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?)
}

/// How many messages the channel has.
pub(super) fn count(stage: &Stage<'_, '_>, channel: &str) -> Result<i64, Refusal> {
    let (place, to) = (Place::of(stage), Address::Channel(channel.to_owned()));
    let history = stage.history();
    let Some((first, last)) = history.span(&to)? else { return Ok(0) };
    let first_mark: Option<(i64, i64)> = stage.rows().query_optional(
        "SELECT seq, count FROM messaging_counts WHERE tenant_id = ?1 AND network_id = ?2 AND channel = ?3
         AND seq >= ?4 ORDER BY seq LIMIT 1",
        &values![&place.tenant, &place.network, channel, first],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let (Some(begin), Some(end)) = (first_mark, last_mark(stage, &place, channel)?) else {
        return history.count(&to, &MESSAGES, first - 1, last);
    };
    let (before, behind) =
        (history.count(&to, &MESSAGES, first - 1, begin.0)?, history.count(&to, &MESSAGES, end.0, last)?);
    Ok(before + (end.1 - begin.1) + behind)
}

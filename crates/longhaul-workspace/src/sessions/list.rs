//! Which conversations there are.

use longhaul_core::{Scope, SessionId, TaskId, TimeMs};
use longhaul_store::{ReadTx, StoreError, values};
use serde::{Deserialize, Serialize};

use super::{
    SessionError, Sessions,
    rows::{self, STATE, State},
};

/// Most conversations of one page.
pub const SESSIONS_PAGE_MAX: usize = 200;

/// One conversation, without what was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The conversation.
    pub session: SessionId,
    /// The task in which it began.
    pub task: TaskId,
    /// The beginning of what its user said first; empty when they have said nothing.
    pub title: String,
    /// How many messages it has.
    pub messages: u64,
    /// How many bytes these are.
    pub bytes: u64,
    /// Its memo; empty for none.
    pub memo: String,
    /// The memo's version.
    pub memo_version: u64,
    /// A summary of its beginning, where a window had one made.
    pub summary: Option<String>,
    /// The first message that the summary does not cover.
    pub window_from: i64,
    /// When it began.
    pub created_at: TimeMs,
    /// When it was last spoken in.
    pub updated_at: TimeMs,
}

/// A page of conversations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPage {
    /// The newest first.
    pub sessions: Vec<SessionInfo>,
    /// What to ask the next page with; `None` at the end.
    pub next: Option<String>,
}

fn info(state: State) -> SessionInfo {
    SessionInfo {
        session: state.session,
        task: state.task,
        title: state.title,
        messages: u64::try_from(state.last_seq).unwrap_or(0),
        bytes: state.bytes,
        memo: state.memo,
        memo_version: state.version,
        summary: state.summary,
        window_from: state.window_from,
        created_at: state.created_at,
        updated_at: state.updated_at,
    }
}

impl Sessions {
    /// The user's conversations, the newest first, at most `limit` and [`SESSIONS_PAGE_MAX`]. `after` is the page before's
    /// [`SessionPage::next`].
    ///
    /// # Errors
    /// [`SessionError::Field`] for an `after` that is none; those of the store.
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<SessionPage, SessionError> {
        let after = after.map(parsed).transpose()?;
        let (scope, limit) = (self.scope().clone(), limit.clamp(1, SESSIONS_PAGE_MAX));
        let states = self.store().read(move |read| page(read, &scope, after, limit + 1)).await?;
        let more = states.len() > limit;
        let sessions: Vec<SessionInfo> = states.into_iter().take(limit).map(info).collect();
        let next = sessions.last().filter(|_| more).map(|last| format!("{}/{}", last.updated_at.0, last.session));
        Ok(SessionPage { sessions, next })
    }

    /// One conversation of the user.
    ///
    /// # Errors
    /// [`SessionError::NoSession`]; those of the store.
    pub async fn get(&self, session: &SessionId) -> Result<SessionInfo, SessionError> {
        let (scope, wanted) = (self.scope().clone(), session.clone());
        let sql = format!(
            "SELECT {STATE} FROM session_states
             WHERE tenant_id = ?1 AND session_id = ?2 AND user_id = ?3 AND deleting = 0"
        );
        let one = move |read: &ReadTx<'_>| {
            read.query_optional(&sql, &values![&scope.tenant, &wanted, &scope.user], rows::state_row)
        };
        let found = self.store().read(one).await?;
        found.map(info).ok_or_else(|| SessionError::NoSession { session: session.clone() })
    }
}

fn page(
    read: &ReadTx<'_>,
    scope: &Scope,
    after: Option<(i64, SessionId)>,
    limit: usize,
) -> Result<Vec<State>, StoreError> {
    let (at, session) = after.map_or((i64::MAX, String::new()), |(at, session)| (at, session.to_string()));
    let sql = format!(
        "SELECT {STATE} FROM session_states WHERE tenant_id = ?1 AND user_id = ?2 AND deleting = 0
             AND (updated_at < ?3 OR (updated_at = ?3 AND session_id > ?4))
         ORDER BY updated_at DESC, session_id LIMIT ?5"
    );
    read.query(&sql, &values![&scope.tenant, &scope.user, at, session, limit], rows::state_row)
}

fn parsed(after: &str) -> Result<(i64, SessionId), SessionError> {
    let read = after.split_once('/').and_then(|(at, session)| Some((at.parse().ok()?, session.parse().ok()?)));
    read.ok_or_else(|| SessionError::Field {
        field: "after",
        value: after.chars().take(80).collect(),
        expected: "the `next` of a page",
    })
}

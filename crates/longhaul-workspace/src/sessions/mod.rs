//! Conversations: a durable history with roles, tool calls and attachments by ref; windows over it, a memo, and search.
//!
//! It owns `messages` and `session_states`, and the words of users and models in the partition `talk:…` of memory, which
//! are derived from them. It holds no artifact, log or checkpoint: what is large is ingested as a record and attached by
//! its ref. Invariant: what has been said is never cut or changed; only the window over it moves, and a conversation goes
//! as a whole, with everything that was known from it alone.

mod deleting;
mod digest;
mod error;
mod excerpt;
mod found;
mod indexing;
mod learning;
mod list;
mod message;
mod rows;
pub(crate) mod schema;
mod search;
mod session;
mod summarise;
pub mod tool;
mod view;
mod window;

use std::sync::Arc;

use longhaul_core::{Scope, TaskScope, TraceId};
use longhaul_memory::{Memory, user::UserMemory};
use longhaul_store::{ReadTx, Store, StoreError};

use crate::{RecordRef, TaskWorkspace, UserWorkspace, access, record};

pub use deleting::DeletedSession;
pub use digest::{DIGEST_ITEMS, DIGEST_ITEMS_MAX, DigestItem};
pub use error::SessionError;
pub use found::{ConversationHit, Conversations};
pub use learning::Learning;
pub use list::{SESSIONS_PAGE_MAX, SessionInfo, SessionPage};
pub use message::{NewMessage, Role, StoredMessage};
pub use search::{ConversationQuery, HITS_MAX as CONVERSATION_HITS_MAX, TOKENS_MAX as CONVERSATION_TOKENS_MAX};
pub use session::{MESSAGES_PAGE_MAX, Memo, Session};
pub use summarise::{Summarise, SummariseError};
pub use view::WindowView;
pub use window::{Window, unanswered, units};

use learning::Readers;

/// The conversations of one user. Cheap to clone; clones of one handle share its background passes.
#[derive(Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    user: UserMemory,
    scope: Scope,
    readers: Readers,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("scope", &self.shared.scope).finish_non_exhaustive()
    }
}

impl Sessions {
    /// The conversations of this user, over a store that was opened with [`crate::MIGRATIONS`] and those of memory. What
    /// the user says of themselves is reviewed as `user` says.
    #[must_use]
    pub fn new(store: Store, user: UserMemory, scope: &Scope) -> Self {
        let shared = Shared { store, user, scope: scope.clone(), readers: Readers::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Whose they are.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.shared.scope
    }

    /// The conversation of this task's scope. Nothing is read or written: a conversation begins with its first message.
    ///
    /// # Errors
    /// [`SessionError::NotYours`] for the scope of another user or tenant.
    pub fn session(&self, owner: &TaskScope) -> Result<Session, SessionError> {
        if owner.scope != self.shared.scope {
            return Err(SessionError::NotYours { session: owner.session.clone() });
        }
        Ok(Session { sessions: self.clone(), owner: owner.clone() })
    }

    /// A conversation that was listed, in the task in which it began.
    #[must_use]
    pub fn reopen(&self, info: &SessionInfo) -> Session {
        let (session, task) = (info.session.clone(), info.task.clone());
        let trace = TraceId::from_body(&self.store().ambient().ids.body());
        let owner = TaskScope { scope: self.scope().clone(), session, task, trace };
        Session { sessions: self.clone(), owner }
    }

    /// What is known of the user.
    #[must_use]
    pub fn user_memory(&self) -> &UserMemory {
        &self.shared.user
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    pub(crate) fn memory(&self) -> &Memory {
        self.shared.user.memory()
    }

    /// Whether a ref is that of a record which the user may see.
    fn sees(&self, read: &ReadTx<'_>, wanted: &RecordRef) -> Result<bool, StoreError> {
        let scope = self.scope();
        let found = record::find(read, scope, &wanted.id)?.filter(|found| found.reference.digest == wanted.digest);
        found.map_or(Ok(false), |found| access::may_see(read, self.memory(), scope, &found))
    }

    fn readers(&self) -> &Readers {
        &self.shared.readers
    }
}

impl UserWorkspace {
    /// The user's conversations. What the user says of themselves is reviewed by the default policy; for another one use
    /// [`Sessions::new`].
    #[must_use]
    pub fn sessions(&self) -> Sessions {
        let workspace = self.workspace();
        Sessions::new(workspace.store().clone(), UserMemory::new(workspace.memory().clone()), self.scope())
    }
}

impl TaskWorkspace {
    /// The conversation in which the task was asked for.
    #[must_use]
    pub fn session(&self) -> Session {
        Session { sessions: self.user().sessions(), owner: self.owner().clone() }
    }
}

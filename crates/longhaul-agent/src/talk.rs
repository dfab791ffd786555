//! A conversation of a user with a model in one of two styles of memory: what each request holds.
//!
//! It reads the conversation, user memory and the digest, and lays them out; asking the model is the caller's, or
//! [`Talk::turn`]'s. Invariants: user memory stands in every request of both styles; trimming the window touches neither
//! memory nor digest; what is known of the sitting is held here and nowhere else.

use std::sync::Arc;

use longhaul_memory::{
    MemoryError, tools,
    user::{RenderLimits, UserMemory},
    when::Zone,
};
use longhaul_workspace::{
    sessions::{self, DIGEST_ITEMS, Session, SessionError, Summarise, Window},
    tokens::{Estimator, TokenCounter},
};

use crate::{Layout, SessionMetadata};

/// How a model gets at what was known and said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryStyle {
    /// User memory is always there; beyond it the model searches past conversations with a tool when it finds that it
    /// must. Nothing of other conversations is injected.
    OnDemand,
    /// User memory and a digest of other conversations are always there, and nothing is searched: the same work and the
    /// same latency for every request.
    Always,
}

/// A conversation as a model is shown it. Cheap to clone.
#[derive(Clone)]
pub struct Talk {
    pub(crate) session: Session,
    instructions: Arc<str>,
    style: MemoryStyle,
    window: Window,
    limits: RenderLimits,
    metadata: Option<SessionMetadata>,
    counter: Arc<dyn TokenCounter>,
    summariser: Option<Arc<dyn Summarise>>,
    pub(crate) zone: Zone,
}

impl Talk {
    /// A conversation with these static instructions: the newest 8,000 tokens of it are shown.
    #[must_use]
    pub fn new(session: Session, instructions: &str, style: MemoryStyle) -> Self {
        Self {
            session,
            instructions: instructions.into(),
            style,
            window: Window::Tokens(8_000),
            limits: RenderLimits::default(),
            metadata: None,
            counter: Arc::new(Estimator),
            summariser: None,
            zone: Zone::local(),
        }
    }

    /// With another window.
    #[must_use]
    pub fn showing(self, window: Window) -> Self {
        Self { window, ..self }
    }

    /// With a summariser for [`Window::Summarised`].
    #[must_use]
    pub fn summarised_by(self, summariser: Arc<dyn Summarise>) -> Self {
        Self { summariser: Some(summariser), ..self }
    }

    /// With another way to count tokens.
    #[must_use]
    pub fn counted_by(self, counter: Arc<dyn TokenCounter>) -> Self {
        Self { counter, ..self }
    }

    /// With what is known of this sitting. It is given once, shapes every answer until this handle is dropped, and is
    /// stored nowhere.
    #[must_use]
    pub fn sitting(self, metadata: SessionMetadata) -> Self {
        Self { metadata: Some(metadata), ..self }
    }

    /// The conversation.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// What a request with this message holds. Nothing is written, but for a summary that [`Window::Summarised`] has
    /// made. The message itself is not appended by it.
    ///
    /// # Errors
    /// [`SessionError::WindowTooSmall`]; those of the store.
    pub async fn layout(&self, message: &str) -> Result<Layout, SessionError> {
        let (all, summariser) = (self.session.all(), self.summariser.as_deref());
        let scope = all.scope();
        let user_memory = all.user_memory().render(scope, self.limits).await.map_err(session_error)?.text;
        let digest = match self.style {
            MemoryStyle::OnDemand => Vec::new(),
            MemoryStyle::Always => all.digest(Some(&self.session.owner().session), DIGEST_ITEMS).await?,
        };
        Ok(Layout {
            instructions: self.instructions.to_string(),
            user_memory,
            metadata: self.metadata.clone(),
            digest,
            history: self.session.window(self.window, self.counter.as_ref(), summariser).await?,
            message: message.to_owned(),
            tools: self.tools(),
        })
    }

    /// The tools of memory that this style offers.
    #[must_use]
    pub fn tools(&self) -> Vec<longhaul_core::ToolSpec> {
        let edits = tools::specs().into_iter().filter(|tool| tool.name == tools::MEMORY_USER_EDITS);
        match self.style {
            MemoryStyle::OnDemand => std::iter::once(sessions::tool::spec()).chain(edits).collect(),
            MemoryStyle::Always => edits.collect(),
        }
    }

    pub(crate) fn user_memory(&self) -> &UserMemory {
        self.session.all().user_memory()
    }
}

pub(crate) fn session_error(error: MemoryError) -> SessionError {
    error.into()
}

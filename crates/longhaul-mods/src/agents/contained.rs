//! A model within an agent's limits: asked no longer than the agent's time for a message lasts, and what went wrong is
//! remembered, so that the agent can say it instead of failing without a word.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use longhaul_core::{Clock, TimeMs};
use longhaul_model::{ChatModel, ChatRequest, ChatResponse, ModelError, ModelInfo, OnDelta, Waiting};

/// Why the model did not answer, for the run of one message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    pub(crate) fn note(&self, why: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    pub(crate) fn why(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A model that is asked until a moment and no longer.
pub(crate) struct Contained<'a> {
    pub(crate) model: &'a dyn ChatModel,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) until: TimeMs,
    pub(crate) limit: Duration,
    pub(crate) trouble: Trouble,
}

#[async_trait]
impl ChatModel for Contained<'_> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn chat(&self, request: &ChatRequest, on_delta: OnDelta<'_>) -> Result<ChatResponse, ModelError> {
        let left = self.until.0.saturating_sub(self.clock.now().0);
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
        let asked = tokio::time::timeout(left, self.model.chat(request, on_delta)).await;
        let answered = asked.unwrap_or_else(|_| {
            Err(ModelError::Timeout {
                base_url: self.model.info().spec(),
                waiting: Waiting::WholeAnswer,
                limit_ms: u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX),
            })
        });
        if let Err(error) = &answered
            && !matches!(error, ModelError::TooLarge { .. })
        {
            self.trouble.note(error.to_string());
        }
        answered
    }
}

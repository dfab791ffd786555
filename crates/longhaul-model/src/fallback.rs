//! Several models as one: the first that answers. No protocol is known here.
//!
//! Invariant: a request that is itself at fault is not offered to the next model, and each answer says which model gave
//! it and which did not.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use longhaul_core::{Ambient, TimeMs};

use crate::{ChatModel, ChatRequest, ChatResponse, ErrorKind, ModelError, ModelInfo, OnDelta, PassedOver};

/// How long a model that did not answer is not asked again, if there is another one, milliseconds.
const REST_MS: i64 = 300_000;

/// Models in order of preference behind one port. Its facts are those of the first, with the smallest window of all, so
/// that a conversation fits whoever answers.
pub struct FallbackChat {
    info: ModelInfo,
    models: Vec<Arc<dyn ChatModel>>,
    ambient: Ambient,
    /// Until when a model is not asked, by its place in the list.
    resting: Mutex<HashMap<usize, TimeMs>>,
}

impl std::fmt::Debug for FallbackChat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let specs: Vec<String> = self.models.iter().map(|model| model.info().spec()).collect();
        f.debug_tuple("FallbackChat").field(&specs).finish()
    }
}

impl FallbackChat {
    /// The first model, and those that answer where it does not, in order.
    #[must_use]
    pub fn new(first: Arc<dyn ChatModel>, others: Vec<Arc<dyn ChatModel>>, ambient: &Ambient) -> Self {
        let mut info = first.info().clone();
        let windows = others.iter().map(|model| model.info().window_tokens);
        info.window_tokens = windows.fold(info.window_tokens, u64::min);
        let models = std::iter::once(first).chain(others).collect();
        Self { info, models, ambient: ambient.clone(), resting: Mutex::default() }
    }

    /// The models as they are written in settings, in order.
    pub fn specs(&self) -> impl Iterator<Item = String> {
        self.models.iter().map(|model| model.info().spec())
    }

    fn rests(&self, place: usize) -> bool {
        let resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        resting.get(&place).is_some_and(|until| self.ambient.clock.now() < *until)
    }

    fn rest(&self, place: usize) {
        let until = TimeMs(self.ambient.clock.now().0.saturating_add(REST_MS));
        self.resting.lock().unwrap_or_else(PoisonError::into_inner).insert(place, until);
    }
}

/// Whether another model may do better: nobody can do anything about the request, but about who is asked.
fn is_the_services(error: &ModelError) -> bool {
    match error.kind() {
        ErrorKind::Retry | ErrorKind::Operator => true,
        ErrorKind::FixInput => false,
    }
}

#[async_trait]
impl ChatModel for FallbackChat {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn chat(&self, request: &ChatRequest, on_delta: OnDelta<'_>) -> Result<ChatResponse, ModelError> {
        let mut passed_over = Vec::new();
        let mut last_error = None;
        // Those that rest are asked when nobody else is left.
        let (fresh, resting): (Vec<usize>, Vec<usize>) = (0..self.models.len()).partition(|place| !self.rests(*place));
        passed_over.extend(
            resting
                .iter()
                .filter(|_| !fresh.is_empty())
                .map(|place| PassedOver { spec: self.models[*place].info().spec(), code: "resting".to_owned() }),
        );
        for place in fresh.into_iter().chain(resting) {
            let model = &self.models[place];
            match model.chat(request, on_delta).await {
                Ok(response) => {
                    passed_over.retain(|passed: &PassedOver| passed.spec != response.answered_by);
                    return Ok(ChatResponse { passed_over, ..response });
                }
                Err(error) if is_the_services(&error) => {
                    let spec = model.info().spec();
                    tracing::warn!(model = spec, code = error.code(), "no answer, asking the next model");
                    passed_over.retain(|passed| passed.spec != spec);
                    passed_over.push(PassedOver { spec, code: error.code().to_owned() });
                    self.rest(place);
                    last_error = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        let nobody = || ModelError::Settings { field: "fallback", reason: "there is no model to ask".to_owned() };
        Err(last_error.unwrap_or_else(nobody))
    }
}

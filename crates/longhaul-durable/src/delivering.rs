//! Events from outside.
//!
//! It owns which waits an event answers. Invariant: an event answers what waits for it when it comes, once, however
//! often it is delivered; one for which nothing waits leaves no trace, so that it may be delivered again.

use longhaul_core::{Digest, Scope};
use serde_json::Value;

use crate::{
    AnswerSchemaError, DurableError, GivenAnswer, Runtime, WaitId, WaitInfo, answering,
    records::{
        deliveries::{self, Delivery},
        waits,
    },
};

/// What an event came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivered {
    /// The waits that it answered, when it was first delivered.
    pub answered: Vec<WaitInfo>,
    /// The waits that still wait because its payload does not fit what they ask for.
    pub refused: Vec<(WaitId, AnswerSchemaError)>,
    /// It had been delivered before; nothing was changed now.
    pub repeated: bool,
}

impl Runtime {
    /// Answers with `payload` every wait of kind event that has this name and correlation (empty where waits have none),
    /// once for each `event_id`. When nobody waits for it yet, nothing is answered, and it may be delivered again.
    ///
    /// # Errors
    /// [`DurableError::AnotherEvent`] when the id was used for something else, [`DurableError::Store`].
    pub async fn deliver(
        &self,
        scope: &Scope,
        name: &str,
        correlation: &str,
        payload: Value,
        event_id: &str,
    ) -> Result<Delivered, DurableError> {
        let scope = scope.clone();
        let (name, correlation, event_id) = (name.to_owned(), correlation.to_owned(), event_id.to_owned());
        let written = self.store()?.write(move |tx| {
            let digest = Digest::of(payload.to_string());
            let mut delivery = Delivery { name, correlation, payload: digest, waits: Vec::new() };
            if let Some(known) = deliveries::find(tx, &scope, &event_id)? {
                delivery.waits.clone_from(&known.waits);
                if delivery != known {
                    return Err(DurableError::AnotherEvent { event_id });
                }
                let mut answered = Vec::new();
                for id in &known.waits {
                    answered.extend(waits::by_id(tx, &scope.tenant, id)?);
                }
                return Ok(Delivered { answered, refused: Vec::new(), repeated: true });
            }
            let mut delivered = Delivered { answered: Vec::new(), refused: Vec::new(), repeated: false };
            for wait in deliveries::waiting(tx, &scope, &delivery.name, &delivery.correlation)? {
                let answer = GivenAnswer {
                    wait: wait.id,
                    value: payload.clone(),
                    request_id: format!("event:{event_id}"),
                    actor: format!("event:{}", delivery.name),
                };
                match answering::accept(tx, &scope, &answer)? {
                    Ok(continued) => delivered.answered.push(continued.wait().clone()),
                    Err(DurableError::AnswerRefused { wait, source }) => delivered.refused.push((wait, source)),
                    // Its deadline has just passed.
                    Err(DurableError::AlreadyAnswered { .. }) => {}
                    Err(other) => return Err(other),
                }
            }
            delivery.waits = delivered.answered.iter().map(|wait| wait.id.clone()).collect();
            if !delivery.waits.is_empty() {
                deliveries::insert(tx, &scope, &event_id, &delivery)?;
            }
            Ok(delivered)
        });
        written.await
    }
}

//! Who waits for the response of an external mod.
//!
//! Invariants: a response is the mod's own, whoever else names the event; it reaches whoever asked, whoever else has
//! used the same id; nothing stays behind of who has stopped waiting.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::{
    Address, AgentId, Event, Sender,
    locks::{self, Held, hold},
    registry::Registry,
};

/// Everybody who waits, by the id of the event that asks.
#[derive(Debug, Default)]
pub(crate) struct Responses(Mutex<HashMap<String, Vec<Waiting>>>);

#[derive(Debug)]
struct Waiting {
    asker: AgentId,
    /// The mod that was asked.
    asked: Arc<str>,
    tell: oneshot::Sender<Arc<Event>>,
}

/// A place among those who wait; given up when it is dropped.
pub(crate) struct Place<'a> {
    responses: &'a Responses,
    id: String,
    response: oneshot::Receiver<Arc<Event>>,
}

impl Responses {
    fn waiting(&self) -> Held<MutexGuard<'_, HashMap<String, Vec<Waiting>>>> {
        hold(locks::Place::Responses, || self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins to wait for what the mod `asked` says to the event `id` of `asker`.
    pub(crate) fn wait(&self, id: &str, asker: &AgentId, asked: &str) -> Place<'_> {
        let (tell, response) = oneshot::channel();
        let waiting = Waiting { asker: asker.clone(), asked: asked.into(), tell };
        self.waiting().entry(id.to_owned()).or_default().push(waiting);
        Place { responses: self, id: id.to_owned(), response }
    }

    /// An event was committed: whoever waits for it has it.
    pub(crate) fn tell(&self, event: &Arc<Event>, registry: &Registry) {
        let (Some(id), Sender::Agent(from)) = (&event.response_to, &event.from) else { return };
        let mut all = self.waiting();
        let Some(waiting) = all.get_mut(id) else { return };
        let Some(serves) = registry.agent(from).and_then(|agent| agent.profile().serves.clone()) else { return };
        let of_one = waiting.iter().all(|one| one.asker == waiting[0].asker);
        let is_meant = |one: &mut Waiting| {
            *one.asked == *serves && (of_one || matches!(&event.to, Address::Agent(to) if *to == one.asker))
        };
        for one in waiting.extract_if(.., is_meant) {
            // Whoever waited may have gone.
            let _ = one.tell.send(event.clone());
        }
        if waiting.is_empty() {
            all.remove(id);
        }
    }
}

impl Place<'_> {
    /// The response, as soon as it is there.
    pub(crate) async fn come(&mut self) -> Option<Arc<Event>> {
        (&mut self.response).await.ok()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.response.close();
        let mut all = self.responses.waiting();
        let Some(waiting) = all.get_mut(&self.id) else { return };
        waiting.retain(|one| !one.tell.is_closed());
        if waiting.is_empty() {
            all.remove(&self.id);
        }
    }
}

//! The browser's own events: which profile a new tab belongs to. Invariant: a tab of nobody's is let run and let go, so
//! that nothing in the browser waits for us.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use serde_json::{Value, json};

use super::{
    observe::Observer,
    wire::{EventSink, Wire},
};

/// Knows the open profiles by their browser contexts.
pub(super) struct Router {
    wire: Wire,
    profiles: Mutex<HashMap<String, Weak<Observer>>>,
}

impl Router {
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire, profiles: Mutex::default() }
    }

    fn profiles(&self) -> MutexGuard<'_, HashMap<String, Weak<Observer>>> {
        self.profiles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, context: &str, observer: &Arc<Observer>) {
        self.profiles().insert(context.to_owned(), Arc::downgrade(observer));
    }

    pub(super) fn leave(&self, context: &str) {
        self.profiles().remove(context);
    }

    fn attached(&self, params: &Value) {
        let Some(session) = params["sessionId"].as_str() else { return };
        let info = &params["targetInfo"];
        let context = info["browserContextId"].as_str().unwrap_or_default();
        let owner = self.profiles().get(context).and_then(Weak::upgrade);
        match owner {
            Some(observer) => observer.adopt(session, info),
            None => {
                self.wire.post(Some(session), "Runtime.runIfWaitingForDebugger", json!({}));
                self.wire.post(None, "Target.detachFromTarget", json!({"sessionId": session}));
            }
        }
    }

    fn detached(&self, params: &Value) {
        let session = params["sessionId"].as_str().unwrap_or_default();
        let open: Vec<Arc<Observer>> = self.profiles().values().filter_map(Weak::upgrade).collect();
        if let Some(owner) = open.iter().find(|observer| observer.tabs().iter().any(|tab| tab.session == session)) {
            owner.release(session);
        }
    }
}

impl EventSink for Router {
    fn on_event(&self, method: &str, params: &Value) {
        match method {
            "Target.attachedToTarget" => self.attached(params),
            "Target.detachedFromTarget" => self.detached(params),
            // Told here too, as the tab that a download began in may be closed before the file is complete.
            "Browser.downloadProgress" => {
                let open: Vec<Arc<Observer>> = self.profiles().values().filter_map(Weak::upgrade).collect();
                for observer in open {
                    observer.download_goes_on(params);
                }
            }
            _ => {}
        }
    }
}

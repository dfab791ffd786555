//! Who makes a request. The only way to a scope: the key that was shown says whose it is, and nothing in a request can
//! say otherwise.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use longhaul_core::{Scope, TraceId};

use crate::{
    Problem,
    keys::{Key, KeyRing, Role},
};

/// An authenticated caller. Handlers get one as an argument; nothing else makes one.
#[derive(Debug, Clone)]
pub struct Caller {
    key: Arc<Key>,
    trace: TraceId,
}

impl Caller {
    pub(crate) fn new(key: Arc<Key>, trace: TraceId) -> Self {
        Self { key, trace }
    }

    /// On whose behalf.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.key.scope
    }

    /// What the key may do.
    #[must_use]
    pub fn role(&self) -> Role {
        self.key.role
    }

    /// Joins all that this request causes.
    #[must_use]
    pub fn trace(&self) -> &TraceId {
        &self.trace
    }

    /// The key that was shown.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// As whom answers and changes are recorded: the user and the prefix of the key.
    #[must_use]
    pub fn actor(&self) -> String {
        format!("{}/{}", self.key.scope.user, self.key.prefix)
    }

    /// Refuses whoever's key may do less.
    ///
    /// # Errors
    /// 403.
    pub fn needs(&self, role: Role) -> Result<(), Problem> {
        if self.role() >= role {
            return Ok(());
        }
        Err(forbidden(self.role(), role))
    }

    /// Whether the key still holds now: what stays open for long asks from time to time, and whenever
    /// [`KeyRing::changed`] says that keys have changed.
    pub async fn still_holds(&self, keys: &KeyRing) -> bool {
        keys.holds(&self.key).await
    }
}

pub(crate) fn forbidden(has: Role, needs: Role) -> Problem {
    let detail = format!(
        "this takes the role {needs}, and the key has the role {has}: ask an owner of the tenant for another key"
    );
    Problem::new(axum::http::StatusCode::FORBIDDEN, "forbidden", detail)
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        // Put there by `admission`, through which every route goes.
        parts.extensions.get::<Self>().cloned().ok_or_else(crate::admission::stranger)
    }
}

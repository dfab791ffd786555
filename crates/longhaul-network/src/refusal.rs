//! Why something was not done, in words for whoever asked and with a kind that each transport translates once.

use longhaul_store::StoreError;

/// What sort of no it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// The request makes no sense as it is: HTTP 400, gRPC `INVALID_ARGUMENT`.
    Invalid,
    /// No secret, or a wrong one: HTTP 401, gRPC `UNAUTHENTICATED`.
    Unauthenticated,
    /// Known, and not allowed: HTTP 403, gRPC `PERMISSION_DENIED`.
    Forbidden,
    /// There is no such thing, or none that the asker may know of: HTTP 404, gRPC `NOT_FOUND`.
    Missing,
    /// Somebody else was first; read again and decide: HTTP 409, gRPC `ABORTED`.
    Conflict,
    /// Larger than is taken: HTTP 413, gRPC `RESOURCE_EXHAUSTED`.
    TooLarge,
    /// More often than is taken, or a queue is full: HTTP 429, gRPC `RESOURCE_EXHAUSTED`.
    TooMany,
    /// It took longer than it may: HTTP 504, gRPC `DEADLINE_EXCEEDED`.
    TimedOut,
    /// This network cannot do it now: HTTP 503, gRPC `UNAVAILABLE`.
    Unavailable,
}

/// A no with its reason. The text says what to do next and never holds a secret.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What sort of no it is.
    pub kind: RefusalKind,
    /// Lower case, no full stop, with the way out.
    pub message: String,
    /// Milliseconds after which trying again makes sense, where that is known.
    pub retry_after_ms: Option<u64>,
}

impl Refusal {
    /// A refusal of this kind.
    #[must_use]
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after_ms: None }
    }

    /// The request makes no sense.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Invalid, message)
    }

    /// Known, and not allowed.
    #[must_use]
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Forbidden, message)
    }

    /// There is no such thing.
    #[must_use]
    pub fn missing(what: &str, id: &str) -> Self {
        Self::new(RefusalKind::Missing, format!("there is no {what} {id:?} here"))
    }

    /// Somebody else was first.
    #[must_use]
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Conflict, message)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        // What exactly failed is for the operator; whoever asked cannot do anything about it.
        tracing::error!(error = &error as &dyn std::error::Error, "the store failed");
        Self::new(RefusalKind::Unavailable, "the network's store failed, nothing was done: try again later")
    }
}

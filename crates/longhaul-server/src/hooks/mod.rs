//! Webhooks, in and out.
//!
//! It owns signatures, endpoints, subscriptions and deliveries; the routes are in `routes::hooks` and
//! `routes::webhooks`. Invariants: what comes in is believed when it is signed, and answers a wait once however often it
//! comes; what goes out is in the log, and is sent at least once under an id that never changes, to addresses that
//! anybody could reach or the operator has named.

mod courier;
pub(crate) mod endpoints;
pub(crate) mod outbox;
mod retry;
pub(crate) mod schema;
pub(crate) mod secrets;
mod sender;
mod settings;
mod signature;
pub(crate) mod subscriptions;
mod target;

pub(crate) use courier::Courier;
pub(crate) use endpoints::Action;
pub use retry::RetrySettings;
pub use settings::WebhookSettings;
pub use signature::{Claim, ID, SIGNATURE, Secret, SecretError, TIMESTAMP, Untrusted, WINDOW_MS, sign};
pub use target::{Network, NetworkError, TargetError, TargetRules, is_public};

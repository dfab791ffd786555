//! What an operator decides about webhooks that go out.

use std::time::Duration;

use super::{Network, RetrySettings};

/// How webhooks are sent. Start from [`WebhookSettings::default`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Networks that may be called although they are not public.
    pub allow: Vec<Network>,
    /// When a delivery is tried again.
    pub retry: RetrySettings,
    /// Longest time for one attempt.
    pub attempt_max: Duration,
    /// A subscription is switched off when so many of its deliveries in a row were given up.
    pub dead_in_a_row_max: u32,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        let (retry, attempt_max) = (RetrySettings::default(), Duration::from_secs(15));
        Self { allow: Vec::new(), retry, attempt_max, dead_in_a_row_max: 5 }
    }
}

//! How much the gateway takes, of whom and for how long: plain data, units last (invariant 14).

use std::time::Duration;

use crate::DoorSettings;

/// The bounds of a gateway. Start from [`Limits::default`].
#[derive(Debug, Clone)]
pub struct Limits {
    /// Largest body of a request that is read as a whole. Uploads of records are streamed and have their own bound.
    pub body_bytes_max: usize,
    /// Longest time for answering a request that is no stream, its body's arrival included.
    pub request_max: Duration,
    /// Longest time until a request's header has arrived, and for the handshake of TLS.
    pub header_max: Duration,
    /// Largest header of a request.
    pub header_bytes_max: usize,
    /// Most fields of a header.
    pub header_fields_max: usize,
    /// Connections at once; whoever comes later waits.
    pub connections_max: usize,
    /// How long a peer may take nothing of what it is sent.
    pub silent_max: Duration,
    /// Requests a second that one key may make for long.
    pub requests_per_second: u32,
    /// Requests that one key may make at once after a pause.
    pub requests_burst: u32,
    /// Wrong keys a second that may come from one address for long; a burst of ten times as many is let pass.
    pub strangers_per_second: u32,
    /// How long an answer is kept for a request that is repeated with its idempotency key.
    pub idempotency_max: Duration,
    /// How long open requests may go on after a shutdown was asked for.
    pub shutdown_max: Duration,
    /// Longest time for which what is known of a key may be believed without looking at its row again. A revocation is
    /// heard of sooner as a rule: at once in the same process and on PostgreSQL, within 100 ms through a SQLite file.
    pub key_trust_max: Duration,
    /// The bounds of streams and webhooks.
    pub doors: DoorSettings,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 1024 * 1024,
            request_max: Duration::from_secs(30),
            header_max: Duration::from_secs(10),
            header_bytes_max: 16 * 1024,
            header_fields_max: 64,
            connections_max: 1024,
            silent_max: Duration::from_secs(60),
            requests_per_second: 200,
            requests_burst: 400,
            strangers_per_second: 5,
            idempotency_max: Duration::from_secs(24 * 60 * 60),
            shutdown_max: Duration::from_secs(10),
            key_trust_max: Duration::from_secs(1),
            doors: DoorSettings::default(),
        }
    }
}

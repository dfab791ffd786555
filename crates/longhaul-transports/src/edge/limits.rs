//! How much the edge takes, of whom and for how long: plain data, units last (invariant 14).

use std::time::Duration;

/// The bounds of the transports. Start from [`Limits::default`].
#[derive(Debug, Clone)]
pub struct Limits {
    /// Largest body of a request; for what is larger there is the upload of files.
    pub body_bytes_max: usize,
    /// Largest file that is uploaded or downloaded.
    pub file_bytes_max: usize,
    /// Longest time until a request's body has arrived.
    pub body_max: Duration,
    /// Longest time until a request's header has arrived, and for the handshake of TLS.
    pub header_max: Duration,
    /// Largest header of a request.
    pub header_bytes_max: usize,
    /// Most fields of a header.
    pub header_fields_max: usize,
    /// Connections at once; whoever comes later waits.
    pub connections_max: usize,
    /// Connections at once from one address of another machine.
    pub connections_per_address_max: usize,
    /// How long a peer may take nothing of what it is sent.
    pub silent_max: Duration,
    /// Wrong secrets a second that may come from one address for long; a burst of ten times as many is let pass.
    pub strangers_per_second: u32,
    /// Registrations a second from one address; a burst of ten times as many is let pass.
    pub registrations_per_second: u32,
    /// How long a poll waits for its first event when it does not say.
    pub poll_wait: Duration,
    /// How long it may ask to wait: below the 30 s that the SDK's client gives a request.
    pub poll_wait_max: Duration,
    /// Events in one answer of a poll.
    pub poll_events_max: usize,
    /// Streams of events at once for one member.
    pub streams_per_member_max: usize,
    /// How often a quiet stream says that it is alive.
    pub heartbeat: Duration,
    /// How long open requests may go on after a shutdown was asked for.
    pub shutdown_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 1024 * 1024,
            file_bytes_max: 50 * 1024 * 1024,
            body_max: Duration::from_secs(30),
            header_max: Duration::from_secs(10),
            header_bytes_max: 16 * 1024,
            header_fields_max: 64,
            connections_max: 4096,
            connections_per_address_max: 256,
            silent_max: Duration::from_secs(60),
            strangers_per_second: 5,
            registrations_per_second: 200,
            poll_wait: Duration::from_secs(20),
            poll_wait_max: Duration::from_secs(25),
            poll_events_max: 200,
            streams_per_member_max: 8,
            heartbeat: Duration::from_secs(15),
            shutdown_max: Duration::from_secs(5),
        }
    }
}

//! What is counted, in the form Prometheus reads.
//!
//! Invariant: no label has a name of an agent, a channel or an event in it, so their number cannot make it grow.

use std::{fmt, sync::atomic::AtomicU64};

use longhaul_network::Network;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

/// Buckets for the time of an answer, seconds.
const SECONDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0];

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Route {
    path: String,
    status: u16,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Over {
    transport: &'static str,
}

/// The meters of the transports.
pub(crate) struct Meters {
    registry: Registry,
    requests: Family<Route, Counter>,
    taken: Histogram,
    accepted: Family<Over, Counter>,
    refused: Family<Over, Counter>,
    delivered: Family<Over, Counter>,
    streams: Family<Over, Gauge>,
    strangers: Counter,
    present: Gauge,
    agents: Gauge,
    up: Gauge<f64, AtomicU64>,
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meters").finish_non_exhaustive()
    }
}

impl Meters {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("longhaul_network");
        let meters = Self {
            requests: Family::default(),
            taken: Histogram::new(SECONDS),
            accepted: Family::default(),
            refused: Family::default(),
            delivered: Family::default(),
            streams: Family::default(),
            strangers: Counter::default(),
            present: Gauge::default(),
            agents: Gauge::default(),
            up: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register("http_requests", "Requests that were answered", meters.requests.clone());
        let taken = meters.taken.clone();
        registry.register_with_unit("send", "Time from an event's arrival to its answer", Unit::Seconds, taken);
        registry.register("events_accepted", "Events that are on the disk, or were answered", meters.accepted.clone());
        registry.register("events_refused", "Events that were not admitted, or refused", meters.refused.clone());
        registry.register("events_delivered", "Events that were handed to a receiver", meters.delivered.clone());
        registry.register("streams", "Streams of events that are open", meters.streams.clone());
        registry.register("strangers", "Secrets and credentials that were wrong", meters.strangers.clone());
        registry.register("agents_present", "Agents whose lease has not ended", meters.present.clone());
        registry.register("agents", "Agents that have not left", meters.agents.clone());
        registry.register_with_unit("up", "Since when this process serves", Unit::Seconds, meters.up.clone());
        Self { registry, ..meters }
    }

    pub(crate) fn request(&self, path: &str, status: u16) {
        self.requests.get_or_create(&Route { path: path.to_owned(), status }).inc();
    }

    /// An event was answered after so many seconds.
    pub(crate) fn sent(&self, transport: &'static str, success: bool, seconds: f64) {
        let family = if success { &self.accepted } else { &self.refused };
        family.get_or_create(&Over { transport }).inc();
        self.taken.observe(seconds);
    }

    pub(crate) fn delivered(&self, transport: &'static str, events: usize) {
        if events > 0 {
            self.delivered.get_or_create(&Over { transport }).inc_by(events as u64);
        }
    }

    /// One more stream, until what is returned is dropped.
    pub(crate) fn stream(&self, transport: &'static str) -> OpenStream {
        let gauge = self.streams.get_or_create(&Over { transport }).clone();
        gauge.inc();
        OpenStream(gauge)
    }

    pub(crate) fn stranger(&self) {
        self.strangers.inc();
    }

    /// All of it as text.
    pub(crate) fn text(&self, network: &Network) -> Result<String, fmt::Error> {
        let (view, now) = (network.view(), network.store().ambient().clock.now());
        self.present.set(i64::try_from(view.present).unwrap_or(i64::MAX));
        self.agents.set(i64::try_from(view.agents).unwrap_or(i64::MAX));
        self.up.set((now.0 - view.since.0).max(0) as f64 / 1000.0);
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Counts a stream for as long as it is held.
#[derive(Debug)]
pub(crate) struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

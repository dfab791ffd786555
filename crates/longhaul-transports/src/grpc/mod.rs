//! gRPC: the service `openagents.AgentService` with health and reflection, and the port it is served on.
//!
//! It owns the translation between the service's messages and the network's events, streams in both directions, and
//! HTTP/2 with its bounds. What an event means it does not know. Invariant: every call that acts for somebody shows
//! that agent's secret; nothing that is said in a message makes anybody a sender.

mod service;
mod speak;
mod stream;
mod translate;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use longhaul_network::settings::NetworkSettings;
use serde_json::{Map, Value};
use tonic::service::Routes;

pub(crate) use speak::speak;

use crate::{GrpcSettings, Limits, front::Front};

/// The messages and the service, as `proto/openagents.proto` describes them.
#[expect(
    clippy::allow_attributes,
    clippy::default_trait_access,
    clippy::missing_errors_doc,
    reason = "generated; clients in tests use it too"
)]
pub mod proto {
    tonic::include_proto!("openagents");
}

/// The description of the service, as reflection tells it: an encoded `FileDescriptorSet`.
pub const DESCRIPTION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openagents.bin"));

/// Bounds of the gRPC port beside those of the edge.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// Largest message that is read, bytes. Content is held to the network's own limit besides.
    message_bytes_max: usize,
    /// Calls at once on one connection.
    calls_max: u32,
    /// How often a silent peer is asked whether it is there.
    keepalive_every: Duration,
    /// How long it may take to answer that.
    keepalive_max: Duration,
    /// How long a unary call may take to arrive and be answered; polls are held for less.
    call_max: Duration,
    /// How long a poll without events is held.
    poll_max: Duration,
    /// Most events that one poll gives.
    polled_max: usize,
}

impl Bounds {
    /// What suits a network, with what `config` of the transport says: `max_message_size` in bytes, `keepalive_time` and
    /// `keepalive_timeout` in seconds (milliseconds from 1,000 on, as some files have them).
    fn read(network: &NetworkSettings, config: &Map<String, Value>, limits: &Limits) -> Self {
        let time = |key: &str, usual: u64| {
            let said = config.get(key).and_then(Value::as_u64).unwrap_or(usual).max(1);
            if said < 1_000 { Duration::from_secs(said) } else { Duration::from_millis(said) }
        };
        // A list of numbers takes several times as much room in a Struct as it takes in JSON.
        let usual = network.message_bytes_max.saturating_mul(4).saturating_add(64 * 1024);
        let said = config.get("max_message_size").and_then(Value::as_u64);
        let said = said.and_then(|said| usize::try_from(said).ok()).filter(|said| *said > 0);
        Self {
            message_bytes_max: said.map_or(usual, |said| said.min(usual)),
            calls_max: 256,
            keepalive_every: time("keepalive_time", 30).clamp(Duration::from_secs(5), Duration::from_secs(600)),
            keepalive_max: time("keepalive_timeout", 20).clamp(Duration::from_secs(1), Duration::from_secs(60)),
            call_max: Duration::from_secs(120),
            poll_max: limits.poll_wait,
            polled_max: limits.poll_events_max,
        }
    }
}

/// The service for one network.
#[derive(Debug, Clone)]
pub(crate) struct AgentService(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    front: Front,
    bounds: Bounds,
    address: SocketAddr,
}

/// The services of the port: the network's own with health and reflection, and those of others, which give the
/// descriptions of theirs. `at` is where it listens.
///
/// # Errors
/// When a description cannot be read.
pub(crate) fn service(
    front: Front,
    settings: &GrpcSettings,
    at: SocketAddr,
    others: Vec<Routes>,
    descriptions: &[&[u8]],
) -> Result<(Router, Bounds), tonic_reflection::server::Error> {
    type Server = proto::agent_service_server::AgentServiceServer<AgentService>;
    let bounds = Bounds::read(&front.network().view().settings, &settings.config, front.limits());
    let closing = front.closing().clone();
    let service = AgentService(Arc::new(Inner { front, bounds: bounds.clone(), address: at }));
    let server =
        Server::new(service).max_decoding_message_size(bounds.message_bytes_max).max_encoding_message_size(usize::MAX);
    let (health, health_service) = tonic_health::server::health_reporter();
    tokio::spawn(async move {
        health.set_serving::<Server>().await;
        closing.cancelled().await;
        health.set_not_serving::<Server>().await;
    });
    let reflection = || {
        descriptions.iter().fold(
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTION)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET),
            |builder, description| builder.register_encoded_file_descriptor_set(description),
        )
    };
    // Clients in use ask for the one or for the other.
    let (newer, older) = (reflection().build_v1()?, reflection().build_v1alpha()?);
    let own = Routes::new(server).add_service(health_service).add_service(newer).add_service(older).into_axum_router();
    // Each comes with an answer of its own to what it does not know; two of them cannot be merged.
    let all = others.into_iter().fold(own, |all, other| all.merge(other.into_axum_router().reset_fallback()));
    Ok((Routes::from(all).prepare().into_axum_router(), bounds))
}

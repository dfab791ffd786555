//! A network and its agents over A2A, the protocol by which agents of anybody speak to each other: version 1.0 over
//! JSON-RPC, REST and gRPC, version 0.3 over JSON-RPC where a client states no version.
//!
//! It owns tasks (rows of its own), their updates and webhooks, and three bindings; it does no agent's work. A message
//! becomes an event of the network for an agent, and what the agent says becomes updates of the task: it sends
//! `a2a.task.update`, or simply answers the direct message it got. Invariants: a message's task and the agent's event are
//! one transaction; nobody reads or changes a task but its owner, and the agent that works on it; an update that somebody
//! has seen is on the disk.
//!
//! ```no_run
//! # async fn serve(store: longhaul_store::Store, scope: longhaul_core::Scope, settings: longhaul_network::settings::NetworkSettings)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_a2a::{A2a, A2aSettings, Tasks};
//! use longhaul_network::Network;
//!
//! // The store has been opened with `longhaul_a2a::MIGRATIONS` among the others.
//! let (a2a, notices) = A2aSettings::read(&settings);
//! notices.iter().for_each(|notice| eprintln!("{notice}"));
//! let network = Network::open(store, scope, settings, vec![std::sync::Arc::new(Tasks::new())]).await?;
//! let a2a = A2a::new(network, a2a);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8700").await?;
//! axum::serve(listener, a2a.http()).await?;
//! # Ok(())
//! # }
//! ```

mod bridge;
mod caller;
mod card;
mod check;
mod error;
mod follow;
mod grpc;
mod http;
mod machine;
mod push;
mod rows;
mod schema;
mod service;
mod settings;
mod speech;
mod v0_3;
mod version;
pub mod wire;

use std::sync::Arc;

use longhaul_network::Network;

pub use bridge::{MOD, Tasks};
pub use error::A2aError;
pub use schema::MIGRATIONS;
pub use settings::{A2aSettings, Statuses};
pub use wire::FILE_DESCRIPTORS;

/// The bindings of one network. Webhooks are sent as long as one of them lives.
#[derive(Debug, Clone)]
pub struct A2a(Arc<service::Service>);

impl A2a {
    /// Over an open network whose mods have [`Tasks`] among them. To be called within a tokio runtime.
    #[must_use]
    pub fn new(network: Network, settings: A2aSettings) -> Self {
        if !network.mods().iter().any(|found| found.manifest().name == MOD) {
            tracing::error!("A2A is served without its mod {MOD}: every message will be refused");
        }
        Self(service::Service::new(network, settings))
    }

    /// JSON-RPC, REST and the cards.
    pub fn http(&self) -> axum::Router {
        http::routes(self.0.clone())
    }

    /// The gRPC service, to be added to others.
    #[must_use]
    pub fn grpc(&self) -> tonic::service::Routes {
        let max = self.0.settings.body_bytes_max;
        let server = wire::v1::a2a_service_server::A2aServiceServer::new(grpc::Binding(self.0.clone()));
        tonic::service::Routes::new(server.max_decoding_message_size(max))
    }
}

/// [`A2a::http`] alone.
pub fn http(network: Network, settings: A2aSettings) -> axum::Router {
    A2a::new(network, settings).http()
}

/// [`A2a::grpc`] alone.
#[must_use]
pub fn grpc(network: Network, settings: A2aSettings) -> tonic::service::Routes {
    A2a::new(network, settings).grpc()
}

//! A network over HTTP, server-sent events, WebSocket, gRPC and MCP, as the reference's SDK speaks them.
//!
//! It owns the wire: what is read, what is written, who may come to the door and how much. What an event means and who
//! may do what is the network's; each handler translates, asks [`longhaul_network::Network`] and translates back.
//! Invariants: nothing listens beyond loopback without TLS; a page of another origin is not answered unless the network
//! names it; everything a peer can make us hold (bytes, time, connections, streams) is bounded; a secret is in no log.
//!
//! [`Serving::start`] is the whole of it: it reads `transports` of `network.yaml`, listens and serves until
//! [`Serving::stop`].

mod edge;
mod front;
pub mod grpc;
mod http;
mod listen;
mod mcp;
mod metrics;
mod serving;
mod settings;
pub mod wire;
mod ws;

pub use edge::{Limits, TlsSettings};
pub use http::document;
pub use serving::{Extra, ServeError, Serving};
pub use settings::{GrpcSettings, HttpSettings, ServingSettings};

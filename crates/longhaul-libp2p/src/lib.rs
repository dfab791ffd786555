//! A network over libp2p: TCP with noise and yamux, QUIC; one stream protocol for events, gossip for channels.
//!
//! It owns the node ([`Libp2p`]), the frames of the stream protocol [`PROTOCOL`], topics and who may read them, and a
//! client ([`Peer`]). It decides nothing about events: a frame becomes a draft of a member, and what the network says
//! becomes a frame. Invariants: who an event comes from is known from the stream, or from the signature and the peer,
//! and never from what a frame says; what stands on a topic is in the log, and is read only by those in its channel.
//! Kademlia, mDNS and relays are not built in: whoever comes has the node's address.
//!
//! ```no_run
//! # async fn example(network: longhaul_network::Network) -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_libp2p::{Libp2p, Libp2pSettings};
//!
//! let node = Libp2p::start(network, Libp2pSettings::on_loopback("my-network".as_ref(), 8710)).await?;
//! println!("{}", node.addresses()[0]); // /ip4/127.0.0.1/tcp/8710/p2p/12D3KooW…
//! node.stop().await;
//! # Ok(())
//! # }
//! ```

mod client;
mod codec;
mod gate;
mod gossip;
mod key;
mod node;
mod service;
mod session;
mod settings;
mod streams;
mod wire;

use std::path::PathBuf;

pub use client::{Heard, Peer, PeerError};
pub use libp2p::{Multiaddr, PeerId, identity::Keypair};
pub use service::Libp2p;
pub use settings::{Libp2pSettings, PORT};
pub use streams::PROTOCOL;

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum Libp2pError {
    /// The node's key cannot be read or written.
    #[error(
        "the node's key {path} cannot be used: repair the file, or remove it and tell agents the node's new address"
    )]
    Key {
        /// The file.
        path: PathBuf,
        /// What failed.
        #[source]
        source: std::io::Error,
    },
    /// Others may read the node's key.
    #[error("the node's key {path} can be read by others: chmod 600 it, or remove it if others may have read it")]
    KeyReadable {
        /// The file.
        path: PathBuf,
    },
    /// The node's key is of another kind.
    #[error("the node's key is not an ed25519 key: remove libp2p.key and start again")]
    KeyKind,
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {reason}; choose another port")]
    Listen {
        /// The address.
        address: Multiaddr,
        /// What the system said.
        reason: String,
    },
    /// The encryption could not be set up.
    #[error("noise could not be set up: {0}")]
    Noise(String),
    /// The settings make no gossipsub.
    #[error("gossipsub could not be set up: {0}")]
    Gossip(String),
    /// The process is ending.
    #[error("the node did not start in time, or the process is ending")]
    Ended,
}

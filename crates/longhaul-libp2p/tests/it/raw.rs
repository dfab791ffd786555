//! Frames as bytes, for what no client of ours would send.

use std::time::Duration;

use futures::{AsyncReadExt as _, AsyncWriteExt as _, StreamExt as _};
use libp2p::{Multiaddr, Stream, StreamProtocol, SwarmBuilder, multiaddr::Protocol, noise, tcp, yamux};
use serde_json::Value;

use crate::support::LONG;

/// A connection of a peer with a key of its own, on which streams can be opened.
pub(crate) struct Wire {
    control: libp2p_stream::Control,
    node: libp2p::PeerId,
    running: tokio::task::JoinHandle<()>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.running.abort();
    }
}

pub(crate) struct Frames(Stream);

impl Wire {
    pub(crate) fn to(address: &Multiaddr) -> Self {
        let node = address.iter().find_map(|part| match part {
            Protocol::P2p(node) => Some(node),
            _ => None,
        });
        let mut swarm = SwarmBuilder::with_new_identity()
            .with_tokio()
            .with_tcp(tcp::Config::default(), noise::Config::new, yamux::Config::default)
            .unwrap()
            .with_behaviour(|_| libp2p_stream::Behaviour::new())
            .unwrap()
            .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_secs(60)))
            .build();
        swarm.dial(address.clone()).unwrap();
        let control = swarm.behaviour().new_control();
        let running = tokio::spawn(async move { while swarm.next().await.is_some() {} });
        Self { control, node: node.unwrap(), running }
    }

    pub(crate) async fn open(&self) -> Frames {
        let opened = self.control.clone();
        let mut opened = opened;
        let stream = opened.open_stream(self.node, StreamProtocol::new(longhaul_libp2p::PROTOCOL));
        Frames(tokio::time::timeout(LONG, stream).await.unwrap().unwrap())
    }
}

impl Frames {
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        // It may have been ended already, which reading shows.
        let _ = self.0.write_all(bytes).await;
        let _ = self.0.flush().await;
    }

    pub(crate) async fn say(&mut self, frame: &Value) {
        self.say_bytes(frame.to_string().as_bytes()).await;
    }

    pub(crate) async fn say_bytes(&mut self, body: &[u8]) {
        let (mut length, mut head) = (body.len(), Vec::new());
        while length >= 0x80 {
            head.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        head.push(length as u8);
        self.write(&head).await;
        self.write(body).await;
    }

    /// The next frame; nothing once the stream has ended.
    pub(crate) async fn hear(&mut self) -> Option<Value> {
        tokio::time::timeout(LONG, async {
            let (mut length, mut shift) = (0_usize, 0);
            loop {
                let mut byte = [0];
                self.0.read_exact(&mut byte).await.ok()?;
                length |= usize::from(byte[0] & 0x7f) << shift;
                shift += 7;
                if byte[0] & 0x80 == 0 {
                    break;
                }
            }
            let mut body = vec![0; length];
            self.0.read_exact(&mut body).await.ok()?;
            serde_json::from_slice(&body).ok()
        })
        .await
        .expect("neither a frame nor the end came in time")
    }

    pub(crate) async fn ask(&mut self, frame: &Value) -> Value {
        self.say(frame).await;
        self.hear().await.expect("the stream has ended")
    }
}

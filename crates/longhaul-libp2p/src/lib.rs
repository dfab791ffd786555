//! A network over libp2p: TCP and QUIC, one stream protocol, gossip for channels.

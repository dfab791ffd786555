//! A network and its agents over A2A 1.0 and 0.3: JSON-RPC, gRPC and REST.

//! The transports from outside: a real network that listens, real clients.

mod bounds;
mod conformance;
mod contract;
mod described;
mod external_mod;
mod grpc;
mod house;
mod safe;
mod streams;
mod tools;

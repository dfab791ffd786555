//! The transports from outside: a real network that listens, real clients.

mod bounds;
mod contract;
mod described;
mod house;
mod safe;
mod streams;
mod tools;
//! The tests at this crate's boundaries.

mod grpc;

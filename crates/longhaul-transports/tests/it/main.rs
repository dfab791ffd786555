//! The tests at this crate's boundaries.

mod grpc;

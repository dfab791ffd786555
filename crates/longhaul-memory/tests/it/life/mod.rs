//! The life of a memory: expiry, tiers, facts in two times, erasure; on both stores, with real folders and a real S3
//! server.

mod expiry;
mod facts;
mod forgetting;
mod s3;
mod s3_server;
mod tiers;
mod world;

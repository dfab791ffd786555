//! The port over real Milvus servers, and memory over the port. `LONGHAUL_TEST_MILVUS=full` runs everything on the full
//! server, otherwise it runs on milvus-lite. `LONGHAUL_TEST_LONG=1` adds what takes minutes.

mod equal;
mod journey;
mod places;
mod port;
mod secrets;
mod servers;
mod trouble;

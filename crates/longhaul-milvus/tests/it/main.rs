//! The port over real Milvus servers. `LONGHAUL_TEST_MILVUS=full` runs the suite on the full server, otherwise it runs on
//! milvus-lite.

mod port;
mod secrets;
mod servers;
mod trouble;

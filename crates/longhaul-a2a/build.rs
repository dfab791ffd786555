//! Translates the protocol's own description into Rust, and keeps it for reading and writing its JSON form.

use std::{env, fs, path::PathBuf};

use prost_types::FileDescriptorSet;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    println!("cargo:rerun-if-changed=proto");
    let files: FileDescriptorSet = protox::compile(["a2a.proto", "google/rpc/errors.proto"], ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("a2a.bin"), prost::Message::encode_to_vec(&files))?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure().build_transport(false).compile_fds_with_config(files, config)?;
    Ok(())
}

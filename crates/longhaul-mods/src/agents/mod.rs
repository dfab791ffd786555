//! Agents of this program: workers in Rust, and agents from a YAML file.

//! The private cluster: it answers, survives a crash, and ends with its process.

#[cfg(test)]
mod cluster;

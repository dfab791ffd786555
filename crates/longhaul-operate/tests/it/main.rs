//! Questions about tasks and their answers, on real stores; and what a process that comes back finds.

#![cfg(test)]
#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod chains;
mod erasing;
mod ground;
mod questions;
mod resume;
mod story;
mod verifying;

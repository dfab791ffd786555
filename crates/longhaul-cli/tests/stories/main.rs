//! Whole stories: the program as people run it, with real sandbox, browser, git and store. Only the model's replies are
//! read from cassettes. The embedding model is the one `longhaul setup` put into the tester's cache.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod adopting;
mod agents;
mod another_machine;
mod bad_input;
mod budget;
mod cassette;
mod chinese;
mod faults;
mod interruption;
mod isolation;
mod people;
mod permission;
mod planning;
mod processes;
mod profiles;
mod prompts;
mod proposals;
mod proxy;
mod stage;
mod tampering;
mod tiny;
mod verifying;

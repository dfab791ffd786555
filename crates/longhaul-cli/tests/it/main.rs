//! The program as a person or a script meets it: text in, text and exit code out.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod bad_folders;
mod bad_machine;
mod bad_model;
mod bad_project;
mod bad_store;
mod community;
mod context;
mod doctor;
mod documented;
mod evaluating;
mod executions;
mod explaining;
mod folders;
mod keeping;
mod manual;
mod memory;
mod program;
mod service;
mod settings;
mod shop;
mod talking;

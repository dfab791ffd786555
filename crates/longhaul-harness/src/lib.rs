//! The harness: an initializer turns a request into verifiable features, coding sessions build them one by one, and only
//! a verifier that drives a real browser makes a feature pass.
//!
//! The path through it: [`graph`] says what follows what; a session ([`Sitting`](sitting)) records every step; the
//! model's tool calls arrive at the [`host`]; a claim goes to the verifier; [`closing`] commits. The canonical features
//! are rows ([`features`]), the files in the project are their projections.
//!
//! ```
//! use longhaul_harness::parse_batch;
//!
//! let plan = serde_json::json!({"features": [{
//!     "id": "F01", "category": "functional", "description": "The page greets the visitor",
//!     "steps": ["Open the page", "Verify that the heading says Hello"],
//!     "checks": [
//!         {"step": 1, "check": "goto", "path": "/"},
//!         {"step": 2, "check": "expect", "target": {"role": "heading", "name": "Hello"}, "visible": true},
//!     ],
//! }]});
//! assert_eq!(parse_batch(&plan, &[])?.len(), 1);
//! # Ok::<(), longhaul_harness::PlanError>(())
//! ```

mod application;
mod bisect;
pub mod checks;
mod claim;
mod closing;
mod coding;
mod deeds;
mod environment;
mod error;
mod external;
pub mod features;
mod final_check;
mod folder;
mod git;
mod graph;
pub mod history;
mod host;
mod initializer;
mod means;
pub mod mirror;
pub mod notices;
mod on_demand;
mod parking;
pub mod people;
mod permission;
mod pictures;
pub mod planning;
mod profile;
pub mod project;
mod projections;
mod prompts;
pub mod proposals;
mod refs;
mod regression;
mod schema;
mod sitting;
pub mod spending;
pub mod standalone;
mod state;
mod stray;
mod tool_set;
pub mod verification;
pub mod verifier;
mod work_tree;

pub use bisect::{BisectSettings, Culprit};
pub use environment::{Harness, HarnessSettings, SandboxFactory, SandboxPlace};
pub use error::HarnessError;
pub use external::{AgentSettings, ExternalAgent};
pub use git::{Commit, Git, GitError};
pub use graph::graph;
pub use on_demand::{JOBS_MAX, OnDemand, VerifyError, verify_on_demand};
pub use planning::{BATCH_MAX, FEATURES_MAX, PlanError, parse_batch};
pub use profile::{Profile, ProfileError};
pub use projections::{ProjectionError, Projections, Undone};
pub use schema::MIGRATIONS;
pub use state::{HarnessState, HarnessUpdate, Phase};

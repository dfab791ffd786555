//! A coding session whose worker is another program, an agent that speaks the Agent Client Protocol: Claude Code, Codex,
//! Gemini, or anybody's. Everything around it stays as it is: the harness picks the feature, boots, runs the project's own
//! checks, verifies, commits.
//!
//! Owned here: the agent's sandbox, its prompts, its claims, its permissions. Not owned: the protocol (longhaul-agent), what
//! a verdict is ([`crate::verification`]). Invariants: the session is one recorded step, so that an interrupted one starts
//! again from the last commit; nothing of the agent runs while its work is verified; its model's key never enters its
//! sandbox.

mod desk;
mod permission;
mod program;
mod session;
mod settings;
mod terminals;
mod words;

pub use settings::{AgentSettings, ExternalAgent};

pub(crate) use session::{Worked, work};
pub(crate) use words::HOW;

//! The client's side of the Agent Client Protocol, version 1: another program is the agent, we give it a session, a
//! prompt, and answers to what it asks.
//!
//! Owned here: the wire ([`rpc`](self)), what of it we understand, and one turn from prompt to stop reason. Not owned: how
//! the agent is started, what it may do ([`AgentHost`] answers that), what its work is worth. Invariants: whatever the
//! agent writes, reading it is bounded in bytes and a turn in time; every request of the agent gets exactly one answer.
//!
//! The wire is small and our own, as the clients for models are; `docs/decisions/agents.md` says why and how its fidelity
//! is checked.

mod client;
mod port;
mod rpc;
mod wire;

pub use client::{AcpClient, AcpLimits, AcpSession, Cancelled, TurnEnd};
pub use port::{AgentHost, Permission, TerminalCommand, TerminalState};
pub use rpc::AcpError;
pub use wire::{AgentDeed, AskedPermission, StopReason};

//! Agents in a real network, with a real client in front of a cassette: they answer once, whatever crashes, and are held
//! by their limits.

mod budgets;
mod community;
mod decisions;
mod ground;
mod once;
mod restraint;

//! Agents of this program: workers in Rust, and agents from a YAML file that a model speaks for.
//!
//! It owns what an agent does with what it receives; the network owns what it receives. [`Worker`] is the trait for
//! agents in code, [`AgentFile`] and [`Mind`] are agents in files, [`community`] is a coordinator with experts. All of
//! them reach a network through a [`Link`], in this process or over HTTP. Invariants: an answer has an id that follows
//! from what it answers, so that it is given once, whatever crashes; an agent never answers itself, an echo, or an
//! exchange without end ([`Caution`]); every request to a model is paid for within a budget before it is made
//! ([`TaskPurse`]); who fails again and again is not asked for a while ([`breaker`]).

pub mod breaker;
mod caution;
pub mod community;
mod contained;
mod context;
pub mod decisions;
mod desk;
mod file;
mod heard;
mod link;
mod mind;
mod purse;
mod remote;
mod tools;
mod worker;

pub use caution::{Caution, CautionSettings, Ignored};
pub use context::{Said, bounded, shortened};
pub use desk::Desk;
pub use file::{AgentFile, Connection, MemorySettings, Trigger};
pub use heard::{Message, TEXT_BYTES_MAX, Way, cut};
pub use link::{Link, LocalLink, NetworkTool, may_pass};
pub use mind::{Mind, MindParts, Turn, partition};
pub use purse::{Spent, TaskPurse, TokenBudget};
pub use remote::{HttpLink, Joining};
pub use tools::NetworkTools;
pub use worker::{AgentWorked, WorkSettings, Worker, WorkerError, was_sent_away, work};

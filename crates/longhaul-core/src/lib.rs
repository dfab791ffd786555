//! The vocabulary every Longhaul crate shares: ids, scopes, events, limits, digests, and the ports for time,
//! randomness and identity. It does no I/O and knows no async runtime.
//!
//! ```
//! use longhaul_core::{Scope, TaskId};
//!
//! let task: TaskId = "task_0192abc".parse()?;
//! assert_eq!(task.to_string(), "task_0192abc");
//! assert!("exec_0192abc".parse::<TaskId>().is_err()); // another kind of id
//! assert_eq!(Scope::single_user().tenant.as_str(), "tenant_default");
//! # Ok::<(), longhaul_core::IdError>(())
//! ```

mod ambient;
mod digest;
mod event;
mod ids;
pub mod limits;
mod scope;
mod subject;
mod tokens;
mod tool;

pub use ambient::{Ambient, Clock, IdGen, Rng, SeededRng, SystemClock, SystemRng, TimeMs};
pub use digest::{Digest, DigestError, Digester};
pub use event::{Event, EventDraft, Visibility};
pub use ids::{
    EventId, ExecutionId, FeatureId, IdError, MemoryId, MessageId, MilestoneId, RecordId, SessionId, TaskId, TenantId,
    ThreadId, TraceId, UserId, VerdictId,
};
pub use scope::{Scope, TaskScope};
pub use subject::{Subject, SubjectError};
pub use tokens::estimate_tokens;
pub use tool::{ToolCall, ToolSpec};

//! Conversations: a durable history with roles, tool calls and attachments by ref; windows over it, a memo, and search.
//!
//! It owns `messages` and `session_states`. It holds no artifact, log or checkpoint: what is large is ingested as a
//! record and attached by its ref. Invariant: what has been said is never cut; only the window over it moves.

pub(crate) mod schema;

//! Actions as memory (M7): what users and agents do to files and with commands, captured as it happens.
//!
//! Each kind of action has its own tier, retention and index ([`ActionPolicy`]); a file's class, from its path alone
//! ([`classify`]), decides how much it matters and whether its content may be told. Many acts on one file within an hour
//! are one memory with a count. A file that is made and deleted within five minutes leaves nothing. Secrets are taken out
//! of commands and summaries, and nothing but the name is kept of files that hold them.

mod capture;
mod path;
mod policy;
mod redact;
pub(crate) mod schema;

pub(crate) use capture::forgotten;
pub use capture::{Act, Action, Actions, COLLECTION, Captured, namespace_of};
pub use path::{PathClass, classify};
pub use policy::{ActionKind, ActionPolicy, KindPolicy, Stay};

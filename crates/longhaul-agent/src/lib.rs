//! The one model and tool loop: ask the model, carry out the tools it calls, until something ends the conversation.
//!
//! [`Dialogue`] decides (plain data in, next step out) and [`converse`] does: every answer of the model is a recorded
//! step of the execution it runs in, so a killed conversation resumes without asking again for what was answered.
//! Before a request old results are put aside as records when the window fills, and a [`Purse`] reserves what it may cost.
//! What a tool does, and how that is recorded, belongs to the [`ToolHost`]. A [`Talk`] is a conversation with a user: it
//! lays a request out ([`Layout`]) from instructions, user memory, history and the message, in either of two styles of
//! memory. [`ModelProposer`] asks a model what of a conversation is worth remembering, [`ModelSummariser`] shortens one. This crate knows no features, no browser
//! and no git.
//!
//! ```
//! use longhaul_agent::{Dialogue, Limits, Next, Opening};
//!
//! let opening = Opening { system: "You are careful.".into(), prompt: "Say hello.".into(), tools: vec![] };
//! let dialogue = Dialogue::new(opening, Limits { turns_max: 10, window_tokens: 8_000, answer_tokens_max: 1_000 });
//! let Next::Ask(request) = dialogue.next() else { panic!("a dialogue begins by asking the model") };
//! assert_eq!(request.messages.len(), 1);
//! ```

pub mod acp;
mod converse;
mod dialogue;
mod host;
mod layout;
mod proposer;
mod purse;
mod sitting;
mod summariser;
mod talk;
mod turn;
mod watch;
mod window;

pub use converse::{Conversed, Means, converse, converse_with};
pub use dialogue::{Dialogue, Ending, Limits, Next, Opening};
pub use host::{After, ToolHost, ToolTurn};
pub use layout::Layout;
pub use proposer::ModelProposer;
pub use purse::{Purse, Reservation, Reserved, Unlimited, Unused, Wanted};
pub use sitting::{Device, SessionMetadata};
pub use summariser::ModelSummariser;
pub use talk::{MemoryStyle, Talk};
pub use turn::{TalkTools, TurnError};
pub use watch::Patience;

/// The guide's pages, so that what they show is compiled.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/sessions.md")]
    struct Sessions;
}

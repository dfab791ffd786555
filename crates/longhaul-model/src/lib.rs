//! Chat models behind one port, token counts, and cassettes served over the real wire protocol.
//!
//! [`ChatModel`] is the port; [`OpenAiChat`] speaks OpenAI's Chat Completions to any service that has them,
//! [`OpenAiResponses`] OpenAI's Responses, [`AnthropicChat`] Anthropic's Messages, and [`FallbackChat`] is several of them.
//! A [`Cassette`] is a written story of replies and a [`CassetteServer`] serves it on loopback over these same protocols:
//! the one stand-in for a language model, used by the demo and the tests with the real client in front of it.
//!
//! ```
//! use longhaul_core::Ambient;
//! use longhaul_model::{
//!     Cassette, CassetteServer, CassetteServerSettings, ChatModel, ChatRequest, Message, OpenAiChat, OpenAiSettings,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let story = r#"
//!     cassette = 1
//!     title = "a greeting"
//!     [[entry]]
//!     id = "greet"
//!     prompt = ["hello"]
//!     reply = "good morning"
//! "#;
//! let ambient = Ambient::system();
//! let cassette = Cassette::parse(story, "greeting.toml")?;
//! let settings = OpenAiSettings::new(cassette.model());
//! let server = CassetteServer::start(cassette, CassetteServerSettings::default(), &ambient).await?;
//!
//! let model = OpenAiChat::new(OpenAiSettings { base_url: server.base_url(), ..settings }, &ambient)?;
//! let request =
//!     ChatRequest { messages: vec![Message::User { content: "hello".into() }], ..ChatRequest::default() };
//! let response = model.chat(&request, &mut |text| print!("{text}")).await?;
//! assert_eq!(response.content, "good morning");
//! # Ok(())
//! # }
//! ```

mod anthropic;
mod cassette;
mod chat;
mod error;
mod fallback;
mod openai;
mod secret;
mod service;

pub use anthropic::{AnthropicChat, AnthropicSettings, Thinking};
pub use cassette::{
    Cassette, CassetteError, CassetteRecorder, CassetteServer, CassetteServerError, CassetteServerSettings, Problem,
    RecorderError, RecorderSettings, Served, ServedOutcome,
};
pub use chat::{
    AnswerSchema, ChatModel, ChatRequest, ChatResponse, Finish, Message, ModelInfo, OnDelta, PassedOver, Reasoning,
    Retry, Usage,
};
pub use error::{ErrorKind, ModelError, Waiting};
pub use fallback::FallbackChat;
pub use longhaul_core::estimate_tokens;
pub use openai::{
    AnswerLimitField, EmbeddingClient, EmbeddingSettings, Embeddings, OpenAiChat, OpenAiResponses, OpenAiSettings,
};
pub use secret::Secret;
pub use service::limits::CallLimits;

//! Settings of the chat model: which one, which ones in its place, and where each service is.

use std::path::PathBuf;

use super::{Origin, Secret, Values};

/// The chat model.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// Which model; `None` until the user names one.
    pub spec: Option<ModelSpec>,
    /// The models that answer where that one does not, in order.
    pub fallback: Vec<ModelSpec>,
    /// Where OpenAI's service, or a compatible one, is, without a slash at the end.
    pub base_url: String,
    /// That service's key.
    pub api_key: Option<Secret>,
    /// Where Anthropic's service, or a compatible one, is.
    pub anthropic_url: String,
    /// That service's key.
    pub anthropic_key: Option<Secret>,
    /// Whether a model of Anthropic's thinks before it answers: `off`, `adaptive` or `budget`.
    pub thinking: String,
    /// With `budget`, the most tokens that it thinks.
    pub thinking_tokens: u32,
    /// How much a model is to do for an answer, in the service's word.
    pub effort: Option<String>,
    /// The context window, in tokens.
    pub window_tokens: u64,
    /// The most one answer may take, in tokens.
    pub answer_tokens_max: u32,
    /// The longest silence of the service, in seconds.
    pub idle_seconds_max: u64,
}

impl ModelSettings {
    pub(super) fn from_values(values: &Values) -> Self {
        Self {
            spec: values.text("model.spec").as_deref().and_then(ModelSpec::parse),
            fallback: values.texts("model.fallback").iter().filter_map(|spec| ModelSpec::parse(spec)).collect(),
            base_url: values.text("model.base_url").unwrap_or_default(),
            api_key: values.secret("model.api_key"),
            anthropic_url: values.text("model.anthropic_url").unwrap_or_default(),
            anthropic_key: values.secret("model.anthropic_key"),
            thinking: values.text("model.thinking").unwrap_or_default(),
            thinking_tokens: values.number("model.thinking_tokens"),
            effort: values.text("model.effort"),
            window_tokens: values.number("model.window_tokens"),
            answer_tokens_max: values.number("model.answer_tokens_max"),
            idle_seconds_max: values.number("model.idle_seconds_max"),
        }
    }

    /// Where the service of a model is and whether a key for it is set; `None` for recorded replies.
    #[must_use]
    pub fn service(&self, spec: &ModelSpec) -> Option<(&str, bool)> {
        match spec {
            ModelSpec::OpenAi(_) | ModelSpec::OpenAiResponses(_) => Some((&self.base_url, self.api_key.is_some())),
            ModelSpec::Anthropic(_) => Some((&self.anthropic_url, self.anthropic_key.is_some())),
            ModelSpec::Cassette(_) | ModelSpec::CassetteDemo => None,
        }
    }
}

/// A model and who serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSpec {
    /// A model of a service that speaks OpenAI's Chat Completions, by its name there.
    OpenAi(String),
    /// A model of OpenAI's Responses.
    OpenAiResponses(String),
    /// A model of a service that speaks Anthropic's Messages.
    Anthropic(String),
    /// Recorded replies from this file.
    Cassette(PathBuf),
    /// The recorded replies of the demonstration.
    CassetteDemo,
}

impl ModelSpec {
    /// What its service calls it; a cassette says so itself.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Self::OpenAi(name) | Self::OpenAiResponses(name) | Self::Anthropic(name) => Some(name.clone()),
            Self::Cassette(_) | Self::CassetteDemo => None,
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("openai", name) => Some(Self::OpenAi(name.to_owned())),
            ("openai-responses", name) => Some(Self::OpenAiResponses(name.to_owned())),
            ("anthropic", name) => Some(Self::Anthropic(name.to_owned())),
            ("cassette", "demo") => Some(Self::CassetteDemo),
            ("cassette", file) => Some(Self::Cassette(PathBuf::from(file))),
            _ => None,
        }
    }

    /// The key of the settings that says where its service is.
    pub(crate) fn address_key(&self) -> &'static str {
        match self {
            Self::Anthropic(_) => "model.anthropic_url",
            Self::OpenAi(_) | Self::OpenAiResponses(_) | Self::Cassette(_) | Self::CassetteDemo => "model.base_url",
        }
    }

    /// The variable that usually holds the key of its service.
    #[must_use]
    pub fn key_variable(&self) -> &'static str {
        match self {
            Self::Anthropic(_) => "ANTHROPIC_API_KEY",
            Self::OpenAi(_) | Self::OpenAiResponses(_) | Self::Cassette(_) | Self::CassetteDemo => "OPENAI_API_KEY",
        }
    }
}

impl super::Settings {
    /// The address of the model's service, if somebody set it: a project remembers it.
    pub(crate) fn chosen_address(&self, spec: &ModelSpec) -> Option<String> {
        let by_hand: Option<&Origin> = self.origins.get(spec.address_key());
        by_hand.and_then(|_| self.model.service(spec)).map(|(address, _)| address.to_owned())
    }
}

impl std::fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OpenAi(name) => write!(f, "openai:{name}"),
            Self::OpenAiResponses(name) => write!(f, "openai-responses:{name}"),
            Self::Anthropic(name) => write!(f, "anthropic:{name}"),
            Self::Cassette(file) => write!(f, "cassette:{}", file.display()),
            Self::CassetteDemo => write!(f, "cassette:demo"),
        }
    }
}

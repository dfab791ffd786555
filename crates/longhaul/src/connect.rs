//! The chat model of a run: a service of the user's, or a cassette that this process serves to its own client.

use std::{sync::Arc, time::Duration};

use longhaul_model::{
    AnthropicChat, AnthropicSettings, CallLimits, Cassette, CassetteServer, CassetteServerSettings, ChatModel,
    FallbackChat, ModelError, OpenAiChat, OpenAiResponses, OpenAiSettings, Retry, Secret, Thinking,
};

use crate::{Longhaul, LonghaulError, settings::ModelSpec};

/// The scripted model's side of `longhaul demo`.
pub const DEMO_CASSETTE: &str = include_str!("../../../demo/chat.cassette.toml");
/// The same for `longhaul demo --profile research`.
pub const DEMO_OF_RESEARCH: &str = include_str!("../../../demo/research.cassette.toml");
/// The same for `longhaul demo --profile documents`.
pub const DEMO_OF_DOCUMENTS: &str = include_str!("../../../demo/documents.cassette.toml");

/// What the models of `longhaul demo network` say.
pub const DEMO_OF_NETWORK: &str = include_str!("../../../demo/community.cassette.toml");

/// Longest wait for the service's first sign of life; a slow one is asked for its work all the same.
const FIRST_SIGN: Duration = Duration::from_secs(10);

/// With other models to ask, one is given up sooner, milliseconds and attempts.
const CALL_MS_MAX_BEFORE_ANOTHER: u64 = 120_000;
const ATTEMPTS_BEFORE_ANOTHER: u32 = 3;

/// A connected model. The servers of cassettes, where there are some, live as long.
pub(crate) struct Connected {
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) servers: Vec<CassetteServer>,
    /// Address and key of the first of them, for an agent that is served by the same cassette.
    pub(crate) served: Option<(String, Secret)>,
}

/// Servers of cassettes with their keys.
type Servers = Vec<(CassetteServer, Secret)>;

impl Longhaul {
    /// Connects to the model: the one named by flag, environment or file, else the one the project was begun with.
    pub(crate) async fn connect(
        &self,
        begun_with: Option<(&str, Option<&str>)>,
    ) -> Result<(Connected, ModelSpec), LonghaulError> {
        let stored = begun_with.and_then(|(spec, _)| ModelSpec::parse(spec));
        let spec = self.settings.model.spec.clone().or(stored).ok_or(LonghaulError::NoModel)?;
        let fallback = &self.settings.model.fallback;
        // The address of another kind of service is of no use to this one.
        let same_kind =
            |stored: &str| ModelSpec::parse(stored).is_some_and(|stored| stored.address_key() == spec.address_key());
        let begun_at = begun_with.filter(|(stored, _)| same_kind(stored)).and_then(|(_, url)| url);
        let mut servers = Servers::new();
        let first = self.one(&spec, begun_at, !fallback.is_empty(), &mut servers).await?;
        let mut others = Vec::new();
        for (place, other) in fallback.iter().enumerate() {
            others.push(self.one(other, None, place + 1 < fallback.len(), &mut servers).await?);
        }
        let model = if others.is_empty() { first } else { Arc::new(FallbackChat::new(first, others, &self.ambient)) };
        let served = servers.first().map(|(server, key)| (server.origin(), key.clone()));
        let servers = servers.into_iter().map(|(server, _)| server).collect();
        Ok((Connected { model, servers, served }, absolute(spec)))
    }

    /// One model; `another` when there is one to ask after it.
    async fn one(
        &self,
        spec: &ModelSpec,
        begun_at: Option<&str>,
        another: bool,
        servers: &mut Servers,
    ) -> Result<Arc<dyn ChatModel>, LonghaulError> {
        match spec {
            ModelSpec::OpenAi(name) | ModelSpec::OpenAiResponses(name) => {
                self.openai(spec, name, begun_at, another).await
            }
            ModelSpec::Anthropic(name) => self.anthropic(spec, name, begun_at, another).await,
            ModelSpec::Cassette(file) => self.cassette(Cassette::load(file)?, servers).await,
            ModelSpec::CassetteDemo => {
                self.cassette(Cassette::parse(DEMO_CASSETTE, "the demo's cassette")?, servers).await
            }
        }
    }

    async fn openai(
        &self,
        spec: &ModelSpec,
        name: &str,
        begun_at: Option<&str>,
        another: bool,
    ) -> Result<Arc<dyn ChatModel>, LonghaulError> {
        let given = &self.settings.model;
        let base_url = self.address(spec, begun_at);
        let api_key = given.api_key.as_ref().map(|key| Secret::new(key.expose()));
        if api_key.is_none() && base_url.starts_with(OpenAiSettings::DEFAULT_BASE_URL) {
            return Err(LonghaulError::NoKey { base_url, variable: spec.key_variable() });
        }
        let settings = OpenAiSettings {
            base_url,
            api_key,
            window_tokens: given.window_tokens,
            effort: given.effort.clone(),
            limits: self.limits(another),
            ..OpenAiSettings::new(name)
        };
        if matches!(spec, ModelSpec::OpenAiResponses(_)) {
            let client = OpenAiResponses::new(settings, &self.ambient)?.on_retry(self.watched());
            answers(client.list_models(), another).await?;
            return Ok(Arc::new(client));
        }
        let client = OpenAiChat::new(settings, &self.ambient)?.on_retry(self.watched());
        answers(client.list_models(), another).await?;
        Ok(Arc::new(client))
    }

    async fn anthropic(
        &self,
        spec: &ModelSpec,
        name: &str,
        begun_at: Option<&str>,
        another: bool,
    ) -> Result<Arc<dyn ChatModel>, LonghaulError> {
        let given = &self.settings.model;
        let base_url = self.address(spec, begun_at);
        let api_key = given.anthropic_key.as_ref().map(|key| Secret::new(key.expose()));
        if api_key.is_none() && base_url.starts_with("https://api.anthropic.com") {
            return Err(LonghaulError::NoKey { base_url, variable: spec.key_variable() });
        }
        let settings = AnthropicSettings {
            base_url,
            api_key,
            window_tokens: given.window_tokens,
            answer_tokens_default: given.answer_tokens_max,
            thinking: match given.thinking.as_str() {
                "adaptive" => Thinking::Adaptive,
                "budget" => Thinking::Tokens(given.thinking_tokens),
                _ => Thinking::Unstated,
            },
            effort: given.effort.clone(),
            limits: self.limits(another),
            ..AnthropicSettings::new(name)
        };
        let client = AnthropicChat::new(settings, &self.ambient)?.on_retry(self.watched());
        answers(client.list_models(), another).await?;
        Ok(Arc::new(client))
    }

    /// Where a model's service is: as set by hand, else where the project was begun, else the default.
    fn address(&self, spec: &ModelSpec, begun_at: Option<&str>) -> String {
        let default = || self.settings.model.service(spec).map(|(address, _)| address.to_owned()).unwrap_or_default();
        self.settings.chosen_address(spec).or_else(|| begun_at.map(str::to_owned)).unwrap_or_else(default)
    }

    fn limits(&self, another: bool) -> CallLimits {
        let limits = CallLimits { idle_ms_max: self.settings.model.idle_seconds_max * 1_000, ..CallLimits::default() };
        if !another {
            return limits;
        }
        CallLimits {
            attempts_max: ATTEMPTS_BEFORE_ANOTHER,
            call_ms_max: limits.answer_ms_max + CALL_MS_MAX_BEFORE_ANOTHER,
            ..limits
        }
    }

    fn watched(&self) -> impl Fn(&Retry) + Send + Sync + 'static {
        let retries = self.retries.clone();
        move |retry| {
            let _ = retries.send(retry.clone()); // nobody may be watching
        }
    }

    async fn cassette(&self, cassette: Cassette, servers: &mut Servers) -> Result<Arc<dyn ChatModel>, LonghaulError> {
        let name = cassette.model().to_owned();
        let key = Secret::random(self.ambient.rng.as_ref());
        let log = std::env::var_os("LONGHAUL_CASSETTE_LOG").map(Into::into);
        let server_settings = CassetteServerSettings { api_key: Some(key.clone()), log, ..Default::default() };
        let server = CassetteServer::start(cassette, server_settings, &self.ambient).await?;
        let settings = OpenAiSettings {
            base_url: server.base_url(),
            api_key: Some(key.clone()),
            api_key_source: "the cassette server of this process".to_owned(),
            window_tokens: self.settings.model.window_tokens,
            ..OpenAiSettings::new(&name)
        };
        servers.push((server, key));
        Ok(Arc::new(OpenAiChat::new(settings, &self.ambient)?))
    }
}

/// Asks the service once whether it is there and takes the key, so that a wrong address or key is told at once and not
/// after minutes of retries. What it says beside that proves nothing: not every service lists its models, and not every
/// key may see the list. With another model to ask, a service that is down is no reason to stop.
async fn answers(
    asked: impl Future<Output = Result<Option<Vec<String>>, ModelError>>,
    another: bool,
) -> Result<(), LonghaulError> {
    match tokio::time::timeout(FIRST_SIGN, asked).await {
        Ok(Err(ModelError::Unreachable { .. })) if another => Ok(()),
        Ok(Err(
            error @ (ModelError::Unreachable { .. }
            | ModelError::Tls { .. }
            | ModelError::WrongService { .. }
            | ModelError::Unauthorized { status: 401, .. }),
        )) => Err(error.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// A project remembers its cassette from wherever it is run.
fn absolute(spec: ModelSpec) -> ModelSpec {
    match spec {
        ModelSpec::Cassette(file) => ModelSpec::Cassette(file.canonicalize().unwrap_or(file)),
        other @ (ModelSpec::OpenAi(_)
        | ModelSpec::OpenAiResponses(_)
        | ModelSpec::Anthropic(_)
        | ModelSpec::CassetteDemo) => other,
    }
}

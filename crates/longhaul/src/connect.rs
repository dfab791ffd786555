//! The chat model of a run: a service of the user's, or a cassette that this process serves to its own client.

use std::{sync::Arc, time::Duration};

use longhaul_model::{
    CallLimits, Cassette, CassetteServer, CassetteServerSettings, ChatModel, ModelError, OpenAiChat, OpenAiSettings,
    Secret,
};

use crate::{Longhaul, LonghaulError, settings::ModelSpec};

/// The scripted model's side of `longhaul demo`.
pub const DEMO_CASSETTE: &str = include_str!("../../../demo/chat.cassette.toml");

/// Longest wait for the service's first sign of life; a slow one is asked for its work all the same.
const FIRST_SIGN: Duration = Duration::from_secs(10);

/// A connected model. The cassette's server, where there is one, lives as long.
pub(crate) struct Connected {
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) server: Option<CassetteServer>,
    /// What an agent needs to be served by the same cassette.
    pub(crate) key: Option<Secret>,
}

impl Longhaul {
    /// Connects to the model: the one named by flag, environment or file, else the one the project was begun with.
    pub(crate) async fn connect(
        &self,
        begun_with: Option<(&str, Option<&str>)>,
    ) -> Result<(Connected, ModelSpec), LonghaulError> {
        let stored = begun_with.and_then(|(spec, _)| ModelSpec::parse(spec));
        let spec = self.settings.model.spec.clone().or(stored).ok_or(LonghaulError::NoModel)?;
        let connected = match &spec {
            ModelSpec::OpenAi(name) => self.service(name, begun_with.and_then(|(_, url)| url)).await?,
            ModelSpec::Cassette(file) => self.cassette(Cassette::load(file)?).await?,
            ModelSpec::CassetteDemo => self.cassette(Cassette::parse(DEMO_CASSETTE, "the demo's cassette")?).await?,
        };
        Ok((connected, absolute(spec)))
    }

    async fn service(&self, name: &str, begun_at: Option<&str>) -> Result<Connected, LonghaulError> {
        let given = &self.settings.model;
        let chosen = self.settings.origins.contains_key("model.base_url");
        let base_url = if chosen { given.base_url.clone() } else { begun_at.unwrap_or(&given.base_url).to_owned() };
        let api_key = given.api_key.as_ref().map(|key| Secret::new(key.expose()));
        if api_key.is_none() && base_url.starts_with(OpenAiSettings::DEFAULT_BASE_URL) {
            return Err(LonghaulError::NoKey { base_url });
        }
        let settings = OpenAiSettings {
            base_url,
            api_key,
            window_tokens: given.window_tokens,
            limits: CallLimits { idle_ms_max: given.idle_seconds_max * 1_000, ..CallLimits::default() },
            ..OpenAiSettings::new(name)
        };
        let retries = self.retries.clone();
        let client = OpenAiChat::new(settings, &self.ambient)?.on_retry(move |retry| {
            let _ = retries.send(retry.clone()); // nobody may be watching
        });
        answers(&client).await?;
        Ok(Connected { model: Arc::new(client), server: None, key: None })
    }

    async fn cassette(&self, cassette: Cassette) -> Result<Connected, LonghaulError> {
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
        Ok(Connected {
            model: Arc::new(OpenAiChat::new(settings, &self.ambient)?),
            server: Some(server),
            key: Some(key),
        })
    }
}

/// Asks the service once whether it is there and takes the key, so that a wrong address or key is told at once and not
/// after minutes of retries. What it says beside that proves nothing: not every service lists its models, and not every
/// key may see the list.
async fn answers(client: &OpenAiChat) -> Result<(), LonghaulError> {
    match tokio::time::timeout(FIRST_SIGN, client.list_models()).await {
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
        ModelSpec::OpenAi(_) | ModelSpec::CassetteDemo => spec,
    }
}

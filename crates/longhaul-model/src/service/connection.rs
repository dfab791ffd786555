//! Makes the HTTP client: TLS by rustls with the ring provider named here (no process-wide default is touched), the
//! system's CA certificates, no redirects (they would carry the key elsewhere), no proxy for this machine.

use std::{sync::Arc, time::Duration};

use reqwest::{Client, Url, redirect};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use super::limits::{CallLimits, is_loopback};
use crate::{ModelError, Secret};

/// The client for one service; the key is only looked at, with the name of what supplies it.
pub(crate) fn client(
    (key, key_source): (Option<&Secret>, &str),
    limits: &CallLimits,
    base_url: &Url,
) -> Result<Client, ModelError> {
    let broken = |reason: String| ModelError::Tls { base_url: base_url.as_str().to_owned(), reason };
    let tls = tls(base_url).map_err(|error| broken(error.to_string()))?;
    let mut builder = Client::builder()
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_millis(limits.connect_ms_max))
        .redirect(redirect::Policy::none())
        .tls_backend_preconfigured(tls);
    if is_loopback(base_url) {
        builder = builder.no_proxy();
    }
    if key.is_some_and(|key| !key.expose().bytes().all(|byte| byte.is_ascii_graphic())) {
        let reason = format!("it has characters that no key has; check {key_source}");
        return Err(ModelError::Settings { field: "api_key", reason });
    }
    builder.build().map_err(|error| broken(error.to_string()))
}

fn tls(base_url: &Url) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    if base_url.scheme() == "http" {
        // Redirects are off, so TLS will not happen: do not read a few hundred certificates for it.
        return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    }
    Ok(builder.with_platform_verifier()?.with_no_client_auth())
}

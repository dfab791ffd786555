//! A client of a bucket: TLS, time limits and repetitions as we want them.
//!
//! It knows how to reach a bucket, not what is in it. Invariant: every request ends within [`S3Limits::call_ms_max`].

use std::{sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, RetryConfig,
    aws::AmazonS3Builder,
    client::{HttpClient, HttpConnector},
};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use super::{
    S3Error, S3Place,
    place::{is_loopback, wrong},
};

/// Bounds of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct S3Limits {
    /// Longest time of a whole call, its repetitions included, in milliseconds.
    pub call_ms_max: u64,
    /// Longest time until a connection stands, in milliseconds.
    pub connect_ms_max: u64,
    /// Repetitions after a failure of the service.
    pub retries_max: usize,
}

impl Default for S3Limits {
    fn default() -> Self {
        Self { call_ms_max: 20_000, connect_ms_max: 3_000, retries_max: 2 }
    }
}

/// Opens a bucket; it is not asked for anything yet.
///
/// # Errors
/// [`S3Error`].
pub fn open(s3: &S3Place, limits: S3Limits) -> Result<Arc<dyn ObjectStore>, S3Error> {
    s3.check()?;
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_millis(500),
            base: 2.0,
        },
        max_retries: limits.retries_max,
        retry_timeout: Duration::from_millis(limits.call_ms_max),
    };
    let url = s3.endpoint.as_deref().and_then(|endpoint| reqwest::Url::parse(endpoint).ok());
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&s3.bucket)
        .with_region(&s3.region)
        .with_access_key_id(&s3.access_key_id)
        .with_secret_access_key(s3.secret_access_key.expose())
        .with_retry(retry)
        .with_allow_http(true)
        .with_http_connector(OurTls { limits, plain_to_here: url.as_ref().is_some_and(is_loopback), url });
    if let Some(token) = &s3.session_token {
        builder = builder.with_token(token.expose());
    }
    if let Some(endpoint) = &s3.endpoint {
        builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
    }
    let failed =
        |_| wrong("the bucket", "cannot be used with these settings: check its name, its region and its endpoint");
    Ok(Arc::new(builder.build().map_err(failed)?))
}

/// Makes the client ourselves: TLS by rustls with the ring provider named here (no process-wide default is touched),
/// the system's CA certificates, no redirects, no proxy for this machine.
#[derive(Debug)]
struct OurTls {
    limits: S3Limits,
    plain_to_here: bool,
    url: Option<reqwest::Url>,
}

impl HttpConnector for OurTls {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| object_store::Error::Generic {
            store: "S3",
            source: error,
        };
        let plain = self.url.as_ref().is_some_and(|url| url.scheme() == "http");
        let tls = tls(plain).map_err(|error| failed(error.into()))?;
        let mut client = reqwest::Client::builder()
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_millis(self.limits.connect_ms_max))
            .timeout(Duration::from_millis(self.limits.call_ms_max))
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(tls);
        if self.plain_to_here {
            client = client.no_proxy();
        }
        Ok(HttpClient::new(client.build().map_err(|error| failed(error.into()))?))
    }
}

fn tls(plain: bool) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    if plain {
        // Redirects are off, so TLS will not happen: do not read a few hundred certificates for it.
        return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    }
    Ok(builder.with_platform_verifier()?.with_no_client_auth())
}

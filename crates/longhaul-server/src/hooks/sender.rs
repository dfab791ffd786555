//! One attempt to deliver: the request that is signed and sent, and what its answer means.
//!
//! Invariants: the body is the same on every attempt; no redirect is followed and no proxy asked; nothing of an answer
//! but its status is kept, so that a subscription is no way to read what stands behind an address.

use std::{error::Error as _, sync::Arc, time::Duration};

use longhaul_core::{Ambient, TimeMs};
use longhaul_store::{Store, StoreError, events};
use reqwest::{Client, StatusCode, header, redirect};
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use serde_json::json;

use super::{
    outbox::{Attempt, Delivery},
    retry::{RetrySettings, pause_ms},
    signature::{self, Secret},
    target::{GuardedResolver, TargetError, TargetRules},
};
use crate::events::WireEvent;

const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Sends deliveries. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    store: Store,
    rules: Arc<TargetRules>,
    retry: RetrySettings,
    https: Client,
    http: Client,
}

/// The client could not be made.
#[derive(Debug, thiserror::Error)]
#[error("webhooks cannot be sent: {0}")]
pub(crate) struct NoClient(String);

impl Sender {
    pub(crate) fn new(
        store: Store,
        rules: TargetRules,
        retry: RetrySettings,
        attempt_max: Duration,
    ) -> Result<Self, NoClient> {
        let rules = Arc::new(rules);
        let https = client(GuardedResolver::for_https(rules.clone()), attempt_max, true)?;
        let http = client(GuardedResolver::for_http(rules.clone()), attempt_max, false)?;
        Ok(Self { store, rules, retry, https, http })
    }

    /// Sends a delivery to the address, signed with these secrets.
    pub(crate) async fn attempt(&self, of: &Delivery, url: &str, secrets: &[Secret]) -> Result<Attempt, StoreError> {
        // An event that is gone was erased; there is nothing to be told of it.
        let Some(event) = self.event(of).await? else { return Ok(Attempt::Done { answer: None }) };
        let body = body(&event);
        let now = self.ambient().clock.now();
        let at_s = now.0.div_euclid(1_000);
        let url = match self.rules.read(url) {
            Ok(url) => url,
            Err(error) => return Ok(self.failed(of, now, None, error.to_string(), None)),
        };
        let client = if url.scheme() == "https" { &self.https } else { &self.http };
        let request = client
            .post(url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(signature::ID, &of.id)
            .header(signature::TIMESTAMP, at_s)
            .header(signature::SIGNATURE, signature::sign(secrets, &of.id, at_s, &body))
            .body(body);
        let answered = request.send().await;
        let now = self.ambient().clock.now();
        Ok(match answered {
            Ok(answer) if answer.status().is_success() => Attempt::Done { answer: Some(answer.status().as_u16()) },
            Ok(answer) if answer.status() == StatusCode::GONE => Attempt::Dead {
                answer: Some(StatusCode::GONE.as_u16()),
                problem: "the receiver answered 410".to_owned(),
                gone: true,
            },
            Ok(answer) => {
                let after = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
                let after_ms = after.and_then(|text| text.trim().parse::<u64>().ok()).map(|s| s.saturating_mul(1_000));
                let status = answer.status().as_u16();
                self.failed(of, now, Some(status), format!("the receiver answered {status}"), after_ms)
            }
            Err(error) => self.failed(of, now, None, problem(&error), None),
        })
    }

    fn ambient(&self) -> &Ambient {
        self.store.ambient()
    }

    async fn event(&self, of: &Delivery) -> Result<Option<WireEvent>, StoreError> {
        let (scope, seq) = (of.scope.clone(), of.seq);
        let read = self.store.read(move |read| events(read, &scope.scope, Some(&scope.task), seq - 1, 1));
        Ok(read.await?.into_iter().find(|event| event.seq == seq).and_then(WireEvent::of))
    }

    fn failed(
        &self,
        of: &Delivery,
        now: TimeMs,
        answer: Option<u16>,
        problem: String,
        after_ms: Option<u64>,
    ) -> Attempt {
        match pause_ms(&self.retry, of.attempts + 1, after_ms, self.ambient().rng.next_u64()) {
            Some(pause) => {
                let at = TimeMs(now.0.saturating_add(i64::try_from(pause).unwrap_or(i64::MAX)));
                Attempt::Again { at, answer, problem }
            }
            None => Attempt::Dead { answer, problem, gone: false },
        }
    }
}

/// What is sent: the same bytes on every attempt.
fn body(event: &WireEvent) -> Vec<u8> {
    let at = jiff::Timestamp::from_millisecond(event.at.0).map(|at| at.to_string()).unwrap_or_default();
    json!({ "type": event.kind, "timestamp": at, "data": event }).to_string().into_bytes()
}

/// What went wrong, without what only this machine should know.
fn problem(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(target) = inner.downcast_ref::<TargetError>() {
            return target.to_string();
        }
        cause = inner.source();
    }
    let what = match error {
        error if error.is_timeout() => "it took too long",
        error if error.is_connect() => "no connection could be made",
        _ => "the connection broke",
    };
    what.to_owned()
}

fn client(resolver: GuardedResolver, attempt_max: Duration, encrypted: bool) -> Result<Client, NoClient> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| NoClient(error.to_string()))?;
    let tls = if encrypted {
        builder.with_platform_verifier().map_err(|error| NoClient(error.to_string()))?.with_no_client_auth()
    } else {
        // Nothing is encrypted there: do not read a few hundred certificates for it.
        builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    };
    Client::builder()
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_MAX.min(attempt_max))
        .timeout(attempt_max)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .dns_resolver(Arc::new(resolver))
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(|error| NoClient(error.to_string()))
}

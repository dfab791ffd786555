//! Tells webhooks what becomes of their tasks: each update once it is on the disk, in order, at least once.
//!
//! Invariants: an update is told again until its receiver has taken it or it is given up, across restarts; no redirect
//! is followed and no proxy asked; nothing of an answer but its status is kept.

use std::{
    error::Error as _,
    sync::Arc,
    time::{Duration, Instant},
};

use longhaul_core::TimeMs;
use longhaul_store::{Store, StoreError};
use reqwest::{Client, header, redirect};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_util::sync::CancellationToken;

use super::{
    rows::{self, Due},
    target::{Guarded, TargetError, Targets},
};
use crate::{
    rows::{Place, sweep, updates},
    wire::{to_json, v1::StreamResponse},
};

/// How long an attempt may take.
const ATTEMPT_MAX: Duration = Duration::from_secs(15);
/// How long updates of one webhook are told in one go; with one attempt more it stays below the claim.
const ROUND_MAX: Duration = Duration::from_secs(30);
/// Attempts for one update; then it is given up.
const ATTEMPTS_MAX: u32 = 8;
/// The pause after the first attempt that failed, milliseconds; each further one is twice as long.
const PAUSE_MS: i64 = 1_000;
/// Longest time without looking at the rows.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Longest note of what went wrong, characters.
const PROBLEM_CHARS_MAX: usize = 300;

/// Tells webhooks until it is told to end.
#[derive(Debug, Clone)]
pub(crate) struct Courier {
    store: Store,
    place: Place,
    targets: Targets,
    kept: Duration,
    https: Client,
    http: Client,
}

impl Courier {
    /// Fails, with the reason, where no client with encryption can be made.
    pub(crate) fn new(store: Store, place: Place, targets: Targets, kept: Duration) -> Result<Self, String> {
        let https = client(Guarded { targets, encrypted: true })?;
        let http = client(Guarded { targets, encrypted: false })?;
        Ok(Self { store, place, targets, kept, https, http })
    }

    pub(crate) async fn run(self, until: CancellationToken) {
        let mut notices = self.store.listen(&self.place.channel());
        let mut quiet = true;
        loop {
            let wait = match self.round(quiet).await {
                Ok(wait) => wait,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "webhooks wait for the store");
                    LOOK_EVERY
                }
            };
            quiet = tokio::select! {
                () = until.cancelled() => return,
                notice = tokio::time::timeout(wait, notices.next()) => match notice {
                    Ok(None) => return,
                    Ok(Some(_)) => false,
                    Err(_) => true,
                },
            };
        }
    }

    /// Tells what is due, and how long nothing will be. Removes old tasks when nothing else is to be done.
    async fn round(&self, quiet: bool) -> Result<Duration, StoreError> {
        loop {
            let Some(at) = self.next_at().await? else { break };
            if at > self.now() {
                let wait = u64::try_from(at.0.saturating_sub(self.now().0)).unwrap_or_default();
                return Ok(Duration::from_millis(wait).clamp(Duration::from_millis(1), LOOK_EVERY));
            }
            let place = self.place.clone();
            let due = self.store.write(move |tx| rows::claim(tx, &place)).await?;
            // One slow receiver holds up nobody else of this round.
            for outcome in futures::future::join_all(due.iter().map(|one| self.tell(one))).await {
                outcome?;
            }
        }
        if quiet {
            let kept_ms = i64::try_from(self.kept.as_millis()).unwrap_or(i64::MAX);
            let (place, old) = (self.place.clone(), TimeMs(self.now().0.saturating_sub(kept_ms)));
            self.store.write(move |tx| sweep(tx, &place, old)).await?;
        }
        Ok(LOOK_EVERY)
    }

    async fn next_at(&self) -> Result<Option<TimeMs>, StoreError> {
        let place = self.place.clone();
        self.store.read(move |read| rows::next_at(read, &place)).await
    }

    fn now(&self) -> TimeMs {
        self.store.ambient().clock.now()
    }

    /// Tells a webhook all updates that it has not been told, up to the first that it does not take.
    async fn tell(&self, due: &Due) -> Result<(), StoreError> {
        let (mut delivered, mut attempts) = (due.delivered, due.attempts);
        let (mut next_at, mut problem) = (self.now(), None);
        let (place, task) = (self.place.clone(), due.config.task_id.clone());
        let waiting = self.store.read(move |read| updates(read, &place, &task, delivered)).await?;
        let begun = Instant::now();
        for (number, update) in waiting {
            // What is left is told in the next round, before somebody else may think that this one has died.
            if begun.elapsed() > ROUND_MAX {
                break;
            }
            match self.attempt(due, &update).await {
                Ok(()) => (delivered, attempts, problem) = (number, 0, None),
                Err(why) if attempts + 1 >= ATTEMPTS_MAX => {
                    tracing::warn!(task = due.config.task_id, why, "a webhook takes nothing; an update is given up");
                    (delivered, attempts, problem) = (number, 0, Some(why));
                }
                Err(why) => {
                    let pause = PAUSE_MS << attempts.min(16);
                    (attempts, problem, next_at) = (attempts + 1, Some(why), TimeMs(self.now().0 + pause));
                    break;
                }
            }
        }
        let (place, due) = (self.place.clone(), due.clone());
        let problem = problem.map(|why| why.chars().take(PROBLEM_CHARS_MAX).collect::<String>());
        self.store.write(move |tx| rows::set(tx, &place, &due, delivered, attempts, next_at, problem.as_deref())).await
    }

    async fn attempt(&self, due: &Due, update: &StreamResponse) -> Result<(), String> {
        let url = self.targets.read(&due.config.url).map_err(|error| error.to_string())?;
        let client = if url.scheme() == "https" { &self.https } else { &self.http };
        let mut request = client
            .post(url)
            .header(header::CONTENT_TYPE, "application/a2a+json")
            .header("A2A-Version", "1.0")
            .body(to_json(update).to_string());
        if let Some(authentication) = &due.config.authentication {
            let shown = format!("{} {}", authentication.scheme, authentication.credentials);
            request = request.header(header::AUTHORIZATION, shown.trim());
        }
        if !due.config.token.is_empty() {
            request = request.header("X-A2A-Notification-Token", &due.config.token);
        }
        match request.send().await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(format!("the receiver answered {}", answer.status().as_u16())),
            Err(error) => Err(problem(&error)),
        }
    }
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
        error if error.is_builder() => "its authentication cannot be sent as a header",
        _ => "the connection broke",
    };
    what.to_owned()
}

fn client(resolver: Guarded) -> Result<Client, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let tls = if resolver.encrypted {
        builder.with_platform_verifier().map_err(|error| error.to_string())?.with_no_client_auth()
    } else {
        builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
    };
    Client::builder()
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
        .timeout(ATTEMPT_MAX)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .dns_resolver(Arc::new(resolver))
        .tls_backend_preconfigured(tls)
        .build()
        .map_err(|error| error.to_string())
}

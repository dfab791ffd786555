//! Why a model did not answer, and who can do something about it.
//!
//! Invariant: no variant carries a credential; what a service said is cut to a bounded length and redacted before it
//! gets here.

use std::fmt;

/// Who can do something about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The same request may succeed later with nobody doing anything; the client has already tried for a while.
    Retry,
    /// The request itself must change.
    FixInput,
    /// A person must change settings, a key, a quota or a service.
    Operator,
}

/// What was being waited for when the time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// The connection.
    Connect,
    /// The first byte of the answer, or the next one.
    NextBytes,
    /// The answer's end.
    WholeAnswer,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::NextBytes => "send the next bytes",
            Self::WholeAnswer => "finish its answer",
        })
    }
}

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A setting that cannot work.
    #[error("model setting `{field}` is unusable: {reason}")]
    Settings {
        /// The field of the settings.
        field: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// No trusted TLS connection: no CA certificates on this machine, or a certificate that they do not vouch for.
    #[error(
        "no trusted TLS connection to {base_url}: {reason}; check the service's certificate, and that this system has its CA certificates (package ca-certificates)"
    )]
    Tls {
        /// The service.
        base_url: String,
        /// The library's words.
        reason: String,
    },
    /// No connection to the service.
    #[error(
        "cannot reach the model service at {base_url}: {reason}; check that it runs and that the base URL is right"
    )]
    Unreachable {
        /// The service.
        base_url: String,
        /// The operating system's or the resolver's words.
        reason: String,
    },
    /// The service was too slow.
    #[error("the model service at {base_url} took more than {limit_ms} ms to {waiting}; try again or raise the limit")]
    Timeout {
        /// The service.
        base_url: String,
        /// What was being waited for.
        waiting: Waiting,
        /// The limit reached.
        limit_ms: u64,
    },
    /// 401 or 403, or no key where one is needed.
    #[error(
        "the model service at {base_url} refused the API key (HTTP {status}): {said}; set a valid key in {key_source}"
    )]
    Unauthorized {
        /// The service.
        base_url: String,
        /// HTTP status.
        status: u16,
        /// What the service said.
        said: String,
        /// The setting or environment variable that supplies the key.
        key_source: String,
    },
    /// The service does not have the model.
    #[error("the model service at {base_url} has no model {model:?}: {said}; choose one that it lists under /models")]
    ModelNotFound {
        /// The service.
        base_url: String,
        /// The model asked for.
        model: String,
        /// What the service said.
        said: String,
    },
    /// The account has nothing left.
    #[error("the account at {base_url} has no quota left: {said}; add credit or use another key")]
    QuotaExhausted {
        /// The service.
        base_url: String,
        /// What the service said.
        said: String,
    },
    /// The prompt is larger than the model's window or the service's limit.
    #[error("the request is too large for {model:?} (HTTP {status}): {said}; shorten it")]
    TooLarge {
        /// The model asked for.
        model: String,
        /// HTTP status.
        status: u16,
        /// What the service said.
        said: String,
    },
    /// The service understood the request and will not do it (400, 404, 422 …).
    #[error("the model service refused the request (HTTP {status}): {said}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The service's own error code, empty if it gave none.
        service_code: String,
        /// What the service said.
        said: String,
    },
    /// Overload, a rate limit or a fault of the service, still there after the last attempt.
    #[error(
        "the model service at {base_url} is not answering now (HTTP {status}): {said}; gave up after {attempts} attempts, try again later"
    )]
    Busy {
        /// The service.
        base_url: String,
        /// HTTP status.
        status: u16,
        /// What the service said.
        said: String,
        /// How many times it was asked.
        attempts: u32,
    },
    /// The answer ended in the middle.
    #[error("the answer from {base_url} ended in the middle, after {bytes} bytes; try again")]
    Cut {
        /// The service.
        base_url: String,
        /// How much had come.
        bytes: u64,
    },
    /// The service reported a failure in the middle of its answer.
    #[error("the model service at {base_url} failed in the middle of its answer: {said}; try again")]
    FailedMidway {
        /// The service.
        base_url: String,
        /// What the service said.
        said: String,
    },
    /// The answer is not what the protocol says.
    #[error(
        "the answer from {base_url} is not what the protocol says ({problem}): {excerpt:?}; try again, or check that the service is OpenAI-compatible"
    )]
    Malformed {
        /// The service.
        base_url: String,
        /// What is wrong with it.
        problem: String,
        /// Its first characters.
        excerpt: String,
    },
    /// Something else answers at this address: a web page, a redirect.
    #[error("{url} is not an OpenAI-compatible service ({found}); check the base URL, which usually ends in /v1")]
    WrongService {
        /// The address asked.
        url: String,
        /// What was found there.
        found: String,
    },
    /// The service's vectors are not those that were asked for.
    #[error(
        "the vectors from {base_url} are not those of the request ({problem}); check the embedding model's name and the length of its vectors"
    )]
    BadEmbeddings {
        /// The service.
        base_url: String,
        /// What is wrong with them.
        problem: String,
    },
    /// The answer does not end.
    #[error("the answer from {base_url} is larger than {bytes_max} bytes; lower the answer's token limit")]
    AnswerTooLong {
        /// The service.
        base_url: String,
        /// The limit reached.
        bytes_max: u64,
    },
}

impl ModelError {
    /// Who can do something about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Busy { .. }
            | Self::Cut { .. }
            | Self::FailedMidway { .. }
            | Self::Malformed { .. } => ErrorKind::Retry,
            Self::TooLarge { .. } | Self::Refused { .. } | Self::AnswerTooLong { .. } => ErrorKind::FixInput,
            Self::Settings { .. }
            | Self::Tls { .. }
            | Self::Unauthorized { .. }
            | Self::ModelNotFound { .. }
            | Self::QuotaExhausted { .. }
            | Self::BadEmbeddings { .. }
            | Self::WrongService { .. } => ErrorKind::Operator,
        }
    }

    /// A stable name for logs, tests and documentation.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Settings { .. } => "model_settings",
            Self::Tls { .. } => "model_tls",
            Self::Unreachable { .. } => "model_unreachable",
            Self::Timeout { .. } => "model_timeout",
            Self::Unauthorized { .. } => "model_unauthorized",
            Self::ModelNotFound { .. } => "model_not_found",
            Self::QuotaExhausted { .. } => "model_quota",
            Self::TooLarge { .. } => "model_too_large",
            Self::Refused { .. } => "model_refused",
            Self::Busy { .. } => "model_busy",
            Self::Cut { .. } => "model_cut",
            Self::FailedMidway { .. } => "model_failed_midway",
            Self::Malformed { .. } => "model_malformed",
            Self::WrongService { .. } => "model_wrong_service",
            Self::BadEmbeddings { .. } => "model_bad_embeddings",
            Self::AnswerTooLong { .. } => "model_answer_too_long",
        }
    }
}

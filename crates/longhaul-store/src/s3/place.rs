//! A bucket of an S3-compatible service, and how to reach it.
//!
//! Plain data, parsed and checked here and nowhere else. Invariant: a credential is never part of a URL and is never
//! printed, not even by `Debug` (invariant 12).

use std::fmt;

/// A setting of a bucket that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {problem}")]
pub struct S3Error {
    /// What is wrong.
    pub what: &'static str,
    /// Why, and what to do; never a credential.
    pub problem: &'static str,
}

/// A bucket of an S3-compatible service, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Place {
    /// Name of the bucket. It must exist.
    pub bucket: String,
    /// What every key begins with; empty for nothing.
    pub prefix: String,
    /// `https://host[:port]`; `None` for Amazon's own, by region. Plain `http` only to this machine, or with
    /// [`Self::allow_http`].
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: String,
    /// The key's name.
    pub access_key_id: String,
    /// The key.
    pub secret_access_key: Credential,
    /// For temporary keys.
    pub session_token: Option<Credential>,
    /// Speak plain `http` to other machines too: whoever is on the way reads everything.
    pub allow_http: bool,
}

/// A credential; it prints as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential(String);

impl Credential {
    /// Takes it, without white space around it.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(***)")
    }
}

impl S3Place {
    /// Reads a setting, `s3://bucket/prefix`. Endpoint and credentials come from `variable`, usually the environment:
    /// `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, `AWS_REGION` (`us-east-1` by default), `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_ALLOW_HTTP`.
    ///
    /// # Errors
    /// [`S3Error`], which names what is missing or wrong and never prints a credential.
    pub fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, S3Error> {
        let rest = text.strip_prefix("s3://").ok_or(wrong("the bucket", "is not s3://bucket/prefix"))?;
        if rest.contains(['@', '?', '#']) {
            return Err(wrong(
                "the bucket",
                "is not s3://bucket/prefix; credentials go into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            ));
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let given = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let needed = |name: &'static str| given(name).ok_or_else(|| wrong(name, "is not set: S3 needs it"));
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix: prefix.trim_matches('/').to_owned(),
            endpoint: given("AWS_ENDPOINT_URL_S3").or_else(|| given("AWS_ENDPOINT_URL")),
            region: given("AWS_REGION").or_else(|| given("AWS_DEFAULT_REGION")).unwrap_or_else(|| "us-east-1".into()),
            access_key_id: needed("AWS_ACCESS_KEY_ID")?,
            secret_access_key: Credential::new(&needed("AWS_SECRET_ACCESS_KEY")?),
            session_token: given("AWS_SESSION_TOKEN").map(|token| Credential::new(&token)),
            allow_http: given("AWS_ALLOW_HTTP").is_some_and(|value| matches!(value.as_str(), "1" | "true")),
        })
    }

    /// Whether it can be used, as far as can be seen without asking it.
    ///
    /// # Errors
    /// [`S3Error`].
    pub fn check(&self) -> Result<(), S3Error> {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
        if !(3..=63).contains(&self.bucket.len()) || !self.bucket.bytes().all(fits) {
            return Err(wrong("the bucket", "needs 3 to 63 of a-z, 0-9, `-`, `.`"));
        }
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let url = reqwest::Url::parse(endpoint).map_err(|_| wrong("the endpoint", "is no URL: give https://host"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("the endpoint", "holds credentials; they go into AWS_ACCESS_KEY_ID and its secret"));
        }
        match url.scheme() {
            "https" => Ok(()),
            "http" if self.allow_http || is_loopback(&url) => Ok(()),
            "http" => Err(wrong(
                "the endpoint",
                "would send everything unencrypted: use https, or set AWS_ALLOW_HTTP=1 where the network is trusted",
            )),
            _ => Err(wrong("the endpoint", "needs https://")),
        }
    }
}

pub(super) fn is_loopback(url: &reqwest::Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

pub(super) fn wrong(what: &'static str, problem: &'static str) -> S3Error {
    S3Error { what, problem }
}

/// What may be shown of it: `s3://bucket/prefix`.
impl fmt::Display for S3Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

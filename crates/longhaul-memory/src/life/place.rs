//! Where cold memory is kept: a folder, or a bucket of any S3-compatible service.
//!
//! Plain data, parsed and checked here and nowhere else. Invariant: a credential is never part of a URL and is never
//! printed, not even by `Debug` (invariant 12).

use std::{fmt, path::PathBuf};

use super::ColdError;

/// A place for cold memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColdPlace {
    /// A folder of this machine, or one that several machines mount.
    Folder(PathBuf),
    /// A bucket.
    S3(Box<S3Place>),
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
    /// Speak plain `http` to other machines too: whoever is on the way reads every memory.
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

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(***)")
    }
}

impl ColdPlace {
    /// Reads a setting: a folder's path, or `s3://bucket/prefix`. Endpoint and credentials of a bucket come from
    /// `variable`, usually the environment: `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, `AWS_REGION` (`us-east-1` by
    /// default), `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_ALLOW_HTTP`.
    ///
    /// # Errors
    /// [`ColdError::Setting`], which names what is missing or wrong and never prints a credential.
    pub fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, ColdError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            if text.trim().is_empty() {
                return Err(wrong("the cold place", "is empty: give a folder or s3://bucket/prefix"));
            }
            return Ok(Self::Folder(PathBuf::from(text)));
        };
        match scheme {
            "s3" => S3Place::parse(rest, variable).map(|place| Self::S3(Box::new(place))),
            "file" => Ok(Self::Folder(PathBuf::from(rest))),
            _ => Err(wrong("the cold place", "is neither a folder nor s3://bucket/prefix")),
        }
    }
}

impl S3Place {
    fn parse(rest: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, ColdError> {
        if rest.contains(['@', '?', '#']) {
            return Err(wrong(
                "the cold place",
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

    pub(super) fn check(&self) -> Result<(), ColdError> {
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
                "would send memories unencrypted: use https, or set AWS_ALLOW_HTTP=1 where the network is trusted",
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

fn wrong(what: &'static str, problem: &'static str) -> ColdError {
    ColdError::Setting { what, problem }
}

/// What may be shown of it.
impl fmt::Display for ColdPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(dir) => write!(f, "{}", dir.display()),
            Self::S3(place) if place.prefix.is_empty() => write!(f, "s3://{}", place.bucket),
            Self::S3(place) => write!(f, "s3://{}/{}", place.bucket, place.prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        let value = match name {
            "AWS_ACCESS_KEY_ID" => "AKIA-EXAMPLE",
            "AWS_SECRET_ACCESS_KEY" => "very-secret",
            "AWS_ENDPOINT_URL" => "http://127.0.0.1:9000",
            _ => return None,
        };
        Some(value.to_owned())
    }

    fn s3(text: &str) -> S3Place {
        match ColdPlace::parse(text, environment).expect("it parses") {
            ColdPlace::S3(place) => *place,
            ColdPlace::Folder(_) => panic!("{text} is a bucket"),
        }
    }

    #[test]
    fn a_bucket_is_read_and_its_credentials_are_never_shown() {
        let place = s3("s3://memories/team/a/");
        assert_eq!((place.bucket.as_str(), place.prefix.as_str()), ("memories", "team/a"));
        assert_eq!(place.region, "us-east-1");
        place.check().expect("loopback may be plain");
        let shown = format!("{place:?} {}", ColdPlace::S3(Box::new(place.clone())));
        assert!(!shown.contains("very-secret"), "{shown}");
        assert!(shown.ends_with("s3://memories/team/a"), "{shown}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |text: &str| ColdPlace::parse(text, environment).expect_err(text).to_string();
        assert!(refused("s3://key:secret@bucket").contains("AWS_ACCESS_KEY_ID"));
        assert!(refused("gopher://bucket").contains("s3://bucket/prefix"));
        assert!(refused(" ").contains("empty"));
        let none = ColdPlace::parse("s3://bucket", |_| None).expect_err("no credentials").to_string();
        assert!(none.contains("AWS_ACCESS_KEY_ID"), "{none}");
        for (endpoint, word) in [
            ("http://10.1.2.3:9000", "https"),
            ("https://user:pass@host", "credentials"),
            ("not a url", "no URL"),
            ("ftp://host", "https://"),
        ] {
            let place = S3Place { endpoint: Some(endpoint.to_owned()), ..s3("s3://bucket") };
            let error = place.check().expect_err(endpoint).to_string();
            assert!(error.contains(word) && !error.contains("pass@"), "{error}");
        }
        assert!(s3("s3://B").check().expect_err("a bad bucket").to_string().contains("bucket"));
    }

    #[test]
    fn a_path_is_a_folder() {
        assert_eq!(ColdPlace::parse("/var/cold", |_| None).expect("it parses"), ColdPlace::Folder("/var/cold".into()));
    }
}

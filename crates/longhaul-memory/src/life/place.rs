//! Where cold memory is kept: a folder, or a bucket of any S3-compatible service.
//!
//! Plain data, parsed and checked here, or with the bucket. Invariant: a credential is never part of a URL and is never
//! printed, not even by `Debug` (invariant 12).

use std::{fmt, path::PathBuf};

pub use longhaul_store::s3::{Credential, S3Place};

use super::ColdError;

/// A place for cold memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColdPlace {
    /// A folder of this machine, or one that several machines mount.
    Folder(PathBuf),
    /// A bucket.
    S3(Box<S3Place>),
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
                let problem = "is empty: give a folder or s3://bucket/prefix";
                return Err(ColdError::Setting { what: "the cold place", problem });
            }
            return Ok(Self::Folder(PathBuf::from(text)));
        };
        match scheme {
            "s3" => Ok(Self::S3(Box::new(S3Place::parse(text, variable)?))),
            "file" => Ok(Self::Folder(PathBuf::from(rest))),
            _ => Err(ColdError::Setting {
                what: "the cold place",
                problem: "is neither a folder nor s3://bucket/prefix",
            }),
        }
    }
}

/// What may be shown of it.
impl fmt::Display for ColdPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(dir) => write!(f, "{}", dir.display()),
            Self::S3(place) => write!(f, "{place}"),
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

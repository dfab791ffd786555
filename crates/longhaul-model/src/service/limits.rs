//! The bounds of a call, and the one rule for base URLs.

use reqwest::Url;

use crate::ModelError;

/// Bounds of one call of the model, retries included (invariant 14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Longest wait for a connection, milliseconds.
    pub connect_ms_max: u64,
    /// Longest silence, before the first byte or between two, milliseconds. Models that reason are silent for long.
    pub idle_ms_max: u64,
    /// Longest time of one attempt, milliseconds.
    pub answer_ms_max: u64,
    /// Largest answer, bytes on the wire.
    pub answer_bytes_max: u64,
    /// Most attempts, the first included; at least 1.
    pub attempts_max: u32,
    /// The wait before the second attempt, milliseconds; it doubles each time, and half of it is random.
    pub backoff_first_ms: u64,
    /// Longest wait that we choose ourselves, milliseconds. A service's `retry-after` may be longer.
    pub backoff_ms_max: u64,
    /// Longest time of the call with all attempts and waits, milliseconds. A `retry-after` beyond it ends the call
    /// at once.
    pub call_ms_max: u64,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            connect_ms_max: 10_000,
            idle_ms_max: 300_000,
            answer_ms_max: 1_800_000,
            answer_bytes_max: 16 * 1024 * 1024,
            attempts_max: 7,
            backoff_first_ms: 500,
            backoff_ms_max: 30_000,
            call_ms_max: 3_600_000,
        }
    }
}

/// The service's address by the rule of [`crate::OpenAiSettings::base_url`].
pub(crate) fn parse_base_url(text: &str) -> Result<Url, ModelError> {
    let refuse = |reason: String| ModelError::Settings { field: "base_url", reason };
    let mut url = Url::parse(text.trim()).map_err(|error| {
        refuse(format!("{error}; write it like https://api.openai.com/v1 or http://127.0.0.1:11434/v1"))
    })?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(refuse(format!("the scheme {:?} is neither http nor https", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(refuse("it has credentials, a query or a fragment; give the key by its own setting".to_owned()));
    }
    let path = url.path().trim_end_matches('/');
    let routes = ["/chat/completions", "/embeddings", "/responses", "/messages"];
    let path = routes.iter().find_map(|route| path.strip_suffix(route)).unwrap_or(path).trim_end_matches('/');
    let path = if path.is_empty() { "/v1".to_owned() } else { path.to_owned() };
    url.set_path(&path);
    Ok(url)
}

/// Whether the address is this machine, so that a proxy must not be asked for it.
pub(crate) fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost"
            || host.ends_with(".localhost")
            || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_means_the_same_with_and_without_v1_and_slashes() {
        for (text, meant) in [
            ("http://127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
            (" http://127.0.0.1:11434/ ", "http://127.0.0.1:11434/v1"),
            ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1"),
            ("http://127.0.0.1:11434/v1//", "http://127.0.0.1:11434/v1"),
            ("https://host/v1/chat/completions/", "https://host/v1"),
            ("https://host/chat/completions", "https://host/v1"),
            ("https://host/v1/embeddings", "https://host/v1"),
            ("https://host/openai/deployments/x", "https://host/openai/deployments/x"),
            ("http://[::1]:80/api/", "http://[::1]/api"),
        ] {
            assert_eq!(parse_base_url(text).unwrap().as_str(), meant, "{text:?}");
        }
    }

    #[test]
    fn a_base_url_that_cannot_work_is_refused_without_showing_a_password() {
        for wrong in
            ["", "api.openai.com/v1", "ftp://host/v1", "https://me:s3cret@host/v1", "https://host/v1?key=s3cret"]
        {
            let error = parse_base_url(wrong).unwrap_err();
            assert_eq!(error.code(), "model_settings", "{wrong:?}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn loopback_is_recognised() {
        let loopback = |text: &str| is_loopback(&Url::parse(text).unwrap());
        assert!(loopback("http://127.0.0.1:1/v1") && loopback("http://[::1]:1/v1") && loopback("http://localhost/v1"));
        assert!(!loopback("http://10.0.0.1/v1") && !loopback("http://localhost.example.org/v1"));
    }
}

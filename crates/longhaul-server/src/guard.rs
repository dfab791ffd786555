//! Which names this server answers to. A page in a browser may point a name of its own at this address and so speak to
//! a server on loopback (DNS rebinding); then `Host` is that name, and `Origin` is that page.

use axum::http::{HeaderMap, StatusCode, header};

use crate::Problem;

/// The names and origins that are ours.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    /// Those of loopback and these, on this port; `https` where there is TLS.
    pub(crate) fn new(port: u16, names: &[String], tls: bool) -> Self {
        let (scheme, usual) = if tls { ("https", 443) } else { ("http", 80) };
        let names = ["127.0.0.1", "localhost", "[::1]"].into_iter().chain(names.iter().map(String::as_str));
        let mut hosts = Vec::new();
        for name in names.map(str::to_ascii_lowercase) {
            hosts.push(format!("{name}:{port}"));
            if port == usual {
                hosts.push(name);
            }
        }
        let origins = hosts.iter().map(|host| format!("{scheme}://{host}")).collect();
        Self { hosts, origins }
    }

    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let one = |name| {
            let mut all = headers.get_all(name).iter();
            match (all.next(), all.next()) {
                (Some(value), None) => Some(value.as_bytes()),
                (None, _) | (Some(_), Some(_)) => None,
            }
        };
        let is_one_of =
            |known: &[String], given: &[u8]| known.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(given));
        if !one(header::HOST).is_some_and(|host| is_one_of(&self.hosts, host)) {
            let detail = "the Host header names no host of this server: use its address, or start it with --host NAME";
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail));
        }
        if headers.contains_key(header::ORIGIN)
            && !one(header::ORIGIN).is_some_and(|origin| is_one_of(&self.origins, origin))
        {
            let detail = "requests of pages of other origins are not answered: call from a program";
            return Err(Problem::new(StatusCode::FORBIDDEN, "wrong_origin", detail));
        }
        Ok(())
    }
}

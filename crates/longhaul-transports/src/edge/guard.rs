//! Which names this server answers to, and which pages may call it. A page in a browser may point a name of its own at
//! this address and so speak to a server on loopback (DNS rebinding); then `Host` is that name, and `Origin` that page.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderValue, header};

/// The names and origins that are ours, and the pages that were invited.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
    /// Beyond loopback any address is as good as a name: a rebound page comes with a name.
    port_of_any_address: Option<u16>,
}

/// Why a request is not for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// `Host` names another server.
    Host,
    /// A page of another origin.
    Origin,
}

impl Guard {
    /// Those of loopback and `names`, on this port, with `https` where there is TLS; and pages of `invited` origins.
    pub(crate) fn new(address: SocketAddr, names: &[String], tls: bool, invited: &[String]) -> Self {
        let (scheme, usual) = if tls { ("https", 443) } else { ("http", 80) };
        let port = address.port();
        let names = ["127.0.0.1", "localhost", "[::1]"].into_iter().chain(names.iter().map(String::as_str));
        let mut hosts = Vec::new();
        for name in names.map(str::to_ascii_lowercase) {
            hosts.push(format!("{name}:{port}"));
            if port == usual {
                hosts.push(name);
            }
        }
        let invited = invited.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase());
        let origins = hosts.iter().map(|host| format!("{scheme}://{host}")).chain(invited).collect();
        Self { hosts, origins, port_of_any_address: (!address.ip().is_loopback()).then_some(port) }
    }

    /// Whether the request is for us.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Stranger> {
        let host = one(headers, header::HOST).and_then(|host| std::str::from_utf8(host).ok());
        let known = host.is_some_and(|host| {
            self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) || self.is_address(host)
        });
        if !known {
            return Err(Stranger::Host);
        }
        if headers.contains_key(header::ORIGIN) && self.origin(headers).is_none() {
            return Err(Stranger::Origin);
        }
        Ok(())
    }

    /// The origin of the page that asks, where it is one of those that may.
    pub(crate) fn origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let given = one(headers, header::ORIGIN)?;
        self.origins
            .iter()
            .any(|known| known.as_bytes().eq_ignore_ascii_case(given))
            .then(|| HeaderValue::from_bytes(given).ok())?
    }

    fn is_address(&self, host: &str) -> bool {
        let Some(port) = self.port_of_any_address else { return false };
        host.parse::<SocketAddr>().is_ok_and(|address| address.port() == port)
            || (port == 443 && host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok())
    }
}

fn one(headers: &HeaderMap, name: header::HeaderName) -> Option<&[u8]> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        (None, _) | (Some(_), Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_our_names_and_invited_pages_are_let_in() {
        let invited = ["https://studio.example.org".to_owned()];
        let guard = Guard::new("127.0.0.1:8700".parse().unwrap(), &[], false, &invited);
        for (host, origin, found) in [
            ("127.0.0.1:8700", None, Ok(())),
            ("LOCALHOST:8700", Some("http://localhost:8700"), Ok(())),
            ("127.0.0.1:8700", Some("https://studio.example.org"), Ok(())),
            ("127.0.0.1:8700", Some("https://evil.example"), Err(Stranger::Origin)),
            ("127.0.0.1:8700", Some("null"), Err(Stranger::Origin)),
            ("rebound.example:8700", None, Err(Stranger::Host)),
            ("127.0.0.1", None, Err(Stranger::Host)),
            ("10.0.0.1:8700", None, Err(Stranger::Host)),
        ] {
            assert_eq!(guard.check(&headers(host, origin)), found, "{host} {origin:?}");
        }
        let mut twice = headers("127.0.0.1:8700", None);
        twice.append(header::HOST, "rebound.example:8700".parse().unwrap());
        assert_eq!(guard.check(&twice), Err(Stranger::Host));
    }

    #[test]
    fn beyond_loopback_an_address_is_a_name_and_a_foreign_name_is_not() {
        let guard = Guard::new("0.0.0.0:443".parse().unwrap(), &["net.example.org".into()], true, &[]);
        for (host, found) in [
            ("net.example.org", Ok(())),
            ("net.example.org:443", Ok(())),
            ("192.0.2.7:443", Ok(())),
            ("192.0.2.7", Ok(())),
            ("[2001:db8::1]:443", Ok(())),
            ("192.0.2.7:8700", Err(Stranger::Host)),
            ("rebound.example", Err(Stranger::Host)),
        ] {
            assert_eq!(guard.check(&headers(host, None)), found, "{host}");
        }
    }
}

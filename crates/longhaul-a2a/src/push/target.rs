//! Where webhooks may go: addresses that anybody on the internet could be asked at, and this machine where only this
//! machine reaches the network.
//!
//! Invariant: a connection is made only to an address that was checked after its name had been resolved, never to what
//! a second look-up or a redirect says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

const URL_BYTES_MAX: usize = 2_048;

/// Why an address may not be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TargetError {
    #[error(
        "this is not a URL that webhooks can go to: write https://HOST/PATH, at most {URL_BYTES_MAX} bytes, without user \
         name and fragment"
    )]
    Url,
    #[error("webhooks go over https")]
    Http,
    #[error("{0} does not lead to a public address")]
    Private(String),
    #[error("the name {0} could not be resolved: check its spelling")]
    Unknown(String),
}

/// Which addresses may be called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Targets {
    /// This machine, and without encryption, too.
    pub(crate) this_machine: bool,
}

impl Targets {
    fn allows(self, address: IpAddr, encrypted: bool) -> bool {
        (self.this_machine && address.to_canonical().is_loopback()) || (encrypted && is_public(address))
    }

    /// Reads a URL and refuses it where that can be told without asking anybody.
    pub(crate) fn read(self, text: &str) -> Result<Url, TargetError> {
        let url = Url::parse(text).map_err(|_| TargetError::Url)?;
        let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        let host = url.host_str().filter(|_| plain && text.len() <= URL_BYTES_MAX).ok_or(TargetError::Url)?;
        let encrypted = match url.scheme() {
            "https" => true,
            "http" if self.this_machine => false,
            "http" => return Err(TargetError::Http),
            _ => return Err(TargetError::Url),
        };
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        match literal {
            Some(address) if !self.allows(address, encrypted) => Err(TargetError::Private(host.to_owned())),
            _ => Ok(url),
        }
    }

    /// All of these addresses, or none: a name that leads inside and outside is up to something.
    fn resolved(self, host: &str, encrypted: bool, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, TargetError> {
        if found.is_empty() {
            return Err(TargetError::Unknown(host.to_owned()));
        }
        if found.iter().any(|address| !self.allows(address.ip(), encrypted)) {
            return Err(TargetError::Private(host.to_owned()));
        }
        Ok(found)
    }
}

/// Resolves names for the client that sends, so that the address that is called is the one that was checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guarded {
    pub(crate) targets: Targets,
    pub(crate) encrypted: bool,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { targets, encrypted } = *self;
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await;
            let found = found.map_err(|_| TargetError::Unknown(host.clone()))?.collect();
            let allowed: Addrs = Box::new(targets.resolved(&host, encrypted, found)?.into_iter());
            Ok(allowed)
        })
    }
}

/// Whether anybody on the internet may be found there (IANA's special-purpose registries, RFC 6890 and its updates).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    let segments = address.segments();
    // Global unicast, without protocol assignments and Teredo (2001::/23), documentation, and 6to4, which hides an
    // IPv4 address.
    let reserved = (segments[0] == 0x2001 && (segments[1] < 0x200 || segments[1] == 0xdb8))
        || segments[0] == 0x2002
        || (segments[0] == 0x3fff && segments[1] < 0x1000);
    segments[0] & 0xe000 == 0x2000 && !reserved
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTSIDE: Targets = Targets { this_machine: false };
    const HERE: Targets = Targets { this_machine: true };

    #[test]
    fn only_public_addresses_are_called_however_they_are_written() {
        for url in [
            "https://127.0.0.1/x",
            "https://127.1/x",
            "https://2130706433/",
            "https://0x7f.0.0.1/",
            "https://[::1]/",
            "https://[::ffff:7f00:1]/",
            "https://169.254.169.254/latest/meta-data",
            "https://10.0.0.1/",
            "https://192.168.1.1/",
            "https://[fe80::1]/",
            "https://[2002:7f00:1::]/",
        ] {
            assert!(matches!(OUTSIDE.read(url), Err(TargetError::Private(_))), "{url}");
        }
        for url in ["ftp://example.com/", "file:///etc/passwd", "https://u:p@example.com/", "https://example.com/#x"] {
            assert_eq!(OUTSIDE.read(url), Err(TargetError::Url), "{url}");
        }
        assert_eq!(OUTSIDE.read("http://example.com/"), Err(TargetError::Http));
        assert!(OUTSIDE.read("https://example.com/hook?x=1").is_ok());
        assert!(HERE.read("http://127.0.0.1:9/").is_ok());
        assert!(HERE.read("http://10.0.0.1/").is_err());
        assert!(HERE.read("http://1.1.1.1/").is_err());
    }

    #[test]
    fn a_name_that_leads_inside_is_refused_whatever_else_it_leads_to() {
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 0);
        assert!(OUTSIDE.resolved("h", true, vec![at("1.1.1.1")]).is_ok());
        assert!(OUTSIDE.resolved("h", true, vec![at("1.1.1.1"), at("127.0.0.1")]).is_err());
        assert!(HERE.resolved("h", false, vec![at("127.0.0.1"), at("::1")]).is_ok());
        assert!(HERE.resolved("h", false, vec![at("1.1.1.1")]).is_err());
        assert!(OUTSIDE.resolved("h", true, vec![]).is_err());
    }
}

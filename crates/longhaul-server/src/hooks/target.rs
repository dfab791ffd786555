//! Where webhooks may be sent: addresses that anybody on the internet could be asked at, and what the settings name.
//!
//! Whoever may subscribe chooses an address that this machine then calls. Invariant: a connection is made only to an
//! address that was checked after its name had been resolved, never to what a second look-up or a redirect says.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
    sync::Arc,
};

use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};
use serde::{Deserialize, Serialize};

const URL_CHARS_MAX: usize = 2_048;

/// Something that the settings allow beside public addresses: `127.0.0.1`, `10.1.0.0/16`, `fd00::/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// A text that names no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network: expected an address such as 10.1.2.3, or a range such as 10.1.0.0/16")]
pub struct NetworkError(String);

impl FromStr for Network {
    type Err = NetworkError;
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let wrong = || NetworkError(text.chars().take(80).collect());
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse::<u8>().map_err(|_| wrong()))?;
        if bits > most { Err(wrong()) } else { Ok(Self { address, bits }) }
    }
}

impl TryFrom<String> for Network {
    type Error = NetworkError;
    fn try_from(text: String) -> Result<Self, NetworkError> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Network {
    fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                u32::from(ours) & mask == u32::from(theirs) & mask
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                u128::from(ours) & mask == u128::from(theirs) & mask
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// Which addresses may be called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TargetRules {
    /// Networks that may be called although they are not public; `http` is good enough there.
    pub allow: Vec<Network>,
}

/// Why an address may not be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is not an address of the web.
    #[error(
        "this is not a URL that webhooks can go to: expected https://HOST/PATH, at most {URL_CHARS_MAX} characters, without user name and fragment"
    )]
    Url,
    /// It would go over the network for everybody to read.
    #[error("webhooks go over https: http is for networks that `--webhook-allow` names")]
    Http,
    /// It leads to a place that is not public.
    #[error(
        "{host} leads to {address}, which is not a public address: the operator can allow it with `longhaul serve --webhook-allow`"
    )]
    Private {
        /// As it was given.
        host: String,
        /// Where it leads.
        address: IpAddr,
    },
    /// The name leads nowhere.
    #[error("the name {host} could not be resolved: check its spelling")]
    Unknown {
        /// The name.
        host: String,
    },
}

impl TargetRules {
    fn allows(&self, address: IpAddr) -> bool {
        self.named(address) || is_public(address)
    }

    fn named(&self, address: IpAddr) -> bool {
        self.allow.iter().any(|network| network.holds(address))
    }

    /// Reads a URL and refuses it where that can be told without asking anybody.
    ///
    /// # Errors
    /// [`TargetError`] without [`TargetError::Unknown`].
    pub fn read(&self, text: &str) -> Result<Url, TargetError> {
        let url = Url::parse(text).map_err(|_| TargetError::Url)?;
        let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        let host = url.host_str().filter(|_| plain && text.len() <= URL_CHARS_MAX).ok_or(TargetError::Url)?;
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        if let Some(address) = literal.filter(|address| !self.allows(*address)) {
            return Err(TargetError::Private { host: host.to_owned(), address });
        }
        match url.scheme() {
            "https" => Ok(url),
            // A name is looked at again when it has been resolved.
            "http" if literal.map_or(!self.allow.is_empty(), |address| self.named(address)) => Ok(url),
            "http" => Err(TargetError::Http),
            _ => Err(TargetError::Url),
        }
    }

    /// The addresses of these that may be called for `host`: all of them, or none. A name that leads inside and outside
    /// is up to something.
    ///
    /// # Errors
    /// [`TargetError::Private`], [`TargetError::Unknown`].
    fn resolved(&self, host: &str, public: bool, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, TargetError> {
        let good = |address: IpAddr| self.named(address) || (public && is_public(address));
        if !public && addresses.iter().any(|address| is_public(address.ip()) && !self.named(address.ip())) {
            return Err(TargetError::Http);
        }
        match addresses.iter().find(|address| !good(address.ip())) {
            Some(inside) => Err(TargetError::Private { host: host.to_owned(), address: inside.ip() }),
            None if addresses.is_empty() => Err(TargetError::Unknown { host: host.to_owned() }),
            None => Ok(addresses),
        }
    }
}

/// Resolves names for the client that sends webhooks, so that the address that is called is the one that was checked.
#[derive(Debug, Clone)]
pub(crate) struct GuardedResolver {
    rules: Arc<TargetRules>,
    /// Whether public addresses are good as well: not where nothing is encrypted.
    public: bool,
}

impl GuardedResolver {
    pub(crate) fn for_https(rules: Arc<TargetRules>) -> Self {
        Self { rules, public: true }
    }

    pub(crate) fn for_http(rules: Arc<TargetRules>) -> Self {
        Self { rules, public: false }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { rules, public } = self.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await;
            let addresses = found.map_err(|_| TargetError::Unknown { host: host.clone() })?.collect();
            let allowed: Addrs = Box::new(rules.resolved(&host, public, addresses)?.into_iter());
            Ok(allowed)
        })
    }
}

/// Whether anybody on the internet may be found there: not this machine, not its networks, not what is reserved
/// (IANA's special-purpose registries, RFC 6890 and its updates).
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = match (a, b, c) {
        (0 | 10 | 127, ..) => true,
        (100, 64..=127, _) => true,
        (169, 254, _) => true,
        (172, 16..=31, _) => true,
        (192, 0, 0 | 2) => true,
        (192, 88, 99) | (192, 168, _) => true,
        (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113) => true,
        _ => a >= 224,
    };
    !reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    let segments = address.segments();
    if segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        let [.., a, b, c, d] = address.octets();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    // Global unicast, without protocol assignments and Teredo (2001::/23), documentation and 6to4, which hides an
    // IPv4 address.
    let global = segments[0] & 0xe000 == 0x2000;
    let reserved = (segments[0] == 0x2001 && (segments[1] < 0x200 || segments[1] == 0xdb8))
        || segments[0] == 0x2002
        || (segments[0] == 0x3fff && segments[1] < 0x1000);
    global && !reserved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str]) -> TargetRules {
        TargetRules { allow: allow.iter().map(|text| text.parse().unwrap()).collect() }
    }

    #[test]
    fn only_what_anybody_could_reach_is_called() {
        let public = ["1.1.1.1", "8.8.8.8", "100.63.0.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::808:808"];
        let inside = [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "fe80::1",
            "fc00::1",
            "fd12:3456::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "fec0::1",
            "100::1",
        ];
        for text in public {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
        for text in inside {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn spellings_of_an_address_are_seen_through() {
        for url in [
            "https://127.0.0.1/x",
            "https://127.1/x",
            "https://2130706433/",
            "https://0x7f.0.0.1/",
            "https://0177.0.0.1/",
            "https://[::1]/",
            "https://[::ffff:7f00:1]/",
            "https://169.254.169.254/latest/meta-data",
        ] {
            assert!(matches!(rules(&[]).read(url), Err(TargetError::Private { .. })), "{url}");
        }
        for url in [
            "ftp://example.com/",
            "file:///etc/passwd",
            "https://",
            "not a url",
            "https://u:p@example.com/",
            "https://example.com/#x",
            &format!("https://example.com/{}", "x".repeat(2_048)),
        ] {
            assert_eq!(rules(&[]).read(url), Err(TargetError::Url), "{url}");
        }
        assert_eq!(rules(&[]).read("http://example.com/"), Err(TargetError::Http));
        assert_eq!(rules(&["10.0.0.0/8"]).read("http://1.1.1.1/"), Err(TargetError::Http));
        assert!(rules(&[]).read("https://example.com/hook?x=1").is_ok());
    }

    #[test]
    fn the_operator_may_allow_networks_and_nothing_beside_them_is() {
        let rules = rules(&["127.0.0.1", "10.1.0.0/16", "fd00::/8"]);
        for url in ["http://127.0.0.1:9/", "https://10.1.255.1/", "http://[fd00::9]/"] {
            assert!(rules.read(url).is_ok(), "{url}");
        }
        for url in ["http://127.0.0.2/", "https://10.2.0.1/", "https://[fe80::1]/", "https://[::ffff:127.0.0.2]/"] {
            assert!(rules.read(url).is_err(), "{url}");
        }
        for wrong in ["", "10.0.0.0/33", "fd00::/129", "10.0.0.0/x", "example.com"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong:?}");
        }
        assert!("0.0.0.0/0".parse::<Network>().unwrap().holds("8.8.8.8".parse().unwrap()));
    }

    #[test]
    fn a_name_that_leads_inside_is_refused_whatever_else_it_leads_to() {
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 0);
        let rules = rules(&[]);
        assert_eq!(rules.resolved("h", true, vec![at("1.1.1.1")]).unwrap(), [at("1.1.1.1")]);
        assert_eq!(rules.resolved("h", false, vec![at("1.1.1.1")]).unwrap_err(), TargetError::Http);
        let both = rules.resolved("h", true, vec![at("1.1.1.1"), at("127.0.0.1")]).unwrap_err();
        assert_eq!(both, TargetError::Private { host: "h".to_owned(), address: "127.0.0.1".parse().unwrap() });
        assert_eq!(rules.resolved("h", true, vec![]).unwrap_err(), TargetError::Unknown { host: "h".to_owned() });
    }

    #[tokio::test]
    async fn the_name_of_this_machine_is_no_way_in() {
        let resolver = GuardedResolver::for_https(Arc::new(rules(&[])));
        let refused = resolver.resolve("localhost".parse().unwrap()).await.err().unwrap();
        assert!(refused.to_string().contains("not a public address"), "{refused}");
        let allowed = GuardedResolver::for_http(Arc::new(rules(&["127.0.0.0/8", "::1"])));
        assert!(allowed.resolve("localhost".parse().unwrap()).await.is_ok());
    }
}

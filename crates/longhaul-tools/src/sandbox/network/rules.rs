//! Which hosts an allowlist names. Pure: text in, yes or no out.
//!
//! Invariant: an address of this machine or of a private network is admitted only by a rule that names that address, or
//! `localhost`; a name that merely resolves to one is not.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

/// Ports of a rule that names none.
const PORTS_DEFAULT: [u16; 2] = [80, 443];
const NAME_BYTES_MAX: usize = 253;

/// A host that may be reached: `example.org` (ports 80 and 443), `example.org:8443`, `*.example.org` (every name
/// beneath it), `*` (every public host), `10.0.0.7:5432`, `[::1]:80`, `localhost:9000`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostRule {
    host: Host,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Any,
    Name(String),
    Beneath(String),
    Address(IpAddr),
}

/// A text that is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} names no host: write example.org, example.org:8443, *.example.org, an address with its port, or * for \
     every public host"
)]
pub struct HostRuleError {
    text: String,
}

impl FromStr for HostRule {
    type Err = HostRuleError;

    fn from_str(text: &str) -> Result<Self, HostRuleError> {
        let fail = || HostRuleError { text: text.to_owned() };
        let trimmed = text.trim();
        let (host, port) = split(trimmed).ok_or_else(fail)?;
        let host = if host == "*" {
            Host::Any
        } else if let Ok(address) = host.parse() {
            Host::Address(address)
        } else if let Some(parent) = host.strip_prefix("*.") {
            Host::Beneath(name(parent).ok_or_else(fail)?)
        } else {
            Host::Name(name(host).ok_or_else(fail)?)
        };
        Ok(Self { host, port })
    }
}

impl TryFrom<String> for HostRule {
    type Error = HostRuleError;

    fn try_from(text: String) -> Result<Self, HostRuleError> {
        text.parse()
    }
}

impl From<HostRule> for String {
    fn from(rule: HostRule) -> Self {
        rule.to_string()
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Any => f.write_str("*")?,
            Host::Name(name) => f.write_str(name)?,
            Host::Beneath(parent) => write!(f, "*.{parent}")?,
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            Host::Address(address) => write!(f, "{address}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl HostRule {
    /// Whether this rule names the host and port of a request; nothing is resolved.
    fn names(&self, target: &Target) -> bool {
        let port = self.port.map_or(PORTS_DEFAULT.contains(&target.port), |port| port == target.port);
        let host = match (&self.host, target.host.parse::<IpAddr>()) {
            (Host::Any, _) => true,
            (Host::Address(address), Ok(asked)) => *address == asked,
            (Host::Name(name), Err(_)) => *name == target.host,
            (Host::Beneath(parent), Err(_)) => {
                target.host.strip_suffix(parent.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (Host::Address(_), Err(_)) | (Host::Name(_) | Host::Beneath(_), Ok(_)) => false,
        };
        port && host
    }

    /// Whether it may lead to an address that is not public.
    fn may_be_private(&self) -> bool {
        match &self.host {
            Host::Address(_) => true,
            Host::Name(name) => name == "localhost",
            Host::Any | Host::Beneath(_) => false,
        }
    }
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// A name in lower case without a final dot, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Target {
    /// From `host:port`, or `host` with a default.
    pub(super) fn parse(authority: &str, port_default: Option<u16>) -> Option<Self> {
        let (host, port) = split(authority)?;
        let host = match host.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) => name(host)?,
        };
        Some(Self { host, port: port.or(port_default)? })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What the list says of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// No rule names it.
    Refused,
    /// It may be connected to at its public addresses.
    Public,
    /// It may be connected to wherever it is.
    Anywhere,
}

pub(super) fn standing(rules: &[HostRule], target: &Target) -> Standing {
    let mut naming = rules.iter().filter(|rule| rule.names(target)).peekable();
    if naming.peek().is_none() {
        Standing::Refused
    } else if naming.any(HostRule::may_be_private) {
        Standing::Anywhere
    } else {
        Standing::Public
    }
}

/// Whether an address belongs to the public internet: not this machine, not a private, local or special network.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        // Shared by carriers, and where some clouds have their services.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let embedded = |at: usize| {
        let octets = address.octets();
        Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3])
    };
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    match (first, second) {
        // NAT64 and 6to4 carry an IPv4 address.
        (0x64, 0xff9b) => is_public_v4(embedded(12)),
        (0x2002, _) => is_public_v4(embedded(2)),
        // Teredo, documentation.
        (0x2001, 0 | 0xdb8) => false,
        // What is given out as public.
        _ => (0x2000..0x4000).contains(&first),
    }
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`.
fn split(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        host.parse::<Ipv6Addr>().ok()?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(number(port)?))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    match text.split_once(':') {
        Some((host, port)) => Some((host, Some(number(port)?))),
        None => Some((text, None)),
    }
}

fn number(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten().filter(|port| *port > 0)
}

/// A host name in the one form that is compared. Names of other scripts come in their ASCII form (`xn--…`).
fn name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    // What looks like a number is read as an address by some resolvers: 127.1, 0x7f000001, 2130706433.
    let last = name.rsplit('.').next().unwrap_or_default();
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    (name.len() <= NAME_BYTES_MAX && !numeric && name.split('.').all(label)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Vec<HostRule> {
        texts.iter().map(|text| text.parse().expect("a rule")).collect()
    }

    fn judged(rule: &str, authority: &str) -> Standing {
        let target = Target::parse(authority, None).expect("a target");
        standing(&rules(&[rule]), &target)
    }

    #[test]
    fn a_rule_names_its_host_and_nothing_that_looks_like_it() {
        for (rule, yes) in [
            ("example.org", "example.org:443"),
            ("Example.ORG", "EXAMPLE.org.:80"),
            ("example.org:8443", "example.org:8443"),
            ("*.example.org", "a.b.example.org:443"),
            ("*", "anything.example:443"),
        ] {
            assert_eq!(judged(rule, yes), Standing::Public, "{rule} {yes}");
        }
        for (rule, no) in [
            ("example.org", "example.org:22"),
            ("example.org", "sub.example.org:443"),
            ("example.org", "example.org.evil.net:443"),
            ("example.org", "evilexample.org:443"),
            ("*.example.org", "example.org:443"),
            ("*.example.org", "evilexample.org:443"),
            ("example.org:8443", "example.org:443"),
            ("93.184.216.34:443", "93.184.216.35:443"),
        ] {
            assert_eq!(judged(rule, no), Standing::Refused, "{rule} {no}");
        }
        assert_eq!(judged("127.0.0.1:8080", "127.0.0.1:8080"), Standing::Anywhere);
        assert_eq!(judged("[::1]:8080", "[0:0::1]:8080"), Standing::Anywhere);
        assert_eq!(judged("localhost:8080", "localhost:8080"), Standing::Anywhere);
        assert_eq!(judged("*:8080", "localhost:8080"), Standing::Public);
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            "http://example.org",
            "a b",
            "example.org:",
            "example.org:0",
            "user@example.org",
            "*.",
            "a..b",
            "*.*",
            "ex*mple.org",
            "2130706433",
            "0x7f000001",
            "127.1",
        ] {
            assert!(text.parse::<HostRule>().is_err(), "{text:?}");
        }
        for text in ["user@example.org:443", "127.1:80", "0x7f.1:80", "example.org", "[::1", "a\r\nb:80"] {
            assert_eq!(Target::parse(text, None), None, "{text:?}");
        }
    }

    #[test]
    fn only_public_addresses_are_public() {
        for text in ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "64:ff9b::808:808"] {
            assert!(is_public(text.parse().expect("an address")), "{text}");
        }
        for text in [
            "127.0.0.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.100.100.200",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "ff02::1",
            "2001:db8::1",
        ] {
            assert!(!is_public(text.parse().expect("an address")), "{text}");
        }
    }

    #[test]
    fn a_rule_survives_its_text() {
        for text in ["example.org", "example.org:8443", "*.example.org", "*", "[::1]:80", "10.0.0.7:5432"] {
            assert_eq!(rules(&[text])[0].to_string(), text);
        }
    }
}

//! Where the server is and how to be let in, checked before anything is sent.
//!
//! It owns the rules of `memory.uri`. Invariant: no secret is part of an address, its printed form or its debug form.

use std::{fmt, path::PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::MilvusError;

/// The port of a Milvus that names none.
const PORT: u16 = 19530;

/// What the server knows us by: `user:password` or an API key. It is printed nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token as Milvus takes it: `root:Milvus` or an API key.
    ///
    /// # Errors
    /// [`MilvusError::Address`] when it is empty or has characters that do not travel.
    pub fn new(text: &str) -> Result<Self, MilvusError> {
        let text = text.trim();
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err(MilvusError::Address {
                address: "the token".to_owned(),
                problem: "it is empty or has control characters; give `user:password` or an API key".to_owned(),
            });
        }
        Ok(Self(text.to_owned()))
    }

    /// The value of the header that Milvus reads.
    pub(crate) fn header(&self) -> String {
        STANDARD.encode(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A checked address: `http://HOST[:PORT]` or `https://HOST[:PORT]`, optionally with `/DATABASE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
    tls: bool,
    database: String,
    /// Certificate authority (PEM) that signed the server's certificate, beside those the system trusts.
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) token: Option<Token>,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// [`MilvusError::Address`] with what to write instead, also when it holds credentials.
    pub fn parse(text: &str) -> Result<Self, MilvusError> {
        // The text is not repeated before it is known to hold no secret.
        let refuse = |shown: &str, problem: &str| {
            let address = shown.chars().take(200).collect();
            Err(MilvusError::Address { address, problem: problem.to_owned() })
        };
        let Some((scheme, rest)) = text.trim().split_once("://") else {
            return refuse("memory.uri", "expected http://HOST:19530 or https://HOST:19530");
        };
        if rest.contains('@') || rest.contains('?') || rest.contains('#') {
            return refuse(
                scheme,
                "an address holds no user, password or token: put the token into the environment variable MILVUS_TOKEN (memory.token)",
            );
        }
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return refuse(text, "expected http:// or https://"),
        };
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = split_port(authority);
        let Ok(port) = port.map_or(Ok(PORT), str::parse) else {
            return refuse(text, "the port is no number from 1 to 65535");
        };
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:[]".contains(&b));
        if host.is_empty() || !plain(host) || port == 0 {
            return refuse(text, "the host is empty or has characters that no host has");
        }
        if database.len() > 255 || !database.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return refuse(text, "after the slash comes at most the name of a database: letters, digits, underscores");
        }
        let (host, database) = (host.to_owned(), database.to_owned());
        Ok(Self { host, port, tls, database, ca_file: None, token: None })
    }

    /// Lets in with a token.
    #[must_use]
    pub fn with_token(mut self, token: Option<Token>) -> Self {
        self.token = token;
        self
    }

    /// Trusts a certificate authority of one's own, from a PEM file.
    #[must_use]
    pub fn with_ca_file(mut self, path: Option<PathBuf>) -> Self {
        self.ca_file = path;
        self
    }

    /// Whether this address may carry a token: over TLS, or to this machine only.
    ///
    /// # Errors
    /// [`MilvusError::Address`] for a token over plain HTTP to another machine.
    pub(crate) fn check_secrecy(&self) -> Result<(), MilvusError> {
        let here = matches!(self.host.as_str(), "localhost" | "[::1]") || self.host.starts_with("127.");
        if self.token.is_some() && !self.tls && !here {
            return Err(MilvusError::Address {
                address: self.to_string(),
                problem: "a token would travel in the clear: use https://, or leave the token out".to_owned(),
            });
        }
        Ok(())
    }

    pub(crate) fn tls(&self) -> bool {
        self.tls
    }

    pub(crate) fn host(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }

    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// What the transport connects to, without the database.
    pub(crate) fn endpoint(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.endpoint())?;
        if self.database.is_empty() { Ok(()) } else { write!(f, "/{}", self.database) }
    }
}

/// Host and port; an IPv6 address stands in brackets.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    let after = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[after..].rfind(':') {
        Some(at) => (&authority[..after + at], Some(&authority[after + at + 1..])),
        None => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed_without_secrets() {
        let check = |text: &str, printed: &str| assert_eq!(Address::parse(text).unwrap().to_string(), printed);
        check("http://127.0.0.1:19530", "http://127.0.0.1:19530");
        check("HTTP://milvus.example", "http://milvus.example:19530");
        check("https://[::1]:443/agents", "https://[::1]:443/agents");
        check("http://localhost/", "http://localhost:19530");
        for bad in
            ["", "milvus:19530", "ftp://a", "http://", "http://a:0", "http://a:70000", "http://a b", "http://a/b/c"]
        {
            assert!(Address::parse(bad).is_err(), "{bad} was taken");
        }
    }

    #[test]
    fn credentials_in_an_address_are_refused_and_not_repeated() {
        for bad in ["http://root:Milvus@host:19530", "https://host:19530/?token=Milvus", "http://host#Milvus"] {
            let error = Address::parse(bad).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("Milvus@") && !shown.contains("=Milvus") && !shown.contains("#Milvus"), "{shown}");
            assert!(shown.contains("MILVUS_TOKEN"), "{shown}");
        }
        let token = Token::new("root:Secret1").unwrap();
        let address = Address::parse("http://127.0.0.1:19530").unwrap().with_token(Some(token));
        assert!(!format!("{address:?} {address}").contains("Secret1"));
        assert!(address.check_secrecy().is_ok());
        let far = Address::parse("http://10.1.2.3:19530").unwrap().with_token(address.token);
        assert!(far.check_secrecy().is_err());
    }
}

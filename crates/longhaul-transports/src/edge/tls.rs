//! TLS by configuration: certificate, key, and whom a client's certificate has to come from.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use serde_json::{Map, Value};
use tokio_rustls::TlsAcceptor;

use crate::ServeError;

/// Files of TLS, in PEM.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    /// The certificate and those that vouch for it.
    pub certificates: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who vouches for clients. With it, a client without such a certificate is not let in.
    pub client_authorities: Option<PathBuf>,
    /// Nothing older than TLS 1.3.
    pub only_13: bool,
}

impl TlsSettings {
    /// Reads `tls` of a transport's `config`; nothing when it is not enabled or has no files.
    pub(crate) fn read(kind: &str, tls: &Map<String, Value>, notices: &mut Vec<String>) -> Option<Self> {
        if tls.get("enabled").and_then(Value::as_bool) == Some(false) {
            return None;
        }
        let path = |key: &str| tls.get(key).and_then(Value::as_str).filter(|path| !path.is_empty()).map(PathBuf::from);
        let (Some(certificates), Some(key)) = (path("cert_file"), path("key_file")) else {
            notices.push(format!("transport {kind}: tls needs cert_file and key_file, so there is none"));
            return None;
        };
        let authorities = path("ca_file");
        let required = tls.get("require_client_cert").and_then(Value::as_bool).unwrap_or_default();
        if required && authorities.is_none() {
            notices.push(format!("transport {kind}: require_client_cert needs ca_file; nobody could come in"));
            return None;
        }
        let only_13 = tls.get("min_version").and_then(Value::as_str).is_some_and(|version| version.ends_with("1.3"));
        Some(Self { certificates, key, client_authorities: authorities.filter(|_| required), only_13 })
    }
}

/// What speaks TLS with these files, offering these protocols (`http/1.1`, `h2`).
pub(crate) fn acceptor(files: &TlsSettings, protocols: &[&str]) -> Result<TlsAcceptor, ServeError> {
    let wrong = |path: &PathBuf, problem: String| ServeError::Tls { path: path.clone(), problem };
    let certificates = certificates(&files.certificates)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = if files.only_13 {
        builder.with_protocol_versions(&[&rustls::version::TLS13])
    } else {
        builder.with_safe_default_protocol_versions()
    };
    let builder = builder.map_err(|error| wrong(&files.key, error.to_string()))?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in self::certificates(path)? {
                roots.add(certificate).map_err(|error| wrong(path, error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| wrong(path, error.to_string()))?)
        }
    };
    let mut config =
        builder.with_single_cert(certificates, key).map_err(|error| wrong(&files.key, error.to_string()))?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let wrong = |problem: String| ServeError::Tls { path: path.clone(), problem };
    let all: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(|error| wrong(error.to_string()))?;
    if all.is_empty() {
        return Err(wrong("it holds no certificate in PEM".to_owned()));
    }
    Ok(all)
}

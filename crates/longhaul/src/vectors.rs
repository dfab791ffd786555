//! The vector server that the settings name, if they name one.
//!
//! It owns the way from settings to a connection; what memory does with it is `longhaul-memory`'s. Invariant: without
//! `memory.uri`, or with a path there, nothing of this is touched.

use std::sync::Arc;

use longhaul_core::Ambient;
use longhaul_memory::remote::RemoteVectors;
use longhaul_milvus::{Address, Milvus, MilvusError, MilvusSettings, Token};

use crate::settings::MemorySettings;

/// The server, if `memory.uri` is the address of one. Nothing is sent yet; needs a tokio runtime.
pub(crate) fn server(
    settings: &MemorySettings,
    ambient: &Ambient,
) -> Result<Option<Arc<dyn RemoteVectors>>, MilvusError> {
    match settings.uri.as_deref() {
        Some(uri) if uri.contains("://") => at(uri, settings, ambient).map(Some),
        Some(_) | None => Ok(None),
    }
}

/// The server at this address, with the token, certificate and index of the settings.
pub(crate) fn at(
    uri: &str,
    settings: &MemorySettings,
    ambient: &Ambient,
) -> Result<Arc<dyn RemoteVectors>, MilvusError> {
    let token = settings.token.as_ref().map(|token| Token::new(token.expose())).transpose()?;
    let address = Address::parse(uri)?.with_token(token).with_ca_file(settings.ca_file.clone());
    let server = MilvusSettings { index: settings.index, ..MilvusSettings::new(address) };
    Ok(Arc::new(Milvus::new(server, ambient.clone())?))
}

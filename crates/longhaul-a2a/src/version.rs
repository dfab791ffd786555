//! Which version of the protocol a client speaks (specification, section 3.6).

use crate::error::A2aError;

/// The header, and the parameter where there is none.
pub(crate) const HEADER: &str = "a2a-version";
/// The header with the extensions that a client knows, with commas between.
pub(crate) const EXTENSIONS: &str = "a2a-extensions";

/// A version that is spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1_0,
    V0_3,
}

impl Version {
    /// Nothing means 0.3; what comes behind major and minor says nothing.
    pub(crate) fn read(stated: Option<&str>) -> Result<Self, A2aError> {
        let stated = stated.unwrap_or_default().trim();
        let mut parts = stated.split('.');
        match (parts.next(), parts.next()) {
            (Some(""), None) | (Some("0"), Some("3")) => Ok(Self::V0_3),
            (Some("1"), Some("0")) => Ok(Self::V1_0),
            _ => Err(A2aError::Version(stated.chars().take(40).collect(), " (or 0.3 over JSON-RPC)")),
        }
    }

    /// For bindings that speak 1.0 only.
    pub(crate) fn only_1_0(stated: Option<&str>) -> Result<(), A2aError> {
        match Self::read(stated)? {
            Self::V1_0 => Ok(()),
            Self::V0_3 => {
                Err(A2aError::Version("0.3".to_owned(), "; 0.3, which nothing means, is spoken over JSON-RPC only"))
            }
        }
    }
}

/// The extensions that a client says it knows.
pub(crate) fn extensions(header: Option<&str>) -> Vec<String> {
    let names = header.unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

//! Which index the server builds over vectors, and how thoroughly it is searched (`memory.index`).
//!
//! Written as `hnsw`, `hnsw(m=16, ef_construction=128, ef=96)` or `ivf_flat(nlist=1024, nprobe=32)`.

use std::{fmt, str::FromStr};

use crate::MilvusError;

/// An index with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// A graph: quick and exact, larger in memory.
    Hnsw {
        /// Neighbours of each node, 4 to 64.
        m: u32,
        /// Candidates looked at while building, 8 to 512.
        ef_construction: u32,
        /// Candidates looked at while searching, at least as many as are asked for.
        ef: u32,
    },
    /// Lists around centres: smaller, quicker to build.
    IvfFlat {
        /// Lists, 1 to 65,536.
        nlist: u32,
        /// Lists looked at while searching.
        nprobe: u32,
    },
}

impl Default for Index {
    fn default() -> Self {
        Self::Hnsw { m: 16, ef_construction: 128, ef: 128 }
    }
}

impl Index {
    /// The server's word for the kind.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Hnsw { .. } => "HNSW",
            Self::IvfFlat { .. } => "IVF_FLAT",
        }
    }

    /// What the index is built with, as JSON.
    pub(crate) fn build_params(&self) -> String {
        match self {
            Self::Hnsw { m, ef_construction, .. } => format!(r#"{{"M": {m}, "efConstruction": {ef_construction}}}"#),
            Self::IvfFlat { nlist, .. } => format!(r#"{{"nlist": {nlist}}}"#),
        }
    }

    /// What a search for `take` rows is made with, as JSON.
    pub(crate) fn search_params(&self, take: usize) -> String {
        match self {
            Self::Hnsw { ef, .. } => format!(r#"{{"ef": {}}}"#, (*ef as usize).max(take)),
            Self::IvfFlat { nprobe, .. } => format!(r#"{{"nprobe": {nprobe}}}"#),
        }
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hnsw { m, ef_construction, ef } => {
                write!(f, "hnsw(m={m}, ef_construction={ef_construction}, ef={ef})")
            }
            Self::IvfFlat { nlist, nprobe } => write!(f, "ivf_flat(nlist={nlist}, nprobe={nprobe})"),
        }
    }
}

const EXPECTED: &str =
    "hnsw(m=4..64, ef_construction=8..512, ef=1..32768) or ivf_flat(nlist=1..65536, nprobe=1..nlist)";

impl FromStr for Index {
    type Err = MilvusError;

    fn from_str(text: &str) -> Result<Self, MilvusError> {
        parse(text).ok_or_else(|| MilvusError::Index { found: text.chars().take(80).collect(), expected: EXPECTED })
    }
}

fn parse(text: &str) -> Option<Index> {
    let text = text.trim().to_ascii_lowercase();
    let (kind, rest) = text.split_once('(').unwrap_or((&text, ")"));
    let params = rest.strip_suffix(')')?;
    let mut index = match kind.trim() {
        "hnsw" => Index::default(),
        "ivf_flat" => Index::IvfFlat { nlist: 1024, nprobe: 32 },
        _ => return None,
    };
    for param in params.split(',').map(str::trim).filter(|param| !param.is_empty()) {
        let (name, value) = param.split_once('=')?;
        let value: u32 = value.trim().parse().ok()?;
        let place = match (&mut index, name.trim()) {
            (Index::Hnsw { m, .. }, "m") => m,
            (Index::Hnsw { ef_construction, .. }, "ef_construction") => ef_construction,
            (Index::Hnsw { ef, .. }, "ef") => ef,
            (Index::IvfFlat { nlist, .. }, "nlist") => nlist,
            (Index::IvfFlat { nprobe, .. }, "nprobe") => nprobe,
            (Index::Hnsw { .. } | Index::IvfFlat { .. }, _) => return None,
        };
        *place = value;
    }
    let fits = match index {
        Index::Hnsw { m, ef_construction, ef } => {
            (4..=64).contains(&m) && (8..=512).contains(&ef_construction) && (1..=32_768).contains(&ef)
        }
        Index::IvfFlat { nlist, nprobe } => (1..=65_536).contains(&nlist) && (1..=nlist).contains(&nprobe),
    };
    fits.then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        for text in ["hnsw", "HNSW(M=8, ef=200)", "ivf_flat", "ivf_flat(nlist=64,nprobe=8)"] {
            let index: Index = text.parse().unwrap();
            assert_eq!(index.to_string().parse::<Index>().unwrap(), index, "{text}");
        }
        for bad in ["", "flat", "hnsw(m=1)", "hnsw(m=16", "hnsw(x=1)", "ivf_flat(nlist=8, nprobe=9)", "hnsw(nlist=8)"] {
            assert!(bad.parse::<Index>().is_err(), "{bad} was taken");
        }
    }
}

//! `cargo xtask bench memory`: the figures promised for memory. It owns the order of the sections, what a failing one
//! means, and where data and models are looked for; a section owns its rows.
//!
//! Flags: `--only quality` measures some sections. Data is looked for in `shared/data` beside the checkout, or where
//! `LONGHAUL_MEASURE_DATA` says; it is for measuring only and never part of this project. The embedding model is looked
//! for where `longhaul setup` puts it, or where `LONGHAUL_MEASURE_MODEL` says.

mod embedding;
mod engine;
mod ours;
mod peers;
mod quality;
mod sentences;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use self::ours::Ours;
use super::{Bar, Row};

type Section = fn(&Stage<'_>) -> anyhow::Result<Vec<Row>>;

/// Every part of the table by name. A section that needs a program of its own builds it by [`Ours::build`].
const SECTIONS: &[(&str, Section)] =
    &[("quality", quality::rows), ("engine", engine::rows), ("embedding", embedding::rows)];

/// What every section measures with.
struct Stage<'a> {
    root: &'a Path,
    /// For stores and files of the run.
    scratch: PathBuf,
    /// The folder of data, if there is one.
    data: Option<PathBuf>,
    /// The folder of the default embedding model, if it is installed.
    model: Option<PathBuf>,
}

impl Stage<'_> {
    /// A file of the data, or why there is none.
    fn data(&self, name: &str) -> Result<PathBuf, String> {
        let file = self.data.as_ref().map(|folder| folder.join(name)).filter(|file| file.is_file());
        file.ok_or_else(|| {
            format!("{name} is not in shared/data beside the checkout, nor where LONGHAUL_MEASURE_DATA says")
        })
    }

    /// The folder of the model, or why there is none.
    fn model(&self) -> Result<&Path, String> {
        self.model.as_deref().ok_or_else(|| "the embedding model is not installed: run `longhaul setup`".to_owned())
    }
}

pub(super) fn rows(root: &Path, flags: &[&str]) -> anyhow::Result<Vec<Row>> {
    let only = parse(flags)?;
    let scratch = tempfile::tempdir().context("a folder for the stores")?;
    let stage = Stage { root, scratch: scratch.path().to_owned(), data: data(root), model: model() };
    let mut rows = Vec::new();
    for (name, section) in SECTIONS {
        if !only.is_empty() && !only.contains(name) {
            continue;
        }
        progress(name);
        let measured =
            section(&stage).unwrap_or_else(|error| vec![Row::failed(format!("section {name}"), format!("{error:#}"))]);
        super::show(&measured);
        rows.extend(measured);
    }
    Ok(rows)
}

fn parse<'a>(flags: &[&'a str]) -> anyhow::Result<Vec<&'a str>> {
    let mut only = Vec::new();
    let mut rest = flags.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().with_context(|| format!("{flag} needs a value"))?;
        match *flag {
            "--only" => only = value.split(',').collect(),
            _ => bail!("unknown flag {flag}; there is --only"),
        }
    }
    let known: Vec<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = only.iter().find(|name| !known.contains(name)) {
        bail!("no section is called {unknown}; there are: {}", known.join(", "));
    }
    Ok(only)
}

fn data(root: &Path) -> Option<PathBuf> {
    let given = std::env::var_os("LONGHAUL_MEASURE_DATA").map(PathBuf::from);
    given.or_else(|| Some(root.parent()?.join("shared/data"))).filter(|folder| folder.is_dir())
}

fn model() -> Option<PathBuf> {
    let given = std::env::var_os("LONGHAUL_MEASURE_MODEL").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    let installed = cache.map(|cache| cache.join("longhaul/models/all-MiniLM-L6-v2"));
    given.or(installed).filter(|folder| folder.join("model.safetensors").is_file())
}

/// Long work shows that it lives.
fn progress(what: &str) {
    println!("… {what}");
}

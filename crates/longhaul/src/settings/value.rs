//! From what was written to a checked value. Pure: the folder that relative paths start from is an argument.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use longhaul_harness::spending::{Money, Price, Prices};
use longhaul_model::Secret;
use longhaul_tools::{mcp::McpServerSpec, policy::Policy};
use longhaul_workspace::context::Profiles;

use super::{
    error::{Origin, SettingsError},
    keys::{Key, Kind},
    policy,
};

/// A value as it was written, before its key has judged it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Written {
    Text(String),
    Integer(i64),
    /// A number with a fraction, as it was written.
    Decimal(String),
    Bool(bool),
    Texts(Vec<String>),
    /// Tables by name, each of names with values as they would be written in text.
    Tables(Tables),
    /// A table for a key that takes one as it is.
    Json(serde_json::Value),
    /// Something no key takes: a date, another table.
    Other(&'static str),
}

/// Tables by name, as a family of keys of the user's own has them.
pub(crate) type Tables = BTreeMap<String, BTreeMap<String, String>>;

/// A value that its key has accepted.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    Secret(Secret),
    Path(PathBuf),
    Paths(Vec<PathBuf>),
    Bool(bool),
    Integer(u64),
    Profiles(Profiles),
    Texts(Vec<String>),
    Servers(Vec<McpServerSpec>),
    Money(Money),
    Prices(Prices),
}

/// What paths are relative to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Base<'a> {
    /// For relative paths.
    pub(crate) folder: &'a Path,
    /// For `~/`.
    pub(crate) user_home: Option<&'a Path>,
}

/// Accepts or refuses what was written for `key`. `origin` is for the error only.
pub(crate) fn check(
    key: &'static Key,
    written: Written,
    base: Base<'_>,
    origin: &Origin,
) -> Result<Value, SettingsError> {
    let found = match (&key.kind, &written) {
        (Kind::Secret, _) => None,
        (_, Written::Text(text)) => Some(text.clone()),
        (_, Written::Integer(number)) => Some(number.to_string()),
        (_, Written::Decimal(number)) => Some(number.clone()),
        (_, Written::Bool(flag)) => Some(flag.to_string()),
        (_, Written::Texts(texts)) => Some(texts.join(", ")),
        (_, Written::Tables(_) | Written::Json(_)) => Some("a table".to_owned()),
        (_, Written::Other(what)) => Some((*what).to_owned()),
    };
    let value = match key.kind {
        Kind::Text => text(written).map(Value::Text),
        Kind::Secret => text(written).map(|text| Value::Secret(Secret::new(&text))),
        Kind::Path => text(written).map(|text| Value::Path(absolute(&text, base))),
        Kind::ProjectPaths => project_paths(written).map(Value::Paths),
        Kind::Paths => {
            texts(written).map(|texts| Value::Paths(texts.iter().map(|text| absolute(text, base)).collect()))
        }
        Kind::Url => {
            text(written).filter(|text| is_url(text)).map(|text| Value::Text(text.trim_end_matches('/').to_owned()))
        }
        Kind::Bool => boolean(&written).map(Value::Bool),
        Kind::Integer { min, max } => {
            integer(&written).filter(|number| (min..=max).contains(number)).map(Value::Integer)
        }
        Kind::Choice(words) => text(written).filter(|text| words.contains(&text.as_str())).map(Value::Text),
        Kind::ModelSpec => text(written).and_then(|text| model_spec(&text, base)).map(Value::Text),
        Kind::ModelSpecs => list(written)
            .and_then(|specs| specs.iter().map(|spec| model_spec(spec, base)).collect::<Option<Vec<_>>>())
            .map(Value::Texts),
        Kind::MemoryUri => return memory_uri(key, written, origin),
        Kind::MemoryIndex => {
            text(written).filter(|text| text.parse::<longhaul_milvus::Index>().is_ok()).map(Value::Text)
        }
        Kind::FolderOrBucket => text(written).map(|text| Value::Text(folder_or_bucket(text, base))),
        Kind::ContextProfiles => {
            let Written::Tables(tables) = written else {
                let expected = expected(key.kind);
                return Err(SettingsError::Value { origin: origin.clone(), key: key.name, expected, found });
            };
            return context_profiles(tables, base, origin).map(Value::Profiles);
        }
        Kind::AgentSpec => text(written).filter(|text| is_agent(text)).map(Value::Text),
        Kind::Hosts => list(written).filter(|texts| policy::hosts(texts).is_ok()).map(Value::Texts),
        Kind::McpServers => policy::servers(&written).map(Value::Servers),
        Kind::ToolPatterns => list(written).filter(|texts| Policy::new(texts, &[], &[]).is_ok()).map(Value::Texts),
        Kind::Money => money(&written).map(Value::Money),
        Kind::Prices => prices(written).map(Value::Prices),
        Kind::Command => command(written).map(Value::Texts),
        Kind::DaysByKind => text(written).filter(|text| days_by_kind(text).is_some()).map(Value::Text),
    };
    value.ok_or_else(|| SettingsError::Value {
        origin: origin.clone(),
        key: key.name,
        expected: expected(key.kind),
        found,
    })
}

/// What a kind accepts, in words that follow "must be".
pub(crate) fn expected(kind: Kind) -> String {
    match kind {
        Kind::Text | Kind::Secret => "text that is not empty".to_owned(),
        Kind::Path => "a path".to_owned(),
        Kind::ProjectPaths => "a list of relative paths inside the project".to_owned(),
        Kind::Paths => "a list of paths".to_owned(),
        Kind::Url => "an address such as https://api.openai.com/v1 (http or https, no user name, no query)".to_owned(),
        Kind::Bool => "true or false".to_owned(),
        Kind::Integer { min, max } => format!("a whole number from {min} to {max}"),
        Kind::Choice(words) => format!("one of {}", words.join(", ")),
        Kind::ModelSpec => {
            "openai:NAME, anthropic:NAME, openai-responses:NAME, cassette:FILE or cassette:demo".to_owned()
        }
        Kind::ModelSpecs => "a list of models such as [\"anthropic:NAME\", \"openai:NAME\"]".to_owned(),
        Kind::MemoryUri => "a path or http://host:19530".to_owned(),
        Kind::MemoryIndex => "hnsw(m=16, ef_construction=128, ef=128) or ivf_flat(nlist=1024, nprobe=32)".to_owned(),
        Kind::FolderOrBucket => "a folder or s3://bucket/prefix".to_owned(),
        Kind::ContextProfiles => "tables `[context.profiles.NAME]` in longhaul.toml: docs/workspace.md".to_owned(),
        Kind::AgentSpec => "own or acp:COMMAND, as in acp:claude-agent-acp".to_owned(),
        Kind::Hosts => "a list of hosts such as example.org, example.org:8443, *.example.org".to_owned(),
        Kind::McpServers => {
            "tables `[mcp.servers.NAME]` with `command`, `args` and `allow` in longhaul.toml: docs/skills.md".to_owned()
        }
        Kind::ToolPatterns => "a list of TOOL or TOOL(ARGUMENT=TEXT)".to_owned(),
        Kind::Command => "a line for the shell, or a list of a program and its arguments".to_owned(),
        Kind::Money => "an amount such as 25 or 0.75".to_owned(),
        Kind::Prices => {
            "tables `[prices.\"MODEL\"]` in longhaul.toml, with `input` and `output`, and `cache_read`, `cache_write` at \
             will, each an amount such as 2.5"
                .to_owned()
        }
        Kind::DaysByKind => {
            let kinds: Vec<&str> = longhaul_memory::Kind::ALL.iter().map(|kind| kind.as_str()).collect();
            format!("a list such as `note=90, fact=never`, of {}", kinds.join(", "))
        }
    }
}

fn text(written: Written) -> Option<String> {
    match written {
        Written::Text(text) if !text.trim().is_empty() => Some(text),
        Written::Text(_)
        | Written::Integer(_)
        | Written::Decimal(_)
        | Written::Bool(_)
        | Written::Texts(_)
        | Written::Tables(_)
        | Written::Json(_)
        | Written::Other(_) => None,
    }
}

fn boolean(written: &Written) -> Option<bool> {
    match written {
        Written::Bool(flag) => Some(*flag),
        Written::Text(text) => match text.as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        Written::Integer(_)
        | Written::Decimal(_)
        | Written::Texts(_)
        | Written::Tables(_)
        | Written::Json(_)
        | Written::Other(_) => None,
    }
}

fn integer(written: &Written) -> Option<u64> {
    match written {
        Written::Integer(number) => u64::try_from(*number).ok(),
        Written::Text(text) => text.trim().replace('_', "").parse().ok(),
        Written::Decimal(_)
        | Written::Bool(_)
        | Written::Texts(_)
        | Written::Tables(_)
        | Written::Json(_)
        | Written::Other(_) => None,
    }
}

fn money(written: &Written) -> Option<Money> {
    match written {
        Written::Text(text) | Written::Decimal(text) => text.parse().ok(),
        Written::Integer(number) => number.to_string().parse().ok(),
        Written::Bool(_) | Written::Texts(_) | Written::Tables(_) | Written::Json(_) | Written::Other(_) => None,
    }
}

/// What models cost; a field that is not known, or one that is missing, makes all of it wrong.
fn prices(written: Written) -> Option<Prices> {
    let Written::Tables(tables) = written else { return None };
    let mut prices = Prices::default();
    for (model, fields) in &tables {
        let known = |name: &String| ["input", "output", "cache_read", "cache_write"].contains(&name.as_str());
        if !fields.keys().all(known) {
            return None;
        }
        let amount = |name: &str| fields.get(name).map(|text| text.parse::<Money>());
        let price = Price {
            input: amount("input")?.ok()?,
            output: amount("output")?.ok()?,
            cache_read: amount("cache_read").transpose().ok()?,
            cache_write: amount("cache_write").transpose().ok()?,
        };
        prices.set(model, price);
    }
    Some(prices)
}

/// A list, or in one text separated by colons.
fn texts(written: Written) -> Option<Vec<String>> {
    match written {
        Written::Texts(texts) => Some(texts),
        Written::Text(text) => Some(text.split(':').filter(|part| !part.is_empty()).map(str::to_owned).collect()),
        Written::Integer(_)
        | Written::Decimal(_)
        | Written::Bool(_)
        | Written::Tables(_)
        | Written::Json(_)
        | Written::Other(_) => None,
    }
}

/// A program and its arguments; a text is a line for the shell.
fn command(written: Written) -> Option<Vec<String>> {
    let command = match written {
        Written::Text(line) if line.trim().is_empty() => return None,
        Written::Text(line) => vec!["sh".to_owned(), "-c".to_owned(), line],
        other => texts(other)?,
    };
    command.first().is_some_and(|program| !program.trim().is_empty()).then_some(command)
}

/// A list, or in one text separated by commas.
fn list(written: Written) -> Option<Vec<String>> {
    match written {
        Written::Text(text) => {
            Some(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
        }
        other => texts(other),
    }
}

fn is_agent(text: &str) -> bool {
    text == "own" || text.strip_prefix("acp:").is_some_and(|command| !command.trim().is_empty())
}

fn project_paths(written: Written) -> Option<Vec<PathBuf>> {
    let paths: Vec<PathBuf> = texts(written)?.into_iter().map(PathBuf::from).collect();
    let inside = |path: &PathBuf| {
        !path.as_os_str().is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)))
    };
    paths.iter().all(inside).then_some(paths)
}

/// Credentials do not belong into an address (they would reach logs), and a query would be cut off by the path added to it.
fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        let host = rest.split('/').next().unwrap_or_default();
        !host.is_empty() && !host.contains('@') && !rest.contains(['?', '#', ' ', '\t', '\n'])
    })
}

fn model_spec(text: &str, base: Base<'_>) -> Option<String> {
    let (provider, name) = text.split_once(':')?;
    let name = name.trim();
    match provider {
        _ if name.is_empty() => None,
        "openai" | "openai-responses" | "anthropic" => Some(format!("{provider}:{name}")),
        "cassette" if name == "demo" => Some("cassette:demo".to_owned()),
        "cassette" => Some(format!("cassette:{}", absolute(name, base).display())),
        _ => None,
    }
}

fn memory_uri(key: &'static Key, written: Written, origin: &Origin) -> Result<Value, SettingsError> {
    let Some(uri) = text(written) else {
        return Err(SettingsError::Value {
            origin: origin.clone(),
            key: key.name,
            expected: expected(key.kind),
            found: Some(String::new()),
        });
    };
    if uri.contains("://") {
        // Its words never repeat credentials.
        longhaul_milvus::Address::parse(&uri).map_err(|source| SettingsError::Server {
            origin: origin.clone(),
            key: key.name,
            source,
        })?;
    }
    Ok(Value::Text(uri))
}

fn folder_or_bucket(text: String, base: Base<'_>) -> String {
    if text.contains("://") { text } else { absolute(&text, base).display().to_string() }
}

/// The built-in profiles of context packs and the user's own, which may change each other in any order.
fn context_profiles(mut tables: Tables, base: Base<'_>, origin: &Origin) -> Result<Profiles, SettingsError> {
    let refused = |source| SettingsError::Profile { origin: origin.clone(), source };
    for values in tables.values_mut() {
        if let Some(path) = values.get_mut("tokenizer").filter(|path| !path.is_empty() && *path != "estimate") {
            *path = absolute(path, base).display().to_string();
        }
    }
    let mut profiles = Profiles::default();
    while !tables.is_empty() {
        let is_ready = |values: &BTreeMap<String, String>| {
            values.get("base").is_none_or(|base| !tables.contains_key(base) || profiles.get(base).is_ok())
        };
        let ready = tables.iter().find(|(_, values)| is_ready(values)).or(tables.iter().next());
        let Some(name) = ready.map(|(name, _)| name.clone()) else { break };
        let values = tables.remove(&name).unwrap_or_default();
        let values = values.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        profiles.add_written(&name, values).map_err(refused)?;
    }
    Ok(profiles)
}

/// `note=90, fact=never`: days by kind of memory, `None` for never.
pub(crate) fn days_by_kind(text: &str) -> Option<BTreeMap<longhaul_memory::Kind, Option<u32>>> {
    let entry = |entry: &str| {
        let (kind, days) = entry.split_once('=')?;
        let days = match days.trim() {
            "never" => None,
            days => Some(days.parse().ok().filter(|days| (1..=36_500).contains(days))?),
        };
        Some((kind.trim().parse().ok()?, days))
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(entry).collect()
}

fn absolute(text: &str, base: Base<'_>) -> PathBuf {
    if let (Some(rest), Some(home)) = (text.strip_prefix("~/"), base.user_home) {
        return home.join(rest);
    }
    base.folder.join(text)
}

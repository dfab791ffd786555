//! Reads the places a setting can come from, lowest first, into one list of assignments. It decides which files count;
//! what a value means is decided in [`super::value`].

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

use super::{
    error::{Origin, SettingsError},
    keys::{self, KEYS, Key, Kind, OTHER_VARIABLES, TEST_PREFIX, Who},
    value::{Tables, Written},
};

/// The name of a configuration file, the user's and the project's.
pub const FILE_NAME: &str = "longhaul.toml";

/// Everything that settings are read from, as plain data.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `(key, text)` from the command line, with the flag's name for messages: `("model.spec", "openai:gpt-4o", "--model")`.
    pub flags: Vec<(String, String, String)>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// The user's home folder.
    pub user_home: Option<PathBuf>,
    /// The folder of the user's own `longhaul.toml` and `.env`.
    pub config_dir: Option<PathBuf>,
    /// Where the command was typed.
    pub working_dir: PathBuf,
    /// The project, if the command has one; it need not exist yet.
    pub project: Option<PathBuf>,
}

impl Sources {
    /// This process's environment and folders.
    #[must_use]
    pub fn of_this_process(project: Option<PathBuf>) -> Self {
        let environment: BTreeMap<String, String> = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let folder = |name: &str| environment.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let user_home = folder("HOME");
        let config_dir = folder("LONGHAUL_CONFIG_DIR").or_else(|| {
            folder("XDG_CONFIG_HOME")
                .or_else(|| Some(user_home.as_ref()?.join(".config")))
                .map(|dir| dir.join("longhaul"))
        });
        let working_dir = env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        Self { flags: Vec::new(), environment, user_home, config_dir, working_dir, project }
    }

    /// Adds a value from the command line. `flag` is its name there.
    #[must_use]
    pub fn with_flag(mut self, key: &str, text: &str, flag: &str) -> Self {
        self.flags.push((key.to_owned(), text.to_owned(), flag.to_owned()));
        self
    }

    /// The user's own file, whether it exists or not.
    pub(crate) fn user_file(&self) -> PathBuf {
        self.config_dir.clone().unwrap_or_else(|| PathBuf::from("~/.config/longhaul")).join(FILE_NAME)
    }

    fn project_absolute(&self) -> Option<PathBuf> {
        let project = self.working_dir.join(self.project.as_ref()?);
        Some(project.canonicalize().unwrap_or(project))
    }
}

/// One value, where it was written, and the folder its relative paths start from.
#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) key: &'static Key,
    pub(crate) written: Written,
    pub(crate) origin: Origin,
    pub(crate) folder: PathBuf,
}

/// All assignments, the ones that win last; and notices about files that were not read.
pub(crate) fn gather(sources: &Sources) -> Result<(Vec<Assignment>, Vec<String>), SettingsError> {
    let mut all = Vec::new();
    let mut notices = Vec::new();
    if sources.config_dir.is_some() {
        read_toml(&sources.user_file(), None, &mut all)?;
    }
    let project = sources.project_absolute();
    if let Some(project) = &project {
        read_toml(&project.join(FILE_NAME), Some(&sources.user_file()), &mut all)?;
    }
    if let Some(config) = &sources.config_dir {
        read_dot_env(&config.join(".env"), &sources.working_dir, &mut all)?;
    }
    let working = sources.working_dir.canonicalize().unwrap_or_else(|_| sources.working_dir.clone());
    let dot_env = working.join(".env");
    if project.is_some_and(|project| working.starts_with(project)) {
        if dot_env.exists() {
            notices.push(format!(
                "{} was not read: the agent that works in the project could write it; keep keys in {} or in the environment",
                dot_env.display(),
                sources.user_file().with_file_name(".env").display()
            ));
        }
    } else {
        read_dot_env(&dot_env, &working, &mut all)?;
    }
    from_variables(&sources.environment, &sources.working_dir, |name| Origin::Environment { name }, &mut all)?;
    from_flags(sources, &mut all)?;
    Ok((all, notices))
}

fn from_flags(sources: &Sources, all: &mut Vec<Assignment>) -> Result<(), SettingsError> {
    for (name, text, flag) in &sources.flags {
        let origin = Origin::Flag { name: flag.clone() };
        let key = keys::find(name).ok_or_else(|| unknown(name, origin.clone()))?;
        all.push(Assignment { key, written: Written::Text(text.clone()), origin, folder: sources.working_dir.clone() });
    }
    Ok(())
}

/// Variables that name settings; an unknown `LONGHAUL_…` is an error, anything else is not ours. An empty variable counts
/// as not set, as shells make no difference between the two easy to see.
fn from_variables(
    variables: &BTreeMap<String, String>,
    folder: &Path,
    origin: impl Fn(String) -> Origin,
    all: &mut Vec<Assignment>,
) -> Result<(), SettingsError> {
    let claims_to_be_ours = |name: &&String| name.starts_with("LONGHAUL_") && !name.starts_with(TEST_PREFIX);
    for name in variables.keys().filter(claims_to_be_ours) {
        let ours: Vec<String> = KEYS.iter().map(Key::variable).collect();
        if !ours.contains(name) && !OTHER_VARIABLES.contains(&name.as_str()) {
            let nearest = keys::nearest(name, ours.iter().map(String::as_str));
            return Err(SettingsError::UnknownKey { origin: origin(name.clone()), key: name.clone(), nearest });
        }
    }
    let mut push = |key: &'static Key, name: &str, text: String| {
        let written = Written::Text(text);
        all.push(Assignment { key, written, origin: origin(name.to_owned()), folder: folder.to_owned() });
    };
    for key in KEYS {
        // The documents' name first: the LONGHAUL_ name, pushed after it, wins.
        if let Some((name, text)) = key.alias.and_then(|alias| Some((alias, filled(variables, alias)?))) {
            let text = if key.kind == Kind::ModelSpec { format!("openai:{text}") } else { text };
            push(key, name, text);
        }
        let name = key.variable();
        if let Some(text) = filled(variables, &name) {
            push(key, &name, text);
        }
    }
    Ok(())
}

fn filled(variables: &BTreeMap<String, String>, name: &str) -> Option<String> {
    variables.get(name).filter(|value| !value.trim().is_empty()).cloned()
}

fn read_optional(path: &Path) -> Result<Option<String>, SettingsError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(SettingsError::Unreadable { path: path.to_owned(), source }),
    }
}

fn read_dot_env(path: &Path, folder: &Path, all: &mut Vec<Assignment>) -> Result<(), SettingsError> {
    let Some(text) = read_optional(path)? else { return Ok(()) };
    let mut variables = BTreeMap::new();
    for entry in dotenvy::from_read_iter(text.as_bytes()) {
        // The parser's own message repeats the line, which may hold a key.
        let (name, value) = entry.map_err(|error| SettingsError::Syntax {
            path: path.to_owned(),
            line: dot_env_line(&text, &error),
            message: "not of the form NAME=value".to_owned(),
        })?;
        variables.insert(name, value);
    }
    from_variables(&variables, folder, |name| Origin::DotEnv { path: path.to_owned(), name }, all)
}

fn dot_env_line(text: &str, error: &dotenvy::Error) -> usize {
    let dotenvy::Error::LineParse(line, _) = error else { return 1 };
    text.lines().position(|candidate| candidate.trim() == line.trim()).map_or(1, |index| index + 1)
}

/// Reads one TOML file. `user_file` is given for a project's file: keys that only the user may set are refused there.
fn read_toml(path: &Path, user_file: Option<&Path>, all: &mut Vec<Assignment>) -> Result<(), SettingsError> {
    let Some(text) = read_optional(path)? else { return Ok(()) };
    let line_at = |offset: usize| 1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
    let table = DeTable::parse(&text).map_err(|error| SettingsError::Syntax {
        path: path.to_owned(),
        line: error.span().map_or(1, |span| line_at(span.start)),
        message: error.message().replace('\n', ", "),
    })?;
    let origin_at = |offset: usize| match user_file {
        None => Origin::UserFile { path: path.to_owned(), line: line_at(offset) },
        Some(_) => Origin::ProjectFile { path: path.to_owned(), line: line_at(offset) },
    };
    let mut flat = Vec::new();
    flatten("", table.get_ref(), &mut flat);
    for (name, offset, value) in flat {
        let origin = origin_at(offset);
        let key = keys::find(&name).ok_or_else(|| unknown(&name, origin.clone()))?;
        if let (Some(user_file), Who::UserOnly) = (user_file, key.who) {
            return Err(SettingsError::NotInProject { origin, key: key.name, user_file: user_file.to_owned() });
        }
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        let written = if key.kind == Kind::McpServers { Written::Json(json(value)) } else { written(value) };
        all.push(Assignment { key, written, origin, folder });
    }
    Ok(())
}

/// Leaves with their dotted names and byte offsets. A table whose name no key begins with is itself the unknown key.
fn flatten<'t, 'i>(prefix: &str, table: &'t DeTable<'i>, out: &mut Vec<(String, usize, &'t DeValue<'i>)>) {
    for (name, value) in table {
        let dotted =
            if prefix.is_empty() { name.get_ref().to_string() } else { format!("{prefix}.{}", name.get_ref()) };
        let is_section =
            KEYS.iter().any(|key| key.name.strip_prefix(&dotted).is_some_and(|rest| rest.starts_with('.')));
        match value.get_ref().as_table() {
            Some(inner) if is_section => flatten(&dotted, inner, out),
            Some(_) | None => out.push((dotted, name.span().start, value.get_ref())),
        }
    }
}

fn written(value: &DeValue<'_>) -> Written {
    match value {
        DeValue::String(text) => Written::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(&number.as_str().replace('_', ""), number.radix())
            .map_or(Written::Other("a number that is too large"), Written::Integer),
        DeValue::Boolean(flag) => Written::Bool(*flag),
        DeValue::Array(items) => {
            let texts: Option<Vec<String>> =
                items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect();
            texts.map_or(Written::Other("a list of something else than text"), Written::Texts)
        }
        DeValue::Float(number) => Written::Decimal(number.as_str().replace('_', "")),
        DeValue::Datetime(_) => Written::Other("a date"),
        DeValue::Table(table) => tables(table).map_or(Written::Other("a table"), Written::Tables),
    }
}

/// A value as it is, for a key that looks at it itself; a number with a fraction or a date is its text.
fn json(value: &DeValue<'_>) -> serde_json::Value {
    match value {
        DeValue::String(text) => text.to_string().into(),
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            let entries = table.iter().map(|(name, value)| (name.get_ref().to_string(), json(value.get_ref())));
            serde_json::Value::Object(entries.collect())
        }
        DeValue::Integer(number) => number.as_str().into(),
        DeValue::Float(number) => number.as_str().into(),
        DeValue::Datetime(date) => date.to_string().into(),
    }
}

/// A table of tables of plain values; a table within these is written as `name=value, name=value`.
fn tables(table: &DeTable<'_>) -> Option<Tables> {
    let values = |value: &DeValue<'_>| {
        let each = value.as_table()?.iter();
        each.map(|(name, value)| Some((name.get_ref().to_string(), plain(value.get_ref())?))).collect::<Option<_>>()
    };
    table.iter().map(|(name, value)| Some((name.get_ref().to_string(), values(value.get_ref())?))).collect()
}

/// A value as it would be written in text.
fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().replace('_', "")),
        DeValue::Float(number) => Some(number.as_str().replace('_', "")),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(|item| plain(item.get_ref())).collect();
            items.map(|items| items.join(", "))
        }
        DeValue::Table(table) => {
            let mut entries = Vec::new();
            for (name, value) in table {
                entries.push(format!("{}={}", name.get_ref(), plain(value.get_ref())?));
            }
            Some(entries.join(", "))
        }
        DeValue::Datetime(_) => None,
    }
}

fn unknown(name: &str, origin: Origin) -> SettingsError {
    let by_full_name = keys::nearest(name, KEYS.iter().map(|key| key.name));
    let last = name.rsplit('.').next().unwrap_or(name);
    let by_last_part =
        || KEYS.iter().find(|key| key.name.rsplit('.').next() == Some(last)).map(|key| key.name.to_owned());
    SettingsError::UnknownKey { origin, key: name.to_owned(), nearest: by_last_part().or(by_full_name) }
}

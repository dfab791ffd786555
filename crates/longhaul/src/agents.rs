//! From `acp:COMMAND` to an agent in a sandbox: where its program is, what it has to read, and its way to its model.
//!
//! Invariant: the key of the model's service goes into a gateway outside the sandbox and nowhere else.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use longhaul_harness::{AgentSettings, ExternalAgent};
use longhaul_model::Secret;
use longhaul_tools::sandbox::Gateway;

use crate::{LonghaulError, settings::Settings};

/// Where the gateway listens in the agent's sandbox.
const GATEWAY_PORT: u16 = 3129;
/// What an agent is given in place of a key, as it would not start without one.
const NO_KEY: &str = "held-outside-the-sandbox";

/// How agents of one family are told where their model is.
struct Family {
    /// What their commands have in their names.
    names: &'static [&'static str],
    upstream: &'static str,
    /// The variable with the service's address, and what follows the gateway's.
    address: (&'static str, &'static str),
    /// The variable with the key.
    key: &'static str,
    /// The header with the key, and what stands before it.
    header: (&'static str, &'static str),
    /// Variables that keep it from asking for anything but its model.
    quiet: &'static [(&'static str, &'static str)],
}

const FAMILIES: [Family; 3] = [
    Family {
        names: &["claude"],
        upstream: "https://api.anthropic.com",
        address: ("ANTHROPIC_BASE_URL", ""),
        key: "ANTHROPIC_API_KEY",
        header: ("x-api-key", ""),
        quiet: &[
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_TELEMETRY", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
        ],
    },
    Family {
        names: &["codex"],
        upstream: "https://api.openai.com/v1",
        address: ("OPENAI_BASE_URL", ""),
        key: "OPENAI_API_KEY",
        header: ("authorization", "Bearer "),
        quiet: &[],
    },
    Family {
        names: &["gemini"],
        upstream: "https://generativelanguage.googleapis.com",
        address: ("GOOGLE_GEMINI_BASE_URL", ""),
        key: "GEMINI_API_KEY",
        header: ("x-goog-api-key", ""),
        quiet: &[("GEMINI_TELEMETRY_ENABLED", "false")],
    },
];

/// The agent that a specification names. `served` is the cassette of this run: its address and its key.
pub(crate) fn external(
    spec: &str,
    settings: &Settings,
    served: Option<(String, Secret)>,
    project: &Path,
) -> Result<ExternalAgent, LonghaulError> {
    let fail = |problem: String| LonghaulError::Agent { spec: spec.to_owned(), problem };
    let command = spec.strip_prefix("acp:").unwrap_or(spec);
    let mut argv = words(command).ok_or_else(|| fail("a quotation mark in it is not closed".to_owned()))?;
    let Some(name) = argv.first().cloned() else { return Err(fail("it names no command".to_owned())) };
    let given = &settings.harness.agent;
    let mut agent = AgentSettings::new(Vec::new());
    let program = find(&name, &settings.sandbox.path_first).ok_or_else(|| {
        fail(format!(
            "there is no program {name}; install it, or give its path as in --agent acp:/opt/agent/bin/{name}"
        ))
    })?;
    let (reads, path_first) = belongings(&program);
    agent.readable.extend(reads);
    // An interpreter's script has folders of its own.
    for word in argv.iter().skip(1).filter(|word| word.starts_with('/')) {
        let path = Path::new(word);
        let folder = if path.is_dir() { Some(path) } else { path.parent().filter(|_| path.is_file()) };
        agent.readable.extend(folder.filter(|folder| is_outside(folder)).map(Path::to_owned));
    }
    agent.readable.extend(given.reads.iter().cloned());
    agent.readable.retain(|folder| !project.starts_with(folder) && !folder.starts_with(project));
    agent.path_first = path_first;
    argv[0] = program.to_string_lossy().into_owned();
    let family = FAMILIES.iter().find(|family| family.names.iter().any(|known| command.contains(known)));
    let mut gateways = Vec::new();
    if let Some(family) = family {
        let of_model = match family.key {
            "ANTHROPIC_API_KEY" => settings.model.anthropic_key.as_ref(),
            "OPENAI_API_KEY" => settings.model.api_key.as_ref(),
            _ => None,
        };
        let (upstream, key) = match (given.upstream.clone(), served) {
            (Some(upstream), _) => (upstream, given.key.clone()),
            (None, Some((origin, key))) => (origin, Some(key)),
            (None, None) => (family.upstream.to_owned(), given.key.as_ref().or(of_model).cloned()),
        };
        let gateway = Gateway::new(GATEWAY_PORT, &upstream).map_err(|error| fail(error.to_string()))?;
        gateways.push(match key {
            Some(key) => {
                let (header, before) = family.header;
                let value = format!("{before}{}", key.expose());
                gateway.header(header, &value).map_err(|error| fail(error.to_string()))?
            }
            None if upstream == family.upstream => {
                let own = "LONGHAUL_HARNESS_AGENT_KEY";
                let variable = if of_model_key(family) { family.key } else { own };
                return Err(fail(format!("no key for {upstream}; set {variable} (in the environment, or in .env)")));
            }
            None => gateway,
        });
        let (variable, path) = family.address;
        agent.env.push((variable.to_owned(), format!("http://127.0.0.1:{GATEWAY_PORT}{path}")));
        agent.env.push((family.key.to_owned(), NO_KEY.to_owned()));
        agent.env.extend(family.quiet.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    }
    agent.command = argv;
    agent.session_max = Duration::from_mins(given.minutes_max);
    agent.silence_max = Duration::from_mins(given.silence_minutes_max);
    Ok(ExternalAgent { settings: agent, gateways })
}

/// Whether our own clients know that variable, too.
fn of_model_key(family: &Family) -> bool {
    matches!(family.key, "ANTHROPIC_API_KEY" | "OPENAI_API_KEY")
}

/// Words as a shell reads them, as far as white space and quotation marks go.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// The program: a path, or a name on `PATH`.
fn find(name: &str, first: &[PathBuf]) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).canonicalize().is_ok().then(|| std::path::absolute(name).ok()).flatten();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = first.iter().cloned().chain(std::env::split_paths(&path));
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// What a program has to read outside `/usr`, and which folders of it come first in `PATH`: its own folder, the folder of
/// what it links to, and all of `node_modules` where it is in one.
fn belongings(program: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let real = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    let mut reads = Vec::new();
    let mut path_first = Vec::new();
    for path in [program, real.as_path()] {
        let modules = path.ancestors().filter(|folder| folder.ends_with("node_modules")).last();
        if let Some(modules) = modules.filter(|modules| is_outside(modules)) {
            reads.push(modules.to_owned());
            path_first.push(modules.join(".bin"));
        } else if let Some(folder) = path.parent().filter(|folder| is_outside(folder)) {
            reads.push(folder.to_owned());
        }
    }
    reads.dedup();
    path_first.dedup();
    path_first.retain(|folder| folder.is_dir());
    (reads, path_first)
}

/// Whether a sandbox does not show it anyway.
fn is_outside(folder: &Path) -> bool {
    !["/usr", "/bin", "/lib", "/lib64", "/sbin"].iter().any(|known| folder.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_as_a_shell_would() {
        assert_eq!(words("a  'b c' d\"e f\"").unwrap(), ["a", "b c", "de f"]);
        assert_eq!(words("a ''").unwrap(), ["a", ""]);
        assert_eq!(words("a 'b"), None);
    }

    #[test]
    fn a_program_in_node_modules_may_read_all_of_it() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let (bin, package) = (place.join("node_modules/.bin"), place.join("node_modules/@x/agent/dist"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("index.js"), "").unwrap();
        std::os::unix::fs::symlink("../@x/agent/dist/index.js", bin.join("agent")).unwrap();
        let (reads, path_first) = belongings(&bin.join("agent"));
        assert_eq!((reads, path_first), (vec![place.join("node_modules")], vec![bin]));
    }
}

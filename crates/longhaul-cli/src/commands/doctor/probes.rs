//! The checks themselves. Each really tries the thing within a time limit and turns the outcome into one [`Check`].

use std::{fs, path::Path, process::Stdio, time::Duration};

use longhaul::{
    memory::embedding,
    settings::{ModelSpec, Settings},
    tools::{
        browser::{Browser, BrowserSettings},
        sandbox::{Sandbox, SandboxBuilder, SandboxKind},
    },
};
use tokio::process::Command;

use super::{Check, State};

const TRY_AT_MOST: Duration = Duration::from_secs(20);
const MIB: u64 = 1024 * 1024;

/// Every check, in the order in which a new machine should be mended.
pub(super) async fn all(settings: &Settings) -> Vec<Check> {
    vec![
        machine(),
        home(&settings.home),
        disk(&settings.home).await,
        git().await,
        sandbox(),
        python().await,
        browser(settings).await,
        embedding(settings),
        model(settings),
    ]
}

fn ok(name: &'static str, found: impl Into<String>) -> Check {
    Check { name, state: State::Ok, found: found.into(), remedy: None }
}

fn missing(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
    Check { name, state: State::Missing, found: found.into(), remedy: Some(remedy.into()) }
}

fn optional(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
    Check { name, state: State::Optional, found: found.into(), remedy: Some(remedy.into()) }
}

/// The command that installs a Debian package here.
fn apt(package: &str) -> String {
    let sudo = if rustix::process::geteuid().is_root() { "" } else { "sudo " };
    format!("{sudo}apt-get update && {sudo}apt-get install -y {package}")
}

/// Runs a program to its end; its standard output, or one line of what went wrong.
async fn attempt(program: &str, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    let output = match tokio::time::timeout(TRY_AT_MOST, command.output()).await {
        Err(_) => return Err(format!("{program} does not end within {} s", TRY_AT_MOST.as_secs())),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => return Err("not found".to_owned()),
        Ok(Err(error)) => return Err(format!("{program} cannot be started: {error}")),
        Ok(Ok(output)) => output,
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("{program} ends with {}: {}", output.status, line.trim()))
}

fn machine() -> Check {
    ok("machine", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH))
}

/// Makes the folder as the first run would, and writes into it.
fn home(home: &Path) -> Check {
    let probe = home.join(format!(".doctor-{}", std::process::id()));
    let tried =
        fs::create_dir_all(home).and_then(|()| fs::write(&probe, b"probe")).and_then(|()| fs::remove_file(&probe));
    match tried {
        Ok(()) => ok("home", home.display().to_string()),
        Err(error) => missing(
            "home",
            format!("{} cannot be written: {error}", home.display()),
            "give another folder with --home DIR or LONGHAUL_HOME",
        ),
    }
}

async fn disk(home: &Path) -> Check {
    let existing = home.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let free = rustix::fs::statvfs(existing).map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) / MIB);
    match free {
        Err(error) => optional("disk", format!("free space is unknown: {error}"), "look with: df -h"),
        Ok(free) if free < 200 => missing(
            "disk",
            format!("{free} MiB free"),
            format!("make at least 200 MiB free on the disk of {}", existing.display()),
        ),
        Ok(free) if free < 2_048 => {
            optional("disk", format!("{free} MiB free"), "evidence and work of long projects want 2 GiB or more")
        }
        Ok(free) => ok("disk", format!("{}.{} GiB free", free / 1_024, free % 1_024 * 10 / 1_024)),
    }
}

async fn git() -> Check {
    match attempt("git", &["--version"]).await {
        Ok(version) => ok("git", version.trim_start_matches("git version ").to_owned()),
        Err(reason) => missing("git", reason, apt("git")),
    }
}

/// What the sandbox shows of this machine, enough to run a program of `/usr` in it.
const INSIDE: &[&str] = &[
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--clearenv",
    "--setenv",
    "PATH",
    "/usr/bin:/bin",
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/lib",
    "/lib",
    "--ro-bind-try",
    "/lib64",
    "/lib64",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
];

/// The sandbox's own probe: it really builds one.
fn sandbox() -> Check {
    match Sandbox::probe(SandboxBuilder::Any) {
        Ok(kind) => {
            let how = match kind {
                SandboxKind::User => "bubblewrap, as this user",
                SandboxKind::Landlock => {
                    let next = apt("bubblewrap");
                    let less = "Landlock without namespaces, as bubblewrap does not work here: it bounds less (docs/sandbox.md)";
                    return optional("sandbox", less, next);
                }
                SandboxKind::RootStaged => "bubblewrap, as root, commands run as an unprivileged user",
                SandboxKind::RootDirect => "bubblewrap, as root without mounts, commands run as an unprivileged user",
            };
            ok("sandbox", how.to_owned())
        }
        Err(error) => {
            let packages = if rustix::process::geteuid().is_root() { "bubblewrap util-linux" } else { "bubblewrap" };
            missing("sandbox", reasons(&error), format!("{}; where it is there already, see the reason", apt(packages)))
        }
    }
}

/// An error with everything that caused it, on one line.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn embedding(settings: &Settings) -> Check {
    if let Some(url) = &settings.embedding.url {
        return ok("embedding model", format!("{} at {url}, not asked", settings.embedding.model));
    }
    match embedding::locate(settings.embedding.path.as_deref(), &settings.models_dir()) {
        Ok(dir) => ok("embedding model", dir.display().to_string()),
        Err(error) => missing("embedding model", reasons(&error), "longhaul setup"),
    }
}

/// The demonstration's application is written in Python, and runs inside the sandbox, which shows `/usr` only.
async fn python() -> Check {
    let bwrap = if Path::new("/usr/bin/bwrap").is_file() { "/usr/bin/bwrap" } else { "bwrap" };
    match attempt(bwrap, &[INSIDE, &["python3", "--version"]].concat()).await {
        Ok(version) => ok("python3", format!("{} inside the sandbox", version.trim_start_matches("Python "))),
        Err(reason) if reason == "not found" => {
            optional("python3", "not tried, there is no sandbox", apt("bubblewrap python3"))
        }
        Err(_) => optional("python3", "not in the sandbox (it sees /usr only); the demo needs it", apt("python3")),
    }
}

/// Starts the browser exactly as verification does.
async fn browser(settings: &Settings) -> Check {
    let wanted = BrowserSettings {
        program: settings.browser.program.clone(),
        headed: settings.browser.headed,
        ..BrowserSettings::default()
    };
    match Browser::launch(wanted).await {
        Ok(browser) => {
            let version = browser.version().to_owned();
            browser.close().await;
            ok("browser", format!("{version}, started and answered"))
        }
        Err(error) => missing("browser", reasons(&error), chromium_remedy()),
    }
}

fn chromium_remedy() -> String {
    let ubuntu = fs::read_to_string("/etc/os-release").is_ok_and(|text| text.lines().any(|line| line == "ID=ubuntu"));
    if ubuntu {
        return "Ubuntu's chromium package is a snap, which cannot be driven from outside its confinement: install Google's \
                google-chrome-stable .deb, or set browser.program"
            .to_owned();
    }
    format!("{}, or set browser.program", apt("chromium"))
}

fn model(settings: &Settings) -> Check {
    let Some(spec) = &settings.model.spec else {
        return optional(
            "model",
            "none is named (the demo needs none)",
            "longhaul init … --model openai:NAME (or anthropic:NAME), or OPENAI_MODEL=NAME; and OPENAI_API_KEY",
        );
    };
    if let ModelSpec::Cassette(file) = spec
        && !file.is_file()
    {
        return missing(
            "model",
            format!("{} is not there", file.display()),
            "name a cassette that exists: --model cassette:FILE",
        );
    }
    match settings.model.service(spec) {
        None => ok("model", spec.to_string()),
        Some((address, true)) => ok("model", format!("{} at {address}, the key is set", named(spec))),
        Some((address, false)) => optional(
            "model",
            format!("{} at {address}, no key", named(spec)),
            format!("set {}, unless the service needs none", spec.key_variable()),
        ),
    }
}

/// The model's name alone where the protocol is the usual one.
fn named(spec: &ModelSpec) -> String {
    let text = spec.to_string();
    text.strip_prefix("openai:").map_or_else(|| text.clone(), str::to_owned)
}

//! Runs the built program in a house of its own: no variable of the tester's and no file of the tester's reaches it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use longhaul::memory::embedding;
use tempfile::TempDir;

/// A machine account with nothing in it.
pub(crate) struct Account {
    root: TempDir,
}

impl Account {
    pub(crate) fn new() -> Self {
        Self { root: TempDir::new().unwrap() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    pub(crate) fn write(&self, relative: &str, text: &str) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(args).current_dir(self.root.path()).env_clear().env("HOME", self.root.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LANG", "C.UTF-8");
        if let Some(browser) = std::env::var_os("LONGHAUL_BROWSER_PROGRAM") {
            command.env("LONGHAUL_BROWSER_PROGRAM", browser);
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        Ended::of(self.command(args).output().unwrap(), self.root.path())
    }
}

/// Runs a command with a changed view of the file system, as `bwrap` takes it.
pub(crate) fn in_view(view: &[&Path], command: Command) -> Output {
    let mut outer = Command::new("bwrap");
    outer.args(["--die-with-parent", "--dev-bind", "/", "/"]).args(view).arg(command.get_program());
    outer.args(command.get_args()).current_dir(command.get_current_dir().unwrap()).env_clear();
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.output().unwrap()
}

/// The folder of the embedding model on this machine: installed once, as `longhaul setup` does it.
pub(crate) fn embedding_model() -> PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    let install = || {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"));
        embedding::install(&cache.join("longhaul/models"), &mut |_| ()).unwrap()
    };
    DIR.get_or_init(install).clone()
}

/// How the program ended, with the account's folder written as `~`.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn of(output: Output, home: &Path) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&home.display().to_string(), "~");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

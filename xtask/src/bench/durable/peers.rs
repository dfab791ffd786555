//! The other side: what users would pick instead, installed with the ordinary clients into the user's cache folder.
//!
//! The scripts that measure them are not part of this project: they are looked for in a folder `shared/peers` beside the
//! checkout (or where `LONGHAUL_PEERS` says). Without it, or where a peer cannot be installed, its rows say so and have
//! no ratio; nothing else changes. LangGraph's own workloads are in `bench/peers/`, in words of our own.

use std::{
    cell::OnceCell,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};

use super::progress;

/// The versions that the promised figures were set against; the newest where they cannot be had.
const LANGGRAPH: &[&str] = &["langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2", "uvloop"];
const DBOS: &[&str] = &["dbos==3.4.0"];

/// A peer's environment, or why there is none.
type Found = Result<PathBuf, String>;

pub(super) struct Peers {
    scripts: Option<PathBuf>,
    cache: Option<PathBuf>,
    scratch: PathBuf,
    langgraph: OnceCell<Found>,
    dbos: OnceCell<Found>,
    restate: OnceCell<Found>,
}

impl Peers {
    pub(super) fn find(root: &Path, scratch: &Path) -> Self {
        let given = std::env::var_os("LONGHAUL_PEERS").map(PathBuf::from);
        let beside = root.parent().map(|above| above.join("shared/peers"));
        let scripts = given.or(beside).filter(|folder| folder.is_dir());
        match &scripts {
            Some(folder) => println!("  peers' scripts: {}", folder.display()),
            None => println!(
                "  no folder shared/peers beside the checkout: rows have no peer, except LangGraph's workloads"
            ),
        }
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
        let cache = cache.map(|cache| cache.join("longhaul/peers"));
        let (langgraph, dbos, restate) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { scripts, cache, scratch: scratch.to_owned(), langgraph, dbos, restate }
    }

    /// Runs one of LangGraph's scripts; its output, or why there is none.
    pub(super) fn langgraph(&self, script: &str, args: &[&str]) -> Result<String, String> {
        let script = self.script(&format!("langgraph/{script}"))?;
        self.run(self.langgraph_command()?.arg(script).args(args))
    }

    /// The interpreter that has LangGraph.
    pub(super) fn langgraph_command(&self) -> Result<Command, String> {
        let found = self.langgraph.get_or_init(|| self.python("langgraph", LANGGRAPH));
        Ok(self.with_scratch(&found.clone()?))
    }

    /// Runs DBOS's script; its output, or why there is none.
    pub(super) fn dbos(&self) -> Result<String, String> {
        let script = self.script("langgraph/f_dbos.py")?;
        let found = self.dbos.get_or_init(|| self.python("dbos", DBOS));
        self.run(self.with_scratch(&found.clone()?).arg(script))
    }

    /// The folder with Restate's packages and its script, or why there is none.
    pub(super) fn restate(&self) -> Result<PathBuf, String> {
        self.restate.get_or_init(|| self.node()).clone()
    }

    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    fn script(&self, name: &str) -> Found {
        let folder = self.scripts.as_ref().ok_or("no folder shared/peers beside the checkout")?;
        let script = folder.join(name);
        if script.is_file() { Ok(script) } else { Err(format!("no script {name} in shared/peers")) }
    }

    fn with_scratch(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("SCRATCH", &self.scratch).env("PYTHONWARNINGS", "ignore");
        command
    }

    fn run(&self, command: &mut Command) -> Result<String, String> {
        let output = command.current_dir(&self.scratch).output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("the peer's script fails: {}", said.lines().last().unwrap_or("no word of it")))
    }

    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.cache.as_ref().context("no cache folder: set HOME")?.join(name);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    /// A virtual environment with these packages; its interpreter.
    fn python(&self, name: &str, packages: &[&str]) -> Found {
        let installed = || -> anyhow::Result<PathBuf> {
            let folder = self.folder(name)?;
            let python = folder.join("bin/python");
            let (stamp, wanted) = (folder.join("installed"), packages.join(" "));
            if fs::read_to_string(&stamp).is_ok_and(|text| text == wanted) && python.is_file() {
                return Ok(python);
            }
            progress(&format!("installing {name} ({wanted})"));
            done(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
            let pip = || {
                let mut pip = Command::new(&python);
                pip.args(["-m", "pip", "install", "--quiet"]);
                pip
            };
            let newest = packages.iter().map(|package| package.split("==").next().unwrap_or(package));
            done(pip().args(packages)).or_else(|error| {
                progress(&format!("{error:#}; taking the newest instead"));
                done(pip().args(newest))
            })?;
            fs::write(&stamp, wanted)?;
            Ok(python)
        };
        installed().map_err(|error| format!("{name} cannot be installed: {error:#}"))
    }

    /// A folder with Restate's packages, its service and its script.
    fn node(&self) -> Found {
        let script = self.script("restate/run.sh")?;
        let installed = || -> anyhow::Result<PathBuf> {
            let folder = self.folder("restate")?;
            let from = script.parent().context("a script lies in a folder")?;
            for name in ["run.sh", "svc.mjs", "package.json"] {
                // Its bytes only: the original may be read-only.
                fs::write(folder.join(name), fs::read(from.join(name))?).with_context(|| name.to_owned())?;
            }
            let stamp = folder.join("installed");
            if !stamp.is_file() {
                progress("installing restate (npm)");
                done(
                    Command::new("npm").args(["install", "--no-audit", "--no-fund", "--silent"]).current_dir(&folder),
                )?;
                fs::write(&stamp, "")?;
            }
            Ok(folder)
        };
        installed().map_err(|error| format!("restate cannot be installed: {error:#}"))
    }
}

fn done(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", said.lines().last().unwrap_or_default());
    Ok(())
}

/// The numbers that follow `name` in a script's output, such as 1,329 in `steps/s=1329` or `1329 steps/s`.
pub(super) fn values(output: &str, name: &str) -> Vec<f64> {
    let mut found = Vec::new();
    for (at, _) in output.match_indices(name) {
        let after = output[at + name.len()..].trim_start_matches([' ', '=']);
        let end = after.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(after.len());
        found.extend(after[..end].trim_end_matches('.').parse::<f64>().ok());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::values;

    #[test]
    fn numbers_are_found_behind_their_names() {
        let output = "dbos N=1000 run=2.15s steps/s=465 cpu_us/step=1667\ndbos N=1000 steps/s=339 db=4";
        assert_eq!(values(output, "steps/s="), [465.0, 339.0]);
        assert_eq!(values("warm resume p50 2.6ms p95 3.1ms", "p50"), [2.6]);
        assert_eq!(values("get_state=0.7ms hist10=12.0ms", "hist10="), [12.0]);
        assert!(values("nothing here", "steps/s=").is_empty());
    }
}

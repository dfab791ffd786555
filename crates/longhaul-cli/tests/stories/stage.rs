//! A place to run the built program in: a folder of its own for home, project and cassettes, nothing of the tester's but
//! the downloaded embedding model.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

/// Longest wait for something that is expected to happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// The stories beside this file.
pub(crate) const TINY: &str = include_str!("tiny.cassette.toml");
pub(crate) const CHINESE: &str = include_str!("chinese.cassette.toml");
pub(crate) const ISOLATION: &str = include_str!("isolation.cassette.toml");

/// The folder of one test; gone with it.
pub(crate) struct Stage {
    root: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let stage = Self { root: TempDir::new().unwrap() };
        fs::create_dir(stage.path("home")).unwrap();
        stage
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    pub(crate) fn app(&self) -> PathBuf {
        self.path("app")
    }

    pub(crate) fn write(&self, relative: &str, text: &str) {
        fs::write(self.path(relative), text).unwrap();
    }

    /// The program with these arguments and a home of its own.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(args).arg("--home").arg(self.path("home")).current_dir(self.root.path());
        command.env_clear().env("HOME", self.root.path()).env("LANG", "C.UTF-8").env("LONGHAUL_CACHE", cache());
        for kept in ["PATH", "LONGHAUL_BROWSER_PROGRAM"] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Ended {
        Ended::of(&mut self.command(args))
    }

    /// Runs it and insists on the exit code.
    pub(crate) fn run_to<S: AsRef<OsStr>>(&self, code: i32, args: &[S]) -> Ended {
        let ended = self.run(args);
        assert_eq!(ended.code, Some(code), "{ended:#?}");
        ended
    }

    /// The project's events of this kind, oldest first.
    pub(crate) fn log(&self, kind: &str) -> Vec<Value> {
        let events = self.run_to(0, &["log", "--dir", "app", "--json"]).lines();
        assert!(events.iter().all(|event| event["kind"].is_string()), "not every line is an event");
        events.into_iter().filter(|event| event["kind"] == kind).map(|event| event["data"].clone()).collect()
    }

    /// `git` in the project.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "safe.directory=*"]).args(args).current_dir(self.app()).env("HOME", self.root.path());
        let output = git.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn json(&self, relative: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(relative)).unwrap()).unwrap()
    }
}

/// Where `longhaul setup` keeps what it downloads for the tester.
fn cache() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("LONGHAUL_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|dir| dir.join("longhaul")))
        .or_else(|| named("HOME").map(|dir| dir.join(".cache/longhaul")))
        .unwrap()
}

/// How the program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Standard output as JSON lines.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The program at work; killed with the test if that fails.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// Starts it; its standard output is read line by line.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Self { child, lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads on to the first line that is wanted.
    pub(crate) fn line(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the program ended or hangs before the awaited line");
            if let Ok(value) = serde_json::from_str(&line)
                && wanted(&value)
            {
                return value;
            }
        }
    }

    /// The first line; nothing if it ended without one.
    pub(crate) fn first_line(&self) -> Option<Value> {
        serde_json::from_str(&self.lines.recv_timeout(PATIENCE).ok()?).ok()
    }

    /// Whether another moment passed and it still writes.
    pub(crate) fn goes_on(&self, moment: Duration) -> bool {
        !matches!(self.lines.recv_timeout(moment), Err(mpsc::RecvTimeoutError::Disconnected))
    }

    pub(crate) fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Replaces a part of a file that must be there exactly once; gives back what was.
pub(crate) fn swap(path: &Path, old: &str, new: &str) -> String {
    let before = fs::read_to_string(path).unwrap();
    assert_eq!(before.matches(old).count(), 1, "{old} in {}", path.display());
    fs::write(path, before.replace(old, new)).unwrap();
    before
}

//! An example in a process of its own: this very program, started again, calls what its `main` calls.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

/// Says to a process which arguments the example has, one a line.
const ARGS: &str = "LONGHAUL_TEST_EXAMPLE_ARGS";

/// What a process came to.
pub(crate) struct Ended {
    pub(crate) out: String,
    pub(crate) killed: bool,
    pub(crate) success: bool,
}

/// The arguments, if this process is an example.
pub(crate) fn args() -> Option<Vec<String>> {
    std::env::var(ARGS).ok().map(|args| args.lines().map(str::to_owned).collect())
}

/// Runs the test that is the example; killed with SIGKILL once it has printed a line with `kill_at` in it.
pub(crate) fn run(test: &str, args: &[&str], kill_at: Option<&str>) -> Ended {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ARGS, args.join("\n"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ended = Ended { out: String::new(), killed: false, success: false };
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        ended.out.push_str(&line);
        ended.out.push('\n');
        if kill_at.is_some_and(|at| line.contains(at)) {
            child.kill().unwrap();
            ended.killed = true;
        }
    }
    ended.success = child.wait().unwrap().success();
    ended
}

//! Rules for Rust files: they say what they own, they stay short, and some words stay out of them.

use super::{File, Finding};

const LINES_MAX: usize = 800;
const INLINE_TEST_LINES_MAX: usize = 300;

/// Words that stay out, with what to do instead.
const BANNED: &[(&str, &str)] = &[
    ("todo!", "finish it, or leave the command out"),
    ("unimplemented!", "finish it, or leave the command out"),
    ("#[allow(", "write #[expect(…, reason = \"…\")], which complains once it is not needed"),
    ("#![allow(", "write #![expect(…, reason = \"…\")], which complains once it is not needed"),
    ("#[ignore", "assert what it does today, with a FIXME"),
    ("sleep(", "wait for the condition; if time itself is meant, name the file in xtask/src/tidy/rust.rs"),
];

/// Files in which waiting for time to pass is the behaviour itself, with the reason.
const MAY_SLEEP: &[(&str, &str)] = &[
    (
        "crates/longhaul-a2a/examples/a2a_subject.rs",
        "the compatibility kit asks for a task that takes longer than it waits",
    ),
    (
        "crates/longhaul-durable/examples/crash_subject/main.rs",
        "a supervisor tries again after a pause while the server is being restarted",
    ),
    (
        "crates/longhaul-durable/examples/crash_subject/story.rs",
        "acts take a while, so that a death can strike in them",
    ),
    (
        "crates/longhaul-durable/examples/resume_on_other_machine.rs",
        "work that takes a while; a dead machine's lease has to run out",
    ),
    (
        "crates/longhaul-durable/examples/bench_durable/workers.rs",
        "a step that waits 20 ms for the world outside is what is measured",
    ),
    ("crates/longhaul-durable/src/active.rs", "looks now and then whether another process wants a run to end"),
    (
        "crates/longhaul-durable/src/cancelling.rs",
        "looks again until a run has given its thread back, or the time is up",
    ),
    (
        "crates/longhaul-milvus/src/collection.rs",
        "a server loads a collection in its own time and can only be asked again",
    ),
    ("crates/longhaul-mods/src/agents/worker.rs", "leaves a network that does not answer alone for a growing while"),
    ("crates/longhaul-cli/src/commands/network/chat.rs", "leaves after so many seconds in which nothing was said"),
    ("crates/longhaul-milvus/src/probe.rs", "whether rows leave by themselves shows only after their time"),
    (
        "crates/longhaul/examples/network_load/modes.rs",
        "load has a pace, and a reader that had nothing asks again later",
    ),
    (
        "xtask/src/bench/network/sections.rs",
        "what a start needed is given back in its own time; a kill strikes at a moment",
    ),
    ("xtask/src/bench/network/servers.rs", "a server that starts is asked again until it answers"),
    (
        "crates/longhaul-libp2p/src/gossip.rs",
        "a post that came too soon waits its turn, as gossip cannot tell its author to",
    ),
    ("crates/longhaul-testbed/src/milvus.rs", "a server that starts is asked again until it answers"),
    ("crates/longhaul-durable/tests/it/replaying.rs", "a graph's timer is what is recorded and replayed"),
    ("crates/longhaul-durable/src/task.rs", "the pause before another attempt is the policy"),
    ("crates/longhaul-durable/src/timers.rs", "durable timers are about time"),
    ("crates/longhaul/src/runs.rs", "a run that has time waits for a service that does not answer"),
    ("crates/longhaul-durable/src/worker.rs", "a worker pauses after a failure of the store"),
    ("crates/longhaul-durable/tests/it/queue.rs", "work takes its time, and idle workers are watched for a while"),
    ("crates/longhaul-durable/tests/it/queue_ends.rs", "work takes its time"),
    ("crates/longhaul-durable/tests/it/queue_processes.rs", "work takes longer than a process lives"),
    ("crates/longhaul-durable/tests/it/observing.rs", "looks again until an observer has heard, or the time is up"),
    ("crates/longhaul-durable/tests/it/policies.rs", "attempts take longer or shorter than their limit of time"),
    ("crates/longhaul-durable/tests/it/timers.rs", "the nodes of its graphs sleep durably"),
    ("crates/longhaul-memory/src/measure/engine.rs", "it looks at how much memory the background takes while it works"),
    ("crates/longhaul-memory/src/measure/vectors.rs", "writes come at a stated rate"),
    (
        "crates/longhaul-model/src/cassette/server/mod.rs",
        "a cassette states how long the service makes the client wait",
    ),
    ("crates/longhaul-model/src/openai/embeddings.rs", "waits before it asks a failing service again"),
    ("crates/longhaul-model/src/service/mod.rs", "a busy service says when it wants to be asked again"),
    (
        "crates/longhaul-harness/src/verifier/expect.rs",
        "looks again at a page until it shows what is expected, or the time is up",
    ),
    (
        "crates/longhaul-harness/src/verifier/run.rs",
        "looks again at the address until it is the expected one, or the time is up",
    ),
    ("crates/longhaul-tools/src/browser/act.rs", "looks again until a target can be acted on, or the time is up"),
    ("crates/longhaul-tools/src/browser/look.rs", "looks again at a page until it shows the target, or the time is up"),
    ("crates/longhaul-tools/src/browser/observe.rs", "a wait for something of the page's has an end"),
    ("crates/longhaul-tools/src/sandbox/network/proxy.rs", "nothing announces that file descriptors are free again"),
    ("crates/longhaul-tools/src/sandbox/app.rs", "nothing announces that file descriptors are free again"),
    ("crates/longhaul-tools/tests/it/fixture.rs", "looks again until a condition holds, or the time is up"),
    ("crates/longhaul-tools/tests/it/limits.rs", "a command is given up at a chosen moment"),
    ("crates/longhaul-store/src/notices.rs", "looks every 100 ms whether another process has written to a SQLite file"),
    ("crates/longhaul-store/src/postgres/session.rs", "knocks again at a server that is starting"),
    ("crates/longhaul-store/src/postgres/listener.rs", "connects again after a pause that grows"),
];

pub(super) fn check(file: &File) -> Vec<Finding> {
    if !file.is("rs") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if !file.text.starts_with("//!") {
        findings.push(Finding::new(
            &file.path,
            1,
            "does not open with `//!`: what it owns, what it does not, its invariant",
        ));
    }
    findings.extend(length(file));
    if !file.path.starts_with("xtask/src/tidy") {
        findings.extend(words(file));
    }
    findings
}

/// Lines that only tests have do not count: a file is long when its work is.
fn length(file: &File) -> Option<Finding> {
    if is_test(file) {
        return None;
    }
    let all = file.text.lines().count();
    let before_tests = file.text.lines().position(|line| line == "mod tests {").unwrap_or(all);
    if before_tests > LINES_MAX {
        return Some(Finding::new(
            &file.path,
            LINES_MAX,
            format!("{before_tests} lines, {LINES_MAX} at most: split it"),
        ));
    }
    let tests = all - before_tests;
    (tests > INLINE_TEST_LINES_MAX).then(|| {
        Finding::new(&file.path, before_tests + 1, format!("{tests} lines of tests: move them to a file tests.rs"))
    })
}

fn is_test(file: &File) -> bool {
    file.path.file_name().is_some_and(|name| name == "tests.rs") || file.path.iter().any(|part| part == "tests")
}

fn words(file: &File) -> Vec<Finding> {
    let may_sleep = MAY_SLEEP.iter().any(|(path, _)| file.path.ends_with(path));
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        for (word, instead) in BANNED {
            if has_word(code, word) && !(*word == "sleep(" && may_sleep) {
                findings.push(Finding::new(&file.path, number, format!("`{word}`: {instead}")));
            }
        }
    }
    findings
}

/// Whether `word` occurs where no longer identifier ends with it.
fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|char| char.is_alphanumeric() || char == '_')
    })
}

/// An exception that nothing needs any more would hide the next case.
pub(super) fn unused_exceptions(files: &[File]) -> Vec<Finding> {
    let unused = |path: &str| {
        let file = files.iter().find(|file| file.path.ends_with(path));
        !file.is_some_and(|file| file.text.lines().any(|line| has_word(line, "sleep(")))
    };
    let here = std::path::Path::new("xtask/src/tidy/rust.rs");
    let stale = MAY_SLEEP.iter().filter(|(path, _)| unused(path));
    stale
        .map(|(path, _)| Finding::new(here, 1, format!("{path} does not sleep any more: take it off the list")))
        .collect()
}

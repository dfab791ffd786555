//! `cargo xtask test`: builds once for all suites, runs each with its time, and ends with the sum. Cargo's own
//! `test --workspace` stops timing at the whole, and `test -p CRATE` would build the dependencies again with other features.
//!
//! Invariant: a suite that fails, hangs or cannot be started makes the whole fail, and the others still run.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

/// A suite that takes longer hangs.
const SUITE_SECONDS_MAX: u64 = 1_500;

/// Installs the client where it is missing, and lets it talk with the program.
const MCP_CLIENT: &str = "scripts/peers.sh mcp && \
    exec \"${XDG_CACHE_HOME:-$HOME/.cache}/longhaul/peers/mcp-2.3.0/bin/python\" scripts/mcp-conversation.py \"$1\"";

/// Installs schemathesis where it is missing, and lets it try out what the gateway says of itself.
const SCHEMATHESIS: &str = "scripts/peers.sh schemathesis && \
    LONGHAUL_TEST_SCHEMATHESIS=\"${XDG_CACHE_HOME:-$HOME/.cache}/longhaul/peers/schemathesis-4.32.5/bin/schemathesis\" \
    exec \"$1\" --exact description::schemathesis_finds_nothing --nocapture";

/// Installs Claude Code where it is missing, and lets it work in two sessions against the cassette server.
const CLAUDE_CODE: &str = "scripts/peers.sh claude && \
    LONGHAUL_TEST_CLAUDE=\"${XDG_CACHE_HOME:-$HOME/.cache}/longhaul/peers/claude-agent-acp-0.100.0/node_modules/.bin/claude-agent-acp\" \
    exec \"$1\" --exact agents::claude_code_works_in_the_sandbox_without_its_key_or_its_service --nocapture";
/// Installs the official Python clients of model services where they are missing, and lets them judge the cassette server.
const MODEL_SDKS: &str = "scripts/peers.sh models && \
    LONGHAUL_TEST_MODEL_SDKS=\"${XDG_CACHE_HOME:-$HOME/.cache}/longhaul/peers/models-2.12.0-3.54.0/bin/python\" \
    exec \"$1\" --exact official::the_official_clients_find_nothing_wrong --nocapture";

/// Installs the official Python client of A2A where it is missing, and lets it talk with a network.
const A2A_CLIENT: &str = "scripts/peers.sh a2a && \
    exec \"${XDG_CACHE_HOME:-$HOME/.cache}/longhaul/peers/a2a-sdk-1.3.0/bin/python\" scripts/a2a-conversation.py \"$1\"";

/// Installs what judges the transports of a network where it is missing, and lets it.
const TRANSPORT_PEERS: &str = "scripts/peers.sh schemathesis conformance websockets && \
    peers=\"${XDG_CACHE_HOME:-$HOME/.cache}/longhaul/peers\" && \
    LONGHAUL_TEST_SCHEMATHESIS=\"$peers/schemathesis-4.32.5/bin/schemathesis\" \
    LONGHAUL_TEST_MCP_CONFORMANCE=\"$peers/mcp-conformance-0.2.0-alpha.12\" \
    LONGHAUL_TEST_WEBSOCKETS=\"$peers/websockets-17.0/bin/python\" \
    exec \"$1\" --nocapture --test-threads=1 schemathesis_finds_nothing every_scored_scenario pythons_client_speaks";

/// Installs py-libp2p and js-libp2p where they are missing, and lets them join a network.
const LIBP2P_PEERS: &str = "scripts/peers.sh libp2p && \
    LONGHAUL_TEST_LIBP2P=\"${XDG_CACHE_HOME:-$HOME/.cache}/longhaul/peers/libp2p-0.8.1\" \
    exec env \"$@\" --exact peers::peers_in_python_and_javascript_take_part --nocapture";

/// Something that was run, and how it ended.
#[derive(Debug)]
struct Part {
    name: String,
    took: Duration,
    ok: bool,
    passed: u64,
    failed: u64,
}

/// A test binary that cargo built.
#[derive(Debug, PartialEq, Eq)]
struct Binary {
    name: String,
    program: PathBuf,
    /// The crate's folder, in which cargo runs its tests.
    folder: PathBuf,
}

/// Runs everything; true if all of it passed.
pub(crate) fn run(root: &Path) -> anyhow::Result<bool> {
    let mut parts = Vec::new();
    if let Some(seconds) = std::env::var("SETUP_SECONDS").ok().and_then(|text| text.parse().ok()) {
        parts.push(Part { name: "set-up".into(), took: Duration::from_secs(seconds), ok: true, passed: 0, failed: 0 });
    }
    parts.push(plain("format", || formatted(root))?);
    parts.push(plain("tidy", || crate::tidy::run(root))?);
    let mut binaries = Vec::new();
    parts.push(plain("build", || {
        succeeds(root, "cargo", &["build", "--workspace", "--tests", "--bins"])?;
        binaries = built(root)?;
        Ok(true)
    })?);
    let longhaul = std::env::current_exe().context("where is xtask?")?.with_file_name("longhaul");
    parts.push(plain("embedding model", || succeeds(root, &longhaul.display().to_string(), &["setup"]))?);
    parts.push(plain("Milvus servers", || succeeds(root, "scripts/peers.sh", &["lite", "full"]))?);
    for binary in &binaries {
        parts.push(suite(&binary.name, &binary.program, &[], &binary.folder)?);
    }
    parts.extend(on_postgres(&binaries)?);
    parts.extend(on_milvus(&binaries, "full", &["equal::", "secrets::", "what_was_edited"])?);
    parts.push(suite("examples in the docs", Path::new("cargo"), &["test", "--workspace", "--doc"], root)?);
    parts.push(suite(
        "MCP with the official Python client",
        Path::new("sh"),
        &["-c", MCP_CLIENT, "sh", &longhaul.display().to_string()],
        root,
    )?);
    parts.extend(schemathesis(root, &binaries)?);
    parts.extend(transport_peers(root, &binaries)?);
    parts.extend(claude_code(root, &binaries)?);
    parts.extend(model_sdks(root, &binaries)?);
    parts.extend(libp2p_peers(root, &binaries, false)?);
    parts.push(a2a_client(root, &longhaul)?);
    parts.extend(sdk_agents(root, &longhaul, false)?);
    // By name: the build may have put a new file in the place of the one that is running.
    let xtask = longhaul.with_file_name("xtask");
    // The demo itself runs in the stories, undisturbed; its own kills take long, and are among the peers' suites.
    let small = ["crash", "--story", "tiny", "--runs", "1", "--kills", "10"];
    parts.push(suite("ten kills of a small project", &xtask, &small, root)?);
    let by_agent = ["crash", "--agent", "acp", "--story", "tiny", "--runs", "1", "--kills", "4"];
    parts.push(suite("four kills of an external agent's sessions", &xtask, &by_agent, root)?);
    for store in ["sqlite", "postgres"] {
        let name = format!("60 kills of durable executions, {store}");
        parts.push(suite(&name, &xtask, &["crash", "durable", "--store", store, "--kills", "60"], root)?);
        let name = format!("20 kills of writers of memories, {store}");
        parts.push(suite(&name, &xtask, &["crash", "memory", "--store", store, "--kills", "20"], root)?);
        let name = format!("20 kills of writers of records, {store}");
        parts.push(suite(&name, &xtask, &["crash", "ingest", "--store", store, "--kills", "20"], root)?);
    }
    Ok(summary(&parts))
}

/// Suites that are run once more on a private server, without what brings its own stores or none and has been there
/// already. Of durable execution no server holds what the first release wrote.
const ON_POSTGRES: &[(&str, &[&str])] = &[
    (
        "longhaul-durable, tests/it",
        &["first_release", "simulation::", "torn::", "::memory::", "::file::", "::postgres::"],
    ),
    ("longhaul-memory, tests/it", &["local::", "figures::"]),
    ("longhaul-workspace, tests/it", &[]),
    ("longhaul-server, tests/it", &["bounds::", "tls::", "description::"]),
    ("longhaul-transports, tests/it", &["bounds::", "conformance::", "described::", "grpc::", "safe::", "tools::"]),
    ("longhaul-mods, tests/it", &["catalogue::", "third_party::"]),
    ("longhaul-a2a, tests/it", &["other_bindings::", "cards_", "versions_", "streams_are"]),
];

fn on_postgres(binaries: &[Binary]) -> anyhow::Result<Vec<Part>> {
    let mut parts = Vec::new();
    for (name, elsewhere) in ON_POSTGRES {
        let Some(binary) = binaries.iter().find(|binary| binary.name == *name) else { continue };
        let program = binary.program.display().to_string();
        let mut args = vec!["LONGHAUL_TEST_STORE=postgres", &program];
        elsewhere.iter().for_each(|elsewhere| args.extend(["--skip", elsewhere]));
        parts.push(suite(&format!("{name}, on PostgreSQL"), Path::new("env"), &args, &binary.folder)?);
    }
    Ok(parts)
}

/// The real Claude Code as the worker of sessions. In the suites before it has not been installed.
fn claude_code(root: &Path, binaries: &[Binary]) -> anyhow::Result<Option<Part>> {
    let Some(binary) = binaries.iter().find(|binary| binary.name == "longhaul-cli, tests/stories") else {
        return Ok(None);
    };
    let args = ["-c", CLAUDE_CODE, "sh", &binary.program.display().to_string()];
    suite("Claude Code over ACP, offline", Path::new("sh"), &args, root).map(Some)
}

/// The gateway's own description, tried out by schemathesis. In the suites before it has not been installed.
fn schemathesis(root: &Path, binaries: &[Binary]) -> anyhow::Result<Option<Part>> {
    let Some(binary) = binaries.iter().find(|binary| binary.name == "longhaul-server, tests/it") else {
        return Ok(None);
    };
    let program = binary.program.display().to_string();
    let args = ["-c", SCHEMATHESIS, "sh", &program];
    suite("the gateway's OpenAPI document, by schemathesis", Path::new("sh"), &args, root).map(Some)
}

/// A network's description, its MCP server and its WebSocket, judged by others' programs.
fn transport_peers(root: &Path, binaries: &[Binary]) -> anyhow::Result<Option<Part>> {
    let Some(binary) = binaries.iter().find(|binary| binary.name == "longhaul-transports, tests/it") else {
        return Ok(None);
    };
    let args = ["-c", TRANSPORT_PEERS, "sh", &binary.program.display().to_string()];
    suite("a network by schemathesis, MCP's suite and Python's websockets", Path::new("sh"), &args, root).map(Some)
}

/// The cassette server, judged by the clients that its protocols' owners publish.
fn model_sdks(root: &Path, binaries: &[Binary]) -> anyhow::Result<Option<Part>> {
    let Some(binary) = binaries.iter().find(|binary| binary.name == "longhaul-model, tests/it") else {
        return Ok(None);
    };
    let program = binary.program.display().to_string();
    let args = ["-c", MODEL_SDKS, "sh", &program];
    suite("the cassette server, by the official Python clients", Path::new("sh"), &args, root).map(Some)
}

/// A network over A2A, as the official Python client finds it.
fn a2a_client(root: &Path, longhaul: &Path) -> anyhow::Result<Part> {
    // Examples are built with the tests.
    let subject = longhaul.with_file_name("examples").join("a2a_subject").display().to_string();
    suite("A2A with the official Python client", Path::new("sh"), &["-c", A2A_CLIENT, "sh", &subject], root)
}

/// The suites of `make test-peers`: what takes minutes, against every Milvus server that can be installed, agents of
/// every SDK, and kills of the whole demo.
pub(crate) fn run_peers(root: &Path) -> anyhow::Result<bool> {
    let mut parts = Vec::new();
    parts.push(plain("Milvus servers", || succeeds(root, "scripts/peers.sh", &["lite", "full"]))?);
    let mut binaries = Vec::new();
    parts.push(plain("build", || {
        binaries = built(root)?;
        Ok(true)
    })?);
    for server in ["lite", "full"] {
        parts.extend(on_milvus(&binaries, server, &[])?);
    }
    parts.extend(libp2p_peers(root, &binaries, true)?);
    let mut longhaul = PathBuf::new();
    parts.push(plain("program", || {
        longhaul = crate::bench::longhaul(root)?;
        Ok(true)
    })?);
    parts.extend(sdk_agents(root, &longhaul, true)?);
    let xtask = longhaul.with_file_name("xtask");
    parts.push(suite("ten kills of the demo", &xtask, &["crash", "--runs", "1", "--kills", "10"], root)?);
    Ok(summary(&parts))
}

/// Peers in Python and JavaScript join a network over libp2p; the long form gossips a thousand messages each way.
fn libp2p_peers(root: &Path, binaries: &[Binary], long: bool) -> anyhow::Result<Option<Part>> {
    let Some(binary) = binaries.iter().find(|binary| binary.name == "longhaul-libp2p, tests/it") else {
        return Ok(None);
    };
    let program = binary.program.display().to_string();
    let mut args = vec!["-c", LIBP2P_PEERS, "sh"];
    if long {
        args.push("LONGHAUL_TEST_LONG=1");
    }
    args.push(&program);
    suite("libp2p with peers in Python and JavaScript", Path::new("sh"), &args, root).map(Some)
}

/// Agents of the real OpenAgents SDK and a client of Python's gRPC join a network. The long form has both versions of
/// the SDK over both transports, with kills, and a LangGraph graph.
fn sdk_agents(root: &Path, longhaul: &Path, long: bool) -> anyhow::Result<Vec<Part>> {
    let short = [
        (
            "OpenAgents SDK 0.9.3 over HTTP",
            "openagents-newer",
            "openagents-0.9.3.post20",
            "openagents-agents.py",
            "http --short",
        ),
        ("gRPC with Python's own implementation", "grpc", "grpcio-1.76.0", "grpc-conversation.py", ""),
    ];
    let whole = [
        ("OpenAgents SDK 0.9.3", "openagents", "openagents-0.9.3.post20", "openagents-agents.py", ""),
        ("OpenAgents SDK 0.6.16", "openagents", "openagents-0.6.16", "openagents-agents.py", ""),
        ("a LangGraph graph joins", "langgraph", "langgraph-1.2.22", "langgraph-joins.py", ""),
    ];
    let wanted: &[_] = if long { &whole } else { &short };
    let mut parts = Vec::new();
    for (name, install, environment, script, options) in wanted {
        let options = if options.is_empty() { String::new() } else { format!(" --transport {options}") };
        let line = format!(
            "scripts/peers.sh {install} && exec \"${{XDG_CACHE_HOME:-$HOME/.cache}}/longhaul/peers/{environment}/bin/python\" \
             scripts/{script} \"$1\"{options}"
        );
        parts.push(suite(name, Path::new("sh"), &["-c", &line, "sh", &longhaul.display().to_string()], root)?);
    }
    Ok(parts)
}

/// The suite of the vector server on one of them. Without filters everything is run, what takes minutes included.
fn on_milvus(binaries: &[Binary], server: &str, filters: &[&str]) -> anyhow::Result<Option<Part>> {
    let found = binaries.iter().find(|binary| binary.name == "longhaul-milvus, tests/it");
    let Some(Binary { name, program, folder }) = found else { return Ok(None) };
    let (program, server_variable) = (program.display().to_string(), format!("LONGHAUL_TEST_MILVUS={server}"));
    let mut args = vec![server_variable.as_str()];
    if filters.is_empty() {
        args.push("LONGHAUL_TEST_LONG=1");
    }
    args.push(&program);
    args.extend(filters);
    suite(&format!("{name}, Milvus {server}"), Path::new("env"), &args, folder).map(Some)
}

fn plain(name: &str, work: impl FnOnce() -> anyhow::Result<bool>) -> anyhow::Result<Part> {
    println!("\n== {name}");
    let start = Instant::now();
    let ok = work()?;
    Ok(Part { name: name.to_owned(), took: start.elapsed(), ok, passed: 0, failed: 0 })
}

/// rustfmt is a component of its own, which a minimal toolchain lacks; the code is no worse for that.
fn formatted(root: &Path) -> anyhow::Result<bool> {
    let there = Command::new("cargo").args(["fmt", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.context("cannot start cargo")?.success() {
        println!("not looked at: rustfmt is not installed (`rustup component add rustfmt`)");
        return Ok(true);
    }
    succeeds(root, "cargo", &["fmt", "--all", "--check"])
}

fn succeeds(root: &Path, program: &str, args: &[&str]) -> anyhow::Result<bool> {
    let status = Command::new(program).args(args).current_dir(root).stdin(Stdio::null()).status();
    let ok = status.with_context(|| format!("cannot start {program}"))?.success();
    if !ok {
        println!("failed: {program} {}", args.join(" "));
    }
    Ok(ok)
}

/// The test binaries of the workspace, from cargo's messages; a build that fails is an error.
fn built(root: &Path) -> anyhow::Result<Vec<Binary>> {
    let args = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let output =
        Command::new("cargo").args(args).current_dir(root).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.context("cannot start cargo")?;
    ensure!(output.status.success(), "the tests do not build");
    let mut binaries = binaries(&String::from_utf8_lossy(&output.stdout))?;
    binaries.sort_by(|a, b| a.name.cmp(&b.name));
    ensure!(!binaries.is_empty(), "cargo built no tests");
    Ok(binaries)
}

/// The test binary of this name and the folder it runs in, built with everything else.
pub(crate) fn binary(root: &Path, name: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
    let found = built(root)?.into_iter().find(|binary| binary.name == name);
    let Binary { program, folder, .. } = found.with_context(|| format!("cargo built no {name}"))?;
    Ok((program, folder))
}

fn binaries(messages: &str) -> anyhow::Result<Vec<Binary>> {
    let mut binaries = BTreeMap::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).context("a message of cargo's")?;
        let is_test = message["profile"]["test"].as_bool().unwrap_or(false);
        let Some(program) = message["executable"].as_str().filter(|_| is_test) else { continue };
        let manifest = message["manifest_path"].as_str().context("cargo names no manifest")?;
        let folder = Path::new(manifest).parent().context("a manifest without a folder")?.to_owned();
        let package = folder.file_name().and_then(|name| name.to_str()).unwrap_or("?").to_owned();
        let kind = message["target"]["kind"][0].as_str().unwrap_or("?");
        let target = message["target"]["name"].as_str().unwrap_or("?");
        let name = match kind {
            "lib" => format!("{package}, within"),
            "bin" => format!("{package}, within {target}"),
            _ => format!("{package}, tests/{target}"),
        };
        binaries.insert(PathBuf::from(program), Binary { name, program: program.into(), folder });
    }
    Ok(binaries.into_values().collect())
}

/// Runs a suite, its lines passed on as they come, its results counted.
fn suite(name: &str, program: &Path, args: &[&str], folder: &Path) -> anyhow::Result<Part> {
    println!("\n== {name}");
    let start = Instant::now();
    let limit = SUITE_SECONDS_MAX.to_string();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &limit]).arg(program).args(args);
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start timeout(1)")?;
    let (mut passed, mut failed) = (0, 0);
    let Some(stdout) = child.stdout.take() else { bail!("{name} has no output") };
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.context("reading a suite's output")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        if let Some((ok, not_ok)) = result(&line) {
            passed += ok;
            failed += not_ok;
        }
    }
    let status = child.wait().context("waiting for a suite")?;
    if status.code() == Some(124) {
        println!("{name} did not end within {limit} s");
    }
    let ok = status.success() && failed == 0;
    let failed = if ok { failed } else { failed.max(1) };
    Ok(Part { name: name.to_owned(), took: start.elapsed(), ok, passed, failed })
}

/// The numbers of `test result: ok. 15 passed; 0 failed; …`.
fn result(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |word: &str| {
        let part = counts.split("; ").find(|part| part.ends_with(word))?;
        part.split(' ').next()?.parse().ok()
    };
    Some((number(" passed")?, number(" failed")?))
}

/// Prints the table; the last line alone says how many tests passed and failed.
fn summary(parts: &[Part]) -> bool {
    println!("\n== what took how long");
    for part in parts {
        let verdict = if part.ok { "ok    " } else { "FAILED" };
        let tests = if part.passed + part.failed > 0 {
            format!("{:>5} tests", part.passed + part.failed)
        } else {
            String::new()
        };
        println!("{verdict} {:>7.1} s  {:<44} {tests}", part.took.as_secs_f64(), part.name);
    }
    let total: f64 = parts.iter().map(|part| part.took.as_secs_f64()).sum();
    println!("       {total:>7.1} s  in all");
    for part in parts.iter().filter(|part| !part.ok) {
        println!("failed: {}", part.name);
    }
    let (passed, failed) =
        parts.iter().fold((0, 0), |(passed, failed), part| (passed + part.passed, failed + part.failed));
    println!("{passed} passed, {failed} failed");
    parts.iter().all(|part| part.ok) && passed > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_the_harness_line() {
        assert_eq!(
            result("test result: ok. 15 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out"),
            Some((15, 0))
        );
        assert_eq!(result("test result: FAILED. 3 passed; 2 failed; 0 ignored"), Some((3, 2)));
        assert_eq!(result("test a_result ... ok"), None);
    }

    #[test]
    fn a_suite_that_fails_hangs_or_dies_is_not_ok() {
        let here = std::env::temp_dir();
        let run = |script: &str| suite("s", Path::new("sh"), &["-c", script], &here).unwrap();
        assert!(run("echo 'test result: ok. 1 passed; 0 failed; x'").ok);
        let died = run("echo 'test result: ok. 1 passed; 0 failed; x'; exit 101");
        assert_eq!((died.ok, died.passed, died.failed), (false, 1, 1));
        assert!(!run("kill -9 $$").ok);
    }

    #[test]
    fn binaries_are_those_that_test() {
        let message = |test: bool, kind: &str, name: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/r/crates/longhaul-core/Cargo.toml","executable":"/t/{name}","profile":{{"test":{test}}},"target":{{"kind":["{kind}"],"name":"{name}"}}}}"#
            )
        };
        let messages =
            [message(true, "lib", "longhaul_core"), message(false, "bin", "longhaul"), message(true, "test", "it")];
        let found = binaries(&messages.join("\n")).unwrap();
        let names: Vec<&str> = found.iter().map(|binary| binary.name.as_str()).collect();
        assert_eq!(names, ["longhaul-core, tests/it", "longhaul-core, within"]);
        assert!(found.iter().all(|binary| binary.folder == Path::new("/r/crates/longhaul-core")));
    }
}

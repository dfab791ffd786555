//! Automation for this repository: `cargo xtask tidy`, `test`, `test-peers`, `crash` and `bench NAME`. It needs nothing but cargo and git.

mod bench;
mod crash;
mod faults;
mod suites;
mod tck;
mod tidy;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;

const USAGE: &str = "\
cargo xtask tidy          check what the compiler does not: file docs, lengths, names, crate arrows, links
cargo xtask test          build once, then every suite with its time (make test sets up first)
cargo xtask test-peers    the long suites against real Milvus servers: everything on both, 10,000 fresh reads
cargo xtask crash         kill the demo at random moments [--runs 5] [--kills 20] [--seed 1]
cargo xtask crash durable kill processes at work on durable executions [--store sqlite|postgres] [--kills 1000] [--seed 1]
cargo xtask crash memory  kill processes that write memories [--store sqlite|postgres] [--kills 100] [--seed 1]
cargo xtask crash ingest  kill processes that keep records [--store sqlite|postgres] [--kills 100] [--seed 1]
cargo xtask faults        plant every fault in every place and verify [--runs 20] [--only KIND]
cargo xtask tck PATH      the compatibility kit of A2A, a checkout of a2aproject/a2a-tck, branch 1.0-dev
cargo xtask bench NAME    measure; the last line of the output is one JSON object
                          durable: [--only loop,growth,…] [--rounds 3] [--kills 1000]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["tidy"] => tidy::run(&repository()),
        ["test"] => suites::run(&repository()),
        ["test-peers"] => suites::run_peers(&repository()),
        ["crash", flags @ ..] => crash::run(flags, &repository()),
        ["tck", flags @ ..] => tck::run(flags, &repository()),
        ["faults", flags @ ..] => faults::run(flags, &repository()),
        ["bench", name, flags @ ..] => bench::run(name, flags, &repository()),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}\n\nbenches: {}", bench::names().join(", "));
            return ExitCode::from(2);
        }
    };
    match done.context("xtask") {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The repository's root: the folder above this crate.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

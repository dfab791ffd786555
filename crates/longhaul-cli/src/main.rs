//! The `longhaul` command: parse, read the settings, run one command, exit with its code. Nothing is loaded and no
//! runtime is started before the command line is understood, so that `--help` is immediate.

mod args;
mod commands;
mod exit;
mod progress;

use std::{
    io::{Write, stderr},
    process::ExitCode,
};

use clap::Parser;
use longhaul::LonghaulError;

use crate::{args::Cli, exit::Exit};

fn main() -> ExitCode {
    if let Some(ended) = commands::sandbox_init::if_asked(std::env::args_os()) {
        return ended;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            let _ = error.print(); // a closed pipe changes nothing
            return code.into();
        }
    };
    if let Some(refusal) = unsupported_machine() {
        return fail(&exit::Refusal::because(Exit::Environment, refusal), cli.global.json);
    }
    start_logging();
    let json = cli.global.json;
    match commands::run(cli) {
        Ok(exit) => exit.into(),
        Err(error) if closed_pipe(&error) => Exit::Done.into(),
        Err(error) => fail(&error, json),
    }
}

/// Says on standard error what went wrong and why, and as an object on standard output for machines.
fn fail(error: &anyhow::Error, json: bool) -> ExitCode {
    let exit = exit::of_error(error);
    let message = told(error);
    if json {
        let object = serde_json::json!({ "error": { "message": message, "exit": exit.number() } });
        let _ = progress::print_line(&object.to_string());
    }
    let _ = writeln!(stderr(), "longhaul: {message}");
    exit.into()
}

/// An error and its causes on one line; what a message already tells is not told again.
fn told(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    if let Some(LonghaulError::Stopped { .. } | LonghaulError::Busy(_)) = error.downcast_ref() {
        return message; // these tell their causes themselves
    }
    let mut last = message.clone();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !message.contains(&cause) && !cause.contains(&last) {
            message = format!("{message}: {cause}");
            last = cause;
        }
    }
    message
}

/// `longhaul log | head` ends when head does.
fn closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn unsupported_machine() -> Option<String> {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    match (os, arch) {
        ("linux", "x86_64" | "aarch64") => None,
        ("linux", _) => Some(format!("{arch} is not supported: Longhaul runs on Linux x86-64 and aarch64")),
        _ => Some(format!(
            "{os} is not supported: the sandbox needs Linux namespaces (bubblewrap); run Longhaul in a Linux virtual machine, x86-64 or aarch64"
        )),
    }
}

/// Warnings and `LONGHAUL_LOG` go to standard error; standard output belongs to the command.
fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_env_var("LONGHAUL_LOG")
        .with_default_directive(tracing::level_filters::LevelFilter::ERROR.into())
        .from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).without_time().init();
}

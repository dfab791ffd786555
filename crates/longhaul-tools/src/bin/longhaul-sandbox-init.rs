//! The helper inside the sandbox as a program of its own, for this crate's tests; `longhaul` has it as a hidden
//! subcommand.

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul_tools::sandbox::init_main(std::env::args_os().skip(1))
}

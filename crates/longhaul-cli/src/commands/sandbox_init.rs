//! The hidden command that the sandbox starts inside itself: it is this same program, so that a single file is enough.
//! It is not parsed by clap, as what follows it belongs to the helper.

use std::{ffi::OsString, process::ExitCode};

/// Its name on the command line; [`longhaul`] passes it to the sandbox.
pub(crate) const NAME: &str = "sandbox-init";

/// Acts as the helper if that is what was asked for.
pub(crate) fn if_asked(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let asked = args.nth(1).is_some_and(|first| first == NAME);
    asked.then(|| longhaul::tools::sandbox::init_main(args))
}

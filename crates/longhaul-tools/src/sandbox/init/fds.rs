//! Keeps open files that leaked into the harness (from a `make`, an editor, a terminal) out of commands.
//!
//! The standard library marks everything it opens as close-on-exec; a leak is a file without that mark, handed down
//! from whoever started the harness. A shell closes it just before it becomes the command.

use std::{ffi::OsString, fs, io};

const CLOSE_ON_EXEC: u32 = 0o2_000_000;

/// The command, wrapped so that it starts with standard input, output and error only.
pub(super) fn without_inherited(argv: &[OsString]) -> io::Result<Vec<OsString>> {
    let leaked = leaked()?;
    if leaked.is_empty() {
        return Ok(argv.to_owned());
    }
    let closers: String = leaked.iter().map(|fd| format!("exec {fd}>&-; ")).collect();
    // POSIX shells need not know numbers of two digits.
    let shell = if leaked.iter().all(|fd| *fd < 10) { "/bin/sh" } else { "/bin/bash" };
    let mut wrapped: Vec<OsString> = [shell, "-c", &format!("{closers}exec \"$@\""), "sh"].map(OsString::from).into();
    wrapped.extend(argv.iter().cloned());
    Ok(wrapped)
}

fn leaked() -> io::Result<Vec<u32>> {
    let mut leaked = Vec::new();
    for entry in fs::read_dir("/proc/self/fdinfo")? {
        let name = entry?.file_name();
        let Some(fd) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // The descriptor of this listing itself is gone by the time it is looked at.
        let Ok(info) = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")) else { continue };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0);
        if fd > 2 && flags & CLOSE_ON_EXEC == 0 {
            leaked.push(fd);
        }
    }
    Ok(leaked)
}

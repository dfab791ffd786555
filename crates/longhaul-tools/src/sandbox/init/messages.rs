//! What a program that is talked to writes to its standard error: passed on line by line, each marked, so that none can be
//! taken for a status.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::fd::{AsFd, OwnedFd},
    thread,
};

/// Longest line that is passed on, in bytes; a longer one is passed on in parts.
const LINE_BYTES_MAX: u64 = 2_000;

/// The writing end for the program; what it writes is told.
pub(super) fn collect() -> Result<OwnedFd, String> {
    let (reader, writer) = io::pipe().map_err(|error| format!("no pipe: {error}"))?;
    let mut reader = BufReader::new(reader);
    let collect = move || {
        loop {
            let mut line = Vec::new();
            if !matches!((&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line), Ok(1..)) {
                return;
            }
            tell(String::from_utf8_lossy(&line).trim_end());
        }
    };
    thread::Builder::new().spawn(collect).map_err(|error| format!("no thread: {error}"))?;
    Ok(writer.into())
}

/// Tells one line.
pub(super) fn tell(line: &str) {
    // One write, so that lines of several threads do not mix. Nobody may be listening any more.
    let _ = rustix::io::write(io::stderr().as_fd(), format!("says: {line}\n").as_bytes());
    let _ = io::stderr().flush();
}

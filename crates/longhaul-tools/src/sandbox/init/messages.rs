//! What a program that is talked to writes to its standard error: passed on line by line, each marked, so that none can be
//! taken for a status.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::fd::{AsFd, OwnedFd},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

/// Longest line that is passed on, in bytes; a longer one is passed on in parts.
const LINE_BYTES_MAX: u64 = 2_000;

/// Longest wait for the last words of a program that has ended; what it left running may keep its standard error open.
const LAST_WORDS_MAX: Duration = Duration::from_millis(500);

/// The end of what is told: its channel closes when everything has been passed on.
pub(super) struct Told(Receiver<()>);

impl Told {
    /// Waits until the last words of a program that has ended are passed on.
    pub(super) fn wait(self) {
        // Nothing is ever sent; an error says that it is over, or that it takes too long.
        let _ = self.0.recv_timeout(LAST_WORDS_MAX);
    }
}

/// The writing end for the program; what it writes is told.
pub(super) fn collect() -> Result<(OwnedFd, Told), String> {
    let (telling, told) = mpsc::channel::<()>();
    let (reader, writer) = io::pipe().map_err(|error| format!("no pipe: {error}"))?;
    let mut reader = BufReader::new(reader);
    let collect = move || {
        let _telling = telling;
        loop {
            let mut line = Vec::new();
            if !matches!((&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line), Ok(1..)) {
                return;
            }
            tell(String::from_utf8_lossy(&line).trim_end());
        }
    };
    thread::Builder::new().spawn(collect).map_err(|error| format!("no thread: {error}"))?;
    Ok((writer.into(), Told(told)))
}

/// Tells one line.
pub(super) fn tell(line: &str) {
    // One write, so that lines of several threads do not mix. Nobody may be listening any more.
    let _ = rustix::io::write(io::stderr().as_fd(), format!("says: {line}\n").as_bytes());
    let _ = io::stderr().flush();
}

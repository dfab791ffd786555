//! The world outside of the process that is killed: one file of lines for each thread, which is only ever added to.
//!
//! It owns the lines: `KIND ACT KEY NONCE LIFE`. It deduplicates keys as a careful service does, and it remembers what
//! a killed process had asked it to do. Invariant: a line that a process was told of is on the disk.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The outside world, as one process sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Receiver {
    acts: PathBuf,
    /// Number of the process.
    life: u64,
    arrivals: Arc<AtomicU64>,
}

impl Receiver {
    pub(crate) fn new(acts: PathBuf, life: u64) -> Self {
        Self { acts, life, arrivals: Arc::default() }
    }

    /// Something arrives; the answer is its receipt. Of two arrivals with one key, the second gets the first's receipt.
    pub(crate) fn arrive(&self, thread: &str, kind: &str, act: &str, key: &str) -> io::Result<String> {
        let before = if key == "-" { None } else { self.find(thread, |words| words[2] == key)? };
        let nonce = format!("{}.{}", self.life, self.arrivals.fetch_add(1, Ordering::Relaxed));
        let line = format!("{kind} {act} {key} {nonce} {}\n", self.life);
        let mut file = OpenOptions::new().create(true).append(true).open(self.acts.join(thread))?;
        file.write_all(line.as_bytes())?;
        file.sync_data()?;
        Ok(before.unwrap_or(nonce))
    }

    /// The receipt of an act, if it arrived; a note about it is no arrival.
    pub(crate) fn receipt(&self, thread: &str, act: &str) -> io::Result<Option<String>> {
        self.find(thread, |words| words[1] == act && words[0] != "listed")
    }

    fn find(&self, thread: &str, fits: impl Fn(&[&str]) -> bool) -> io::Result<Option<String>> {
        let text = match fs::read_to_string(self.acts.join(thread)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        Ok(lines.filter(|words| words.len() == 5).find(|words| fits(words)).map(|words| words[3].to_owned()))
    }

    /// The threads of a lane to which something has arrived, in their order.
    pub(crate) fn threads(&self, lane: u64) -> io::Result<Vec<String>> {
        let prefix = format!("lane-{lane}-");
        let names = fs::read_dir(&self.acts)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(&prefix)).collect();
        names.sort();
        Ok(names)
    }
}

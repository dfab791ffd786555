//! Ends the sandbox when the harness has gone, and when its processes together use too much memory.

use std::{fs, os::fd::OwnedFd, process, thread};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::report;
use crate::sandbox::{CommandExit, plan::Status};

/// Between two looks at the memory of all processes, in nanoseconds.
const LOOK_EVERY_NS: i64 = 100_000_000;

pub(super) struct Watch;

impl Watch {
    /// Watches from a thread of its own until the process ends.
    pub(super) fn start(output: OwnedFd, memory_bytes_max: u64) -> Result<(), String> {
        let body = move || {
            loop {
                if nobody_reads(&output) {
                    process::exit(1);
                }
                if memory_bytes() > memory_bytes_max {
                    report(&Status::Ended(CommandExit::OutOfMemory));
                    process::exit(1);
                }
            }
        };
        thread::Builder::new()
            .name("watch".to_owned())
            .spawn(body)
            .map(drop)
            .map_err(|error| format!("cannot start a thread: {error}"))
    }
}

/// Waits for the time between two looks, or until the reading end of the output is closed.
fn nobody_reads(output: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(output, PollFlags::empty())];
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY_NS };
    matches!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(1..))
        && fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)
}

/// Private and shared anonymous memory of every process inside. Pages shared after a fork count for each.
fn memory_bytes() -> u64 {
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    processes
        .filter_map(|entry| {
            let entry = entry.ok()?;
            entry.file_name().to_str()?.parse::<u32>().ok()?;
            let status = fs::read_to_string(entry.path().join("status")).ok()?;
            Some(kib(&status, "RssAnon:") + kib(&status, "RssShmem:"))
        })
        .sum::<u64>()
        .saturating_mul(1024)
}

fn kib(status: &str, field: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    value.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

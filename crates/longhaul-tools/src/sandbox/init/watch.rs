//! Ends the sandbox when the harness has gone, and when its processes together use too much memory.

use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process, thread,
};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::{report, tree};
use crate::sandbox::{
    CommandExit,
    plan::{Plan, Status},
};

/// Between two looks at the memory of all processes, in nanoseconds.
const LOOK_EVERY_NS: i64 = 100_000_000;

/// Left on the disk for the harness to go on with, in bytes.
const FREE_BYTES_MIN: u64 = 128 * 1024 * 1024;
/// A command that took less is not what filled it, in bytes.
const TAKEN_BYTES_MIN: u64 = 16 * 1024 * 1024;

pub(super) struct Watch;

impl Watch {
    /// Watches from a thread of its own until the process ends.
    pub(super) fn start(output: OwnedFd, plan: &Plan) -> Result<(), String> {
        let (memory_bytes_max, is_confined) = (plan.memory_bytes_max, plan.confine.is_some());
        let disk = Disk::of(plan);
        let body = move || {
            loop {
                if nobody_reads(&output) {
                    end(is_confined);
                }
                if memory_bytes(is_confined) > memory_bytes_max {
                    report(&Status::Ended(CommandExit::OutOfMemory));
                    end(is_confined);
                }
                if disk.is_full() {
                    report(&Status::Ended(CommandExit::DiskFull));
                    end(is_confined);
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

/// The disk of the project, as it was when the command began.
struct Disk {
    folder: PathBuf,
    free: u64,
    taken_bytes_max: u64,
}

impl Disk {
    fn of(plan: &Plan) -> Self {
        // With namespaces the helper starts in the project.
        let folder = plan.confine.as_ref().map_or_else(|| PathBuf::from("."), |confine| confine.cwd.clone());
        Self { free: free_bytes(&folder).unwrap_or(0), folder, taken_bytes_max: plan.disk_bytes_max }
    }

    fn is_full(&self) -> bool {
        let Some(free) = free_bytes(&self.folder) else { return false };
        let taken = self.free.saturating_sub(free);
        taken > self.taken_bytes_max || (free < FREE_BYTES_MIN && taken > TAKEN_BYTES_MIN)
    }
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Ends the sandbox: as process 1 by ending, otherwise process by process.
fn end(is_confined: bool) -> ! {
    if is_confined {
        tree::end_all();
    }
    process::exit(1)
}

/// Private and shared anonymous memory of every process inside. Pages shared after a fork count for each.
fn memory_bytes(is_confined: bool) -> u64 {
    let pids: Vec<u32> = if is_confined {
        tree::descendants().into_iter().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()).collect()
    } else {
        all_pids()
    };
    let each = pids.into_iter().filter_map(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Some(kib(&status, "RssAnon:") + kib(&status, "RssShmem:"))
    });
    each.sum::<u64>().saturating_mul(1024)
}

fn all_pids() -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Processes and threads that the user of this one has on the whole machine.
pub(super) fn threads_of_user() -> u64 {
    let own = rustix::process::geteuid().as_raw().to_string();
    let each = all_pids().into_iter().filter_map(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?;
        (uid == own).then(|| kib(&status, "Threads:"))
    });
    each.sum()
}

fn kib(status: &str, field: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    value.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

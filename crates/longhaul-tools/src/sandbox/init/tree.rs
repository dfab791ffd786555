//! The processes of a command where no namespace holds them: everything that descends from the helper, which is their
//! nearest reaper, however they detach themselves.

use std::{collections::BTreeMap, fs};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper};

/// From now on orphans come to this process.
pub(super) fn adopt_orphans() -> Result<(), String> {
    let own = rustix::process::getpid();
    set_child_subreaper(Some(own)).map_err(|error| format!("cannot look after its processes: {error}"))
}

/// Ends every descendant. All are stopped before any is killed, so that none can start others meanwhile; their number is
/// bounded by the limit of processes.
pub(super) fn end_all() {
    loop {
        let stopped = signal_all(Signal::STOP);
        let killed = signal_all(Signal::KILL);
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        if stopped + killed == 0 {
            return;
        }
        std::thread::yield_now();
    }
}

fn signal_all(signal: Signal) -> usize {
    let all = descendants();
    for pid in &all {
        // It may have gone meanwhile.
        let _ = kill_process(*pid, signal);
    }
    all.len()
}

/// Every process that descends from this one and has not ended.
pub(super) fn descendants() -> Vec<Pid> {
    let mut children = BTreeMap::<i32, Vec<i32>>::new();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    for entry in processes.filter_map(Result::ok) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some((false, parent)) = state_and_parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(parent) = next.pop() {
        let own = children.remove(&parent).unwrap_or_default();
        found.extend(own.iter().filter_map(|pid| Pid::from_raw(*pid)));
        next.extend(own);
    }
    found
}

/// Whether it has ended, and its parent: `pid (name) state parent …`, where the name may hold anything.
fn state_and_parent(stat: &str) -> Option<(bool, i32)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let state = words.next()?;
    // The children of what has ended come to us once it is reaped; they are found by their own parent then.
    Some((matches!(state, "Z" | "X"), words.next()?.parse().ok()?))
}

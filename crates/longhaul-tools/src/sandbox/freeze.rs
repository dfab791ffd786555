//! Stops everything inside a sandbox for a while, such as an agent that must not change the folder while it is verified.
//!
//! Only what the helper has started is stopped, never the helper: it must notice when the harness has gone. Invariant: a
//! stopped process cannot start another, so that looking again until nothing new is found finds all.

use std::{collections::BTreeSet, fs};

use rustix::process::{Pid, Signal};

use super::{Program, SandboxError, bwrap::INIT_PATH};

/// Rounds of looking; each finds at least one process more, or is the last.
const ROUNDS_MAX: usize = 1_000;

impl Program {
    /// Stops every process of the program; gives how many.
    ///
    /// # Errors
    /// [`SandboxError::Setup`] when they cannot be found or do not stop; the program had better be ended then.
    pub fn freeze(&self) -> Result<usize, SandboxError> {
        let mut sent = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            let all = self.inside()?;
            let running: Vec<u32> = all.iter().copied().filter(|pid| !is_stopped(*pid)).collect();
            if running.is_empty() {
                return Ok(all.len());
            }
            for pid in running {
                if sent.insert(pid) {
                    signal(pid, Signal::STOP);
                }
            }
            // A stop is delivered when the process next runs.
            std::thread::yield_now();
        }
        Err(SandboxError::Setup { detail: "a process of the agent does not stop".to_owned() })
    }

    /// Lets them go on.
    ///
    /// # Errors
    /// [`SandboxError::Setup`] when they cannot be found.
    pub fn thaw(&self) -> Result<(), SandboxError> {
        for pid in self.inside()? {
            signal(pid, Signal::CONT);
        }
        Ok(())
    }

    /// Every process that the helper started, or that was left to it.
    fn inside(&self) -> Result<Vec<u32>, SandboxError> {
        let gone = || SandboxError::Setup { detail: "the agent's processes cannot be found".to_owned() };
        let outermost = self.pid().ok_or_else(gone)?;
        let family = descendants(outermost);
        let helper = family.iter().find(|pid| is_helper(**pid)).copied().ok_or_else(gone)?;
        Ok(descendants(helper))
    }
}

/// Children, their children, and so on, the nearer ones first.
fn descendants(of: u32) -> Vec<u32> {
    let mut found = children(of);
    let mut looked_at = 0;
    while let Some(pid) = found.get(looked_at).copied() {
        found.extend(children(pid));
        looked_at += 1;
    }
    found
}

fn children(of: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().filter_map(Result::ok);
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

fn status(pid: u32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(field)).map(|rest| rest.trim().to_owned())
}

/// What the sandbox runs first. Whatever looks like it is started by it, and so is farther away.
fn is_helper(pid: u32) -> bool {
    let first = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    first.split(|byte| *byte == 0).next() == Some(INIT_PATH.as_bytes())
}

/// A process that has ended counts: it does nothing any more.
fn is_stopped(pid: u32) -> bool {
    status(pid, "State:").is_none_or(|state| state.starts_with(['T', 'Z', 'X', 't']))
}

fn signal(pid: u32, signal: Signal) {
    // It may have ended meanwhile, which is as good.
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

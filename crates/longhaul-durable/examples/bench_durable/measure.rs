//! Time, CPU time and memory of this process, and the middle of several measurements.

use std::{fs, time::Instant};

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};

/// CPU time of all threads of this process so far, in microseconds.
pub(crate) fn cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// From its making on.
pub(crate) struct Stopwatch {
    started: Instant,
    cpu_us: f64,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), cpu_us: cpu_us() }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    pub(crate) fn ms(&self) -> f64 {
        self.seconds() * 1_000.0
    }

    pub(crate) fn cpu_us(&self) -> f64 {
        cpu_us() - self.cpu_us
    }
}

/// A line of `/proc/self/status` in kB: `VmHWM` is the most memory so far, `VmRSS` that of now.
pub(crate) fn memory_kb(name: &str) -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = line.and_then(|line| line.trim().strip_suffix("kB")).context("no such line in /proc/self/status")?;
    value.trim().parse().context("not a number of kB")
}

/// The middle of at least one value.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

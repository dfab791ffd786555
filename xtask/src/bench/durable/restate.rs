//! Restate is a server of its own: its script starts it and a service beside it, asks, and ends both. This file owns
//! that the script begins with an empty store and that its output reads like the others'.

use std::{fs, process::Command};

use super::{median, peers::Peers};

/// Runs the script once; `steps/s=…` of the runs of 1,000 steps, or why there is none.
pub(super) fn steps_per_second(peers: &Peers) -> Result<String, String> {
    let folder = peers.restate()?;
    let stale = folder.join("data");
    if stale.is_dir() {
        fs::remove_dir_all(&stale).map_err(|error| format!("{}: {error}", stale.display()))?;
    }
    let output = Command::new("bash").arg("run.sh").current_dir(&folder).env("SCRATCH", peers.scratch()).output();
    let output = output.map_err(|error| format!("bash: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let speed =
        median(long_runs(&text)).ok_or("restate's script measured nothing: are its ports 8080 and 9070 free?")?;
    Ok(format!("steps/s={speed}"))
}

/// `restate n=1000 r=1000 1081 steps/s`, whose result must be its number of steps.
fn long_runs(output: &str) -> Vec<f64> {
    let runs = output.lines().filter_map(|line| line.strip_prefix("restate n=1000 r=1000 "));
    runs.filter_map(|rest| rest.split(' ').next()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::long_runs;

    #[test]
    fn only_whole_runs_of_a_thousand_count() {
        let output =
            "restate n=200 r=200 492 steps/s\nrestate n=1000 r=1000 821 steps/s\nrestate n=1000 r= 99 steps/s\n";
        assert_eq!(long_runs(output), [821.0]);
    }
}

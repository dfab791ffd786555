//! The fallback's boundary: Landlock over files, TCP ports, signals and abstract sockets, put on the thread that starts the
//! command, so that the helper itself stays outside of it.
//!
//! Invariant: everything that is handled is required of the kernel; one which has less is refused, not served with less.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};

use crate::sandbox::plan::Confine;

/// Files, TCP, signals and abstract sockets: Linux 6.12.
const NEEDED: ABI = ABI::V6;

/// Whether this kernel has what is needed. Restricts nothing.
pub(in crate::sandbox) fn supported() -> Result<(), String> {
    ruleset(false).map(drop)
}

/// Restricts the calling thread and what it will start.
pub(super) fn restrict(confine: &Confine) -> Result<(), String> {
    let mut ruleset = ruleset(confine.open_network)?;
    let read = AccessFs::from_read(NEEDED);
    for path in &confine.read {
        ruleset = beneath(ruleset, path, read)?;
    }
    for path in &confine.write {
        ruleset = beneath(ruleset, path, AccessFs::from_all(NEEDED))?;
    }
    if !confine.open_network {
        for (ports, access) in [(&confine.connect, AccessNet::ConnectTcp), (&confine.bind, AccessNet::BindTcp)] {
            for port in ports {
                ruleset = ruleset.add_rule(NetPort::new(*port, access)).map_err(failed)?;
            }
        }
    }
    ruleset.restrict_self().map(drop).map_err(failed)
}

fn ruleset(open_network: bool) -> Result<RulesetCreated, String> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(NEEDED)))
        .map_err(failed)?;
    if !open_network {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEEDED)).map_err(failed)?;
    }
    ruleset.create().map_err(failed)
}

/// What does not exist gives no right.
fn beneath(ruleset: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    let Ok(fd) = PathFd::new(path) else { return Ok(ruleset) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEEDED) };
    ruleset.add_rule(PathBeneath::new(fd, access)).map_err(failed)
}

fn failed(error: impl std::error::Error) -> String {
    format!("Landlock cannot be used: {error}")
}

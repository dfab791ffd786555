//! What the suites that kill processes on one store or both are asked to do.

use anyhow::{Context, bail};

const STORES: [&str; 2] = ["sqlite", "postgres"];

/// What was asked for.
pub(super) struct Plan {
    pub(super) stores: Vec<&'static str>,
    pub(super) kills: u64,
    pub(super) seed: u64,
}

/// Reads the flags; `kills` is how many there are when nobody says.
pub(super) fn parse(args: &[&str], kills: u64) -> anyhow::Result<Plan> {
    let mut plan = Plan { stores: STORES.to_vec(), kills, seed: 1 };
    let mut rest = args.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().with_context(|| format!("{flag} needs a value"))?;
        let number = || value.parse().with_context(|| format!("{flag} {value}: not a number"));
        match (*flag, *value) {
            ("--store", name) if STORES.contains(&name) => plan.stores.retain(|store| *store == name),
            ("--kills", _) => plan.kills = number()?,
            ("--seed", _) => plan.seed = number()?,
            _ => bail!("unknown: {flag} {value}; there are --store sqlite|postgres, --kills, --seed"),
        }
    }
    Ok(plan)
}

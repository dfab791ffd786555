//! `cargo xtask crash [--runs N] [--kills K] [--seed S] [--agent own|acp] [--story demo|tiny]`: kills the demo at random moments, again and again, and compares
//! what it came to with what an undisturbed run comes to.
//!
//! It looks at the program from outside only: its commands' JSON, git, and the log of the cassette server, whose entries
//! tell which answers of the model were asked for. Invariants checked: the same features pass, every commit is made by
//! another step, no session or memory is missing, no recorded model call is asked again.

mod durable;
mod durable_judge;
mod ledger;
mod stores;
mod subject;
mod writers;

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, bail, ensure};

use self::{
    ledger::Ledger,
    subject::{Story, Subject},
    writers::Writers,
};

/// What was asked for.
struct Plan {
    runs: u64,
    kills: u64,
    seed: u64,
    story: Story,
}

/// Most tries to land one run's kills; a run that keeps finishing first would otherwise go on for ever.
const RUN_STARTS_MAX: u64 = 400;

/// Runs the suite; true if every run ended as it should.
pub(crate) fn run(args: &[&str], root: &Path) -> anyhow::Result<bool> {
    if let ["durable", flags @ ..] = args {
        return durable::run(flags, root);
    }
    if let ["memory", flags @ ..] = args {
        return writers::run(Writers::Memories, flags, root);
    }
    if let ["ingest", flags @ ..] = args {
        return writers::run(Writers::Records, flags, root);
    }
    let plan = parse(args)?;
    let program = crate::bench::longhaul(root)?;
    let scratch = tempfile::tempdir().context("a folder for the runs")?;
    println!("crash: an undisturbed run first");
    let calm = Subject::new(&program, &scratch.path().join("calm"), root, plan.story)?;
    let took = calm.run_to_end()?;
    let expected = calm.outcome()?;
    ensure!(expected.all_pass(), "the undisturbed demo does not finish: {expected:?}");
    println!("crash: it takes {:.1} s; {} runs of {} kills follow", took.as_secs_f64(), plan.runs, plan.kills);
    let (mut passed, mut failed) = (0_u64, 0_u64);
    for number in 0..plan.runs {
        let seed = plan.seed.wrapping_add(number);
        let place = scratch.path().join(format!("run-{number}"));
        match one_run(&program, &place, root, &plan, seed, took).and_then(|done| done.compare(&expected).map(|()| done))
        {
            Ok(done) => {
                passed += 1;
                println!("crash: run {} ok: {} kills, {}", number + 1, plan.kills, done.summary());
            }
            Err(error) => {
                failed += 1;
                let kept = scratch_kept(&place);
                println!("crash: run {} FAILED (--seed {seed}; looked at in {kept}): {error:#}", number + 1);
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        let _kept = scratch.keep();
    }
    Ok(failed == 0)
}

fn scratch_kept(place: &Path) -> String {
    place.display().to_string()
}

fn parse(args: &[&str]) -> anyhow::Result<Plan> {
    let mut plan = Plan { runs: 5, kills: 20, seed: 1, story: Story::default() };
    let mut rest = args.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().with_context(|| format!("{flag} needs a value"))?;
        let number = || value.parse::<u64>().with_context(|| format!("{flag} {value}: not a number"));
        match (*flag, *value) {
            ("--runs", _) => plan.runs = number()?,
            ("--kills", _) => plan.kills = number()?,
            ("--seed", _) => plan.seed = number()?,
            ("--agent", "own" | "acp") => plan.story.is_by_agent = *value == "acp",
            ("--story", "demo" | "tiny") => plan.story.is_tiny = *value == "tiny",
            _ => {
                bail!("unknown: {flag} {value}; there are --runs, --kills, --seed, --agent own|acp, --story demo|tiny")
            }
        }
    }
    Ok(plan)
}

/// Starts the demo, kills it after a random time, and so on; the last start runs to the end.
fn one_run(
    program: &Path,
    place: &Path,
    root: &Path,
    plan: &Plan,
    seed: u64,
    took: Duration,
) -> anyhow::Result<subject::Outcome> {
    let subject = Subject::new(program, place, root, plan.story)?;
    let mut ledger = Ledger::default();
    let mut random = SplitMix(seed);
    // Kills are spread over the whole story: each start gets about its share of the undisturbed time.
    let share = took.as_millis() as u64 * 2 / (plan.kills + 1);
    let (mut kills, mut starts) = (0, 0);
    while kills < plan.kills {
        starts += 1;
        ensure!(starts < RUN_STARTS_MAX, "only {kills} kills landed in {starts} starts");
        let after = Duration::from_millis(random.below(share.max(400)) + 50);
        if subject.run_and_kill(after)? {
            kills += 1;
        } else if subject.is_done()? {
            println!("crash: finished after {kills} kills already (seed {seed})");
            break;
        }
        ledger.check(&subject)?;
    }
    subject.run_to_end()?;
    ledger.check(&subject)?;
    subject.outcome()
}

/// Builds a program that is killed, with the features that a build of everything has.
fn example(root: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe().context("where is xtask?")?;
    let profile = here.parent().context("xtask lies in no folder")?;
    let target = profile.parent().context("xtask lies in no target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--workspace", "--example", name, "--target-dir"]).arg(target);
    ensure!(build.current_dir(root).status().context("cargo build")?.success(), "{name} does not build");
    // Built into the folder of this profile, whatever profile this program has.
    Ok(target.join("debug/examples").join(name))
}

/// A small generator, so that a seed names a run for ever.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

//! `cargo xtask crash memory|ingest [--store sqlite|postgres] [--kills N] [--seed S]`: kills processes that write, two at
//! a time on one store (SIGKILL at random moments), and has a last one judge.
//!
//! `memory` writes, edits, forgets and searches memories: no acknowledged write is lost, nothing forgotten comes back,
//! rows and indexes agree. `ingest` keeps records of all sizes and reaches milestones: nothing acknowledged is lost, no
//! record is half visible, no milestone names what is not there, and a sweep leaves no orphan.
//!
//! Invariant: the moments follow from the seed; what was being done at them is the machine's.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::{Value, json};

use super::{
    SplitMix,
    stores::{Plan, parse},
};

/// Kills on each store when nobody says how many.
const KILLS: u64 = 100;
const LANES: [&str; 2] = ["0,1", "2,3"];
/// A process that is not ready by then hangs.
const HANGS_AFTER: Duration = Duration::from_secs(120);
/// Most time that a process lives after it is ready.
const LIFE_MS: u64 = 400;
/// Kills between two judgements.
const ROUND: u64 = 25;

/// What the processes that are killed write.
#[derive(Debug, Clone, Copy)]
pub(super) enum Writers {
    Memories,
    Records,
}

impl Writers {
    /// The suite's name, the example that is killed, and what it writes in words.
    fn words(self) -> [&'static str; 3] {
        match self {
            Self::Memories => ["memory", "memory_crash_subject", "memories"],
            Self::Records => ["ingest", "ingest_crash_subject", "records"],
        }
    }
}

/// Runs the suite; true if nothing was lost and nothing drifted. The last line is an object with all counts.
pub(super) fn run(writers: Writers, args: &[&str], root: &Path) -> anyhow::Result<bool> {
    let [suite, example, what] = writers.words();
    let plan = parse(args, KILLS)?;
    let program = super::example(root, example)?;
    let (mut stores, mut failed) = (Vec::new(), 0);
    for store in &plan.stores {
        println!("crash: {} kills of processes that write {what}, on {store}", plan.kills);
        let object = on_store(&plan, store, &program)?;
        println!("crash: {object}");
        failed += u64::from(object["findings"] != 0 || object["kills"] != plan.kills);
        stores.push(object);
    }
    println!("{} passed, {failed} failed", stores.len() as u64 - failed);
    println!("{}", json!({ "crash": suite, "seed": plan.seed, "ok": failed == 0, "stores": stores }));
    Ok(failed == 0)
}

fn on_store(plan: &Plan, store: &str, program: &Path) -> anyhow::Result<Value> {
    let started = Instant::now();
    let scratch = tempfile::tempdir().context("a folder for the runs")?;
    let mut place = Place { program: program.to_owned(), dir: scratch.path().to_owned(), url: None };
    let cluster = if store == "postgres" { Some(Cluster::start(program)?) } else { None };
    place.url = cluster.as_ref().map(|cluster| cluster.url.clone());
    fs::create_dir_all(place.acts())?;
    let (mut landed, mut verdict, mut findings) = (0, Value::Null, 0);
    while landed < plan.kills && findings == 0 {
        let round = ROUND.min(plan.kills - landed);
        std::thread::scope(|scope| {
            let slots = LANES.iter().zip(0_u64..).map(|(lanes, slot)| {
                // Odd kills are the second slot's.
                let lives = (landed..landed + round).filter(move |kill| kill % 2 == slot);
                let (place, seed) = (&place, plan.seed);
                scope.spawn(move || lives.map(|life| place.one(lanes, seed, life)).collect::<anyhow::Result<()>>())
            });
            let slots: Vec<_> = slots.collect();
            slots.into_iter().try_for_each(|slot| slot.join().unwrap_or_else(|_| Err(anyhow!("a slot panicked"))))
        })?;
        landed += round;
        verdict = place.judge()?;
        findings = verdict["findings"].as_u64().context("no verdict")?;
        println!("crash: {landed} kills, {} writes acknowledged, {findings} findings", verdict["acknowledged"]);
    }
    if findings > 0 {
        println!(
            "crash: FAILED with --store {store} --seed {}; what was left is in {}",
            plan.seed,
            scratch.keep().display()
        );
    }
    verdict["store"] = json!(store);
    verdict["kills"] = json!(landed);
    verdict["seconds"] = json!((started.elapsed().as_secs_f64() * 10.0).round() / 10.0);
    Ok(verdict)
}

/// One store, and the folder in which processes say what was acknowledged.
struct Place {
    program: PathBuf,
    dir: PathBuf,
    url: Option<String>,
}

impl Place {
    fn acts(&self) -> PathBuf {
        self.dir.join("acts")
    }

    fn command(&self, mode: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(mode).arg("--store").arg(self.dir.join("store")).arg("--acts").arg(self.acts());
        // In the environment: arguments can be read by everybody on the machine.
        if let Some(url) = &self.url {
            command.env("LONGHAUL_CRASH_URL", url);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    /// One process, from its start to its death.
    fn one(&self, lanes: &str, seed: u64, life: u64) -> anyhow::Result<()> {
        let mut random = SplitMix(seed.wrapping_mul(1_000_003).wrapping_add(life));
        let mut process = Process::start(self.command("work").args(["--lanes", lanes, "--life", &life.to_string()]))?;
        if random.below(6) > 0 {
            process.ready()?;
        }
        let moment = Duration::from_millis(random.below(LIFE_MS));
        match process.lines.recv_timeout(moment) {
            Err(RecvTimeoutError::Disconnected) => bail!("the process ended by itself"),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
        process.child.kill()?;
        process.child.wait()?;
        Ok(())
    }

    fn judge(&self) -> anyhow::Result<Value> {
        let output = self.command("judge").stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "the judge ended with {}", output.status);
        let said = String::from_utf8(output.stdout)?;
        serde_json::from_str(said.trim()).with_context(|| said.clone())
    }
}

struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command.spawn().context("the process does not start")?;
        let output = child.stdout.take().context("the process has no output")?;
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Ok(Self { child, lines })
    }

    fn ready(&mut self) -> anyhow::Result<()> {
        match self.lines.recv_timeout(HANGS_AFTER) {
            Ok(line) => {
                ensure!(line == "ready", "the process said {line}");
                Ok(())
            }
            Err(error) => bail!("the process is not ready: {error}"),
        }
    }
}

/// Nothing that was started is left running.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The private server, in a process that nobody kills. It ends with its input.
struct Cluster {
    child: Child,
    url: String,
}

impl Cluster {
    fn start(program: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(program).arg("cluster").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut url = String::new();
        BufReader::new(child.stdout.take().context("the cluster has no output")?).read_line(&mut url)?;
        ensure!(!url.is_empty(), "the PostgreSQL server could not be started");
        Ok(Self { child, url: url.trim().to_owned() })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

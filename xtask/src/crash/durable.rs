//! `cargo xtask crash durable [--store sqlite|postgres] [--kills N] [--seed S]`: kills processes that work on durable
//! executions (SIGKILL) at random moments, lets others go on, and judges by what arrived outside.
//!
//! It owns the deaths: two processes at a time on one store, each with lanes of threads of its own; on PostgreSQL the
//! server crashes now and then as well. The judgement is `durable_judge`'s. Invariant: the moments follow from the
//! seed; what was being done at them is the machine's.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::{Value, json};

use super::{
    SplitMix,
    durable_judge::{Counts, judge},
    stores::{Plan, parse},
};

/// Kills on each store when nobody says how many.
const KILLS: u64 = 1000;
const LANES: [&str; 2] = ["0,1,2", "3,4,5"];
/// The undisturbed thread's.
const CALM_LANE: &str = "9";
/// A process that has not opened its store by then, or not ended what was begun, hangs.
const HANGS_AFTER: Duration = Duration::from_secs(120);
/// Kills come within this time after the process is ready, or a third of a thread's where that is longer: many deaths
/// are worth more than long lives.
const LIFE: Duration = Duration::from_millis(300);

/// In every so many lives of a slot, the PostgreSQL server dies as well.
const SERVER_DIES_EVERY: u64 = 30;

/// Runs the suite; true if nothing was lost, done twice or unlisted. The last line is an object with all counts.
pub(super) fn run(args: &[&str], root: &Path) -> anyhow::Result<bool> {
    let plan = parse(args, KILLS)?;
    let program = super::example(root, "crash_subject")?;
    let (mut stores, mut failed) = (Vec::new(), 0);
    for store in &plan.stores {
        println!("crash: {} kills on {store}", plan.kills);
        let (ok, counts) = on_store(&plan, store, &program)?;
        failed += u64::from(!ok);
        stores.push(counts);
    }
    println!("{} passed, {failed} failed", stores.len() as u64 - failed);
    println!("{}", json!({ "crash": "durable", "seed": plan.seed, "ok": failed == 0, "stores": stores }));
    Ok(failed == 0)
}

fn on_store(plan: &Plan, store: &str, program: &Path) -> anyhow::Result<(bool, Value)> {
    let started = Instant::now();
    let cluster = match store {
        "postgres" => match Cluster::start(program) {
            Ok(cluster) => Some(cluster),
            Err(error) => return Ok((false, json!({ "store": store, "unavailable": format!("{error:#}") }))),
        },
        _ => None,
    };
    let scratch = tempfile::tempdir().context("a folder for the runs")?;
    let (dir, url) = (scratch.path().to_owned(), cluster.as_ref().map(|cluster| cluster.url.clone()));
    let place = Place { program: program.to_owned(), dir, url };
    let (calm, mut reports) = place.undisturbed()?;
    println!("crash: undisturbed, a process is ready after {:.0?} and a thread takes {:.0?}", calm.ready, calm.thread);
    let shared =
        Shared { left: AtomicU64::new(plan.kills), landed: AtomicU64::new(0), cluster: cluster.map(Mutex::new) };
    let mut counts = Counts::default();
    for slot in slots(plan, &place, &shared, calm) {
        match slot {
            Ok(lines) => reports.extend(lines),
            Err(error) => counts.find(|counts| &mut counts.stuck, format!("{error:#}")),
        }
    }
    judge(&mut counts, &place.acts(), &reports)?;
    for finding in counts.findings.iter().take(40) {
        println!("crash: {finding}");
    }
    let kills = shared.landed.load(Ordering::Relaxed);
    let ok = counts.is_clean() && kills == plan.kills;
    if !ok {
        let kept = scratch.keep();
        println!("crash: FAILED with --store {store} --seed {}; what was left is in {}", plan.seed, kept.display());
    }
    let mut object = counts.json();
    object["store"] = json!(store);
    object["kills"] = json!(kills);
    object["server_crashes"] = json!(shared.cluster.as_ref().map_or(0, |cluster| lock(cluster).crashes));
    object["seconds"] = json!((started.elapsed().as_secs_f64() * 10.0).round() / 10.0);
    println!("crash: {object}");
    Ok((ok, object))
}

/// Lets both slots kill side by side; what their last processes report.
fn slots(plan: &Plan, place: &Place, shared: &Shared, calm: Calm) -> Vec<anyhow::Result<Vec<Value>>> {
    std::thread::scope(|scope| {
        let start = |(lanes, slot): (&&'static str, u64)| {
            let random = SplitMix(plan.seed.wrapping_mul(1_000).wrapping_add(slot));
            let slot = Slot { place, shared, lanes, slot, random, calm };
            scope.spawn(move || slot.run())
        };
        let slots: Vec<_> = LANES.iter().zip(1_u64..).map(start).collect();
        slots.into_iter().map(|slot| slot.join().unwrap_or_else(|_| Err(anyhow!("a slot panicked")))).collect()
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long an undisturbed process takes.
#[derive(Clone, Copy)]
struct Calm {
    ready: Duration,
    thread: Duration,
}

/// One store, and the world outside.
struct Place {
    program: PathBuf,
    dir: PathBuf,
    url: Option<String>,
}

impl Place {
    fn acts(&self) -> PathBuf {
        self.dir.join("acts")
    }

    fn start(&self, mode: &str, lanes: &str, life: u64) -> anyhow::Result<Process> {
        let mut command = Command::new(&self.program);
        command.arg(mode).arg("--store").arg(self.dir.join("store")).arg("--acts").arg(self.acts());
        command.args(["--lanes", lanes, "--life", &life.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
        // In the environment: arguments can be read by everybody on the machine.
        if let Some(url) = &self.url {
            command.env("LONGHAUL_CRASH_URL", url);
        }
        let said = self.dir.join(format!("said-{lanes}.txt"));
        command.stderr(OpenOptions::new().create(true).append(true).open(&said)?);
        let mut child = command.spawn().with_context(|| self.program.display().to_string())?;
        let lines = child.stdout.take().context("the process has no output")?;
        let (send, lines_of) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Ok(Process { child, lines: lines_of, said })
    }

    /// One thread from its beginning to its end, and a process that finds nothing left to do.
    fn undisturbed(&self) -> anyhow::Result<(Calm, Vec<Value>)> {
        fs::create_dir_all(self.acts())?;
        let mut first = self.start("finish", CALM_LANE, 1)?;
        first.ready()?;
        let started = Instant::now();
        first.report()?;
        let thread = started.elapsed();
        let started = Instant::now();
        let mut second = self.start("finish", CALM_LANE, 2)?;
        second.ready()?;
        let ready = started.elapsed();
        Ok((Calm { ready, thread }, second.report()?))
    }
}

/// A process that works, or has worked.
struct Process {
    child: Child,
    lines: Receiver<String>,
    said: PathBuf,
}

impl Process {
    fn ready(&mut self) -> anyhow::Result<()> {
        match self.lines.recv_timeout(HANGS_AFTER) {
            Ok(line) if line == "ready" => Ok(()),
            Ok(line) => bail!("the process said {line}"),
            Err(RecvTimeoutError::Timeout) => bail!("the process is not ready after {HANGS_AFTER:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("the process ended: {}", self.last_words()),
        }
    }

    /// Lets it live so long; it may not end by itself.
    fn live(&mut self, life: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + life;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => ensure!(line == "ready", "the process said {line}"),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => bail!("the process ended: {}", self.last_words()),
            }
        }
    }

    fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// What it reports until it ends.
    fn report(mut self) -> anyhow::Result<Vec<Value>> {
        let mut reports = Vec::new();
        loop {
            match self.lines.recv_timeout(HANGS_AFTER) {
                Ok(line) => reports.push(serde_json::from_str(&line).with_context(|| line.clone())?),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => bail!("it does not end: {}", self.last_words()),
            }
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "the process ended with {status}: {}", self.last_words());
        Ok(reports)
    }

    fn last_words(&self) -> String {
        let said = fs::read_to_string(&self.said).unwrap_or_default();
        said.lines().last().unwrap_or("without a word").to_owned()
    }
}

/// Nothing that was started is left running.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What both slots share.
struct Shared {
    left: AtomicU64,
    landed: AtomicU64,
    cluster: Option<Mutex<Cluster>>,
}

/// A sequence of processes, of which one at a time is alive.
struct Slot<'a> {
    place: &'a Place,
    shared: &'a Shared,
    lanes: &'a str,
    slot: u64,
    random: SplitMix,
    calm: Calm,
}

impl Slot<'_> {
    /// Kills until enough are killed, and gives the report of a last process that is let live.
    fn run(mut self) -> anyhow::Result<Vec<Value>> {
        let mut life = self.slot * 1_000_000;
        while self.shared.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            life += 1;
            self.one(life)?;
            let landed = self.shared.landed.fetch_add(1, Ordering::Relaxed) + 1;
            if landed.is_multiple_of(100) {
                println!("crash: {landed} kills");
            }
        }
        let mut last = self.place.start("finish", self.lanes, life + 1)?;
        last.ready()?;
        last.report()
    }

    fn one(&mut self, life: u64) -> anyhow::Result<()> {
        let mut process = self.place.start("work", self.lanes, life)?;
        let early = self.random.below(5) == 0;
        let most = if early { self.calm.ready } else { LIFE.max(self.calm.thread / 3) };
        let moment = Duration::from_micros(self.random.below(most.as_micros() as u64 + 1));
        let server_too = life % SERVER_DIES_EVERY == SERVER_DIES_EVERY / 2;
        if early && !server_too {
            process.live(moment)?;
            return process.kill();
        }
        process.ready()?;
        process.live(moment)?;
        if let Some(cluster) = &self.shared.cluster
            && server_too
        {
            lock(cluster).crash()?;
            // It lives to see what became of its commits.
            process.live(moment)?;
        }
        process.kill()
    }
}

/// The private server, in a process that nobody kills.
struct Cluster {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    url: String,
    crashes: u64,
}

impl Cluster {
    fn start(program: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(program).arg("cluster").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("the cluster has no output")?);
        let mut cluster = Self { child, orders, answers, url: String::new(), crashes: 0 };
        cluster.url = cluster.answer()?;
        Ok(cluster)
    }

    fn answer(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the PostgreSQL server could not be started");
        Ok(line.trim().to_owned())
    }

    /// The server stops without flushing anything and starts again.
    fn crash(&mut self) -> anyhow::Result<()> {
        writeln!(self.orders.as_mut().context("the cluster has no input")?, "crash")?;
        let answer = self.answer()?;
        ensure!(answer == "up", "the cluster said {answer}");
        self.crashes += 1;
        Ok(())
    }
}

/// The server ends with its input.
impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

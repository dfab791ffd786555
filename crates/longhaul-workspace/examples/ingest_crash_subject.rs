//! The program that `cargo xtask crash ingest` kills: it keeps records of all sizes, revises them and reaches milestones
//! without a pause, and says what was acknowledged.
//!
//! `work --store DIR --acts DIR --lanes 0,1 --life N` until it is killed; `judge --store DIR --acts DIR` prints one JSON
//! object. The address of a PostgreSQL database comes in `LONGHAUL_CRASH_URL`; `cluster` starts a server. Invariant: a
//! line says what is done only after its commit.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{BufRead, Cursor, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use longhaul_core::{
    Ambient, Clock, Digest, Scope, SeededRng, SessionId, SystemClock, SystemRng, TaskId, TaskScope, TimeMs, TraceId,
};
use longhaul_memory::Memory;
use longhaul_store::{Store, StoreError, StoreSettings};
use longhaul_workspace::{
    Content, Filter, Find, Ingest, Kind, NewMilestone, PAGE_MAX, RecordRef, TaskWorkspace, Workspace,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Arguments {
    store: PathBuf,
    acts: PathBuf,
    lanes: Vec<String>,
    life: String,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag);
        at.and_then(|at| arguments.get(at + 1)).cloned().unwrap_or_default()
    };
    let given = Arguments {
        store: value("--store").into(),
        acts: value("--acts").into(),
        lanes: value("--lanes").split(',').map(str::to_owned).collect(),
        life: value("--life"),
    };
    match arguments.first().map(String::as_str) {
        Some("work") => work(given).await,
        Some("judge") => judge(&given).await,
        Some("cluster") => cluster(),
        _ => Err("there are work, judge and cluster".into()),
    }
}

struct Opened {
    store: Store,
    memory: Memory,
    workspace: Workspace,
}

impl Opened {
    async fn new(dir: &Path, ambient: Ambient) -> Result<Self, Failure> {
        let settings = match std::env::var("LONGHAUL_CRASH_URL") {
            Ok(url) => StoreSettings::from_url(&url, dir)?,
            Err(_) => StoreSettings::new(dir),
        };
        let migrations = [longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS];
        let store = Store::open(settings, ambient, &migrations).await?;
        let memory = Memory::new(store.clone(), None);
        Ok(Self { workspace: Workspace::new(store.clone(), memory.clone()), store, memory })
    }

    fn task(&self, lane: &str) -> TaskWorkspace {
        self.workspace.task(&TaskScope {
            scope: Scope::single_user(),
            session: SessionId::from_body("crash"),
            task: TaskId::from_body(lane),
            trace: TraceId::from_body("crash"),
        })
    }
}

async fn work(given: Arguments) -> Result<(), Failure> {
    let opened = Opened::new(&given.store, Ambient::system()).await?;
    let mut lanes = tokio::task::JoinSet::new();
    for lane in given.lanes {
        let path = given.acts.join(format!("{lane}-{}", given.life));
        let acts = OpenOptions::new().create(true).append(true).open(path)?;
        let name = format!("{lane}x{}", given.life);
        lanes.spawn(Lane { task: opened.task(&lane), acts, name, there: Vec::new() }.run());
    }
    println!("ready");
    while let Some(ended) = lanes.join_next().await {
        ended??;
    }
    Ok(())
}

/// A day ahead: what was put into rows of PostgreSQL an hour ago or less is not swept, whatever the grace.
#[derive(Debug)]
struct Tomorrow;

impl Clock for Tomorrow {
    fn now(&self) -> TimeMs {
        TimeMs(SystemClock.now().0 + 24 * 60 * 60 * 1_000)
    }
}

/// One sequence of acts in one task.
struct Lane {
    task: TaskWorkspace,
    acts: File,
    name: String,
    there: Vec<RecordRef>,
}

impl Lane {
    fn say(&mut self, line: &str) -> Result<(), Failure> {
        // One write, so that a death never leaves half a line behind another process's.
        Ok(self.acts.write_all(format!("{line}\n").as_bytes())?)
    }

    async fn run(mut self) -> Result<(), Failure> {
        let random = SeededRng::new(self.name.bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte)));
        let below = |bound: usize| (longhaul_core::Rng::next_u64(&random) % bound as u64) as usize;
        for number in 0_u64.. {
            let marker = format!("m{}n{number}", self.name);
            match below(8) {
                0 => {
                    // A batch, with something large among it.
                    let markers: Vec<String> = (0..20).map(|part| format!("{marker}p{part}")).collect();
                    markers.iter().try_for_each(|marker| self.say(&format!("begin {marker}")))?;
                    let size = |part: usize| if part == 7 { 30_000 } else { 400 };
                    let batch = markers.iter().enumerate().map(|(part, marker)| new(marker, size(part), false));
                    let kept = self.task.ingest_many(batch.collect()).await?;
                    for (reference, marker) in kept.into_iter().zip(markers) {
                        self.say(&format!("kept {} {} {marker}", reference.id, reference.digest))?;
                        self.there.push(reference);
                    }
                }
                1 if !self.there.is_empty() => {
                    let refs: Vec<RecordRef> = (0..3).map(|_| self.there[below(self.there.len())].clone()).collect();
                    let new = NewMilestone { name: marker.clone(), refs, ..NewMilestone::default() };
                    let reached = self.task.reach(new).await?;
                    self.say(&format!("reached {} {marker}", reached.id))?;
                }
                2 => {
                    let name = format!("plan-{}", below(3));
                    self.say(&format!("begin {marker}"))?;
                    let revised = Ingest { name: Some(name), revise: true, ..new(&marker, 700, false) };
                    self.keep(revised, &marker).await?;
                }
                act => {
                    let (size, as_stream) =
                        [(300, false), (2_000, false), (16_000, true), (60_000, false), (900_000, true)]
                            [act.saturating_sub(3)];
                    self.say(&format!("begin {marker}"))?;
                    self.keep(new(&marker, size, as_stream), &marker).await?;
                }
            }
        }
        Ok(())
    }

    async fn keep(&mut self, what: Ingest, marker: &str) -> Result<(), Failure> {
        let kept = self.task.ingest(what).await?;
        self.say(&format!("kept {} {} {marker}", kept.id, kept.digest))?;
        self.there.push(kept);
        Ok(())
    }
}

/// About so many bytes that begin with the marker and do not repeat.
fn content(marker: &str, bytes: usize) -> Vec<u8> {
    let mut content = format!("{marker} is what was kept of the launch of the fourth rocket\n").into_bytes();
    let mut number = 0_u64;
    while content.len() < bytes {
        content.extend_from_slice(Digest::of(format!("{marker} {number}")).hex().as_bytes());
        number += 1;
    }
    content
}

fn new(marker: &str, bytes: usize, as_stream: bool) -> Ingest {
    let content = content(marker, bytes);
    let content = if as_stream { Content::Reader(Box::new(Cursor::new(content))) } else { Content::Bytes(content) };
    Ingest {
        // Searched by its marker alone: the rest is noise.
        text: Some(format!("{marker} is what was kept")),
        ..Ingest::new(Kind::Observation, "crash", marker, "harness", content)
    }
}

/// What may be so after all the deaths.
#[derive(Default)]
struct Expected {
    kept: BTreeMap<String, (String, String)>,
    milestones: BTreeMap<String, String>,
    /// Markers of records that were not acknowledged.
    maybe: BTreeSet<String>,
    lanes: BTreeSet<String>,
}

impl Expected {
    fn read(&mut self, path: &Path) -> Result<(), Failure> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.lanes.insert(name.split('-').next().unwrap_or_default().to_owned());
        for line in fs::read_to_string(path)?.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["begin", marker] => {
                    self.maybe.insert(marker.to_owned());
                }
                ["kept", id, digest, marker] => {
                    self.maybe.remove(marker);
                    self.kept.insert(id.to_owned(), (digest.to_owned(), marker.to_owned()));
                }
                ["reached", id, marker] => {
                    self.milestones.insert(id.to_owned(), marker.to_owned());
                }
                _ => return Err(format!("{}: what does {line:?} mean?", path.display()).into()),
            }
        }
        Ok(())
    }
}

async fn judge(given: &Arguments) -> Result<(), Failure> {
    let ambient = Ambient::new(Arc::new(Tomorrow), Arc::new(SystemRng::default()));
    let opened = Opened::new(&given.store, ambient).await?;
    let mut expected = Expected::default();
    for entry in fs::read_dir(&given.acts)? {
        expected.read(&entry?.path())?;
    }
    let mut findings = opened.memory.drift().await?;
    let swept = opened.workspace.tend(Duration::ZERO).await?.blobs;
    let again = opened.workspace.tend(Duration::ZERO).await?.blobs;
    if again.removed + again.leftovers > 0 {
        findings.push(format!("a second sweep found what the first had left: {again:?}"));
    }
    let verified = opened.store.verify(&[]).await?;
    findings.extend(verified.findings.iter().map(|finding| format!("store: {}", finding.what)));
    let (mut seen, mut milestones) = (BTreeSet::new(), 0);
    for lane in expected.lanes.clone() {
        let task = opened.task(&lane);
        seen.extend(records(&task, &expected, &mut findings).await?);
        milestones += reached(&task, &mut expected, &mut findings).await?;
    }
    for (id, (_, marker)) in &expected.kept {
        if !seen.contains(id) {
            findings.push(format!("{id} ({marker}) was acknowledged and is lost"));
        }
    }
    findings.extend(expected.milestones.iter().map(|(id, name)| format!("milestone {id} ({name}) is lost")));
    findings.extend(agreement(&opened.store, again.kept).await?);
    println!(
        "{}",
        serde_json::json!({
            "acknowledged": expected.kept.len(), "records": seen.len(), "milestones": milestones,
            "blobs": again.kept, "orphans_swept": swept.removed, "leftovers_swept": swept.leftovers,
            "findings": findings.len(), "first": findings.iter().take(20).collect::<Vec<_>>(),
        })
    );
    Ok(())
}

/// Reads every record of a task: content, index and what was said of it.
async fn records(
    task: &TaskWorkspace,
    expected: &Expected,
    findings: &mut Vec<String>,
) -> Result<Vec<String>, Failure> {
    let (mut seen, mut before, mut last) = (Vec::new(), None, None);
    loop {
        let all = Filter { include_superseded: true, ..Filter::default() };
        let page = task.list(all, before, PAGE_MAX).await?;
        for record in page.records {
            let (id, marker) = (record.reference.id.to_string(), record.summary.clone());
            if last.is_some_and(|last| record.seq + 1 != last) {
                findings.push(format!("{id} is numbered {} and the one after it {last:?}", record.seq));
            }
            last = Some(record.seq);
            match expected.kept.get(&id) {
                Some((digest, said)) => {
                    if *digest != record.reference.digest.to_string() || *said != marker {
                        findings.push(format!("{id} is not what was acknowledged"));
                    }
                }
                None if !expected.maybe.contains(&marker) => findings.push(format!("{id} was never kept by anybody")),
                None => {}
            }
            match task.read(&record.reference).await {
                Ok((_, bytes)) if bytes.starts_with(format!("{marker} ").as_bytes()) => {}
                Ok(_) => findings.push(format!("{id} has the content of another")),
                Err(error) => findings.push(format!("{id} is half visible: {error}")),
            }
            if record.seq % 5 == 0 {
                let find = Find { include_superseded: true, ..Find::new(marker.clone(), 1) };
                let found = task.search(&find).await?;
                if found.hits.first().is_none_or(|hit| hit.record.reference != record.reference) {
                    findings.push(format!("{id} is not found by {marker}"));
                }
            }
            seen.push(id);
        }
        before = page.next;
        if before.is_none() {
            return Ok(seen);
        }
    }
}

/// Looks at every milestone of a task: its refs hold.
async fn reached(task: &TaskWorkspace, expected: &mut Expected, findings: &mut Vec<String>) -> Result<usize, Failure> {
    let milestones = task.milestones(1_000_000).await?;
    for milestone in &milestones {
        for reference in &milestone.refs {
            if let Err(error) = task.get(reference).await {
                findings.push(format!("milestone {} names {}: {error}", milestone.id, reference.id));
            }
        }
        if task.milestone(&milestone.name).await?.as_ref() != Some(milestone) {
            findings.push(format!("milestone {} is invisible by its name", milestone.id));
        }
        expected.milestones.remove(milestone.id.as_str());
    }
    Ok(milestones.len())
}

/// What the tables must say of each other.
async fn agreement(store: &Store, blobs: u64) -> Result<Vec<String>, Failure> {
    const NOTHING: &[(&str, &str)] = &[
        (
            "contents without a record",
            "select count(*) from contents c where not exists (select 1 from records r
                 where r.tenant_id = c.tenant_id and r.digest = c.digest and r.place = 'row')",
        ),
        (
            "records without their event",
            "select abs((select count(*) from records) - (select count(*) from events where kind = 'record.ingested'))",
        ),
        (
            "milestones without their event",
            "select abs((select count(*) from milestones)
                 - (select count(*) from events where kind = 'milestone.reached'))",
        ),
        (
            "superseded records without the link to them",
            "select count(*) from records r where superseded_by is not null and not exists (select 1 from links l
                 where l.tenant_id = r.tenant_id and l.source_id = r.superseded_by and l.target_id = r.record_id)",
        ),
        (
            "index rows without a record",
            "select count(*) from memories m where not exists (select 1 from records r
                 where r.tenant_id = m.tenant_id and r.record_id = m.thread)",
        ),
    ];
    let counts = store.read(move |read| {
        let mut wrong = Vec::new();
        for (what, sql) in NOTHING {
            let count: i64 = read.query_one(sql, &[], |row| row.get(0))?;
            if count != 0 {
                wrong.push(format!("{count} {what}"));
            }
        }
        let sql = "select count(*) from (select distinct tenant_id, digest from records where place = 'blob') as held";
        let held: u64 = read.query_one(sql, &[], |row| row.get(0))?;
        if held != blobs {
            wrong.push(format!("{blobs} blobs are kept and {held} are held"));
        }
        Ok::<_, StoreError>(wrong)
    });
    Ok(counts.await?)
}

/// Runs a private PostgreSQL server until the input ends; its address is the first line.
fn cluster() -> Result<(), Failure> {
    let cluster = longhaul_testbed::PrivateCluster::start()?;
    let database = cluster.create_database()?;
    println!("{}", database.url());
    for line in std::io::stdin().lock().lines() {
        drop(line?);
    }
    Ok(())
}

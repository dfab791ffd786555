//! The program that `cargo xtask crash memory` kills: it writes, edits, forgets and searches memories without a pause,
//! and says what was acknowledged.
//!
//! `work --store DIR --acts DIR --lanes 0,1 --life N` until it is killed; `judge --store DIR --acts DIR` prints one JSON
//! object. The address of a PostgreSQL database comes in `LONGHAUL_CRASH_URL`; `cluster` starts a server. Invariant: a
//! line says what is done only after its commit.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{BufRead, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use longhaul_core::{Ambient, MemoryId, Scope, SeededRng};
use longhaul_memory::{EmbedError, Embedder, Item, Kind, MIGRATIONS, Memory, NewMemory, Query, Source};
use longhaul_store::{Store, StoreSettings};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Counts of letters.
struct Letters;

#[async_trait]
impl Embedder for Letters {
    fn id(&self) -> &'static str {
        "letters"
    }

    fn dimensions(&self) -> usize {
        36
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let letters = |text: &String| {
            let count = |sign: u8| text.bytes().filter(|byte| *byte == sign).count() as f32 + 0.01;
            (b'a'..=b'z').chain(b'0'..=b'9').map(count).collect()
        };
        Ok(texts.iter().map(letters).collect())
    }
}

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

async fn opened(dir: &Path) -> Result<(Store, Memory), Failure> {
    let settings = match std::env::var("LONGHAUL_CRASH_URL") {
        Ok(url) => StoreSettings::from_url(&url, dir)?,
        Err(_) => StoreSettings::new(dir),
    };
    let store = Store::open(settings, Ambient::system(), &[MIGRATIONS]).await?;
    Ok((store.clone(), Memory::new(store, Some(Arc::new(Letters)))))
}

async fn work(given: Arguments) -> Result<(), Failure> {
    let (store, memory) = opened(&given.store).await?;
    let indexer = memory.indexer();
    tokio::spawn(indexer.run(std::future::pending()));
    let mut lanes = tokio::task::JoinSet::new();
    for lane in given.lanes {
        let path = given.acts.join(format!("{lane}-{}", given.life));
        let acts = OpenOptions::new().create(true).append(true).open(path)?;
        let (store, memory, name) = (store.clone(), memory.clone(), format!("{lane}x{}", given.life));
        lanes.spawn(Lane { store, memory, acts, name, there: Vec::new() }.run());
    }
    println!("ready");
    while let Some(ended) = lanes.join_next().await {
        ended??;
    }
    Ok(())
}

/// One sequence of acts on memories of its own.
struct Lane {
    store: Store,
    memory: Memory,
    acts: File,
    name: String,
    there: Vec<(MemoryId, String)>,
}

impl Lane {
    fn say(&mut self, line: &str) -> Result<(), Failure> {
        // One write, so that a death never leaves half a line behind another process's.
        Ok(self.acts.write_all(format!("{line}\n").as_bytes())?)
    }

    async fn run(mut self) -> Result<(), Failure> {
        let random = SeededRng::new(self.name.bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte)));
        let below = |bound: usize| (longhaul_core::Rng::next_u64(&random) % bound as u64) as usize;
        let scope = Scope::single_user();
        for number in 0_u64.. {
            let marker = format!("m{}n{number}", self.name);
            match below(8) {
                0 if self.there.len() > 4 => {
                    let (id, old) = self.there.swap_remove(below(self.there.len()));
                    self.say(&format!("begin forget {id}"))?;
                    let (handle, scope, forgotten) = (self.memory.clone(), scope.clone(), id.clone());
                    let forget = move |tx: &mut longhaul_store::Tx<'_>| handle.forget(tx, &scope, &forgotten);
                    self.store.write(forget).await?;
                    self.say(&format!("forgot {id}"))?;
                    if !found(&self.memory, &old).await?.is_empty() {
                        self.say(&format!("stale {old} is still found"))?;
                    }
                }
                1 if !self.there.is_empty() => {
                    let place = below(self.there.len());
                    let id = self.there[place].0.clone();
                    self.say(&format!("begin edit {id} {marker}"))?;
                    let edit = longhaul_memory::Edit { content: Some(text(&marker)), ..Default::default() };
                    self.memory.change(&scope, &id, edit).await?;
                    self.say(&format!("edited {id} {marker}"))?;
                    self.there[place].1 = marker;
                }
                2 => {
                    let markers: Vec<String> = (0..20).map(|part| format!("{marker}p{part}")).collect();
                    markers.iter().try_for_each(|marker| self.say(&format!("begin add {marker}")))?;
                    let ids =
                        self.memory.insert_many(&scope, markers.iter().map(|marker| new(marker)).collect()).await?;
                    for (id, marker) in ids.into_iter().zip(markers) {
                        self.say(&format!("added {id} {marker}"))?;
                        self.there.push((id, marker));
                    }
                }
                _ => {
                    self.say(&format!("begin add {marker}"))?;
                    let id = self.memory.add(&scope, new(&marker)).await?;
                    self.say(&format!("added {id} {marker}"))?;
                    if found(&self.memory, &marker).await? != [id.clone()] {
                        self.say(&format!("stale {marker} is not found"))?;
                    }
                    self.there.push((id, marker));
                }
            }
        }
        Ok(())
    }
}

fn text(marker: &str) -> String {
    format!("{marker} is what was remembered about the launch of the fourth rocket")
}

fn new(marker: &str) -> NewMemory {
    let thread = marker.split('n').next().map(str::to_owned);
    NewMemory { thread, ..NewMemory::new("crash", Kind::Episode, Source::Harness, text(marker)) }
}

/// The memories whose words say so.
async fn found(memory: &Memory, marker: &str) -> Result<Vec<MemoryId>, Failure> {
    let query = Query { context: false, ..Query::new(marker, 1) };
    let hits = memory.search(&Scope::single_user(), &query).await?.hits;
    let said = hits.into_iter().filter(|hit| marker_of(&hit.item) == marker);
    Ok(said.map(|hit| hit.item.id).collect())
}

fn marker_of(item: &Item) -> &str {
    item.content.split(' ').next().unwrap_or_default()
}

/// What may be so after all the deaths.
#[derive(Default)]
struct Expected {
    /// The markers that an acknowledged memory may carry, and whether it may be gone.
    there: BTreeMap<MemoryId, (BTreeSet<String>, bool)>,
    forgotten: BTreeSet<MemoryId>,
    /// Markers of additions that were not acknowledged.
    maybe: BTreeSet<String>,
    stale: Vec<String>,
    acknowledged: u64,
}

impl Expected {
    fn read(&mut self, path: &Path) -> Result<(), Failure> {
        for line in fs::read_to_string(path)?.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["begin", "add", marker] => {
                    self.maybe.insert(marker.to_owned());
                }
                ["added", id, marker] => {
                    self.acknowledged += 1;
                    self.maybe.remove(marker);
                    self.there.insert(id.parse()?, (BTreeSet::from([marker.to_owned()]), false));
                }
                ["begin", "edit", id, marker] => {
                    self.there.entry(id.parse()?).or_default().0.insert(marker.to_owned());
                }
                ["edited", id, marker] => {
                    self.acknowledged += 1;
                    self.there.insert(id.parse()?, (BTreeSet::from([marker.to_owned()]), false));
                }
                ["begin", "forget", id] => self.there.entry(id.parse()?).or_default().1 = true,
                ["forgot", id] => {
                    self.acknowledged += 1;
                    let id: MemoryId = id.parse()?;
                    self.there.remove(&id);
                    self.forgotten.insert(id);
                }
                ["stale", ..] => self.stale.push(line.to_owned()),
                _ => return Err(format!("{}: what does {line:?} mean?", path.display()).into()),
            }
        }
        Ok(())
    }
}

async fn judge(given: &Arguments) -> Result<(), Failure> {
    let (_, memory) = opened(&given.store).await?;
    let scope = Scope::single_user();
    let mut expected = Expected::default();
    for entry in fs::read_dir(&given.acts)? {
        expected.read(&entry?.path())?;
    }
    let mut findings = expected.stale.clone();
    let before = memory.drift().await?;
    findings.extend(before.iter().map(|what| format!("before indexing: {what}")));
    memory.index_pending().await?;
    findings.extend(memory.drift().await?);
    let (mut seen, mut after) = (BTreeSet::new(), None);
    loop {
        let page = memory.list(&scope, &Query { k: 200, ..Query::default() }, after.as_deref()).await?;
        for item in &page.items {
            let marker = marker_of(item).to_owned();
            let is_expected = expected.there.get(&item.id).is_some_and(|(markers, _)| markers.contains(&marker));
            if !is_expected && !expected.maybe.contains(&marker) {
                findings.push(format!("{} says {marker}, which nobody wrote last", item.id));
            }
            seen.insert(item.id.clone());
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    for (id, (markers, may_be_gone)) in &expected.there {
        if !seen.contains(id) && !may_be_gone {
            findings.push(format!("{id} was acknowledged and is lost ({markers:?})"));
        }
    }
    for id in expected.forgotten.intersection(&seen) {
        findings.push(format!("{id} was forgotten and is there"));
    }
    let sure = expected.there.iter().filter(|(_, (markers, gone))| markers.len() == 1 && !gone);
    for (id, (markers, _)) in sure.step_by(7) {
        for marker in markers {
            if found(&memory, marker).await? != [id.clone()] {
                findings.push(format!("{id} is not found by {marker}"));
            }
        }
    }
    let recall = memory.search(&scope, &Query::new("what was remembered about the rocket", 10)).await?;
    if recall.unembedded > 0 {
        findings.push(format!("{} memories have no vector", recall.unembedded));
    }
    println!(
        "{}",
        serde_json::json!({
            "acknowledged": expected.acknowledged, "memories": seen.len(), "considered": recall.considered,
            "findings": findings.len(), "first": findings.iter().take(20).collect::<Vec<_>>(),
        })
    );
    Ok(())
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

//! Large content on the disk: in constant memory, compressed where that pays, damaged, half written, from before.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use longhaul_core::{Digest, Digester, Scope, TimeMs};
use longhaul_store::{Store, StoreError, Swept, erasing};

use crate::{
    contract::Ground,
    support::{noise, open, text},
};

const DIR: &str = "LONGHAUL_TEST_STREAM_DIR";
const MEGABYTES: &str = "LONGHAUL_TEST_STREAM_MB";
const ANONYMOUS_KB_MAX: u64 = 40 * 1024;

fn packed(store: &Store, digest: &Digest) -> PathBuf {
    store.blobs().path(&Scope::single_user(), digest).with_extension("zst")
}

async fn put(store: &Store, content: &[u8]) -> Digest {
    store.blobs().put_stream(&Scope::single_user(), content).await.unwrap().0
}

/// What came before the end or the error.
async fn read(store: &Store, digest: &Digest) -> (usize, Result<(), StoreError>) {
    let mut reader = match store.blobs().open(&Scope::single_user(), digest).await {
        Ok(reader) => reader,
        Err(error) => return (0, Err(error)),
    };
    let mut bytes = 0;
    loop {
        match reader.next().await {
            Ok(Some(piece)) => bytes += piece.len(),
            Ok(None) => return (bytes, Ok(())),
            Err(error) => return (bytes, Err(error)),
        }
    }
}

#[tokio::test]
async fn what_gains_lies_compressed_and_pictures_lie_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let (written, picture, small) = (text(1_000_000), noise(1_000_000), text(4_000));
    for content in [&written, &picture, &small] {
        let scope = Scope::single_user();
        for digest in [put(&store, content).await, store.blobs().put(&scope, content.clone()).await.unwrap()] {
            let raw = store.blobs().path(&scope, &digest);
            assert_eq!((raw.exists(), packed(&store, &digest).exists()), (content != &written, content == &written));
        }
    }
    let length = fs::metadata(packed(&store, &Digest::of(&written))).unwrap().len();
    assert!(length < 300_000, "{length}");
}

/// As an older release left it: others may link to the file, so it stays as it is.
#[tokio::test]
async fn content_from_before_compression_stays_as_it_is_and_damage_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let (scope, content) = (Scope::single_user(), text(1_000_000));
    let digest = Digest::of(&content);
    let raw = store.blobs().path(&scope, &digest);
    fs::create_dir_all(raw.parent().unwrap()).unwrap();
    fs::write(&raw, &content).unwrap();
    for _ in 0..2 {
        assert!(store.blobs().get(&scope, &digest).await.unwrap() == content);
        assert_eq!(read(&store, &digest).await.0, content.len());
        put(&store, &content).await;
        store.blobs().put(&scope, content.clone()).await.unwrap();
        assert!(raw.exists() && !packed(&store, &digest).exists());
    }
    // What is damaged goes, and does not stand in the way of what is right.
    fs::write(&raw, &content[1..]).unwrap();
    put(&store, &content).await;
    assert!(!raw.exists() && store.blobs().get(&scope, &digest).await.unwrap() == content);
    fs::write(packed(&store, &digest), "no frame").unwrap();
    store.blobs().put(&scope, content.clone()).await.unwrap();
    assert!(store.blobs().get(&scope, &digest).await.unwrap() == content);
    assert!(store.verify(&[]).await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn one_flipped_byte_is_noticed_before_the_last_piece() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for content in [noise(1_000_000), text(1_000_000), noise(100), text(20_000)] {
        let digest = put(&store, &content).await;
        let raw = store.blobs().path(&Scope::single_user(), &digest);
        let file = if raw.exists() { raw } else { packed(&store, &digest) };
        let whole = fs::read(&file).unwrap();
        for (place, cut) in [(0, 0), (whole.len() / 2, 0), (whole.len() - 1, 0), (0, 1), (0, whole.len() / 2)] {
            let mut damaged = whole.clone();
            if cut == 0 {
                damaged[place] ^= 1
            } else {
                damaged.truncate(whole.len() - cut)
            }
            fs::write(&file, &damaged).unwrap();
            let (bytes, outcome) = read(&store, &digest).await;
            assert!(matches!(outcome, Err(StoreError::BlobDamaged { .. })), "{place}, {cut}: {outcome:?}");
            assert!(bytes < content.len(), "{bytes} of {} were given", content.len());
            let got = store.blobs().get(&Scope::single_user(), &digest).await;
            assert!(matches!(got, Err(StoreError::BlobDamaged { .. })), "{got:?}");
            let to = dir.path().join("saved");
            assert!(store.blobs().save(&Scope::single_user(), &digest, &to).await.is_err() && !to.exists());
        }
        let report = store.verify(&[]).await.unwrap();
        assert!(!report.is_sound() && report.to_string().contains(&digest.hex()), "{report}");
        fs::write(&file, &whole).unwrap();
    }
    assert!(store.verify(&[]).await.unwrap().is_sound());
}

#[tokio::test]
async fn damaged_rows_and_lost_ones_are_noticed_and_mended() {
    let store = Ground::postgres().open().await;
    let content = noise(3_000_000);
    for damage in [
        "UPDATE blob_chunks SET data = 'x' WHERE n = 2",
        "DELETE FROM blob_chunks WHERE n = 11",
        "DELETE FROM blob_chunks",
        "UPDATE blobs SET encoding = 'zstd'",
    ] {
        let digest = put(&store, &content).await;
        assert!(store.verify(&[]).await.unwrap().is_sound(), "before {damage}");
        store.write(move |tx| tx.execute(damage, &[])).await.unwrap();
        let (bytes, outcome) = read(&store, &digest).await;
        assert!(matches!(outcome, Err(StoreError::BlobDamaged { .. })) && bytes < content.len(), "{outcome:?}");
        assert!(!store.verify(&[]).await.unwrap().is_sound(), "after {damage}");
    }
    put(&store, &content).await;
    let count = |sql: &'static str| store.read(move |read| read.query_one(sql, &[], |row| row.get::<i64>(0)));
    assert_eq!(count("SELECT count(*) FROM blob_chunks").await.unwrap(), 12, "what was replaced has gone");
    assert_eq!(count("SELECT count(*) FROM blob_uploads").await.unwrap(), 0);
    store.write(|tx| tx.execute("UPDATE blobs SET created_at = 1", &[])).await.unwrap();
    let swept = store.sweep_blobs(Duration::from_secs(60)).await.unwrap();
    assert_eq!(swept, Swept { removed: 1, bytes: 3_000_000, ..Swept::default() });
    assert_eq!(count("SELECT count(*) FROM blob_chunks").await.unwrap(), 0);
}

/// What somebody has put again since the row that was erased is theirs; a sweep decides about it.
#[tokio::test]
async fn what_is_erased_goes_unless_somebody_has_put_it_again() {
    let dir = tempfile::tempdir().unwrap();
    for store in [open(dir.path()).await, Ground::postgres().open().await, crate::support::open_in_memory().await] {
        let tenant = Scope::single_user().tenant;
        let (gone, again) = (put(&store, &noise(300_000)).await, put(&store, b"small").await);
        let of = tenant.clone();
        store
            .write(move |tx| {
                let now = tx.now();
                erasing::doom(tx, &of, "erasure_1", &[(gone, now), (again, TimeMs(1))])
            })
            .await
            .unwrap();
        let erased = store.erase_blobs(&tenant, "erasure_1").await.unwrap();
        assert_eq!((erased.removed, erased.shared, erased.put_again), (1, 0, 1));
        assert!(matches!(read(&store, &gone).await.1, Err(StoreError::BlobMissing { .. })));
        assert_eq!(read(&store, &again).await.0, 5);
    }
}

/// While it is being written nobody takes it away; as soon as its process has died the next sweep does.
#[tokio::test]
async fn half_a_stream_stays_while_its_process_lives() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let mut victim = child(dir.path(), "half");
    let mut said = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().ends_with("half-way")));
    let incoming = dir.path().join("blobs/.incoming");
    let age = || {
        for entry in fs::read_dir(&incoming).unwrap() {
            let file = fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
    };
    age();
    for _ in 0..2 {
        assert_eq!(store.sweep_blobs(Duration::from_secs(60)).await.unwrap(), Swept::default());
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(fs::read_dir(&incoming).unwrap().count(), 1);
    age();
    // Whoever begins looks for such files, and no more than once a day for what nobody refers to.
    let old = put(&store, b"what nobody refers to").await;
    let file = fs::File::options().write(true).open(store.blobs().path(&Scope::single_user(), &old)).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let begun = [store.sweep_at_start().await.unwrap(), store.sweep_at_start().await.unwrap()];
    assert_eq!(begun, [Swept { leftovers: 1, removed: 1, bytes: 21, kept: 0 }, Swept::default()]);
    assert_eq!(fs::read_dir(&incoming).unwrap().count(), 0);
}

/// 256 MB, or as many as `LONGHAUL_TEST_STREAM_MB` says, on the disk and in rows: in by pieces, and out again.
#[test]
fn a_large_stream_takes_constant_memory() {
    let dir = tempfile::tempdir().unwrap();
    let output = child(dir.path(), "large").wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("anonymous kB at most"), "{output:?}");
    println!("{said}");
}

fn child(dir: &Path, what: &str) -> std::process::Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "streams::streaming_process", "--nocapture"]);
    child.env(DIR, dir.join(".").join("")).env("LONGHAUL_TEST_STREAM", what);
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Not a test by itself: the process that the tests above start.
#[tokio::test]
async fn streaming_process() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let store = open(dir.as_ref()).await;
    let blobs = store.blobs();
    if std::env::var("LONGHAUL_TEST_STREAM").unwrap() == "half" {
        let (mut to, from) = tokio::io::duplex(64 * 1024);
        let content = noise(2_000_000);
        let scope = Scope::single_user();
        let (_, put) = tokio::join!(
            async {
                tokio::io::AsyncWriteExt::write_all(&mut to, &content).await.unwrap();
                println!("half-way");
                // Ends when the parent kills it.
                tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await.unwrap()
            },
            blobs.put_stream(&scope, from)
        );
        put.unwrap();
    }
    let megabytes = std::env::var(MEGABYTES).map_or(256, |megabytes| megabytes.parse::<u64>().unwrap());
    let mut most = 0;
    for compressible in [false, true] {
        let mut source = Source::new(megabytes << 20, compressible);
        let (digest, bytes) = blobs.put_stream(&Scope::single_user(), &mut source).await.unwrap();
        assert_eq!((digest, bytes), (source.hash.finish(), megabytes << 20));
        let mut reader = blobs.open(&Scope::single_user(), &digest).await.unwrap();
        let (mut found, mut last) = (Digester::new(), 0);
        while let Some(piece) = reader.next().await.unwrap() {
            found.update(&piece);
            last = last.max(anonymous_kb());
        }
        assert_eq!(found.finish(), digest);
        most = most.max(source.most).max(last);
    }
    println!("{most} anonymous kB at most");
    assert!(most < ANONYMOUS_KB_MAX, "{most} kB");
}

/// Bytes made as they are read; it looks at the memory meanwhile.
struct Source {
    left: u64,
    block: Vec<u8>,
    hash: Digester,
    most: u64,
}

impl Source {
    fn new(bytes: u64, compressible: bool) -> Self {
        let block = if compressible { text(1 << 20) } else { noise(1 << 20) };
        Self { left: bytes, block, hash: Digester::new(), most: 0 }
    }
}

impl tokio::io::AsyncRead for Source {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        to: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        let at = usize::try_from(self.left % (1 << 20)).unwrap();
        let rest = if at == 0 { self.block.len() } else { at };
        let now = rest.min(to.remaining()).min(usize::try_from(self.left).unwrap());
        let from = self.block.len() - rest;
        let this = &mut *self;
        to.put_slice(&this.block[from..from + now]);
        this.hash.update(&this.block[from..from + now]);
        this.left -= now as u64;
        this.most = this.most.max(anonymous_kb());
        std::task::Poll::Ready(Ok(()))
    }
}

fn anonymous_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

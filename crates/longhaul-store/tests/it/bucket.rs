//! Blobs in a bucket: a real server, killed in the middle, damaged, with wrong keys, without its bucket, changed for
//! another place and back.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use longhaul_core::{Ambient, Digest, Scope};
use longhaul_store::{
    Store, StoreError, StoreSettings, Swept, erasing,
    s3::{Credential, S3Place},
};
use longhaul_testbed::S3Server;

use crate::{
    s3_server::{BUCKET, place, start},
    support::{Broken, NOTES, kept_note, noise, open, pictures, text},
};

async fn open_with(dir: &Path, place: S3Place) -> Result<Store, StoreError> {
    let settings = StoreSettings { bucket: Some(Box::new(place)), ..StoreSettings::new(dir) };
    Store::open(settings, Ambient::system(), &[NOTES]).await
}

/// The files of the server that hold objects.
fn objects(server: &S3Server) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![server.dir().join(BUCKET)]);
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() { left.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found.sort();
    found
}

/// As if everything had been put long ago.
async fn age(store: &Store) {
    store.write(|tx| tx.execute("UPDATE blob_objects SET put_at = 1", &[])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_holds_blobs_and_a_sweep_removes_those_that_nobody_needs() {
    let (server, dir, scope) = (start(), tempfile::tempdir().unwrap(), Scope::single_user());
    let before = open(dir.path()).await;
    let local = kept_note(&before, 1).await;
    drop(before);
    let store = open_with(dir.path(), place(server.address())).await.unwrap();
    let needed = kept_note(&store, 2).await;
    let (old, _) = store.blobs().put_stream(&scope, text(20_000_000).as_slice()).await.unwrap();
    let (large, _) = store.blobs().put_stream(&scope, noise(20_000_000).as_slice()).await.unwrap();
    let held = objects(&server);
    assert!(held.len() == 3 && held.iter().all(|path| path.starts_with(server.dir().join(BUCKET).join("team/one"))));
    for digest in [&local, &needed, &old, &large] {
        assert_eq!(Digest::of(store.blobs().get(&scope, digest).await.unwrap()), *digest);
    }
    // Nothing of it lies on the disk, and of what is put again nothing is written again.
    assert!(!store.blobs().path(&scope, &needed).exists() && store.blobs().path(&scope, &local).exists());
    store.blobs().put_stream(&scope, noise(20_000_000).as_slice()).await.unwrap();
    assert_eq!(objects(&server), held);
    assert_eq!(fs::read_dir(dir.path().join("blobs/.incoming")).unwrap().count(), 0);

    let hour = Duration::from_secs(60 * 60);
    age(&store).await;
    store.blobs().put_stream(&scope, noise(20_000_000).as_slice()).await.unwrap();
    let swept = store.sweep_blobs(hour).await.unwrap();
    assert_eq!((swept.removed, swept.kept, swept.leftovers), (1, 3, 0), "{swept:?}");
    assert_eq!(objects(&server).len(), 2);
    assert!(matches!(store.blobs().get(&scope, &old).await, Err(StoreError::BlobMissing { .. })));
    let report = store.verify(&[]).await.unwrap();
    assert!(report.findings.is_empty() && report.blobs == 3, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_its_bucket_says_where_its_blobs_are() {
    let (server, dir, scope) = (start(), tempfile::tempdir().unwrap(), Scope::single_user());
    let digest = kept_note(&open_with(dir.path(), place(server.address())).await.unwrap(), 1).await;
    let elsewhere = S3Place { prefix: "another".to_owned(), ..place(server.address()) };
    for store in [open(dir.path()).await, open_with(dir.path(), elsewhere).await.unwrap()] {
        let error = store.blobs().get(&scope, &digest).await.unwrap_err();
        assert!(matches!(&error, StoreError::BlobElsewhere { .. }), "{error:?}");
        assert!(error.to_string().contains("s3://blobs/team/one, which this store was not opened with"), "{error}");
        assert!(!store.verify(&[]).await.unwrap().is_sound());
        assert_eq!(store.sweep_blobs(Duration::ZERO).await.unwrap(), Swept::default(), "what it cannot reach stays");
    }
    let store = open_with(dir.path(), place(server.address())).await.unwrap();
    assert_eq!(store.blobs().get(&scope, &digest).await.unwrap(), b"picture 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_holds_what_is_in_the_bucket() {
    let (server, dir, scope) = (start(), tempfile::tempdir().unwrap(), Scope::single_user());
    let store = open_with(&dir.path().join("home"), place(server.address())).await.unwrap();
    let digest = kept_note(&store, 1).await;
    let backup = store.backup(&dir.path().join("backup"), |_| {}).await.unwrap();
    assert_eq!((backup.blobs, backup.lacking.len()), (1, 0));
    let restored = open(&backup.path).await;
    assert_eq!(restored.blobs().get(&scope, &digest).await.unwrap(), b"picture 1");
    assert!(restored.verify(&[]).await.unwrap().is_sound());
    // It shares no object: what is swept there stays here.
    restored.write(|tx| tx.execute("DELETE FROM pictures", &[])).await.unwrap();
    drop(restored);
    let restored = open_with(&backup.path, place(server.address())).await.unwrap();
    restored.sweep_blobs(Duration::ZERO).await.unwrap();
    assert_eq!(store.blobs().get(&scope, &digest).await.unwrap(), b"picture 1");
    assert_eq!(pictures(&store).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_and_loss_in_the_bucket_are_noticed_and_mended() {
    let (server, dir, scope) = (start(), tempfile::tempdir().unwrap(), Scope::single_user());
    let store = open_with(dir.path(), place(server.address())).await.unwrap();
    let content = noise(9_000_000);
    let digest = store.blobs().put(&scope, content.clone()).await.unwrap();
    let object = objects(&server).remove(0);
    let whole = fs::read(&object).unwrap();
    let mut damaged = whole.clone();
    damaged[5_000_000] ^= 1;
    fs::write(&object, damaged).unwrap();
    let got = store.blobs().get(&scope, &digest).await;
    assert!(matches!(got, Err(StoreError::BlobDamaged { .. })), "{got:?}");
    assert!(!store.verify(&[]).await.unwrap().is_sound());
    fs::remove_file(&object).unwrap();
    let opened = store.blobs().open(&scope, &digest).await;
    assert!(matches!(opened, Err(StoreError::BlobMissing { .. })), "{opened:?}");
    store.blobs().put_stream(&scope, content.as_slice()).await.unwrap();
    assert!(store.blobs().get(&scope, &digest).await.unwrap() == content);
    assert!(store.sweep_blobs(Duration::from_secs(60)).await.unwrap().leftovers <= 1);
    assert_eq!(objects(&server).len(), 1);
}

/// Whoever erases does not wait for a sweep; a server that is away has it done when it is said again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_erased_goes_from_the_bucket_at_once() {
    let (mut server, dir, scope) = (start(), tempfile::tempdir().unwrap(), Scope::single_user());
    let store = open_with(dir.path(), place(server.address())).await.unwrap();
    let (gone, shared) = (kept_note(&store, 1).await, kept_note(&store, 2).await);
    let tenant = scope.tenant.clone();
    store
        .write(move |tx| {
            tx.execute("DELETE FROM pictures WHERE n = 1", &[])?;
            let now = tx.now();
            erasing::doom(tx, &tenant, "erasure_1", &[(gone, now), (shared, now)])
        })
        .await
        .unwrap();
    server.kill();
    let away = store.erase_blobs(&scope.tenant, "erasure_1").await;
    assert!(matches!(away, Err(StoreError::Bucket { .. })), "{away:?}");
    server.start_again();
    let erased = store.erase_blobs(&scope.tenant, "erasure_1").await.unwrap();
    assert_eq!((erased.removed, erased.shared, erased.put_again), (1, 1, 0));
    assert_eq!(objects(&server).len(), 1);
    assert_eq!(store.blobs().get(&scope, &shared).await.unwrap(), b"picture 2");
    let tenant = scope.tenant.clone();
    store.write(move |tx| erasing::forget_blobs(tx, &tenant, "erasure_1")).await.unwrap();
    let again = store.erase_blobs(&scope.tenant, "erasure_1").await.unwrap();
    assert_eq!(again, erasing::ErasedBlobs::default());
}

/// A server that dies in the middle costs an error; what it has half of is deleted by the next sweep that reaches it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_away_costs_an_error_and_leaves_nothing() {
    let (mut server, dir, scope) = (start(), tempfile::tempdir().unwrap(), Scope::single_user());
    let store = open_with(dir.path(), place(server.address())).await.unwrap();
    let kept = kept_note(&store, 1).await;
    let broken = store.blobs().put_stream(&scope, Broken(&noise(1_000_000))).await;
    assert!(matches!(broken, Err(StoreError::BlobInterrupted { .. })), "{broken:?}");
    server.kill();
    let error = store.blobs().put(&scope, "while it is away").await.unwrap_err();
    assert!(matches!(&error, StoreError::Bucket { .. }), "{error:?}");
    assert!(error.to_string().starts_with("s3://blobs/team/one cannot be used ("), "{error}");
    assert!(!format!("{error} {error:?} {store:?}").contains("a-secret-of-the-tests"), "{error:?}");
    let read = store.blobs().get(&scope, &kept).await;
    assert!(matches!(read, Err(StoreError::Bucket { .. })), "{read:?}");
    assert!(store.backup(&dir.path().join("backup"), |_| {}).await.is_err(), "a backup without them is none");
    server.start_again();
    // As if the server had died after it had received the object.
    let left = "INSERT INTO blob_uploads SELECT tenant_id, object, place, 1 FROM blob_objects";
    let lost = "DELETE FROM blob_objects";
    store.write(|tx| tx.execute(left, &[]).and_then(|_| tx.execute(lost, &[]))).await.unwrap();
    let sql = "SELECT count(*) FROM blob_uploads";
    let uploads = || store.read(move |read| read.query_one(sql, &[], |row| row.get::<i64>(0)));
    assert_eq!(uploads().await.unwrap(), 2, "both are known");
    store.write(|tx| tx.execute("UPDATE blob_uploads SET at = 1", &[])).await.unwrap();
    let swept = store.sweep_blobs(Duration::from_secs(60)).await.unwrap();
    assert_eq!((swept.leftovers, uploads().await.unwrap(), objects(&server).len()), (2, 0, 0));
    store.blobs().put(&scope, "again").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_bucket_is_said() {
    let (server, dir, scope) = (start(), tempfile::tempdir().unwrap(), Scope::single_user());
    let wrong_key = S3Place { secret_access_key: Credential::new("wrong-key"), ..place(server.address()) };
    let nobody = place("127.0.0.1:1".parse().unwrap());
    for (name, wrong) in [("key", wrong_key), ("server", nobody)] {
        let store = open_with(&dir.path().join(name), wrong).await.unwrap();
        let error = store.blobs().put(&scope, "x").await.unwrap_err();
        assert!(matches!(error, StoreError::Bucket { .. }), "{name}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("wrong-key"), "{error:?}");
    }
    let plain = S3Place { endpoint: Some("http://10.0.0.1".to_owned()), ..place(server.address()) };
    let error = open_with(dir.path(), plain).await.unwrap_err();
    assert!(error.to_string().contains("unencrypted"), "{error}");
    let in_memory = StoreSettings { bucket: Some(Box::new(place(server.address()))), ..StoreSettings::in_memory() };
    let error = Store::open(in_memory, Ambient::system(), &[]).await.unwrap_err();
    assert!(error.to_string().contains("store in memory"), "{error}");
    let spelled = |text: &str| S3Place::parse(text, |name| (name != "AWS_ACCESS_KEY_ID").then(|| "x".to_owned()));
    for (text, word) in
        [("blobs", "s3://bucket/prefix"), ("s3://a:b@c", "AWS_SECRET"), ("s3://abc", "AWS_ACCESS_KEY_ID")]
    {
        let error = spelled(text).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

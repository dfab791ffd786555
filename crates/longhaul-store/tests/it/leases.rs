//! One writer a thread: refused while held, taken over when its owner is dead, fenced when it has been taken over.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use longhaul_core::{Ambient, Clock, Scope, SystemRng, ThreadId, TimeMs};
use longhaul_store::{
    Faults, Lease, LeaseClaim, LeaseError, LeaseToken, Store, StoreError, StoreSettings, give_back, lease_holder,
    values,
};

use crate::support::{NOTES, notes, open};

const TTL: Duration = Duration::from_secs(60);
const OWNER: &str = "LONGHAUL_TEST_LEASE_OWNER";

fn thread() -> ThreadId {
    "project_001".parse().unwrap()
}

async fn acquire(store: &Store) -> Result<Lease, LeaseError> {
    Lease::acquire(store, &Scope::single_user(), &thread(), TTL).await
}

#[tokio::test]
async fn a_held_thread_is_refused_with_its_holder_and_free_after_release_or_drop() {
    let dir = tempfile::tempdir().unwrap();
    let (store, other) = (open(dir.path()).await, open(dir.path()).await);
    let lease = acquire(&store).await.unwrap();
    let Err(LeaseError::Held { thread: held, holder: Some(holder) }) = acquire(&other).await else {
        panic!("the second lease was not refused");
    };
    assert_eq!((held, holder.pid), (thread(), std::process::id()));
    // Another thread, and the same name in another tenant, are free.
    let elsewhere = Scope { tenant: "tenant_other".parse().unwrap(), ..Scope::single_user() };
    Lease::acquire(&other, &elsewhere, &thread(), TTL).await.unwrap();
    Lease::acquire(&other, &Scope::single_user(), &"project_002".parse().unwrap(), TTL).await.unwrap();

    lease.release().await.unwrap();
    let read = |read: &longhaul_store::ReadTx<'_>| lease_holder(read, &Scope::single_user(), &thread());
    assert_eq!(store.read(read).await.unwrap(), None);
    drop(acquire(&other).await.unwrap());
    acquire(&store).await.unwrap();
}

#[tokio::test]
async fn a_killed_owner_on_this_host_is_taken_over_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "leases::owner_process", "--nocapture"])
        .env(OWNER, dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("leased")));
    let store = open(dir.path()).await;
    let refused = acquire(&store).await;
    assert!(
        matches!(&refused, Err(LeaseError::Held { holder: Some(holder), .. }) if holder.pid == owner.id()),
        "{refused:?}"
    );
    owner.kill().unwrap();
    owner.wait().unwrap();
    acquire(&store).await.unwrap();
}

/// Not a test by itself: the process that the test above kills while it holds the lease.
#[tokio::test]
async fn owner_process() {
    let Some(dir) = std::env::var_os(OWNER) else { return };
    let store = open(dir.as_ref()).await;
    let _lease = acquire(&store).await.unwrap();
    println!("leased");
    // Ends when the parent kills it, or ends itself.
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await;
}

async fn fenced(store: &Store, token: LeaseToken, n: i64) -> Result<(), StoreError> {
    store
        .write(move |tx| {
            tx.check_lease(&token)?;
            tx.execute("INSERT INTO notes VALUES ('a', ?1, 'x')", &values![n]).map(drop)
        })
        .await
}

#[tokio::test]
async fn a_thread_is_taken_and_given_back_within_transactions_that_do_more() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Faults::new();
    let opening =
        Store::open_with_faults(StoreSettings::new(dir.path()), Ambient::system(), &[NOTES], faults.clone()).await;
    let store = opening.unwrap();
    let claim = LeaseClaim::lock(&store, &Scope::single_user(), &thread()).await.unwrap();
    assert_eq!(faults.commits(), 0);
    // Nobody else on this host gets in between the lock and the row.
    assert!(matches!(acquire(&open(dir.path()).await).await, Err(LeaseError::Held { holder: None, .. })));
    let lease = store
        .write(move |tx| {
            let token = claim.take(tx, TTL)?;
            tx.execute("INSERT INTO notes VALUES ('a', 1, 'x')", &[])?;
            Ok::<_, LeaseError>((claim, token))
        })
        .await
        .map(|(claim, token)| claim.hold(token))
        .unwrap();
    let token = lease.token().clone();
    let close = store.write(move |tx| {
        tx.check_lease(&token)?;
        tx.execute("INSERT INTO notes VALUES ('a', 2, 'x')", &[])?;
        give_back(tx, &token)
    });
    close.await.unwrap();
    assert_eq!(faults.commits(), 2);
    let holder = store.read(|read| lease_holder(read, &Scope::single_user(), &thread())).await.unwrap();
    assert_eq!((holder, notes(&store).await), (None, vec![1, 2]));
    drop(lease);
    acquire(&open(dir.path()).await).await.unwrap();
}

#[tokio::test]
async fn a_claim_whose_transaction_failed_leaves_the_thread_free() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let claim = LeaseClaim::lock(&store, &Scope::single_user(), &thread()).await.unwrap();
    let failed = store.write(move |tx| {
        let token = claim.take(tx, TTL)?;
        tx.execute("INSERT INTO nowhere VALUES (1)", &[])?;
        Ok::<_, LeaseError>((claim, token))
    });
    assert!(matches!(failed.await, Err(LeaseError::Store(_))));
    let lease = acquire(&open(dir.path()).await).await.unwrap();
    // Nothing of the failed taking is left: this one is the first.
    let token = store.read(|read| read.query_one("SELECT token FROM leases", &[], |row| row.get::<i64>(0))).await;
    assert_eq!(token.unwrap(), 1);
    lease.release().await.unwrap();
}

#[derive(Debug)]
struct SetClock(AtomicI64);

impl Clock for SetClock {
    fn now(&self) -> TimeMs {
        TimeMs(self.0.load(Ordering::Relaxed))
    }
}

async fn open_with_clock(dir: &Path, clock: &Arc<SetClock>) -> Store {
    let ambient = Ambient::new(clock.clone(), Arc::new(SystemRng::default()));
    Store::open(StoreSettings::new(dir), ambient, &[NOTES]).await.unwrap()
}

#[tokio::test]
async fn a_clock_that_was_put_back_makes_no_lease_look_taken_for_ever() {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(SetClock(AtomicI64::new(100 * DAY)));
    let store = open_with_clock(dir.path(), &clock).await;
    let lease = acquire(&store).await.unwrap();
    let old = lease.token().clone();
    // The owner is another host's, and silent from now on.
    store.write(|tx| tx.execute("UPDATE leases SET host = 'elsewhere'", &[])).await.unwrap();
    drop(lease);
    let held = || async { matches!(acquire(&store).await, Err(LeaseError::Held { .. })) };
    assert!(held().await);
    // A little back it is still believed, ...
    clock.0.fetch_sub(30_000, Ordering::Relaxed);
    assert!(held().await);
    // ... but not that it has a day left of a minute.
    clock.0.store(99 * DAY, Ordering::Relaxed);
    let lease = acquire(&store).await.unwrap();
    // The old owner may still be alive and believe in its clock: only the newer token commits.
    let refused = fenced(&store, old, 1).await;
    assert!(matches!(refused, Err(StoreError::LeaseLost { .. })), "{refused:?}");
    fenced(&store, lease.token().clone(), 2).await.unwrap();
    assert_eq!(notes(&store).await, [2]);
}

#[tokio::test(start_paused = true)]
async fn one_heartbeat_renews_all_leases_together_and_writes_nothing_without_any() {
    let faults = Faults::new();
    let settings = StoreSettings::in_memory();
    let store = Store::open_with_faults(settings, Ambient::system(), &[NOTES], faults.clone()).await.unwrap();
    let mut leases = Vec::new();
    for n in 0..20 {
        let thread = format!("project_{n}").parse().unwrap();
        leases.push(Lease::acquire(&store, &Scope::single_user(), &thread, TTL).await.unwrap());
    }
    assert_eq!(faults.commits(), 20);
    let pass = async |time| {
        tokio::time::advance(time).await;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        faults.commits()
    };
    assert_eq!(pass(TTL / 4).await, 20);
    assert_eq!(pass(TTL / 8).await, 21);
    assert_eq!(pass(TTL / 3).await, 22);
    // A shorter one does not wait for the turn of the others.
    let thread = "project_short".parse().unwrap();
    leases.push(Lease::acquire(&store, &Scope::single_user(), &thread, TTL / 20).await.unwrap());
    assert_eq!(pass(TTL / 50).await, 24);
    drop(leases);
    assert_eq!(pass(TTL * 10).await, 24);
    // And it begins again.
    let _lease = acquire(&store).await.unwrap();
    assert_eq!(pass(TTL / 2).await, 26);
}

#[tokio::test]
async fn the_heartbeat_moves_the_end_of_the_row() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let lease = Lease::acquire(&store, &Scope::single_user(), &thread(), Duration::from_millis(200)).await.unwrap();
    let end = || store.read(|read| read.query_one("SELECT expires_at FROM leases", &[], |row| row.get::<i64>(0)));
    let first: i64 = end().await.unwrap();
    let moved = async {
        while end().await.unwrap() == first {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), moved).await.expect("the heartbeat never came");
    drop(lease);
}

//! What only PostgreSQL can do to us: other machines, cut connections, a server that goes and comes back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use longhaul_core::{Ambient, EventDraft, Scope, ThreadId};
use longhaul_store::{
    Lease, LeaseClaim, LeaseError, LeaseToken, Store, StoreError, StoreSettings, Tx, events, give_back, values,
};
use longhaul_testbed::PrivateCluster;
use serde_json::json;

use crate::{
    contract::Ground,
    cutter::{Cut, Cutter},
    support::{NOTES, notes, task},
};

const PATIENCE: Duration = Duration::from_secs(60);

fn note(tx: &mut Tx<'_>, n: i64) -> Result<(), StoreError> {
    tx.execute("INSERT INTO notes VALUES ('a', ?1, 'x')", &values![n]).map(drop)
}

#[test]
fn a_password_is_shown_nowhere_and_nobody_is_reached_unencrypted_over_a_network() {
    let dir = tempfile::tempdir().unwrap();
    let settings = StoreSettings::from_url("postgres://me:s3cret@127.0.0.1:1/db", dir.path()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = runtime.block_on(Store::open(settings.clone(), Ambient::system(), &[])).unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("postgres://me@127.0.0.1:1/db"), "{error}");
    assert!(!format!("{settings:?} {error} {error:?}").contains("s3cret"));
    for url in [
        "postgres://me:s3cret@db.example.org/db",
        "postgres://me:s3cret@10.0.0.7/db",
        "postgres://me:s3cret@127.0.0.1,10.0.0.7/db",
        "postgres://me:s3cret@127.0.0.1/db?hostaddr=10.0.0.7",
        "postgres://me:s3cret@127.0.0.1/db?sslmode=require",
        "postgres://me:s3cret@127.0.0.1/db?s3cret=1",
        "postgres://me:s3cret@127.0.0.1",
        "postgres://127.0.0.1/db",
        "mysql://me:s3cret@127.0.0.1/db",
        "me:s3cret",
    ] {
        let error = StoreSettings::from_url(url, dir.path()).unwrap_err();
        assert!(matches!(error, StoreError::Address { .. }), "{url}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{url}: {error:?}");
    }
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_database_are_told_apart_from_a_missing_server() {
    let ground = Ground::postgres();
    let url = ground.database().url();
    let (head, tail) = url.split_once('@').unwrap();
    let dir = tempfile::tempdir().unwrap();
    for url in [format!("{}x@{tail}", head), format!("{url}_missing")] {
        let settings = StoreSettings::from_url(&url, dir.path()).unwrap();
        let error = Store::open(settings, Ambient::system(), &[]).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn text_with_a_nul_character_is_refused_by_name_and_its_transaction_goes_on() {
    let store = Ground::postgres().open().await;
    let refused = store
        .write(|tx| {
            let refused = tx.execute("INSERT INTO notes VALUES (?1, 1, ?2)", &values!["a", "x\0y"]);
            note(tx, 2)?;
            Ok::<_, StoreError>(refused)
        })
        .await;
    assert!(matches!(refused, Ok(Err(StoreError::NulInText { parameter: 2 }))), "{refused:?}");
    assert_eq!(notes(&store).await, [2]);
}

#[tokio::test]
async fn everybody_hears_of_everybodys_events_once_and_in_order() {
    let ground = Ground::postgres();
    let (here, there) = (ground.open().await, ground.open_on("elsewhere").await);
    let task = task(&here, &Scope::single_user(), "t1").await;
    let mut live = [here.subscribe(), there.subscribe()];
    for n in 0..20_i64 {
        let (store, task) = (if n % 3 == 0 { &there } else { &here }, task.clone());
        store
            .write(move |tx| tx.append_event(&task, None, None, EventDraft::business("a.b", json!({ "n": n }))))
            .await
            .unwrap();
    }
    for live in &mut live {
        for n in 0..20_i64 {
            let event = tokio::time::timeout(PATIENCE, live.recv()).await.unwrap().unwrap();
            assert_eq!(event.data["n"], json!(n));
        }
        assert!(live.try_recv().is_err());
    }
}

/// Two hosts want one thread, a thousand times. Whoever has it adds the next number and gives it back; now and then a
/// host lets its row expire without knowing it, is taken over by the other, and tries to write all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hosts_that_want_one_thread_each_commit_is_the_next_and_none_is_lost() {
    let ground = Ground::postgres();
    let refused = Arc::new(AtomicI64::new(0));
    let host = |name: &'static str| {
        let (settings, refused) = (ground.settings_on(name), refused.clone());
        async move {
            let store = Store::open(settings, Ambient::system(), &[NOTES]).await.unwrap();
            let mut freed = store.listen("freed");
            let mut committed = Vec::new();
            let mut turn = 0_u32;
            loop {
                let silent = turn % 20 == 7;
                let claim = LeaseClaim::lock(&store, &Scope::single_user(), &thread()).await.unwrap();
                let ttl = if silent { Duration::from_millis(1) } else { Duration::from_secs(60) };
                let taken = store.write(move |tx| claim.take(tx, ttl)).await;
                let token = match taken {
                    Ok(token) => token,
                    Err(LeaseError::Held { .. }) => {
                        // A host that has gone silent says nothing when its row expires.
                        let _ = tokio::time::timeout(Duration::from_millis(50), freed.next()).await;
                        continue;
                    }
                    Err(error) => panic!("{error:?}"),
                };
                turn += 1;
                if silent {
                    taken_over(&store, &token).await;
                }
                match store.write(move |tx| next_number(tx, &token)).await {
                    Ok(Some(n)) => committed.push(n),
                    Ok(None) => break (store, committed),
                    Err(StoreError::LeaseLost { .. }) if silent => drop(refused.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    };
    let (a, b) = (tokio::spawn(host("atlas")), tokio::spawn(host("borealis")));
    let ((store, mut all), (_, others)) = (a.await.unwrap(), b.await.unwrap());
    let shares = (all.len(), others.len());
    all.extend(others);
    all.sort_unstable();
    assert_eq!(all, (1..=ROUNDS).collect::<Vec<_>>());
    assert_eq!(notes(&store).await, all);
    let refused = refused.load(Ordering::Relaxed);
    assert!(shares.0 > 0 && shares.1 > 0 && refused > 0, "{shares:?}, {refused} refused");
}

const ROUNDS: i64 = 1_000;

fn thread() -> ThreadId {
    "project_001".parse().unwrap()
}

/// Waits until the row of this token has expired and somebody has taken it.
async fn taken_over(store: &Store, token: &LeaseToken) {
    let mut patience = 200;
    let taken = async {
        loop {
            let held = token.clone();
            match store.write(move |tx| tx.check_lease(&held)).await {
                Ok(()) => {
                    // The other host waits for the server's clock; should it have ended, somebody here takes over.
                    patience -= 1;
                    if patience == 0 {
                        let claim = LeaseClaim::lock(store, &Scope::single_user(), &thread()).await.unwrap();
                        let taking = store.write(move |tx| {
                            let token = claim.take(tx, PATIENCE)?;
                            give_back(tx, &token).map_err(LeaseError::from)
                        });
                        taking.await.unwrap();
                    }
                }
                Err(StoreError::LeaseLost { .. }) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, taken).await.expect("nobody took over");
}

fn next_number(tx: &mut Tx<'_>, token: &LeaseToken) -> Result<Option<i64>, StoreError> {
    tx.check_lease(token)?;
    let last = tx.query_one("SELECT count(*) FROM notes", &[], |row| row.get::<i64>(0))?;
    if last < ROUNDS {
        note(tx, last + 1)?;
    }
    give_back(tx, token)?;
    tx.notify("freed", "")?;
    Ok((last < ROUNDS).then_some(last + 1))
}

#[tokio::test]
async fn an_expired_row_is_taken_over_by_the_servers_clock_whatever_ones_own_says() {
    use longhaul_core::{Clock, TimeMs};
    #[derive(Debug)]
    struct Ahead;
    impl Clock for Ahead {
        fn now(&self) -> TimeMs {
            TimeMs(4_102_444_800_000)
        }
    }
    let ground = Ground::postgres();
    let here = ground.open().await;
    let ambient = Ambient { clock: Arc::new(Ahead), ..Ambient::system() };
    let there = Store::open(ground.settings_on("elsewhere"), ambient, &[NOTES]).await.unwrap();
    let (scope, thread) = (Scope::single_user(), "project_001".parse().unwrap());
    let lease = Lease::acquire(&here, &scope, &thread, PATIENCE).await.unwrap();
    // Its clock says that the row has expired decades ago.
    let refused = Lease::acquire(&there, &scope, &thread, PATIENCE).await;
    assert!(matches!(refused, Err(LeaseError::Held { holder: Some(_), .. })), "{refused:?}");
    lease.release().await.unwrap();
    let lease = Lease::acquire(&there, &scope, &thread, PATIENCE).await.unwrap();
    // And a row of the one that is ahead does not last for decades.
    let refused = Lease::acquire(&here, &scope, &thread, PATIENCE).await;
    assert!(matches!(refused, Err(LeaseError::Held { .. })), "{refused:?}");
    let longest = "SELECT CAST(max(expires_at) - extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) FROM leases";
    let left = here.read(move |read| read.query_one(longest, &[], |row| row.get::<i64>(0))).await;
    let left: Result<i64, StoreError> = left;
    assert!((0..=60_000).contains(&left.unwrap()));
    drop(lease);
}

#[tokio::test]
async fn a_connection_that_is_cut_costs_the_transaction_in_flight_and_nothing_else() {
    let ground = Ground::postgres();
    let store = ground.open().await;
    store.write(|tx| note(tx, 1)).await.unwrap();
    // While nobody uses them: nobody notices.
    ground.database().cut_connections().unwrap();
    store.write(|tx| note(tx, 2)).await.unwrap();
    ground.database().cut_connections().unwrap();
    assert_eq!(notes(&store).await, [1, 2]);

    // In the middle of a transaction, whose code goes on all the same.
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let in_flight = tokio::spawn({
        let store = store.clone();
        async move {
            store
                .write(move |tx| {
                    note(tx, 3)?;
                    begun.send(()).unwrap();
                    wait.recv().unwrap();
                    let ignored = note(tx, 4);
                    assert!(matches!(ignored, Err(StoreError::Disconnected { .. })), "{ignored:?}");
                    Ok::<_, StoreError>(())
                })
                .await
        }
    });
    has_begun.await.unwrap();
    let behind = tokio::spawn({
        let store = store.clone();
        async move { store.write(|tx| note(tx, 5)).await }
    });
    ground.database().cut_connections().unwrap();
    go.send(()).unwrap();
    let lost = in_flight.await.unwrap();
    assert!(matches!(lost, Err(StoreError::Disconnected { .. })), "{lost:?}");
    behind.await.unwrap().unwrap();
    assert_eq!(notes(&store).await, [1, 2, 5]);
}

#[tokio::test]
async fn a_program_that_stops_in_the_middle_of_a_transaction_holds_nobody_up_for_long() {
    let ground = Ground::postgres();
    let settings = |host| StoreSettings { busy_ms_max: 4_000, ..ground.settings_on(host) };
    let open = |host| Store::open(settings(host), Ambient::system(), &[NOTES]);
    let (stopped, other) = (open("atlas").await.unwrap(), open("borealis").await.unwrap());
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let in_flight = tokio::spawn({
        let store = stopped.clone();
        async move {
            store
                .write(move |tx| {
                    note(tx, 1)?;
                    begun.send(()).unwrap();
                    wait.recv().unwrap();
                    note(tx, 2)
                })
                .await
        }
    });
    has_begun.await.unwrap();
    other.write(|tx| note(tx, 3)).await.unwrap();
    go.send(()).unwrap();
    let lost = in_flight.await.unwrap();
    assert!(matches!(lost, Err(StoreError::Disconnected { .. })), "{lost:?}");
    stopped.write(|tx| note(tx, 4)).await.unwrap();
    assert_eq!(notes(&other).await, [3, 4]);
}

/// The connection is cut in the middle of a commit. What became of it is found out, and told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_cut_is_told_as_kept_when_it_was_kept_and_as_lost_when_it_was_not() {
    let ground = Ground::postgres();
    let cutter = Cutter::before(ground.database().cluster().port()).await;
    let url = ground.database().url();
    let through = url.replace(&format!(":{}/", ground.database().cluster().port()), &format!(":{}/", cutter.port));
    let settings = StoreSettings::from_url(&through, tempfile::tempdir().unwrap().path()).unwrap();
    let store = Store::open(settings, Ambient::system(), &[NOTES]).await.unwrap();
    store.write(|tx| note(tx, 1)).await.unwrap();
    cutter.plan(Cut::Question);
    let lost = store.write(|tx| note(tx, 2)).await;
    assert!(matches!(lost, Err(StoreError::Disconnected { .. })), "{lost:?}");
    assert_eq!(notes(&store).await, [1]);
    cutter.plan(Cut::Answer);
    store.write(|tx| note(tx, 3)).await.unwrap();
    assert_eq!(notes(&store).await, [1, 3]);
    assert_eq!(cutter.cuts(), 2);
    store.write(|tx| note(tx, 4)).await.unwrap();
}

#[tokio::test]
async fn a_server_that_crashes_and_comes_back_loses_nothing_that_was_acknowledged() {
    // A cluster of its own: others would notice.
    let cluster = PrivateCluster::start().unwrap();
    let database = cluster.create_database().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let settings =
        StoreSettings { busy_ms_max: 60_000, ..StoreSettings::from_url(&database.url(), dir.path()).unwrap() };
    let store = Store::open(settings, Ambient::system(), &[NOTES]).await.unwrap();
    let task = task(&store, &Scope::single_user(), "t1").await;
    let mut live = store.subscribe();
    let writer = tokio::spawn({
        let (store, task) = (store.clone(), task.clone());
        async move {
            let mut acknowledged = Vec::new();
            for n in 0..300_i64 {
                let task = task.clone();
                let outcome = store
                    .write(move |tx| {
                        note(tx, n)?;
                        tx.append_event(&task, None, None, EventDraft::business("a.b", json!({ "n": n })))
                    })
                    .await;
                match outcome {
                    Ok(_) => acknowledged.push(n),
                    Err(StoreError::Disconnected { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            acknowledged
        }
    });
    for crash in [true, false, true] {
        live.recv().await.unwrap();
        if crash { cluster.crash_and_restart() } else { cluster.restart() }.unwrap();
    }
    let acknowledged = tokio::time::timeout(PATIENCE, writer).await.unwrap().unwrap();
    assert_eq!(notes(&store).await, acknowledged);
    // The events of what was kept are in the log, and those published after the crashes are all the later ones.
    let scope = Scope::single_user();
    let logged = store.read(move |read| events(read, &scope, None, 0, 1000)).await.unwrap();
    assert_eq!(logged.iter().map(|e| e.data["n"].as_i64().unwrap()).collect::<Vec<_>>(), acknowledged);
    let last = logged.last().unwrap().seq;
    let mut heard = 0;
    while heard < last {
        let event = tokio::time::timeout(PATIENCE, live.recv()).await.unwrap().unwrap();
        assert!(event.seq > heard);
        heard = event.seq;
    }
}

#[tokio::test]
async fn without_a_server_the_outcome_of_a_commit_is_unknown_and_later_writes_say_why() {
    let cluster = PrivateCluster::start().unwrap();
    let database = cluster.create_database().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let settings = StoreSettings { busy_ms_max: 200, ..StoreSettings::from_url(&database.url(), dir.path()).unwrap() };
    let store = Store::open(settings, Ambient::system(), &[NOTES]).await.unwrap();
    store.write(|tx| note(tx, 1)).await.unwrap();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let in_flight = tokio::spawn({
        let store = store.clone();
        async move {
            store
                .write(move |tx| {
                    note(tx, 2)?;
                    begun.send(()).unwrap();
                    wait.recv().unwrap();
                    Ok::<_, StoreError>(())
                })
                .await
        }
    });
    has_begun.await.unwrap();
    cluster.stop_immediate().unwrap();
    go.send(()).unwrap();
    let unknown = in_flight.await.unwrap();
    assert!(matches!(unknown, Err(StoreError::OutcomeUnknown { .. })), "{unknown:?}");
    let refused = store.write(|tx| note(tx, 3)).await;
    assert!(matches!(refused, Err(StoreError::Unreachable { .. })), "{refused:?}");
    cluster.start_again().unwrap();
    store.write(|tx| note(tx, 4)).await.unwrap();
    assert_eq!(notes(&store).await, [1, 4]);
}

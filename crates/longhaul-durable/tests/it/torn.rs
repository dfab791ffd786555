//! Commits that did not get to their end: a log cut or damaged where the power failed, a file that may not grow.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

use longhaul_durable::{END, Effect, Graph, GraphBuilder, NodeError, Outcome, RunOptions, START, Settlement};
use longhaul_store::StoreError;
use rusqlite::Connection;
use serde_json::json;

use crate::support::{Done, Words, World, completed, scope, thread, world};

const DIR: &str = "LONGHAUL_TEST_TORN_DIR";
const ROUNDS: usize = 4;

/// Each round does three things whose results take this many bytes.
fn rounds(done: &Done, bytes: usize) -> Graph<Words> {
    let done = done.clone();
    GraphBuilder::<Words>::new("rounds", 1)
        .node("round", move |ctx, state: Arc<Words>| {
            let done = done.clone();
            async move {
                let (round, mut words) = (state.count, Vec::new());
                let key = ctx.step_id("send").to_string();
                for (name, effect) in
                    [("look", Effect::Pure), ("send", Effect::Idempotent { key }), ("pay", Effect::Once)]
                {
                    let id = ctx.step_id(name).within();
                    let act = async {
                        done.add(id);
                        Ok("x".repeat(bytes))
                    };
                    let result: String = ctx.step(name, effect, act).await?;
                    words.push(format!("{name} {round} {}", result.len()));
                }
                Ok(words)
            }
        })
        .edge(START, "round")
        .branch("round", &["round", END], |state| if state.words.len() < 3 * ROUNDS { "round" } else { END })
        .build()
        .unwrap()
}

/// Runs to the end, settling what nobody knows by what was done before; tells what was listed.
async fn to_the_end(world: &World, graph: &Graph<Words>, before: &[String]) -> (Words, Vec<String>) {
    let mut listed = Vec::new();
    loop {
        let Outcome::NeedsReconcile(pending) = world.run(graph).await else { break };
        for effect in pending {
            let id = effect.step.within();
            let happened = before.contains(&id);
            let settlement =
                if happened { Settlement::Happened(json!("x".repeat(100))) } else { Settlement::DidNotHappen };
            world.runtime.reconcile(&scope().scope, &effect.step, settlement).await.unwrap();
            listed.push(id);
        }
    }
    let state = world.runtime.state(&scope().scope, &thread()).await.unwrap().unwrap();
    (state, listed)
}

#[tokio::test]
async fn a_log_torn_anywhere_is_gone_on_with_from_its_last_whole_commit() {
    let dir = tempfile::tempdir().unwrap();
    let undisturbed = world(dir.path()).await;
    // The log holds the run and nothing else.
    let other = Connection::open(dir.path().join("longhaul.db")).unwrap();
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let expected = completed(undisturbed.run(&rounds(&undisturbed.done, 100)).await);
    let before = undisturbed.done.take();
    assert_eq!(before.len(), 3 * ROUNDS);
    let file = |name: &str| fs::read(dir.path().join(name)).unwrap();
    let (db, wal) = (file("longhaul.db"), file("longhaul.db-wal"));

    let (mut unknown, mut recorded_most) = (0, 0);
    for (n, cut) in (0..=wal.len()).rev().step_by(7_777).enumerate() {
        let place = format!("torn at {cut} of {}", wal.len());
        let torn = tempfile::tempdir().unwrap();
        fs::write(torn.path().join("longhaul.db"), &db).unwrap();
        let mut log = wal[..cut].to_vec();
        // Or whole in length, with what the disk made of its end.
        if n % 2 == 1 {
            log.extend(wal[cut..].iter().map(|byte| byte ^ 0x5a));
        }
        fs::write(torn.path().join("longhaul.db-wal"), log).unwrap();
        let world = world(torn.path()).await;
        let recorded: BTreeSet<String> = world.recorded().await.into_iter().collect();
        recorded_most = recorded_most.max(recorded.len());
        if recorded.len() == before.len() {
            continue; // complete but for its end
        }
        let graph = rounds(&world.done, 100);
        let (state, listed) = to_the_end(&world, &graph, &before).await;
        assert_eq!(state, expected, "{place}");
        let again = world.done.take();
        let twice = again.iter().find(|id| recorded.contains(*id));
        assert_eq!(twice, None, "{place}: was recorded and was done again");
        assert!(listed.iter().all(|id| !again.contains(id)), "{place}: {listed:?} were settled and done again");
        assert_eq!(recorded.len() + again.len() + listed.len(), before.len(), "{place}");
        unknown += listed.len();
    }
    assert!(unknown > 0 && recorded_most > 2 * ROUNDS, "{unknown} unknown outcomes, {recorded_most} steps");
}

/// Runs the child below in a shell that prepares its disk.
fn child(dir: &Path, prepare: &str) -> Output {
    let script = format!("{prepare} && exec \"$0\" --exact torn::running_process --nocapture");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(std::env::current_exe().unwrap()).env(DIR, dir);
    shell.output().unwrap()
}

fn said(output: &Output, what: &str) -> bool {
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains(what)
}

#[test]
fn a_file_that_may_not_grow_stops_a_superstep_which_goes_on_later() {
    let dir = tempfile::tempdir().unwrap();
    // In blocks of 512 bytes; the signal that would end the process is ignored.
    let stopped = child(dir.path(), "trap '' XFSZ && ulimit -f 1500");
    assert!(said(&stopped, "stopped by the disk"), "{stopped:?}");
    let gone_on = child(dir.path(), "true");
    assert!(said(&gone_on, "completed"), "{gone_on:?}");
}

#[test]
fn a_full_disk_stops_a_superstep_which_goes_on_with_space() {
    let dir = tempfile::tempdir().unwrap();
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let own = |command: &str| Command::new("unshare").args(["-m", "sh", "-c", command]).arg(dir.path()).output();
    let mount = "mount -t tmpfs -o size=3m tmpfs \"$0\"";
    // Only the superuser may mount, and not in every container: the test above is for everybody.
    if !is_root || !own(mount).is_ok_and(|output| output.status.success()) {
        return;
    }
    let ballast = "head -c 2200000 /dev/zero > \"$0/ballast\"";
    let script = format!("{mount} && {ballast} && exec \"$1\" --exact torn::running_process --nocapture");
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "sh", "-c", &script]).arg(dir.path()).arg(std::env::current_exe().unwrap());
    let output = unshare.env(DIR, dir.path()).output().unwrap();
    assert!(said(&output, "stopped by the disk") && said(&output, "completed"), "{output:?}");
}

/// Not a test by itself: runs on the disk that the tests above have prepared.
#[tokio::test]
async fn running_process() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let (book, ballast) = (Path::new(&dir).join("book"), Path::new(&dir).join("ballast"));
    let world = world(&Path::new(&dir).join("home")).await;
    let mut before = fs::read_to_string(&book).unwrap_or_default();
    let graph = rounds(&world.done, 120_000);
    for _ in 0..4 {
        let recorded: BTreeSet<String> = world.recorded().await.into_iter().collect();
        let ran = world.runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await;
        let done = world.done.take();
        assert!(done.iter().all(|id| !recorded.contains(id)), "{done:?} again, although recorded");
        for id in &done {
            assert!(!id.contains("pay") || !before.contains(id.as_str()), "{id} was paid twice");
            before.push_str(&format!("{id}\n"));
        }
        let refused = match ran {
            Ok(Outcome::Completed(state)) => {
                assert_eq!(state.words.len(), 3 * ROUNDS);
                println!("completed");
                return;
            }
            Ok(Outcome::NeedsReconcile(pending)) => {
                for effect in pending {
                    let happened = before.contains(&effect.step.within());
                    let result = Settlement::Happened(json!("x".repeat(120_000)));
                    let settlement = if happened { result } else { Settlement::DidNotHappen };
                    world.runtime.reconcile(&scope().scope, &effect.step, settlement).await.unwrap();
                }
                continue;
            }
            // The end of the run could be written, or could not.
            Ok(Outcome::Failed { error: NodeError::Store(error), .. }) => error,
            Err(longhaul_durable::DurableError::Store(error)) => error,
            other => panic!("{other:?}"),
        };
        assert!(matches!(refused, StoreError::DiskFull { .. } | StoreError::Io { .. }), "{refused:?}");
        println!("stopped by the disk: {refused}");
        if ballast.exists() {
            assert!(refused.to_string().contains("free some space"), "{refused}");
            fs::remove_file(&ballast).unwrap();
        } else {
            // A limit on this process; another may go on.
            fs::write(&book, before).unwrap();
            return;
        }
    }
    panic!("neither stopped nor completed");
}

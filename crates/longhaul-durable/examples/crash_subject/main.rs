//! The program that `cargo xtask crash durable` kills again and again: it works on several threads at once, for ever.
//!
//! ```text
//! crash_subject work --store FOLDER --acts FOLDER --lanes 0,1,2 --life 7     until it is killed
//! crash_subject finish --store FOLDER --acts FOLDER --lanes 0,1,2 --life 8   ends what was begun and reports all
//! crash_subject cluster                                                      a private PostgreSQL server
//! ```
//!
//! A lane is a sequence of threads, one after the other. `LONGHAUL_CRASH_URL` puts the store on PostgreSQL. A report is
//! a line of JSON for each thread. The cluster obeys `crash` on its input and ends with it.

mod receiver;
mod story;

use std::{
    env,
    error::Error,
    fs,
    io::{self, BufRead},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use longhaul_core::{Ambient, TaskScope, ThreadId};
use longhaul_durable::{
    DurableError, Graph, MIGRATIONS, NodeError, Outcome, PendingEffect, RunOptions, Runtime, Settlement, Status,
    WaitInfo,
};
use longhaul_store::{LeaseError, Store, StoreError, StoreSettings, values};
use longhaul_testbed::PrivateCluster;
use serde_json::json;

use crate::{
    receiver::Receiver,
    story::{NOTES, Story, World, story},
};

type Failure = Box<dyn Error + Send + Sync>;

/// Most times that a thread is run again after a failure of the store or a planned one, in one life.
const TROUBLES_MAX: u32 = 400;

/// One process of many.
#[derive(Clone)]
struct Life {
    runtime: Runtime,
    store: Store,
    graph: Graph<Story>,
    receiver: Receiver,
    scope: TaskScope,
}

impl Life {
    async fn begin(dir: &Path, receiver: Receiver) -> Result<Self, Failure> {
        let ambient = Ambient::system();
        let settings = match env::var("LONGHAUL_CRASH_URL") {
            Ok(url) => StoreSettings::from_url(&url, dir)?,
            Err(_) => StoreSettings::new(dir),
        };
        let mut tries = 0;
        let store = loop {
            match Store::open(settings.clone(), ambient.clone(), &[MIGRATIONS, NOTES]).await {
                // The server is being restarted.
                Err(error @ (StoreError::Disconnected { .. } | StoreError::Unreachable { .. })) if tries < 300 => {
                    eprintln!("opening: {error}");
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                opened => break opened?,
            }
        };
        let world = World { receiver: receiver.clone(), ambient: ambient.clone() };
        let runtime = Runtime::new(store.clone(), ambient);
        Ok(Self { runtime, store, graph: story(&world)?, receiver, scope: TaskScope::single_user() })
    }

    /// Works on a lane's threads, beginning with the last that was begun; `last` ends with that.
    async fn lane(self, lane: u64, last: bool) -> Result<(), Failure> {
        let begun = self.receiver.threads(lane)?;
        let mut number = begun.len().saturating_sub(1);
        loop {
            let thread: ThreadId = format!("lane-{lane}-{number:05}").parse()?;
            self.complete(&thread).await.map_err(|error| format!("{thread}: {error}"))?;
            number += 1;
            // A thread may have begun without anything having arrived yet.
            let next = format!("lane-{lane}-{number:05}").parse()?;
            if last && self.status(&next).await?.is_none() {
                return Ok(());
            }
        }
    }

    async fn status(&self, thread: &ThreadId) -> Result<Option<Status>, DurableError> {
        let mut troubles = 0;
        loop {
            match self.runtime.find(&self.scope.scope, thread).await {
                Err(DurableError::Store(error)) if troubles < TROUBLES_MAX => self.trouble(&mut troubles, &error).await,
                found => return Ok(found?.map(|execution| execution.status)),
            }
        }
    }

    async fn trouble(&self, troubles: &mut u32, error: &(dyn Error + Sync)) {
        *troubles += 1;
        eprintln!("once more: {}", chain(error));
        tokio::time::sleep(Duration::from_millis(if *troubles < 10 { 2 } else { 100 })).await;
    }

    /// Runs one thread until it is complete, doing what a person and a supervisor would do.
    async fn complete(&self, thread: &ThreadId) -> Result<(), Failure> {
        let mut troubles = 0;
        // Asked first, each time: a run whose end was committed and not heard of would otherwise be begun anew.
        while self.status(thread).await? != Some(Status::Completed) {
            if troubles > TROUBLES_MAX {
                return Err("does not get any further".into());
            }
            let run = self.runtime.run(&self.graph, &self.scope, thread, Story::default(), RunOptions::default());
            let done = match run.await {
                Ok(Outcome::Completed(_)) => Ok(()),
                Ok(Outcome::Waiting(waits)) => self.answer(thread, &waits).await,
                Ok(Outcome::NeedsReconcile(pending)) => self.settle(thread, &pending).await,
                Ok(Outcome::Failed { error, .. }) if was_planned(&error) => {
                    self.trouble(&mut troubles, &error).await;
                    Ok(())
                }
                Ok(other) => return Err(format!("ended with {other:?}").into()),
                Err(error) => Err(error),
            };
            match done {
                Ok(()) => {}
                Err(error @ (DurableError::Store(_) | DurableError::Lease(LeaseError::Store(_)))) => {
                    self.trouble(&mut troubles, &error).await;
                }
                Err(error) => return Err(chain(&error).into()),
            }
        }
        Ok(())
    }

    async fn answer(&self, thread: &ThreadId, waits: &[WaitInfo]) -> Result<(), DurableError> {
        for wait in waits {
            let Ok(nonce) = self.receiver.arrive(thread.as_str(), "offer", &wait.name, "-") else { continue };
            let request = format!("request-{nonce}");
            let answered =
                self.runtime.continue_with(&self.scope.scope, &wait.id, json!(nonce), &request, "person").await;
            match answered {
                // Or an earlier process's offer was accepted just now, by a server that outlived it.
                Ok(_) | Err(DurableError::AlreadyAnswered { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn settle(&self, thread: &ThreadId, pending: &[PendingEffect]) -> Result<(), DurableError> {
        for effect in pending.iter().filter(|effect| !effect.probe) {
            let (thread, act) = (thread.as_str(), &effect.step.name);
            let Ok(_) = self.receiver.arrive(thread, "listed", act, "-") else { continue };
            let Ok(receipt) = self.receiver.receipt(thread, act) else { continue };
            let settlement = receipt.map_or(Settlement::DidNotHappen, |receipt| Settlement::Happened(json!(receipt)));
            match self.runtime.reconcile(&self.scope.scope, &effect.step, settlement).await {
                // It was settled by a commit nobody heard of.
                Ok(()) | Err(DurableError::NotPending { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A line for each thread of the lane.
    async fn report(&self, lane: u64) -> Result<(), Failure> {
        for name in self.receiver.threads(lane)? {
            let thread: ThreadId = name.parse()?;
            let status = self.status(&thread).await?.map(Status::as_str);
            let state: Option<Story> = self.runtime.state(&self.scope.scope, &thread).await?;
            let tenant = self.scope.scope.tenant.clone();
            let read = self.store.read(move |read| {
                let notes = read.query(
                    "SELECT act FROM crash_notes WHERE tenant_id = ?1 AND thread = ?2",
                    &values![&tenant, &name],
                    |row| row.get::<String>(0),
                )?;
                let executions = read.query(
                    "SELECT execution_id FROM executions WHERE tenant_id = ?1 AND thread_id = ?2",
                    &values![&tenant, &name],
                    |row| row.get::<String>(0),
                )?;
                Ok::<_, StoreError>((notes, executions.len()))
            });
            let (notes, executions) = read.await?;
            let lines = state.unwrap_or_default().lines;
            println!(
                "{}",
                json!({ "thread": thread, "status": status, "lines": lines, "notes": notes, "executions": executions })
            );
        }
        Ok(())
    }
}

/// Whether the failure was planned, or is the store's because its server was.
fn was_planned(error: &NodeError) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let of_store = matches!(error.downcast_ref(), Some(NodeError::Store(_))) || error.is::<StoreError>();
        if of_store || error.to_string().starts_with("planned") {
            return true;
        }
        cause = error.source();
    }
    false
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

async fn live(arguments: &[String], finish: bool) -> Result<(), Failure> {
    let value = |name: &str| {
        let value = arguments.iter().skip_while(|argument| *argument != name).nth(1).cloned();
        value.ok_or(format!("{name} is missing"))
    };
    let (dir, acts) = (PathBuf::from(value("--store")?), PathBuf::from(value("--acts")?));
    let lanes = value("--lanes")?.split(',').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    fs::create_dir_all(&dir)?;
    fs::create_dir_all(&acts)?;
    let life = Life::begin(&dir, Receiver::new(acts, value("--life")?.parse()?)).await?;
    println!("ready");
    let mut work = tokio::task::JoinSet::new();
    for lane in &lanes {
        work.spawn(life.clone().lane(*lane, finish));
    }
    while let Some(ended) = work.join_next().await {
        ended??;
    }
    for lane in lanes {
        life.report(lane).await?;
    }
    Ok(())
}

fn cluster() -> Result<(), Failure> {
    let cluster = PrivateCluster::start()?;
    println!("{}", cluster.create_database()?.url());
    for order in io::stdin().lock().lines() {
        if order? == "crash" {
            cluster.crash_and_restart()?;
            println!("up");
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ended = match (arguments.get(1).map(String::as_str), tokio) {
        (_, Err(error)) => Err(error.into()),
        (Some("cluster"), _) => cluster(),
        (Some("work"), Ok(tokio)) => tokio.block_on(live(&arguments, false)),
        (Some("finish"), Ok(tokio)) => tokio.block_on(live(&arguments, true)),
        _ => Err("say work, finish or cluster; `cargo xtask crash durable` does".into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crash_subject: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

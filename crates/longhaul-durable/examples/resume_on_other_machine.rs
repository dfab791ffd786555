//! Two machines, one PostgreSQL database. The first is killed (SIGKILL) in the middle of a task; the second goes on
//! where it was. The machines here are two processes that share nothing but the database.
//!
//! ```text
//! cargo run -p longhaul-durable --example resume_on_other_machine                                  # own server
//! cargo run -p longhaul-durable --example resume_on_other_machine -- postgres://me:secret@127.0.0.1:5432/db
//! ```
//!
//! Without an address it starts a private server that ends with it; that needs Debian's package `postgresql`.

use std::{
    env,
    error::Error,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use longhaul_core::{Ambient, TaskScope};
use longhaul_durable::{
    DurableError, END, Effect, GraphBuilder, GraphState, MIGRATIONS, Outcome, RunOptions, Runtime, START,
};
use longhaul_store::{LeaseError, Store, StoreSettings};
use longhaul_testbed::PrivateCluster;
use serde::{Deserialize, Serialize};

const CHAPTERS: usize = 6;

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Book {
    #[append]
    chapters: Vec<String>,
}

/// What one machine does: work on the thread until the book is complete.
async fn work(machine: String, url: &str) -> Result<(), Box<dyn Error>> {
    let name = machine.clone();
    let graph = GraphBuilder::<Book>::new("book", 1)
        .node("translate", move |ctx, state| {
            let (machine, chapter) = (name.clone(), state.chapters.len() + 1);
            async move {
                let translate = async move {
                    println!("{machine} translates chapter {chapter}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Ok(format!("{chapter} by {machine}"))
                };
                Ok(BookUpdate::new().chapters([ctx.step("translate", Effect::Pure, translate).await?]))
            }
        })
        .edge(START, "translate")
        .branch("translate", &["translate", END], |book| if book.chapters.len() < CHAPTERS { "translate" } else { END })
        .build()?;
    // What only this machine needs; on two real machines, two folders of the same name.
    let folder = tempfile::tempdir()?;
    let store = Store::open(StoreSettings::from_url(url, folder.path())?, Ambient::system(), &[MIGRATIONS]).await?;
    // A machine that has been silent for so long has lost its threads.
    let runtime = Runtime::new(store, Ambient::system()).with_lease_ttl(Duration::from_secs(2));
    let (scope, thread) = (TaskScope::single_user(), "book".parse()?);
    let mut told = false;
    loop {
        match runtime.run(&graph, &scope, &thread, Book::default(), RunOptions::default()).await {
            Ok(Outcome::Completed(book)) => {
                println!("{machine} is done: {}", book.chapters.join(", "));
                return Ok(());
            }
            Err(DurableError::Lease(LeaseError::Held { .. })) => {
                if !std::mem::replace(&mut told, true) {
                    println!("{machine} waits until the other has been silent for 2 s");
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            other => return Err(format!("{other:?}").into()),
        }
    }
}

fn start(machine: &str, url: &str) -> Result<(Child, impl Iterator<Item = String> + use<>), Box<dyn Error>> {
    // The address in the environment: arguments can be read by everybody on the machine.
    let mut command = Command::new(env::current_exe()?);
    command.args(["--machine", machine]).env("LONGHAUL_EXAMPLE_URL", url).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines().map_while(Result::ok);
    Ok((child, lines.inspect(|line| println!("{line}"))))
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(machine) = env::args().skip_while(|argument| argument != "--machine").nth(1) {
        let url = env::var("LONGHAUL_EXAMPLE_URL")?;
        return tokio::runtime::Runtime::new()?.block_on(work(machine, &url));
    }
    let cluster = if env::args().nth(1).is_none() { Some(PrivateCluster::start()?) } else { None };
    let url = match &cluster {
        Some(cluster) => cluster.create_database()?.url(),
        None => env::args().nth(1).ok_or("no address")?,
    };
    let (mut first, mut lines) = start("machine A", &url)?;
    lines.find(|line| line.contains("chapter 4")).ok_or("machine A ended before chapter 4")?;
    first.kill()?;
    first.wait()?;
    println!("machine A is killed in the middle of chapter 4");
    let (mut second, lines) = start("machine B", &url)?;
    lines.for_each(drop);
    if !second.wait()?.success() {
        return Err("machine B failed".into());
    }
    Ok(())
}

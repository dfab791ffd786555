//! An act that must not happen twice, and a process killed (SIGKILL) between the act and its receipt. Nobody can know
//! from the inside whether it happened. The next run does not guess: it asks the bank if it knows how, or a person.
//!
//! ```text
//! cargo run -p longhaul-durable --example payment_with_reconcile
//! ```
//!
//! `--store FOLDER` says where everything is recorded; the bank's book is `bank.txt` in it.

use std::{
    env,
    error::Error,
    fs::{self, OpenOptions},
    future,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use longhaul_core::{Ambient, TaskScope};
use longhaul_durable::{
    END, Effect, GraphBuilder, GraphState, MIGRATIONS, Outcome, Probed, RunOptions, Runtime, START, Settlement,
};
use longhaul_store::{Store, StoreSettings};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Order {
    name: String,
    receipt: String,
}

/// The outside world: a book to which somebody else's machine adds lines.
fn charge(bank: &Path, order: &str) -> std::io::Result<String> {
    writeln!(OpenOptions::new().create(true).append(true).open(bank)?, "{order} paid 42 EUR")?;
    Ok(format!("receipt of {order}"))
}

fn has_paid(bank: &Path, order: &str) -> bool {
    fs::read_to_string(bank).is_ok_and(|book| book.lines().any(|line| line.starts_with(order)))
}

/// Runs one order; `hang` never returns from the bank. With `probe` the step itself can ask the bank.
async fn run(folder: &Path, order: &str, probe: bool, hang: bool) -> Result<(Runtime, Outcome<Order>), Box<dyn Error>> {
    let bank = folder.join("bank.txt");
    let graph = GraphBuilder::<Order>::new("payment", 1)
        .node("pay", move |ctx, state| {
            let (bank, asked) = (bank.clone(), bank.clone());
            async move {
                let (order, name) = (state.name.clone(), state.name.clone());
                let work = async move {
                    let receipt = charge(&bank, &order)?;
                    if hang {
                        println!("charged");
                        future::pending::<()>().await;
                    }
                    Ok(receipt)
                };
                let ask = async move {
                    println!("  the step asks the bank about {name}");
                    let paid = has_paid(&asked, &name);
                    Ok(if paid { Probed::Happened(format!("receipt of {name}")) } else { Probed::DidNotHappen })
                };
                let receipt: String = if probe {
                    ctx.step_probed("charge", ask, work).await?
                } else {
                    ctx.step("charge", Effect::Once, work).await?
                };
                Ok(OrderUpdate::new().receipt(receipt))
            }
        })
        .edge(START, "pay")
        .edge("pay", END)
        .build()?;
    let store = Store::open(StoreSettings::new(folder), Ambient::system(), &[MIGRATIONS]).await?;
    let runtime = Runtime::new(store, Ambient::system());
    let initial = Order { name: order.into(), ..Order::default() };
    let outcome =
        runtime.run(&graph, &TaskScope::single_user(), &order.parse()?, initial, RunOptions::default()).await?;
    Ok((runtime, outcome))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let value = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1).cloned();
    let folder = value("--store").map_or_else(|| env::temp_dir().join("longhaul-payment"), PathBuf::from);
    fs::create_dir_all(&folder)?;
    if let Some(order) = value("--hang") {
        return run(&folder, &order, order == "order-2", true).await.map(drop);
    }
    let _ = fs::remove_file(folder.join("bank.txt"));
    for (order, probe) in [("order-1", false), ("order-2", true)] {
        let mut child = Command::new(env::current_exe()?)
            .args(["--hang", order, "--store"])
            .arg(&folder)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        child.kill()?;
        child.wait()?;
        println!("{order}: the card is {}, and the process killed before it can note that", line.trim());
        let (runtime, mut outcome) = run(&folder, order, probe, false).await?;
        if let Outcome::NeedsReconcile(pending) = &outcome {
            for effect in pending {
                println!("  the next run stops: nobody knows what became of {}", effect.step);
                println!("  a person looks into the bank's book and says that it happened");
                let happened = Settlement::Happened(json!(format!("receipt of {order}, seen by a person")));
                runtime.reconcile(&TaskScope::single_user().scope, &effect.step, happened).await?;
            }
            outcome = run(&folder, order, probe, false).await?.1;
        }
        let Outcome::Completed(paid) = outcome else { return Err(format!("{outcome:?}").into()) };
        println!("  completed with: {}", paid.receipt);
    }
    println!("the bank's book:\n{}", fs::read_to_string(folder.join("bank.txt"))?);
    Ok(())
}

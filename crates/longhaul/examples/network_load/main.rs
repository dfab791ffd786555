//! Load for a network over the HTTP contract, from the outside: against ours or the reference's server alike. One
//! request in flight for each sender, connections that stay open, client and server on the same cores.
//!
//! `cargo xtask bench network` builds and runs it against both. Every mode prints one JSON object.
//!
//! ```text
//! network_load direct  ADDRESS --senders 10 --events 2000      durable before the answer, each to one of ten receivers
//! network_load channel ADDRESS --senders 10 --members 10 --events 500   until every member has every post
//! network_load latency ADDRESS --events 500 [--pause-ms 5]     paced direct events, from just before the request
//! network_load idle    ADDRESS --agents 1000                   so many agents wait in a held poll; ends with its input
//! network_load fill    ADDRESS --events 1000000                posts, then how long the list of the channel takes
//! network_load acked   ADDRESS --file F                        sends until the server dies, and notes what it answered
//! network_load missed  ADDRESS --file F                        what of that never arrives, with the same secrets
//! network_load bare    DATABASE --rows 20000                   the log's rows again, ten a commit, by the bare driver
//! ```

mod bare;
mod client;
mod kill;
mod modes;

use std::{collections::BTreeMap, error::Error};

type Failure = Box<dyn Error + Send + Sync>;

/// `--name value` pairs of numbers, and `--file`.
struct Flags(BTreeMap<String, String>);

impl Flags {
    fn number(&self, name: &str, default: usize) -> Result<usize, Failure> {
        self.0.get(name).map_or(Ok(default), |text| text.parse().map_err(|_| format!("--{name} {text}").into()))
    }

    fn text(&self, name: &str) -> Result<&str, Failure> {
        self.0.get(name).map(String::as_str).ok_or_else(|| format!("--{name} is missing").into())
    }
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mode, place, rest @ ..] = args.as_slice() else { return Err("MODE ADDRESS, then flags".into()) };
    let mut flags = BTreeMap::new();
    for pair in rest.chunks(2) {
        let [name, value] = pair else { return Err(format!("{pair:?}: a value is missing").into()) };
        flags.insert(name.trim_start_matches("--").to_owned(), value.clone());
    }
    let flags = Flags(flags);
    if mode == "bare" {
        println!("{}", bare::measured(place, flags.number("rows", 20_000)?)?);
        return Ok(());
    }
    let address = place.trim_start_matches("http://").parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let figures = runtime.block_on(async {
        match mode.as_str() {
            "direct" => modes::direct(address, &flags).await,
            "channel" => modes::channel(address, &flags).await,
            "latency" => modes::latency(address, &flags).await,
            "idle" => modes::idle(address, &flags).await,
            "fill" => modes::fill(address, &flags).await,
            "acked" => kill::acked(address, &flags).await,
            "missed" => kill::missed(address, &flags).await,
            other => Err(format!("there is no mode {other}").into()),
        }
    })?;
    println!("{figures}");
    Ok(())
}

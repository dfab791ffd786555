//! Our side of `cargo xtask bench durable`: one program, a subcommand for each measurement, and one JSON object as the
//! last line of each. It measures; what the numbers must be is said by the bench that calls it.
//!
//! ```text
//! floor                          the disk alone
//! loop none|memory|sqlite N      supersteps one after another
//! threads T N                    T threads of N supersteps at once, SQLite
//! fanout N memory|sqlite         N tasks in one superstep
//! growth N                       a thread of N messages of 200 bytes
//! resume make|cold|warm DIR [T]  threads that wait for an answer
//! hello none|sqlite              the smallest program
//! flat none|sqlite N             resident memory over N supersteps
//! workload NAME                  one of LangGraph's own workloads
//! contention ROUNDS              two processes, one thread id
//! workers                        four workers on PostgreSQL against one
//! ```

mod contention;
mod floor;
mod growth;
mod hello;
mod loops;
mod measure;
mod place;
mod resume;
mod wide;
mod workers;
mod workloads;

use anyhow::{Context, bail};
use serde_json::Value;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().with_context(|| format!("{text} is not a number"));
    let answer: Value = match args.as_slice() {
        ["floor"] => floor::measure()?,
        ["loop", "sqlite", count] => loops::sqlite(number(count)?)?,
        ["loop", mode, count] => loops::plain(mode.parse()?, number(count)?)?,
        ["threads", threads, count] => loops::threads(number(threads)?, number(count)?)?,
        ["fanout", count, mode] => loops::fanout(number(count)?, mode.parse()?)?,
        ["growth", count] => growth::measure(number(count)?)?,
        ["resume", "make", dir] => resume::make(dir.as_ref())?,
        ["resume", "cold", dir, thread] => resume::cold(dir.as_ref(), number(thread)?)?,
        ["resume", "warm", dir] => resume::warm(dir.as_ref())?,
        ["hello", mode] => hello::once(mode.parse()?)?,
        ["flat", mode, count] => hello::flat(mode.parse()?, number(count)?)?,
        ["workload", name] => workloads::measure(name)?,
        ["contention", rounds] => contention::measure(number(rounds)?)?,
        ["contender", dir, name, rounds] => contention::contender(dir.as_ref(), name, number(rounds)?)?,
        ["workers"] => workers::measure()?,
        ["worker"] => workers::worker()?,
        _ => bail!("there is no such measurement: {}", args.join(" ")),
    };
    println!("{answer}");
    Ok(())
}

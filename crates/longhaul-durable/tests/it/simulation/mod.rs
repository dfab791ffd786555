//! Random graphs through the real runtime, in whose way something goes wrong at each commit in turn: the store dies, dies
//! again during recovery, commits without anybody hearing of it, the thread is taken away, the run is dropped or cancelled. Each must come to what an
//! undisturbed run comes to, do nothing that it need not do again, and list every act of unknown outcome.
//!
//! ```text
//! LONGHAUL_SIM_SEEDS=0..1000 LONGHAUL_SIM_POINTS=all cargo test -p longhaul-durable --test it simulation
//! LONGHAUL_SIM_SEEDS=17..18 LONGHAUL_SIM_HARM=death:7 cargo test -p longhaul-durable --test it simulation
//! ```

mod graphs;
mod play;
mod records;
mod world;

use std::{any::Any, collections::BTreeSet, ops::Range};

use futures::FutureExt as _;

use self::play::{Harm, Played, play};

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("LONGHAUL_SIM_SEEDS") else { return 0..200 };
    let (first, end) = text.split_once("..").expect("LONGHAUL_SIM_SEEDS=first..end");
    first.parse().unwrap()..end.parse().unwrap()
}

/// What is to go wrong in the graph of this seed, given how many commits and arrivals it takes. Everything, in every
/// two hundredth graph or with `LONGHAUL_SIM_POINTS=all`; else some.
fn harms(seed: u64, calm: &Played) -> Vec<Harm> {
    if let Ok(one) = std::env::var("LONGHAUL_SIM_HARM") {
        return vec![one.parse().unwrap()];
    }
    let all = seed % 200 == 7 || std::env::var_os("LONGHAUL_SIM_POINTS").is_some_and(|points| points == "all");
    let arrivals = calm.world.arrivals().len() as u64;
    let mut harms = Vec::new();
    for n in 0..calm.commits.max(arrivals) {
        let then = calm.world.pick(&format!("then {n}")) % 6;
        let at_commit = [Harm::Death(n), Harm::Deaths(n, then), Harm::Cut(n + 1)];
        let at_arrival = [Harm::Theft(n + 1), Harm::Drop(n + 1), Harm::Cancel(n + 1)];
        harms.extend(at_commit.into_iter().chain(at_arrival).filter(|harm| match harm {
            Harm::Theft(_) | Harm::Drop(_) | Harm::Cancel(_) => n < arrivals,
            Harm::None | Harm::Death(_) | Harm::Deaths(..) | Harm::Cut(_) => n < calm.commits,
        }));
    }
    if all {
        return harms;
    }
    let some = (0..3).map(|n| harms[(calm.world.pick(&format!("harm {n}")) % harms.len() as u64) as usize]);
    some.collect()
}

/// Everything that must be as in the undisturbed run.
fn compare(calm: &Played, harmed: &Played) {
    assert_eq!(harmed.world.wrong(), Vec::<String>::new());
    assert_eq!(harmed.unlisted, Vec::<String>::new(), "acts of unknown outcome that nobody was asked about");
    assert_eq!(harmed.log, calm.log);
    assert_eq!(harmed.history, calm.history);
    let acts = |of: &Played| of.world.times().into_keys().collect::<BTreeSet<_>>();
    assert_eq!(acts(harmed), acts(calm));
    let (records, expected) = (&harmed.records, &calm.records);
    assert_eq!(records.executions, 1);
    assert_eq!(
        (&records.steps, &records.rows, &records.waits, records.accepted),
        (&expected.steps, &expected.rows, &expected.waits, expected.accepted)
    );
    // Only what was being done when something went wrong may be done again.
    let (times, before) = (harmed.world.times(), calm.world.times());
    let most = |id: &str| before[id] + harmed.harmed as u32;
    let again: Vec<_> = times.iter().filter(|(id, times)| **times > most(id)).collect();
    assert!(again.is_empty(), "{again:?}");
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Runs `work`; a panic becomes a line that says how to see it again.
async fn told<T>(seed: u64, harm: Harm, work: impl Future<Output = T>) -> Result<T, String> {
    std::panic::AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| {
        let next = seed + 1;
        let again = format!("LONGHAUL_SIM_SEEDS={seed}..{next} LONGHAUL_SIM_HARM={harm}");
        format!("{}\n  again: {again} cargo test -p longhaul-durable --test it simulation", words(&*panic))
    })
}

/// Every second seed from `parity`.
async fn come_to_the_same(parity: u64) {
    let (mut failures, mut graphs, mut went_wrong, mut runs) = (Vec::new(), 0, 0, 0);
    for seed in seeds().filter(|seed| seed % 2 == parity) {
        if failures.len() >= 10 {
            break;
        }
        graphs += 1;
        let calm = match told(seed, Harm::None, play(seed, Harm::None)).await {
            Ok(calm) => calm,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        for harm in harms(seed, &calm) {
            runs += 1;
            let work = async {
                let harmed = play(seed, harm).await;
                compare(&calm, &harmed);
                harmed.harmed
            };
            match told(seed, harm, work).await {
                Ok(harmed) => went_wrong += u64::from(harmed > 0),
                Err(failure) => failures.push(failure),
            }
        }
    }
    println!("{graphs} graphs, {runs} runs, in {went_wrong} of which something went wrong");
    assert!(
        failures.is_empty(),
        "{} failures, after which no other graph was looked at: {failures:#?}",
        failures.len()
    );
    assert!(went_wrong * 10 >= runs * 7, "something went wrong in only {went_wrong} of {runs} runs");
}

#[tokio::test]
async fn graphs_whose_nodes_fail_come_to_the_same_whatever_goes_wrong() {
    come_to_the_same(0).await;
}

#[tokio::test]
async fn graphs_whose_nodes_succeed_come_to_the_same_whatever_goes_wrong() {
    come_to_the_same(1).await;
}

#[test]
fn what_goes_wrong_is_read_as_it_is_printed() {
    for harm in
        [Harm::None, Harm::Death(7), Harm::Deaths(7, 2), Harm::Cut(1), Harm::Theft(0), Harm::Drop(3), Harm::Cancel(4)]
    {
        assert_eq!(harm.to_string().parse(), Ok(harm));
    }
}

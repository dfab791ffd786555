//! Executions become cases, and cases are a gate: recorded without the program, replayed by it, refused when it changed.

use longhaul_durable::replay::Replayer;
use longhaul_store::StoreSettings;
use serde_json::Value;

use crate::{
    program::{Account, Ended},
    shop::{Shop, approval, approval_of, block_on},
};

/// Not a test by itself: the program that has the graph.
#[test]
fn the_program() {
    block_on(async { Replayer::new().graph(&approval()).serve_if_asked().await.unwrap() });
}

/// The same program after somebody has changed its graph.
#[test]
fn the_changed_program() {
    block_on(async { Replayer::new().graph(&approval_of(Some("eleven things"))).serve_if_asked().await.unwrap() });
}

fn run(account: &Account, args: &[&str], program: &str) -> Ended {
    let this = std::env::current_exe().unwrap();
    let program = ["--program", this.to_str().unwrap(), "--exact", program, "--nocapture"];
    account.run(&[args, &program].concat())
}

#[test]
fn a_recorded_execution_is_a_gate_for_the_program_that_ran_it() {
    let account = Account::new();
    block_on(async { Shop::open(StoreSettings::new(account.path("shop"))).await.ask("order-17").await });
    let none = account.run(&["eval", "run", "."]);
    assert_eq!(none.code, Some(2), "{none:?}");
    assert!(none.err.contains("there is no case in"), "{none:?}");

    let recorded = account.run(&["eval", "record", "order-17", "--to", "cases", "--store", "shop"]);
    assert_eq!((recorded.code, recorded.err.as_str()), (Some(0), ""), "{recorded:?}");
    assert!(recorded.out.contains("cases/post-order-17.json"), "{recorded:?}");
    let again = account.run(&["eval", "record", "order-17", "--to", "cases", "--store", "shop"]);
    assert_eq!(again.code, Some(2), "a case was overwritten: {again:?}");

    let criteria = account.run(&["eval", "run", "cases"]);
    assert_eq!(criteria.code, Some(0), "{criteria:?}");
    assert!(criteria.out.contains("1 of 1 case pass") && criteria.out.contains("only criteria"), "{criteria:?}");

    let same = run(&account, &["eval", "run", "cases"], "evaluating::the_program");
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(same.out.contains("1 steps stubbed"), "{same:?}");

    let args = ["eval", "run", "cases", "--report", "out.html", "--report", "out.md"];
    let changed = run(&account, &args, "evaluating::the_changed_program");
    assert_eq!(changed.code, Some(1), "{changed:?}");
    for part in ["payload /draft", "expected \"ten things\"", "found    \"eleven things\"", "0 of 1 case pass"] {
        assert!(changed.out.contains(part), "{part} is missing from:\n{}", changed.out);
    }
    for file in ["out.html", "out.md"] {
        let report = std::fs::read_to_string(account.path(file)).unwrap();
        assert!(report.contains("0 of 1 cases pass") && report.contains("eleven things"), "{report}");
    }
    let args = ["--json", "eval", "run", "cases"];
    let report: Value = serde_json::from_str(&run(&account, &args, "evaluating::the_changed_program").out).unwrap();
    assert_eq!(report["cases"][0]["difference"]["what"], "wait", "{report}");
}

#[test]
fn what_is_no_case_or_no_program_does_not_pass() {
    let account = Account::new();
    block_on(async { Shop::open(StoreSettings::new(account.path("shop"))).await.ask("order-17").await });
    let record = ["eval", "record", "order-17", "--to", "cases", "--store", "shop", "--name", "good"];
    let recorded = run(&account, &record, "evaluating::the_program");
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    let case: Value = serde_json::from_str(&std::fs::read_to_string(account.path("cases/good.json")).unwrap()).unwrap();
    assert!(case["final_state"]["notes"].is_array(), "{case}");
    account.write("cases/old.json", "{ \"longhaul_case\": 7 }");
    account.write("cases/torn.json", "{ \"longhaul");
    let mixed = run(&account, &["eval", "run", "cases"], "evaluating::the_program");
    assert_eq!(mixed.code, Some(1), "{mixed:?}");
    for part in ["the case file has version 7", "this is no case file", "1 of 3 cases pass"] {
        assert!(mixed.out.contains(part), "{part} is missing from:\n{}", mixed.out);
    }
    // A program that says nothing, one that is none, and one that never answers the protocol.
    for (program, expected) in [("/bin/true", "ended"), ("/bin/nothing-of-the-sort", "cannot be started")] {
        let ended = account.run(&["eval", "run", "cases/good.json", "--program", program]);
        assert_ne!(ended.code, Some(0), "{ended:?}");
        assert!(format!("{}{}", ended.out, ended.err).contains(expected), "{ended:?}");
    }
}

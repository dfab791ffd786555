//! Stores that are damaged, newer or out of space: told with what to do, and not touched.

use std::{fs, path::Path, process::Command};

use rusqlite::Connection;

use crate::program::{Account, Ended, embedding_model, in_view};

const DB: &str = "home/longhaul.db";
const STATUS: [&str; 5] = ["status", "--dir", ".", "--home", "home"];

/// An account whose home holds a store.
fn with_store() -> Account {
    let account = Account::new();
    assert_eq!(account.run(&STATUS).code, Some(2), "no project, but a store");
    // Into the file itself, whether or not the program's end came to it.
    let store = Connection::open(account.path(DB)).unwrap();
    store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(store);
    assert!(fs::metadata(account.path(DB)).unwrap().len() > 40_000);
    account
}

#[test]
fn a_damaged_store_is_kept_and_the_way_out_is_told() {
    let scrambled = |byte: usize| u8::try_from((byte * 7_919 + byte / 251) % 256).unwrap();
    for damage in ["scrambled", "scrambled inside", "cut"] {
        let account = with_store();
        let mut bytes = fs::read(account.path(DB)).unwrap();
        match damage {
            "scrambled" => bytes = (0..40_000).map(scrambled).collect(),
            "scrambled inside" => {
                for (place, byte) in bytes.iter_mut().enumerate().skip(100) {
                    *byte = scrambled(place);
                }
            }
            _ => bytes.truncate(6_000),
        }
        fs::write(account.path(DB), &bytes).unwrap();
        let _ = fs::remove_file(account.path("home/longhaul.db-wal")); // else it is healed from there
        let ended = account.run(&STATUS);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{damage}: {ended:?}");
        assert!(ended.err.contains("home/longhaul.db is damaged or is not a database"), "{damage}: {}", ended.err);
        assert!(ended.err.contains("keep a copy, then move it away"), "{damage}: {}", ended.err);
        assert!(!ended.err.contains("Error code"), "told twice: {}", ended.err);
        assert_eq!(fs::read(account.path(DB)).unwrap(), bytes, "{damage}: the file was touched");
    }
}

#[test]
fn a_store_of_a_newer_release_is_left_to_it() {
    let account = with_store();
    let changed = Connection::open(account.path(DB)).unwrap();
    assert_eq!(changed.execute("UPDATE schema_versions SET version = 99 WHERE component = 'memory'", []).unwrap(), 1);
    drop(changed);
    let ended = account.run(&STATUS);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.err.contains("was written by a newer longhaul (its memory tables have version 99"), "{}", ended.err);
    assert!(ended.err.contains("update longhaul, or choose another folder with LONGHAUL_HOME"), "{}", ended.err);
}

#[test]
fn a_full_disk_is_told_and_with_space_again_the_work_goes_on() {
    let account = Account::new();
    fs::create_dir(account.path("tiny")).unwrap();
    let tiny = account.path("tiny");
    // One view for all steps, because the tiny file system lives as long as it. The file in the way leaves 500 kB.
    let script = r#"
        init() { "$0" init "$REQUEST" --dir app --model cassette:demo --home tiny; echo "code $?"; }
        head -c 7500000 /dev/zero > tiny/in-the-way
        init
        rm tiny/in-the-way
        init"#;
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_longhaul")]).current_dir(account.root());
    shell.env("HOME", account.root()).env("PATH", std::env::var_os("PATH").unwrap()).env("LANG", "C.UTF-8");
    let demo = longhaul::Cassette::parse(longhaul::DEMO_CASSETTE, "the demo").unwrap();
    shell.env("REQUEST", demo.request().unwrap()).env("LONGHAUL_EMBEDDING_PATH", embedding_model());
    let view = [Path::new("--size"), Path::new("8000000"), Path::new("--tmpfs"), &tiny];
    let ended = Ended::of(in_view(&view, shell), account.root());
    if ended.err.starts_with("bwrap: ") || ended.err.contains("the sandbox does not start") {
        eprintln!("skipped: a sandbox within a sandbox is not possible here: {}", ended.err);
        return;
    }
    assert!(ended.err.contains("is full: nothing was half written; free some space, then repeat"), "{ended:?}");
    let codes: Vec<&str> = ended.out.lines().filter(|line| line.starts_with("code ")).collect();
    assert_eq!(codes, ["code 4", "code 0"], "{ended:?}");
    assert!(ended.out.contains("15 features planned"), "{ended:?}");
}

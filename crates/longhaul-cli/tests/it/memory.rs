//! `longhaul memory` as a new user meets it: nothing is set up, every command in the order in which it is wanted, and
//! what each says to input that makes no sense.

use serde_json::{Value, json};

use crate::program::{Account, Ended, embedding_model};

impl Account {
    /// A memory command that must succeed in silence on standard error; what it printed.
    fn memory(&self, args: &[&str]) -> String {
        let ended = self.run(&[&["memory"], args].concat());
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
        ended.out
    }

    fn memory_json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.memory(&[args, &["--json"]].concat())).unwrap()
    }

    /// Remembers; the id.
    fn remember(&self, args: &[&str]) -> String {
        let added = self.memory_json(&[&["add"], args].concat());
        added["id"].as_str().unwrap().to_owned()
    }

    fn found(&self, args: &[&str]) -> Vec<String> {
        let recall = self.memory_json(&[&["search"], args].concat());
        let hits = recall["hits"].as_array().unwrap();
        hits.iter().map(|hit| hit["item"]["content"].as_str().unwrap().to_owned()).collect()
    }

    /// A memory command that must be refused: code 2, this on standard error, nothing on standard output.
    fn refused(&self, args: &[&str], said: &str) {
        let ended = self.run(&[&["memory"], args].concat());
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{args:?}: {ended:?}");
        assert!(ended.err.contains(said), "{args:?} should say {said:?}: {}", ended.err);
    }
}

fn with_input(account: &Account, args: &[&str], input: &[u8]) -> Ended {
    use std::{io::Write, process::Stdio};
    let mut command = account.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that refuses early closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(input);
    Ended::of(child.wait_with_output().unwrap(), account.root())
}

#[test]
fn a_new_user_remembers_finds_corrects_and_forgets() {
    let account = Account::new();
    let told = account.memory(&["add", "Ada prefers tea", "--kind", "preference", "--tag", "ada"]);
    assert!(told.starts_with("✓ remembered mem_"), "{told}");
    // Nothing has been set up: it says so, and works by words.
    assert!(told.contains("found by its words alone") && told.contains("longhaul setup"), "{told}");
    let server = account.remember(&["The staging server is called moss", "--meta", "severity=3"]);
    let found = account.memory(&["search", "what does Ada prefer?"]);
    assert!(found.contains("Ada prefers tea") && found.contains("preference") && found.contains("#ada"), "{found}");
    assert!(found.contains("1 of 2 memories · by words") && found.contains("not by meaning: "), "{found}");

    account.memory(&["edit", &server, "The staging server is called fern", "--meta", "severity=5", "--tag", "ops"]);
    assert_eq!(account.found(&["staging server"]), ["The staging server is called fern"]);
    assert!(account.found(&["moss"]).is_empty());
    let shown = account.memory(&["get", &server]);
    for part in ["The staging server is called fern\n\n", "severity\":5", "tags         ops", "happened     20"] {
        assert!(shown.contains(part), "{part} is missing from {shown}");
    }
    account.memory(&["pin", &server]);
    assert_eq!(account.memory_json(&["get", &server])["pinned"], json!(true));
    account.memory(&["unpin", &server]);
    assert!(account.memory(&["list"]).contains("Ada prefers tea"));
    let stats = account.memory_json(&["stats"]);
    assert_eq!(stats["namespaces"][0]["memories"], json!(2));
    assert_eq!(stats["namespaces"][0]["kinds"], json!({ "note": 1, "preference": 1 }));

    // Nobody is there to ask: nothing goes without --yes.
    account.refused(&["forget", "--tag", "ada"], "1 memory would be erased for good");
    assert!(account.memory(&["forget", "--tag", "ada", "--dry-run"]).contains("Ada prefers tea"));
    assert_eq!(account.found(&["tea"]).len(), 1);
    assert!(account.memory(&["forget", "--tag", "ada", "--yes"]).contains("1 memory erased for good"));
    assert!(account.found(&["tea"]).is_empty());
    assert_eq!(account.memory(&["forget", "--tag", "ada", "--yes"]), "no memories like that; nothing was forgotten\n");
}

#[test]
fn filters_choose_by_time_metadata_kind_thread_and_namespace() {
    let account = Account::new();
    account.remember(&["login fails on Safari", "--happened", "yesterday", "--meta", "severity=4", "--thread", "bugs"]);
    account.remember(&[
        "login fails on Firefox",
        "--happened",
        "2020-02-03",
        "--meta",
        "severity=2",
        "--kind",
        "lesson",
    ]);
    account.remember(&["login is green", "-n", "design"]);
    let found = |args: &[&str]| account.found(&[&["login"], args].concat());
    assert_eq!(found(&["--when", "yesterday"]), ["login fails on Safari"]);
    assert_eq!(found(&["--when", "昨天"]), ["login fails on Safari"]);
    assert_eq!(found(&["--when", "2020-01..2020-03"]), ["login fails on Firefox"]);
    assert_eq!(found(&["--until", "2020"]), ["login fails on Firefox"]);
    assert_eq!(found(&["--since", "7d"]), ["login fails on Safari"]);
    assert_eq!(found(&["--where", "severity>=3"]), ["login fails on Safari"]);
    assert_eq!(found(&["--where", "severity=[2,9]"]), ["login fails on Firefox"]);
    assert_eq!(found(&["--kind", "lesson"]), ["login fails on Firefox"]);
    assert_eq!(found(&["--thread", "bugs"]), ["login fails on Safari"]);
    assert_eq!(found(&["-n", "design"]), ["login is green"]);
    assert_eq!(found(&["-n", "design", "-n", "main"]).len(), 3);
    let explained = account.memory(&["search", "login", "--explain", "-k", "1"]);
    assert!(explained.contains("importance") && explained.contains("decay"), "{explained}");
}

#[test]
fn what_is_exported_comes_back_exactly_and_importing_twice_changes_nothing() {
    let account = Account::new();
    account.remember(&["侧栏有新建会话按钮", "--tag", "界面", "--meta", "n=3", "--importance", "0.7", "--pin"]);
    account.remember(&["Ada lives in Lyon", "--subject", "ada", "--attribute", "home town", "--valid-from", "2024-05"]);
    account.remember(&["gone in a year", "--expires", "365d", "--thread", "a b", "-n", "other", "--index", "words"]);
    account.memory(&["export", "all.jsonl"]);
    let imported = account.memory_json(&["import", "all.jsonl", "--store", "copy"]);
    assert_eq!((&imported["written"], &imported["refused"]), (&json!(3), &json!(0)), "{imported}");
    account.memory(&["export", "again.jsonl", "--store", "copy"]);
    let lines = |file: &str| {
        let text = std::fs::read_to_string(account.path(file)).unwrap();
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines("all.jsonl").len(), 3);
    assert_eq!(lines("all.jsonl"), lines("again.jsonl"));
    let twice = account.memory_json(&["import", "all.jsonl", "--store", "copy"]);
    assert_eq!((&twice["written"], &twice["already"]), (&json!(0), &json!(3)), "{twice}");
    // A copy beside the original needs ids of its own, which are the same each time.
    for written in [3, 0] {
        let copied = account.memory_json(&["import", "all.jsonl", "--into", "copy", "--new-ids"]);
        assert_eq!(copied["written"], json!(written), "{copied}");
    }
    let taken = account.run(&["memory", "import", "all.jsonl", "--into", "third"]);
    assert_eq!(taken.code, Some(3), "{taken:?}");
    assert!(taken.out.contains("line 2 has the id mem_") && taken.out.contains("import with new ids"), "{}", taken.out);
    account.refused(&["export", "all.jsonl"], "there is such a file already");
}

#[test]
fn the_exports_of_others_are_taken_and_bad_lines_are_told() {
    let account = Account::new();
    account.write(
        "mem0.json",
        r#"{"results": [
        {"id": "1", "memory": "Prefers morning meetings", "categories": ["work"], "created_at": "2026-02-03T04:05:06Z"},
        {"id": "2", "memory": "Leads the API redesign", "metadata": {"type": "project"}}]}"#,
    );
    let imported = account.memory_json(&["import", "mem0.json", "--kind", "fact"]);
    assert_eq!(imported["written"], json!(2), "{imported}");
    assert_eq!(account.found(&["meetings", "--tag", "work", "--when", "2026-02"]), ["Prefers morning meetings"]);
    assert_eq!(account.found(&["redesign", "--where", "type=project"]), ["Leads the API redesign"]);

    account.write(
        "lines.jsonl",
        "{\"text\": \"one good line\"}\nnonsense\n{\"text\": \"\"}\n{\"nothing\": 1}\n\"another good line\"\n",
    );
    let mixed = account.run(&["memory", "import", "lines.jsonl"]);
    assert_eq!((mixed.code, mixed.err.as_str()), (Some(3), ""), "{mixed:?}");
    for part in [
        "2 memories written",
        "3 not taken",
        "line 2 is not JSON",
        "line 3 cannot be taken: a memory needs some text",
        "line 4 has no text",
    ] {
        assert!(mixed.out.contains(part), "{part} is missing from {}", mixed.out);
    }
    account.refused(&["import", "lines.jsonl", "--strict"], "line 2 is not JSON");
    account.refused(&["import", "missing.jsonl"], "cannot read missing.jsonl");
    account.write("broken.json", "[\n{\"text\": \"a\"},\n");
    account.refused(&["import", "broken.json"], "the file breaks off");
    account.write("newer.jsonl", "{\"format\":\"longhaul-memory\",\"v\":9,\"exported_at\":0}\n");
    account.refused(&["import", "newer.jsonl"], "version 9");
}

#[test]
fn other_users_and_tenants_see_nothing_without_a_grant() {
    let account = Account::new();
    let id = account.remember(&["the vault is behind the picture", "-n", "secrets"]);
    let ada = ["--user", "user_ada"];
    account.refused(&["search", "vault", "-n", "secrets", ada[0], ada[1]], "belongs to user_default");
    account.refused(&["add", "x", "-n", "secrets", ada[0], ada[1]], "ask for a grant");
    account.refused(&["get", &id, ada[0], ada[1]], "no memory mem_");
    account.refused(&["edit", &id, "gone", ada[0], ada[1]], "no memory mem_");
    account.refused(&["forget", &id, "--yes", ada[0], ada[1]], "no memory mem_");
    account.refused(&["export", "-", "-n", "secrets", ada[0], ada[1]], "belongs to user_default");
    account.refused(&["grants", "give", "secrets", "user_ada", ada[0], ada[1]], "belongs to user_default");
    account.memory(&["grants", "give", "secrets", "user_ada"]);
    assert_eq!(account.found(&["vault", "-n", "secrets", ada[0], ada[1]]).len(), 1);
    account.refused(&["edit", &id, "gone", ada[0], ada[1]], "no memory mem_");
    account.memory(&["grants", "take", "secrets", "user_ada"]);
    account.refused(&["search", "vault", "-n", "secrets", ada[0], ada[1]], "belongs to user_default");
    // Another tenant: as if it were not there.
    account.refused(&["get", &id, "--tenant", "tenant_other"], "no memory mem_");
    assert!(account.found(&["vault", "-n", "secrets", "--tenant", "tenant_other"]).is_empty());
    assert!(account.memory(&["grants"]).contains("secrets"));
}

#[test]
fn wrong_input_says_what_would_be_right() {
    let account = Account::new();
    let id = account.remember(&["something", "--meta", "session=3"]);
    account.refused(&["add", "  "], "a memory needs some text");
    account.refused(&["add", "x", "--kind", "thought"], "one of progress commit");
    account.refused(&["add", "x", "--importance", "7"], "a number from 0 to 1");
    account.refused(&["add", "x", "--happened", "soonish"], "\"soonish\" is no time; write 7d");
    account.refused(&["add", "x", "--expires", "yesterday"], "it is over");
    account.refused(&["add", "x", "--meta", "three"], "write key=value");
    account.refused(&["add", "x", "--subject", "ada"], "both --subject and --attribute");
    account.refused(&["add", "x", "-n", "Not A Name"], "namespace");
    account.refused(&["add", "x", "--collection", "No!"], "collection");
    account.refused(&["search", " "], "search");
    account.refused(&["search", "x", "-k", "0"], "from 1 to 200");
    account.refused(&["search", "x", "--where", "colour=red"], "session");
    account.refused(&["search", "x", "--where", "=red"], "the key is missing");
    account.refused(&["search", "x", "--when", "2026-11..2026-10"], "it ends before it begins");
    account.refused(&["search", "x", "--store", "nowhere"], "there is no store in nowhere");
    account.refused(&["get", "mem_none"], "no memory mem_none can be seen here");
    account.refused(&["get", "nonsense"], "`mem_`");
    account.refused(&["edit", &id], "nothing to change");
    account.refused(&["forget"], "say what to forget");
    account.refused(&["pin", "mem_none"], "no memory mem_none");
    account.refused(&["migrate", "--to", "http://user:secret@host"], "an address holds no user");
    account.refused(&["list", "--after", "nonsense"], "after");
    let huge = with_input(&account, &["memory", "add"], &vec![b'x'; 10_000_000]);
    assert_eq!(huge.code, Some(2), "{}", huge.err);
    assert!(huge.err.contains("10000000 bytes is over the limit of 65536"), "{}", huge.err);
    let binary = with_input(&account, &["memory", "add", "-"], b"\xff\xfe\x00\x01");
    assert_eq!(binary.code, Some(2), "{}", binary.err);
    assert!(binary.err.contains("not UTF-8 text"), "{}", binary.err);
    // Machines get the same as an object.
    let machine = account.run(&["memory", "get", "mem_none", "--json"]);
    let object: Value = serde_json::from_str(&machine.out).unwrap();
    assert_eq!((machine.code, &object["error"]["exit"]), (Some(2), &json!(2)));
}

#[test]
fn with_the_model_a_memory_is_found_by_its_meaning() {
    let account = Account::new();
    let run = |args: &[&str]| {
        let mut command = account.command(&[&["memory"], args].concat());
        command.env("LONGHAUL_EMBEDDING_PATH", embedding_model());
        let ended = Ended::of(command.output().unwrap(), account.root());
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}: {ended:?}");
        ended.out
    };
    account.write(
        "texts.jsonl",
        "{\"text\":\"JWT refresh token rotation\"}\n{\"text\":\"The cafeteria closes at two\"}\n",
    );
    run(&["import", "texts.jsonl"]);
    let found = run(&["search", "user authentication", "-k", "1"]);
    assert!(found.contains("JWT refresh token rotation") && found.contains("by words and meaning"), "{found}");
    let stats: Value = serde_json::from_str(&run(&["stats", "--json"])).unwrap();
    assert_eq!(stats["namespaces"][0]["unembedded"], json!(0));
    run(&["export", "vectors.jsonl", "--with-vectors"]);
    // The vectors come along: nothing is left to embed.
    run(&["import", "vectors.jsonl", "--store", "copy", "--no-index"]);
    let stats: Value = serde_json::from_str(&run(&["stats", "--store", "copy", "--json"])).unwrap();
    assert_eq!(stats["namespaces"][0]["unembedded"], json!(0), "{stats}");
}

#[test]
fn a_fact_replaces_an_older_one_and_both_times_can_be_asked_for() {
    let account = Account::new();
    let fact = |text: &str, since: &str| {
        account.remember(&[text, "--subject", "ada", "--attribute", "home town", "--valid-from", since])
    };
    fact("Ada lives in Lyon", "2019");
    fact("Ada lives in Porto", "2024-05");
    let asked = |args: &[&str]| account.found(&[&["where does Ada live"], args].concat());
    assert_eq!(asked(&[]), ["Ada lives in Porto"]);
    assert_eq!(asked(&["--as-of", "2020"]), ["Ada lives in Lyon"]);
    assert_eq!(asked(&["--history"]).len(), 2);
    assert!(asked(&["--known-at", "2020"]).is_empty());
    let shown = account.memory(&["search", "where does Ada live", "--history"]);
    assert!(shown.contains("superseded"), "{shown}");
    assert!(account.memory(&["forget", "--subject", "ada", "--yes"]).contains("2 memories erased for good"));
}

#[test]
fn cold_memories_are_found_exported_and_erased_like_others() {
    let account = Account::new();
    account.remember(&["the printer jams"]);
    account.remember(&["the printer's contract ends in May", "--pin"]);
    assert!(account.memory(&["tiers"]).contains("nothing becomes cold by itself"));
    account.refused(&["tiers", "move"], "no rule says what becomes cold");
    let moved = account.memory_json(&["tiers", "move", "--unused-days", "0"]);
    assert_eq!(moved["memories"], json!(1), "{moved}");
    let found = account.memory(&["search", "printer"]);
    assert!(found.contains("cold") && found.contains("the printer jams") && found.contains("contract"), "{found}");
    assert_eq!(account.found(&["printer", "--tier", "hot"]), ["the printer's contract ends in May"]);
    account.memory(&["export", "all.jsonl"]);
    let exported = std::fs::read_to_string(account.path("all.jsonl")).unwrap();
    assert_eq!(exported.lines().count(), 3, "{exported}");
    let erased = account.memory(&["forget", "--query", "printer", "--yes"]);
    for part in ["2 memories erased for good", "erasure_", "1 rows", "1 cold rows", "not covered: backups"] {
        assert!(erased.contains(part), "{part} is missing from {erased}");
    }
    assert!(account.found(&["printer"]).is_empty());
    account.memory(&["compact"]);
    account.memory(&["tiers", "tend"]);
}

#[test]
fn a_person_sees_and_changes_what_is_known_of_them() {
    let account = Account::new();
    assert!(account.memory(&["user"]).contains("nothing is remembered of you yet"));
    account.memory(&["user", "add", "Prefers short answers"]);
    account.memory(&["user", "add", "Lives in Lyon"]);
    let known = account.memory(&["user"]);
    assert!(known.contains("Prefers short answers") && known.contains("Lives in Lyon"), "{known}");
    account.memory(&["user", "replace", "short answers", "Prefers short answers with an example"]);
    let versions = account.memory(&["user", "history"]);
    assert!(versions.contains("Prefers short answers with an example"), "{versions}");
    account.memory(&["user", "rollback", "2"]);
    let known = account.memory_json(&["user"]);
    assert_eq!(known["entries"].as_array().unwrap().len(), 2, "{known}");
    assert!(!known.to_string().contains("with an example"), "{known}");
    assert!(account.memory(&["user", "proposals"]).contains("nothing is proposed"));
    account.memory(&["user", "implicit-off"]);
    assert!(account.memory(&["user"]).contains("nothing is learned from conversations"));
    account.refused(&["user", "remove", "no such words"], "no such words");
    account.refused(&["user", "accept", "prop_none"], "prop_none");
    account.refused(&["user", "rollback", "99"], "99");
}

#[test]
fn an_evaluation_says_how_well_questions_are_answered() {
    let account = Account::new();
    account.remember(&["Ada prefers tea"]);
    account.remember(&["The staging server is called moss"]);
    account.write(
        "questions.jsonl",
        "{\"question\": \"what does Ada prefer\", \"expect\": [\"prefers tea\"]}\n\n\
         {\"question\": \"staging server\", \"expect\": [\"moss\", \"nowhere written\"]}\n",
    );
    let done = account.memory_json(&["eval", "questions.jsonl"]);
    assert_eq!((&done["recall"]["1"], &done["mean_reciprocal_rank"]), (&json!(0.75), &json!(1.0)), "{done}");
    let told = account.memory(&["eval", "questions.jsonl"]);
    assert!(told.contains("R@10 75.0") && told.contains("line 3: staging server"), "{told}");
    assert!(told.contains("not found: nowhere written"), "{told}");
    account.write("wrong.jsonl", "{\"question\": \"x\"}\n");
    account.refused(&["eval", "wrong.jsonl"], "wrong.jsonl:1: missing field `expect`");
    account.refused(&["eval", "missing.jsonl"], "cannot read missing.jsonl");
}

#[test]
fn every_command_explains_itself() {
    let account = Account::new();
    let help = account.run(&["memory", "--help"]);
    for part in ["add", "search", "forget", "export", "Examples:", "Times:", "先週", "docs/memory.md"] {
        assert!(help.out.contains(part), "{part} is missing from:\n{}", help.out);
    }
    for command in [
        "add", "search", "get", "list", "edit", "forget", "pin", "stats", "export", "import", "index", "eval", "grants",
    ] {
        let help = account.run(&["memory", command, "--help"]);
        assert_eq!((help.code, help.err.as_str()), (Some(0), ""), "{command}");
        let widest = help.out.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 100, "{command}: {widest}");
    }
}

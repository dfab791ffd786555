//! Any id is explained, and nothing is changed by that.

use longhaul_store::StoreSettings;
use rusqlite::Connection;
use serde_json::Value;

use crate::{
    program::{Account, Ended},
    shop::{Shop, block_on},
};

fn explain(account: &Account, id: &str, more: &[&str]) -> Ended {
    account.run(&[&["explain", id, "--store", "shop"], more].concat())
}

fn stored(account: &Account) -> Vec<String> {
    let database = Connection::open(account.path("shop/longhaul.db")).unwrap();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let tables: Vec<String> =
        database.prepare(tables).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut all = Vec::new();
    for table in tables {
        let mut rows = database.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let cells = (0..columns).map(|column| format!("{:?}", row.get_ref(column).unwrap()));
            all.push(format!("{table}: {}", cells.collect::<Vec<_>>().join(" ")));
        }
    }
    all
}

#[test]
fn an_execution_its_steps_waits_and_events_are_explained_and_left_alone() {
    let account = Account::new();
    let wait = block_on(async { Shop::open(StoreSettings::new(account.path("shop"))).await.ask("order-17").await });
    let before = stored(&account);

    let thread = explain(&account, "order-17", &[]);
    assert_eq!((thread.code, thread.err.as_str()), (Some(0), ""), "{thread:?}");
    for part in [
        "thread order-17",
        "belongs to  tenant_default, user_default",
        "graph       post 1 (shape ",
        "status      waiting",
        "0: the initial state",
        "draft/1/write#1 (pure)",
        "1: draft",
        "approval \"publish this post?\", still open",
        &format!("\n{:22}{wait}\n", ""),
        "resumes at superstep 2: ask",
        "runs again: its nodes, from their top",
        &format!("waits for \"publish this post?\": longhaul approve {wait} --store shop"),
    ] {
        assert!(thread.out.contains(part), "{part} is missing from:\n{}", thread.out);
    }
    let order = |text: &str| thread.out.find(text).unwrap();
    assert!(order("0: the initial state") < order("draft/1/write#1 (pure)"));
    assert!(order("draft/1/write#1 (pure)") < order(" 1: draft"));
    assert!(order(" 1: draft") < order("still open"));

    let object: Value = serde_json::from_str(&explain(&account, "order-17", &["--json"]).out).unwrap();
    let fact = |name: &str| {
        let facts = object["facts"].as_array().unwrap();
        facts.iter().find(|fact| fact["name"] == name).unwrap()["value"].as_str().unwrap().to_owned()
    };
    let execution = fact("execution");
    let event = object["story"].as_array().unwrap().iter().find(|line| line["kind"] == "event").unwrap();
    let event = event["id"].as_str().unwrap();
    let step = format!("{execution}/draft/1/write#1");
    for (id, parts) in [
        (execution.as_str(), &["execution exec_", "resumes at superstep 2: ask"][..]),
        (&step, &["step 1 of draft, superstep 1", "\"ten things\"", "this result is returned and nothing is run"]),
        (&wait, &["wait wait_", "publish this post?", "{\"draft\":\"ten things\"}", "longhaul reject wait_"]),
        (event, &["event evt_", "execution   exec_", "number"]),
        ("task_default", &["task task_default", "post of order-17 begins, now waiting"]),
        ("sess_default", &["session sess_default", "post of order-17 begins, now waiting"]),
        ("trace_default", &["trace trace_default", "post of order-17 begins, now waiting"]),
    ] {
        let told = explain(&account, id, &[]);
        assert_eq!((told.code, told.err.as_str()), (Some(0), ""), "{id}: {told:?}");
        for part in parts {
            assert!(told.out.contains(part), "{part} is missing from:\n{}", told.out);
        }
    }
    for id in ["rec_1", "mem_1", "verdict_1", "evt_1", "wait_1", "exec_1", "exec_1/a/1/b#1", "trace_1", "no such", "x"]
    {
        let unknown = explain(&account, id, &[]);
        assert_eq!((unknown.code, unknown.out.as_str()), (Some(2), ""), "{unknown:?}");
        assert!(
            unknown.err.contains(&format!("nothing in shop is called {id:?}: looked for executions")),
            "{id}: {}",
            unknown.err
        );
        assert!(unknown.err.contains("verdicts (verdict_…), tenants, users and threads"), "{}", unknown.err);
    }
    for looking in [&["executions"][..], &["waits"], &["store", "verify"], &["retry", "order-17"]] {
        account.run(&[looking, &["--store", "shop"]].concat());
    }
    assert_eq!(stored(&account), before, "looking changed something");
}

#[test]
fn a_long_story_is_told_from_its_end() {
    let account = Account::new();
    block_on(async { Shop::open(StoreSettings::new(account.path("shop"))).await.ask("order-17").await });
    let told = explain(&account, "order-17", &["--limit", "2"]);
    assert!(told.out.contains("earlier things are left out"), "{}", told.out);
    assert!(!told.out.contains("the initial state"), "{}", told.out);
}

#[test]
fn what_a_project_has_recorded_is_explained_from_the_homes_own_store() {
    let account = Account::new();
    assert_eq!(account.run(&["status", "--dir", ".", "--home", "home"]).code, Some(2), "no project, but a store");
    let database = Connection::open(account.path("home/longhaul.db")).unwrap();
    database
        .execute_batch(
            "INSERT INTO tenants VALUES ('tenant_default', 'me', 1);
             INSERT INTO users VALUES ('tenant_default', 'user_default', 1);
             INSERT INTO sessions VALUES ('tenant_default', 'sess_1', 'user_default', 1000);
             INSERT INTO tasks VALUES ('tenant_default', 'task_1', 'user_default', 'sess_1', 'project_1', 'trace_1',
                 'harness', 'a recipe book', '/tmp/recipes', 'openai:x', '{}', 1000, 2000);
             INSERT INTO records (tenant_id, record_id, user_id, session_id, task_id, trace_id, seq, collection, kind,
                 version, media_type, summary, source, meta, digest, size, place, created_at, parts, schema)
             VALUES ('tenant_default', 'rec_1', 'user_default', 'sess_1', 'task_1', 'trace_1', 1, 'evidence', 'picture',
                 1, 'image/png', 'the first page', 'verifier', '{}', 'sha256:00', 12, 'blob', 3000, 0, 2);
             INSERT INTO links (tenant_id, source_id, relation, target_id, user_id, created_at)
             VALUES ('tenant_default', 'verdict_1', 'shows', 'rec_1', 'user_default', 4000);
             INSERT INTO verdicts VALUES ('tenant_default', 'task_1', 'verdict_1', 'F01', 1, 'claim', 1, 'abc', 'def',
                 'hash', '{}', 5000, 1);
             INSERT INTO memories (tenant_id, namespace, seq, change_seq, memory_id, v, user_id, task_id, collection, kind,
                 source, content, meta, tags, importance, pinned, indexed, created_at, happened_at)
             VALUES ('tenant_default', 'main', 1, 1, 'mem_1', 2, 'user_default', 'task_1', 'lessons', 'lesson', 'session 1',
                 '豆腐 needs pressing', '{}', '[]', 0.5, 0, 3, 6000, 6000)",
        )
        .unwrap();
    drop(database);
    for (id, parts) in [
        ("rec_1", &["record rec_1", "task        task_1", "the first page", "is what it shows verdict_1"][..]),
        ("verdict_1", &["verdict verdict_1", "feature     F01", "passed      1", "shows       rec_1"]),
        ("mem_1", &["memory mem_1", "content     豆腐 needs pressing"]),
        ("task_1", &["task task_1", "title       a recipe book", "records     1", "memories    1", "verdicts    1"]),
        ("sess_1", &["session sess_1", "task        task_1 a recipe book"]),
    ] {
        let told = account.run(&["explain", id, "--home", "home"]);
        assert_eq!((told.code, told.err.as_str()), (Some(0), ""), "{id}: {told:?}");
        for part in parts {
            assert!(told.out.contains(part), "{part} is missing from:\n{}", told.out);
        }
        assert_eq!(account.run(&["explain", id, "--home", "home", "--user", "user_other"]).code, Some(2), "{id}");
    }
    // What the record's content should be is not there: that is told, and nothing else is.
    let verified = account.run(&["store", "verify", "--home", "home", "--json"]);
    let object: Value = serde_json::from_str(&verified.out).unwrap();
    assert!(!object["findings"].to_string().contains("could not be looked at: the statement"), "{object}");
}

//! Flows without a page: files, tables, citations. No browser is started for them. Commands run in the sandbox and are
//! tested where one is built: in the harness's own suite.

use std::{fs, path::Path};

use longhaul_harness::{
    checks::parse_feature_checks,
    verifier::{Limits, NoApplication, Verifier, VerifyError, Workbench},
};
use serde_json::{Value, json};

fn put(folder: &Path, path: &str, content: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// What the verifier says of one check; empty when it holds.
async fn said(folder: &Path, check: Value) -> String {
    let mut check = check;
    check["step"] = json!(1);
    let checks = json!([check]);
    let steps = vec!["sentence 1".to_owned()];
    let flow = match parse_feature_checks(&checks, &steps) {
        Ok(checks) => longhaul_harness::verifier::Flow { feature: "F01".parse().unwrap(), steps, checks },
        Err(error) => return format!("not planned: {error}"),
    };
    assert!(!flow.needs_browser() && !flow.needs_app());
    let verifier = Verifier::without_browser().with_workbench(Workbench::of_files(folder));
    let verdict = verifier.verify(&flow, &mut NoApplication, &Limits::default()).await.unwrap();
    assert_eq!(verdict.browser(), "none");
    verdict.failure().map(|failure| failure.reason.clone()).unwrap_or_default()
}

async fn all(folder: &Path, cases: Vec<(Value, &str)>) {
    let mut wrong = Vec::new();
    for (check, expected) in cases {
        let reason = said(folder, check.clone()).await;
        let right = if expected.is_empty() { reason.is_empty() } else { reason.contains(expected) };
        if !right {
            wrong.push(format!("{check}\n  expected {expected:?}\n  said     {reason:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn files_are_there_and_hold_what_they_must() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "out/report.md", "# Report\nTotal: 42 EUR\n");
    put(folder.path(), "out/a.json", r#"{"totals": {"assets": 100.0}, "items": [{"name": "Kasse"}]}"#);
    put(folder.path(), "out/a.yaml", "totals:\n  assets: 100\nitems:\n  - name: 현금\n");
    put(folder.path(), "out/broken.json", "{");
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("out/link")).unwrap();
    let file = |more: Value| {
        let mut check = json!({"check": "file"});
        check.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        check
    };
    all(
        folder.path(),
        vec![
            (file(json!({"path": "out/report.md"})), ""),
            (file(json!({"path": "out/report.md", "contains": "42", "matches": r"Total: \d+ EUR"})), ""),
            (
                file(json!({"path": "out/report.md", "contains": "43"})),
                "out/report.md: \"43\" is not in it; it begins \"# Report",
            ),
            (file(json!({"path": "out/none.md"})), "there is no out/none.md"),
            (file(json!({"path": "out/a.json", "at": "totals.assets", "equals": 100})), ""),
            (file(json!({"path": "out/a.json", "at": "items[0].name", "equals": "Kasse"})), ""),
            (
                file(json!({"path": "out/a.json", "at": "totals.assets", "equals": 101})),
                "has 100.0 at \"totals.assets\", expected 101",
            ),
            (
                file(json!({"path": "out/a.json", "at": "items[1].name", "equals": ""})),
                "has nothing at \"items[1].name\"",
            ),
            (file(json!({"path": "out/a.yaml", "at": "items[0].name", "equals": "현금"})), ""),
            (file(json!({"path": "out/broken.json", "at": "a", "equals": 1})), "is not JSON"),
            (file(json!({"path": "out/link", "contains": "root"})), "symbolic link"),
            (file(json!({"path": "../secret"})), "not planned: checks[0].path: must be a path in the project's folder"),
            (file(json!({"path": "out/none.md", "exists": false})), "not planned: checks: never look at the screen"),
            (file(json!({"path": "a", "matches": "("})), "not planned: checks[0].matches: is not a regular expression"),
            (file(json!({"path": "a", "at": "x"})), "not planned: checks[0]: needs both at and equals"),
        ],
    )
    .await;
}

#[tokio::test]
async fn tables_hold_their_invariants() {
    let folder = tempfile::tempdir().unwrap();
    put(
        folder.path(),
        "balance.csv",
        "year,assets,liabilities,equity,opening,closing,Net income\r\n2024,\"1,000.00\",600,400,0,120,120\r\n2025,1500,800,700,120,300,180\r\n2026,$90,(10),100,300,250,-50\r\n",
    );
    put(folder.path(), "wrong.csv", "year,assets,liabilities,equity\n2024,1000,600,400\n2025,1500,800,701\n");
    put(folder.path(), "ragged.csv", "a,b\n1\n");
    put(folder.path(), "quoted.csv", "name,note\n\"Kim, Minsu\",\"said \"\"yes\"\"\nand left\"\n");
    let table = |path: &str, more: Value| {
        let mut check = json!({"check": "table", "path": path});
        check.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        check
    };
    all(
        folder.path(),
        vec![
            (table("balance.csv", json!({"columns": ["year", "equity"], "rows": 3})), ""),
            (table("balance.csv", json!({"formula": "assets == liabilities + equity"})), ""),
            (
                table("wrong.csv", json!({"formula": "assets == liabilities + equity"})),
                "assets == liabilities + equity does not hold in row 2: 1500 and 1501",
            ),
            (table("wrong.csv", json!({"formula": "assets == liabilities + equity", "tolerance": 1})), ""),
            (table("balance.csv", json!({"formula": "opening == prev(closing)"})), ""),
            (table("balance.csv", json!({"formula": "closing == opening + [Net income]"})), ""),
            (table("balance.csv", json!({"formula": "sum([Net income]) == 250"})), ""),
            (table("balance.csv", json!({"formula": "assets / (liabilities + equity) <= 1 * max(year) - 2025"})), ""),
            (table("balance.csv", json!({"where": {"year": 2025}, "column": "assets", "value": 1500})), ""),
            (
                table("balance.csv", json!({"where": {"year": "2025"}, "column": "assets", "value": 1501})),
                "row 2 has \"1500\" in \"assets\", expected 1501",
            ),
            (
                table("balance.csv", json!({"where": {"year": 2030}, "column": "assets", "value": 1})),
                "there is no such row",
            ),
            (table("balance.csv", json!({"columns": ["debt"]})), "there is no column \"debt\"; there are year, assets"),
            (table("balance.csv", json!({"rows": 4})), "expected 4 rows, but there are 3"),
            (table("balance.csv", json!({"formula": "assets / (equity - equity) == 1"})), "it divides by zero"),
            (
                table(
                    "quoted.csv",
                    json!({"where": {"name": "Kim, Minsu"}, "column": "note", "value": "said \"yes\"\nand left"}),
                ),
                "",
            ),
            (table("quoted.csv", json!({"formula": "note > 1"})), "is not a number"),
            (table("ragged.csv", json!({"rows": 1})), "row 1 has 1 cells, there are 2 columns"),
            (
                table("balance.csv", json!({"formula": "assets = equity"})),
                "not planned: checks[0].formula: needs a comparison",
            ),
            (
                table("balance.csv", json!({"formula": "sum(assets"})),
                "not planned: checks[0].formula: misses the ) of sum",
            ),
            (table("balance.csv", json!({})), "not planned: checks[0]: expects nothing of the table"),
        ],
    )
    .await;
}

#[tokio::test]
async fn every_claim_cites_a_stored_source() {
    let folder = tempfile::tempdir().unwrap();
    put(
        folder.path(),
        "sources/kim2024.txt",
        "We found that agents forget what\nthey wrote — “almost everything” after a day.",
    );
    put(folder.path(), "sources/lee2025.md", "Durable state helps agents to finish long tasks.");
    let good = "# Review\n\nAgents forget, as Kim says: \"agents forget what they wrote\" [@kim2024, p. 3].\n\n- State helps [@lee2025;\n  @kim2024].\n\n```\ncode\n```\n\n## References\n\n- Kim 2024\n";
    put(folder.path(), "good.md", good);
    put(folder.path(), "bare.md", &good.replace("- State helps [@lee2025;\n  @kim2024].", "- State helps."));
    put(folder.path(), "invented.md", &good.replace("@lee2025", "@park2026"));
    put(folder.path(), "misquoted.md", &good.replace("forget what they", "remember all they"));
    put(folder.path(), "empty.md", "# Review\n");
    let cite = |path: &str| json!({"check": "citation", "path": path, "sources": "sources", "at_least": 2});
    let mut quoting = cite("good.md");
    quoting["quotes"] = json!(true);
    let mut three = cite("good.md");
    three["at_least"] = json!(3);
    all(
        folder.path(),
        vec![
            (cite("good.md"), ""),
            (cite("bare.md"), "bare.md: line 5: no source is cited in \"State helps.\""),
            (cite("invented.md"), "the source \"park2026\" is not stored in sources"),
            (cite("misquoted.md"), "the quotation \"agents remember all they wrote\" does not stand in kim2024"),
            (cite("empty.md"), "it claims nothing"),
            (quoting, "line 5: nothing is quoted"),
            (three, "it cites 2 source(s), expected at least 3"),
        ],
    )
    .await;
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let checks = json!([{"step":1,"check":"command","program":"true"}]);
    let flow = crate::flow(&checks);
    let limits = Limits::default();
    let error = Verifier::without_browser().verify(&flow, &mut NoApplication, &limits).await.unwrap_err();
    assert!(matches!(error, VerifyError::NeedsProject), "{error:?}");
    let verifier = Verifier::without_browser().with_workbench(Workbench::of_files(folder.path()));
    let error = verifier.verify(&flow, &mut NoApplication, &limits).await.unwrap_err();
    assert!(matches!(error, VerifyError::NeedsProject), "{error:?}");
    let page = crate::flow(&json!([
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"expect","target":{"role":"heading"},"visible":true},
    ]));
    let error = Verifier::without_browser().verify(&page, &mut NoApplication, &limits).await.unwrap_err();
    assert!(matches!(error, VerifyError::NeedsBrowser), "{error:?}");
}

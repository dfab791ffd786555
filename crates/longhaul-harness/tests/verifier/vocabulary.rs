//! The vocabulary: what parses prints the same again, and what is refused names its place and the way out.

use longhaul_harness::checks::{Check, digest, parse_feature_checks};
use serde_json::{Value, json};

fn steps(count: usize) -> Vec<String> {
    (1..=count).map(|n| format!("sentence {n}")).collect()
}

/// Every check there is, in the order of its printed fields.
fn all() -> Value {
    json!([
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"remember","name":"n","count":{"role":"listitem","within":{"role":"navigation","name":"Chats"}}},
        {"step":1,"check":"remember","name":"title","text":{"role":"heading","nth":0}},
        {"step":1,"check":"remember","name":"draft","value":{"role":"textbox"}},
        {"step":2,"check":"act","action":"click","target":{"role":"button","name":"New chat"}},
        {"step":2,"check":"act","action":"fill","target":{"role":"textbox","name":"Message"},"text":"안녕"},
        {"step":2,"check":"act","action":"press","key":"Enter"},
        {"step":2,"check":"act","action":"press","target":{"role":"textbox"},"key":"Control+a"},
        {"step":2,"check":"act","action":"select","target":{"role":"combobox","name":"Model"},"text":"Large"},
        {"step":2,"check":"act","action":"hover","target":{"role":"listitem","text":"First"}},
        {"step":2,"check":"act","action":"drag","target":{"role":"listitem","nth":1},"to":{"role":"listitem","nth":0}},
        {"step":2,"check":"act","action":"upload","target":{"role":"button","name":"Attach"},"files":[{"name":"a.txt","content":"a"}]},
        {"step":3,"check":"dialog","kind":"prompt","message":"Name?","answer":"accept","text":"Minsu"},
        {"step":3,"check":"act","action":"click","target":{"role":"button","name":"Rename"}},
        {"step":3,"check":"expect","target":{"role":"listitem"},"count":"n + 1"},
        {"step":3,"check":"expect","target":{"role":"listitem"},"visible":true,"contains":"{title}","count":3,"within_ms":500},
        {"step":3,"check":"expect","target":{"role":"dialog"},"hidden":true},
        {"step":3,"check":"expect","target":{"role":"textbox"},"value":"","focused":true,"enabled":true},
        {"step":3,"check":"expect","target":{"role":"checkbox"},"checked":false},
        {"step":3,"check":"expect","target":{"role":"heading"},"text":"Chats"},
        {"step":3,"check":"expect","url":"/c/1","within_ms":100},
        {"step":4,"check":"reload"},
        {"step":4,"check":"restart_app"},
        {"step":4,"check":"no_console_errors"},
        {"step":4,"check":"no_failed_requests"},
        {"step":4,"check":"http","method":"POST","path":"/api","body":{"a":1},"status":201,"json":{"id":1}},
        {"step":5,"check":"permission","name":"geolocation","answer":"grant","latitude":37.5,"longitude":127.0},
        {"step":5,"check":"permission","name":"notifications","answer":"deny"},
        {"step":5,"check":"expect","target":{"role":"button","name":"On","frame":"Preview"},"visible":true},
        {"step":5,"check":"expect","target":{"role":"button","frame":{"name":"p","title":"Preview","url":"/p"}},"visible":true},
        {"step":5,"check":"tab","title":"Help","url":"/help","nth":1,"close":true},
        {"step":5,"check":"tab","name":"share","within_ms":500},
        {"step":5,"check":"tab","close":true},
        {"step":5,"check":"download","name":"*.csv","contains":"id","matches":"\\d","within_ms":9000},
        {"step":5,"check":"download","name":"a.json","json":{"a":[1]}},
        {"step":5,"check":"print","contains":"Desk","lacks":"Menu","pages":2},
        {"step":5,"check":"visual","name":"home","tolerance":0.05},
        {"step":5,"check":"visual","name":"head","target":{"role":"banner"}},
        {"step":6,"check":"command","program":"python3","arguments":["sum.py","1"],"exit":2,"contains":"3","output":"^3$","within_ms":1000},
        {"step":6,"check":"file","path":"out/a.json","contains":"a","matches":"b","at":"x[0].y","equals":[1]},
        {"step":6,"check":"file","path":"out/b","exists":false},
        {"step":6,"check":"table","path":"t.csv","columns":["a"],"rows":2,"where":{"a":"x","b":1},"column":"c","value":1.5,"formula":"a == b + [c d]","tolerance":0.5},
        {"step":6,"check":"citation","path":"r.md","sources":"sources","at_least":2,"quotes":true},
    ])
}

#[test]
fn every_check_prints_as_it_was_written_and_the_digest_follows_what_is_printed() {
    let checks = parse_feature_checks(&all(), &steps(6)).unwrap();
    assert_eq!(serde_json::to_string(&checks).unwrap(), all().to_string());
    let again: Vec<Check> = serde_json::from_value(all()).unwrap();
    assert_eq!(again, checks);
    let hash = digest(&steps(6), &checks);
    assert_eq!(hash, digest(&steps(6), &again));
    let mut reworded = steps(6);
    reworded[0].push('!');
    assert_ne!(hash, digest(&reworded, &checks));
    assert_ne!(hash, digest(&steps(6), &checks[1..]));
}

/// The error of a feature of two sentences in which one check was replaced.
fn said(check: Value) -> String {
    let checks = json!([
        {"step":1,"check":"goto","path":"/"},
        check,
        {"step":2,"check":"expect","target":{"role":"heading","name":"Hello"},"visible":true},
    ]);
    parse_feature_checks(&checks, &steps(2)).map(|_| String::new()).unwrap_or_else(|error| error.to_string())
}

#[test]
fn a_wrong_check_is_refused_with_its_place() {
    let cases = [
        (json!({"step":1,"check":"reload"}), ""),
        (json!("goto"), "checks[1]: must be an object"),
        (
            json!({"check":"reload"}),
            "checks[1].step: is missing; give the number of the sentence it carries out, from 1",
        ),
        (json!({"step":0,"check":"reload"}), "checks[1].step: must be a whole number from 1 to 1000"),
        (json!({"step":3,"check":"reload"}), "checks[1].step: is 3, but there are only 2 sentences"),
        (
            json!({"step":1,"check":"eval"}),
            "checks[1].check: \"eval\" is not a check; the checks are goto, act, dialog, remember, expect, \
             no_console_errors, no_failed_requests, reload, restart_app, http, tab, permission, download, print, visual, \
             command, file, table, citation",
        ),
        (
            json!({"step":1,"check":"reload","force":true}),
            "checks[1].force: is not a field of this reload (known: step, check)",
        ),
        (
            json!({"step":1,"check":"goto","path":"http://example.com"}),
            "checks[1].path: must start with one / and have no white space: it is below the application's address",
        ),
        (
            json!({"step":1,"check":"act","action":"tap","target":{"role":"button"}}),
            "checks[1].action: \"tap\" is not an action; the actions are click, fill, press, select, hover, drag, upload",
        ),
        (
            json!({"step":1,"check":"act","action":"click"}),
            "checks[1].target: is missing; give a target such as {\"role\":\"button\",\"name\":\"Save\"}",
        ),
        (
            json!({"step":1,"check":"act","action":"click","target":{"role":"button","selector":"#x"}}),
            "checks[1].target.selector: is not a field of a target (known: role, name, text, within, frame, nth); there are no CSS selectors",
        ),
        (
            json!({"step":1,"check":"expect","target":{"role":"heading"},"visible":false}),
            "checks[1].visible: must be true; for the opposite say \"hidden\": true",
        ),
        (
            json!({"step":1,"check":"expect","target":{"role":"heading"}}),
            "checks[1]: expects nothing of the target: give visible, hidden, text, contains, value, count, focused, enabled or checked",
        ),
        (
            json!({"step":1,"check":"expect","target":{"role":"listitem"},"count":"m + 1"}),
            "checks[1].count: uses \"m\", which no earlier check remembers; remember it before",
        ),
        (
            json!({"step":1,"check":"expect","target":{"role":"listitem"},"count":"n * 2"}),
            "checks[1].count: must be a whole number or an expression such as \"n + 1\", \"n - 1\" or \"n\"",
        ),
        (
            json!({"step":1,"check":"dialog","kind":"confirm","answer":"accept"}),
            "checks[1]: must come right before the act that opens the dialog",
        ),
        (
            json!({"step":1,"check":"act","action":"upload","target":{"role":"button"},"files":[{"name":"../a","content":""}]}),
            "checks[1].files[0].name: must be a plain file name without folders",
        ),
        (
            json!({"step":1,"check":"tab"}),
            "checks[1]: says no tab: give title, url, name or nth, or close the current one",
        ),
        (
            json!({"step":1,"check":"permission","name":"usb","answer":"grant"}),
            "checks[1].name: \"usb\" is not a permission; there are geolocation, clipboard, notifications, camera, microphone",
        ),
        (
            json!({"step":1,"check":"http","method":"GET","path":"/api"}),
            "checks[1].status: is missing; give the status it must answer, such as 200",
        ),
    ];
    for (check, expected) in cases {
        assert_eq!(said(check.clone()), expected, "{check}");
    }
}

#[test]
fn checks_that_prove_nothing_together_are_refused() {
    let refused = |checks: Value, count: usize| parse_feature_checks(&checks, &steps(count)).unwrap_err().to_string();
    let go = json!({"step":1,"check":"goto","path":"/"});
    let see = json!({"step":1,"check":"expect","target":{"role":"heading"},"visible":true});
    assert!(refused(Value::Null, 1).starts_with("checks: must be an array of checks"));
    assert_eq!(
        refused(json!([go, see]), 2),
        "checks: carry out nothing of step 2 \"sentence 2\"; give it at least one check"
    );
    assert_eq!(
        refused(json!([{"step":2,"check":"goto","path":"/"}, see]), 2),
        "checks[1].step: is 1, after a check of step 2; put the checks in the order of the sentences"
    );
    assert!(refused(json!([see, go]), 1).starts_with("checks[0]: needs a page, but none is open"));
    let api = json!({"step":1,"check":"http","method":"GET","path":"/api","status":200});
    let absent = json!({"step":1,"check":"expect","target":{"role":"alert"},"hidden":true});
    assert!(refused(json!([go, api, absent]), 1).starts_with("checks: never look at the screen"));
    let click = json!({"step":1,"check":"act","action":"click","target":{"role":"button","name":"Save"}});
    assert_eq!(
        refused(json!([go, see, click]), 1),
        "checks[2]: is the last act, but nothing is expected after it; say what a user then sees"
    );
}

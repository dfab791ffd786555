//! What the page says, from made-up rows and events.

use serde_json::{Value, json};

use longhaul_core::{Event, TaskScope, TimeMs};
use longhaul_harness::{
    Commit,
    features::{Definition, Feature, Standing},
    history::SessionEntry,
    project::{Brief, Project},
    verification::StoredVerdict,
};

use super::{
    data::{AfterRefusal, Outcome, Picture, Pixels, Task},
    gather::{Gathered, gather},
    html, page,
};
use crate::Details;

const HOSTILE: &str = "<script>alert('秋天')</script> & \"quotes\" \u{0}";

fn owner() -> TaskScope {
    TaskScope {
        scope: longhaul_core::Scope::single_user(),
        session: "sess_1".parse().unwrap(),
        task: "task_1".parse().unwrap(),
        trace: "trace_1".parse().unwrap(),
    }
}

fn event(at: i64, kind: &str, data: Value) -> Event {
    let draft = json!({
        "v": 1, "seq": at, "id": format!("evt_{at}"), "at": at, "scope": owner(), "execution": null,
        "step": null, "kind": kind, "visibility": "business", "data": data,
    });
    serde_json::from_value(draft).unwrap()
}

fn feature(id: &str, description: &str, standing: Standing) -> Feature {
    let definition = Definition {
        id: id.parse().unwrap(),
        category: "functional".to_owned(),
        description: description.to_owned(),
        steps: vec!["Open the page".to_owned(), format!("See {HOSTILE}")],
        depends_on: Vec::new(),
        priority: 3,
        checks: Vec::new(),
        checks_hash: longhaul_core::Digest::of(id),
    };
    Feature { definition, standing, proposal: None }
}

fn verdict(at: i64, session: u32, feature: &str, occasion: &str, refused: Option<(usize, &str)>) -> StoredVerdict {
    let refusal =
        refused.map(|(step, reason)| json!({"step": step, "sentence": "See it", "check": "{}", "reason": reason}));
    let row = json!({
        "id": format!("verdict_{at}"), "feature": feature, "occasion": occasion, "tree": "t",
        "checks_hash": longhaul_core::Digest::of(feature), "refusal": refusal, "evidence": [], "elapsed_ms": 10,
    });
    StoredVerdict { verdict: serde_json::from_value(row).unwrap(), session, commit: None, at: TimeMs(at) }
}

fn session(number: u32, purpose: Value, outcome: &str, at: i64) -> SessionEntry {
    let entry = json!({
        "number": number, "purpose": purpose, "outcome": outcome, "summary": format!("summary of {number}"),
        "commit": format!("c{number}"), "unfinished": null, "refused_claims": 0, "turns": 1, "prompt_tokens": 100,
        "answer_tokens": 10, "started_at": at - 5, "ended_at": at,
    });
    serde_json::from_value(entry).unwrap()
}

fn details() -> Details {
    let passing = Standing { passes: true, commit: Some("c1".to_owned()), ..Standing::default() };
    let build = |feature: &str| json!({"mode": "build", "feature": feature});
    let ended = |at, session: u32| event(at, "session.ended", json!({"session": session}));
    let answered = |at| event(at, "model.answered", json!({"model": "m", "prompt_tokens": 100, "answer_tokens": 10}));
    Details {
        project: Project {
            owner: owner(),
            thread: "harness/1".parse().unwrap(),
            dir: "/tmp/app".into(),
            request: "写一个聊天应用".to_owned(),
            model: "cassette:demo".to_owned(),
            base_url: None,
            agent: None,
            profile: longhaul_harness::Profile::Software,
            adopted: None,
            brief: Brief::default(),
        },
        features: vec![feature("F01", HOSTILE, passing.clone()), feature("F02", "두 번째", passing)],
        sessions: vec![
            session(0, json!({"mode": "initialize"}), "planned", 10),
            session(1, build("F01"), "verified", 20),
            session(2, build("F02"), "verified", 30),
            session(3, json!({"mode": "repair", "feature": "F01"}), "verified", 40),
        ],
        verdicts: vec![
            verdict(12, 1, "F01", "claim", Some((2, "opacity 0"))),
            verdict(15, 1, "F01", "claim", None),
            verdict(25, 2, "F02", "claim", None),
            verdict(32, 3, "F01", "regression", Some((2, "gone"))),
            verdict(36, 3, "F01", "claim", None),
            verdict(42, 3, "F01", "final_check", None),
            verdict(43, 3, "F02", "final_check", None),
        ],
        events: vec![
            event(1, "session.started", json!({"session": 0})),
            event(2, "plan.refused", json!({"place": "features[0]", "message": HOSTILE})),
            ended(10, 0),
            event(11, "session.started", json!({"session": 1, "feature": "F01"})),
            event(
                13,
                "claim.refused",
                json!({"feature": "F01", "attempt": 1, "step": 2, "sentence": "See it", "reason": "{} opacity 0"}),
            ),
            event(14, "tool.called", json!({"tool": "edit_file", "summary": "style.css"})),
            answered(16),
            ended(20, 1),
            event(
                21,
                "memory.recalled",
                json!({"query": HOSTILE, "mode": {"keyword": {"reason": "no model"}}, "considered": 2,
                "hits": [{"score": 0.5, "kind": "note", "content": HOSTILE, "explain": {"keyword": 1.0, "cosine": null}}]}),
            ),
            event(22, "tamper.undone", json!({"path": "feature_list.json", "how": "passes of F02 changed to true"})),
            ended(30, 2),
            event(32, "regression.checked", json!({"feature": "F01", "passed": false})),
            event(33, "feature.broken", json!({"feature": "F01"})),
            ended(40, 3),
            event(41, "final_check.started", json!({"features": 2})),
            event(42, "regression.checked", json!({"feature": "F01", "passed": true})),
            event(43, "regression.checked", json!({"feature": "F02", "passed": true})),
            event(44, "run.finished", json!({})),
        ],
    }
}

fn gathered() -> Gathered {
    gather(&details(), &[Commit { id: "c1".to_owned(), subject: "feat: first".to_owned() }])
}

#[test]
fn events_are_told_session_by_session() {
    let data = gathered().data;
    let rows: Vec<_> = data.chapters.iter().map(|c| (c.number, c.task, c.outcome, c.passing_after)).collect();
    let expected = [
        (Some(0), Task::Plan, Outcome::Planned, 0),
        (Some(1), Task::Build, Outcome::Verified, 1),
        (Some(2), Task::Build, Outcome::Verified, 2),
        (Some(3), Task::Repair, Outcome::Verified, 2),
        (None, Task::FinalCheck, Outcome::AllPass, 2),
    ];
    assert_eq!(rows, expected);
    assert_eq!(data.chapters[3].rechecked, [("F01".to_owned(), false)]);
    assert_eq!(data.chapters[4].rechecked.len(), 2);
}

#[test]
fn a_refused_claim_is_told_with_its_verdict_and_what_followed() {
    let data = gathered().data;
    let [claim] = data.refusals.as_slice() else { panic!("one claim was refused: {:?}", data.refusals) };
    assert_eq!((claim.session, claim.attempt, claim.finding.reason.as_str()), (Some(1), 1, "opacity 0"));
    assert_eq!(claim.finding.verdict.as_deref(), Some("verdict_12"));
    assert_eq!(claim.did, ["edit_file style.css"]);
    assert!(matches!(&claim.next, AfterRefusal::Accepted { commit: Some(id) } if id == "c1"), "{:?}", claim.next);
}

#[test]
fn a_refusal_by_the_projects_own_checks_has_no_verdict() {
    let mut details = details();
    details.events[4] = event(
        13,
        "claim.refused",
        json!({
            "feature": "F01", "attempt": 1, "step": 0, "sentence": "", "reason": "the project's own check `make lint` failed",
        }),
    );
    let data = gather(&details, &[]).data;
    assert_eq!(data.refusals[0].finding.verdict, None);
    assert!(data.refusals[0].finding.reason.contains("make lint"), "{:?}", data.refusals[0]);
}

#[test]
fn a_regression_names_what_was_done_since_and_its_repair() {
    let data = gathered().data;
    let [found] = data.regressions.as_slice() else { panic!("one regression: {:?}", data.regressions) };
    assert_eq!(found.found_by, "session 3");
    assert_eq!(found.suspects, [(2, "F02".to_owned())]);
    let repair = found.repair.as_ref().expect("it was repaired");
    assert_eq!((repair.session, repair.summary.as_str()), (Some(3), "summary of 3"));
}

#[test]
fn totals_are_counted_not_claimed() {
    let t = gathered().data.totals;
    assert_eq!((t.verified, t.features, t.sentences_verified, t.sentences), (2, 2, 4, 4));
    assert_eq!((t.sessions, t.commits, t.verdicts, t.refused), (3, 4, 7, 1));
    assert_eq!((t.regressions, t.repaired, t.tampers, t.recalls), (1, 1, 1, 1));
    assert_eq!((t.prompt_tokens, t.answer_tokens, t.answers), (100, 10, 1));
    assert_eq!(t.verified_ms, 70);
}

#[test]
fn nothing_from_outside_becomes_markup() {
    let page = page::render(&gathered().data);
    assert_eq!(page.matches("<script").count(), 1, "only the page's own script");
    assert!(page.contains("&lt;script&gt;alert(&#39;秋天&#39;)&lt;/script&gt;"));
    assert!(page.contains("写一个聊天应用") && page.contains("두 번째"));
    assert!(!page.contains('\0'));
}

#[test]
fn the_page_asks_for_nothing_from_anywhere() {
    let page = page::render(&gathered().data);
    assert!(page.contains("default-src 'none'; img-src data:; style-src 'sha256-"));
    assert!(!page.contains(" style=\"") && !page.contains(" onclick="), "the policy would refuse it");
    for outside in ["http://", "https://", "src=\"/", "@import", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn the_page_says_plainly_what_a_cassette_is() {
    let mut data = gathered().data;
    let said = "Replies come from a cassette, everything else is real";
    assert!(page::render(&data).contains(said));
    data.cassette = false;
    assert!(!page::render(&data).contains(said));
}

#[test]
fn a_project_without_a_plan_has_a_page() {
    let mut details = details();
    details.features.clear();
    details.sessions.clear();
    details.verdicts.clear();
    details.events.truncate(1);
    let page = page::render(&gather(&details, &[]).data);
    assert!(page.contains("No feature is planned yet"));
    assert!(page.contains("under way, or interrupted"));
}

#[test]
fn a_picture_that_is_left_out_says_why() {
    let left_out = Picture { caption: HOSTILE.to_owned(), content: Pixels::LeftOut("left out <here>".to_owned()) };
    let shown = html::picture(&left_out, "ok");
    assert!(shown.contains("left out &lt;here&gt;") && !shown.contains("<img"), "{shown}");
}

#[test]
fn numbers_and_times_are_written_for_people() {
    assert_eq!(html::moment(0), "1970-01-01 00:00");
    assert_eq!(html::moment(951_782_340_000), "2000-02-28 23:59");
    assert_eq!(html::moment(1_709_164_800_000), "2024-02-29 00:00");
    assert_eq!(html::duration(7_149), "7.1 s");
    assert_eq!(html::duration(100_000_000), "1 d 3 h");
    assert_eq!(html::grouped(1_234_567), "1\u{202f}234\u{202f}567");
    assert_eq!(html::short(78_220), "78.2\u{202f}k");
    assert_eq!(html::cut("秋天的诗", 2), "秋天…");
    assert_eq!(html::count(1, "picture"), "1 picture");
}

#[tokio::test]
async fn a_report_replaces_its_file_whole_or_not_at_all() {
    use std::{collections::BTreeMap, fs};

    use crate::{
        Longhaul, LonghaulError, Program,
        settings::{Settings, Sources},
    };

    let place = tempfile::tempdir().unwrap();
    let (home, app, out) = (place.path().join("home"), place.path().join("app"), place.path().join("report.html"));
    fs::create_dir(&app).unwrap();
    let environment = BTreeMap::from([("LONGHAUL_HOME".to_owned(), home.display().to_string())]);
    let sources = Sources {
        environment,
        user_home: Some(place.path().join("home")),
        working_dir: place.path().to_owned(),
        ..Sources::default()
    };
    let longhaul = Longhaul::open(Settings::load(&sources).unwrap(), Program::this_one().unwrap()).await.unwrap();
    assert!(matches!(longhaul.report(&app, &out).await, Err(LonghaulError::NotAProject { .. })));

    let new = longhaul_harness::project::NewProject {
        dir: app.canonicalize().unwrap(),
        request: HOSTILE.to_owned(),
        model: "openai:m".to_owned(),
        base_url: None,
        profile: longhaul_harness::Profile::Software,
        adopted: None,
    };
    let scope = longhaul.scope.clone();
    let created = move |tx: &mut longhaul_store::Tx<'_>| longhaul_harness::project::create(tx, &scope, new);
    longhaul.store.write::<_, longhaul_store::StoreError>(created).await.unwrap();
    fs::write(&out, "older").unwrap();
    let written = longhaul.report(&app, &out).await.unwrap();
    let page = fs::read_to_string(&out).unwrap();
    assert_eq!(written.bytes, page.len() as u64);
    assert!(page.contains("&lt;script&gt;") && page.ends_with("</html>\n"));

    let refused = longhaul.report(&app, &home).await.expect_err("a folder is in the way");
    assert!(refused.to_string().contains("cannot write the report to"), "{refused}");
    let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "nothing half-written stays: {left:?}");
}

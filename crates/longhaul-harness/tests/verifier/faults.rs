//! A planted fault each: refused, and the reason names the fault.

use longhaul_harness::verifier::{Limits, Verifier, VerifyError};
use serde_json::{Value, json};

use crate::{
    application::{Chat, OnePage},
    browser, flow,
    site::Site,
    verify,
};

/// An application, its checks, and how they must end.
struct Fault {
    app: Chat,
    checks: Value,
    /// The sentence that fails.
    step: usize,
    /// Part of the reason.
    reason: &'static str,
}

fn items() -> Value {
    json!({"role":"listitem","within":{"role":"navigation","name":"Conversations"}})
}

/// Sends a message and expects it on the screen.
fn sending() -> Value {
    json!([
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"act","action":"fill","target":{"role":"textbox","name":"Message"},"text":"Hello there"},
        {"step":2,"check":"act","action":"click","target":{"role":"button","name":"Send"}},
        {"step":3,"check":"expect","target":{"role":"paragraph","text":"Hello there"},"visible":true,"within_ms":250},
        {"step":4,"check":"no_console_errors"},
        {"step":4,"check":"no_failed_requests"},
    ])
}

/// Makes a conversation and expects one more.
fn creating() -> Value {
    json!([
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"remember","name":"n","count":items()},
        {"step":2,"check":"act","action":"click","target":{"role":"button","name":"New chat"}},
        {"step":2,"check":"expect","target":items(),"count":"n + 1","within_ms":400},
        {"step":3,"check":"reload"},
        {"step":3,"check":"expect","target":items(),"count":1,"within_ms":250},
        {"step":4,"check":"restart_app"},
        {"step":4,"check":"expect","target":items(),"count":1,"within_ms":250},
    ])
}

fn deleting(message: &str) -> Value {
    json!([
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"act","action":"click","target":{"role":"button","name":"New chat"}},
        {"step":1,"check":"expect","target":items(),"visible":true},
        {"step":2,"check":"dialog","kind":"confirm","message":message,"answer":"accept"},
        {"step":2,"check":"act","action":"click","target":{"role":"button","within":items()}},
        {"step":3,"check":"expect","target":items(),"hidden":true,"within_ms":400},
    ])
}

fn styled(style: &str) -> Chat {
    Chat::with(|page| format!("<style>{style}</style>{page}"))
}

fn fault(app: Chat, checks: Value, step: usize, reason: &'static str) -> Fault {
    Fault { app, checks, step, reason }
}

async fn refused(faults: Vec<Fault>) {
    let browser = browser().await;
    let mut wrong = Vec::new();
    for mut fault in faults {
        let verdict = verify(&browser, &fault.checks, &mut fault.app).await.unwrap();
        match verdict.failure() {
            Some(failure) if failure.step_index == fault.step && failure.reason.contains(fault.reason) => {
                assert!(!verdict.passed());
                assert_eq!(verdict.steps().len(), fault.step, "the flow ends at the first failure");
                let last = verdict.steps().last().unwrap();
                assert!(!last.ok && last.screenshot.is_some(), "a failure has a picture");
            }
            other => wrong.push(format!("step {} {:?}\n  got {other:?}", fault.step, fault.reason)),
        }
    }
    browser.close().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_answer_that_nobody_can_see_is_refused() {
    refused(vec![
        fault(styled("#log{opacity:0}"), sending(), 3, "found 1 but it is not visible: opacity 0 on its ancestor <section id=\"log\">"),
        fault(styled("#log{display:none}"), sending(), 3, "has that text, but display: none on its ancestor <section id=\"log\">"),
        fault(styled("#log p{height:0;width:0;overflow:hidden}"), sending(), 3, "it has no size"),
        fault(styled("#log p{color:#fff}"), sending(), 3, "its text has the colour of its background"),
        fault(styled("#log{position:absolute;left:-5000px}"), sending(), 3, "it is off-screen"),
        fault(
            Chat::with(|page| format!("{page}<div class=wall style='position:absolute;top:130px;left:0;width:100%;height:600px;background:#fff;pointer-events:none'></div>")),
            sending(),
            3,
            "hiding it changes no pixel",
        ),
        fault(
            Chat::replacing("q('log').append(p);", "q('log').append(p); const w = document.createElement('div'); w.className = 'wall'; w.style = 'position:fixed;inset:0;background:#eee'; document.body.append(w);"),
            sending(),
            3,
            "it is covered by <div class=\"wall\">",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_work_is_refused() {
    refused(vec![
        fault(
            Chat::replacing("q('send').onclick", "q('send').oncopy"),
            sending(),
            3,
            "found no paragraph with text \"Hello there\"",
        ),
        fault(
            Chat::twice(),
            creating(),
            2,
            "expected 1 (n + 1) visible listitem within navigation \"Conversations\", but there are 2",
        ),
        fault(
            Chat::replacing(
                "await fetch('/api/chats', {method: 'POST', body: 'Chat ' + Date.now()}); load();",
                "q('list').innerHTML = '<li>Chat</li>';",
            ),
            creating(),
            3,
            "expected 1 visible listitem within navigation \"Conversations\", but there are 0",
        ),
        fault(Chat::forgetting(), creating(), 4, "but there are 0"),
        fault(
            Chat::replacing("q('message').value = '';", "q('message').value = ''; console.error('bad', {a: 1});"),
            sending(),
            4,
            "1 console error(s), the first: bad Object at http://",
        ),
        fault(
            Chat::replacing("q('message').value = '';", "q('message').value = ''; nothing.at.all();"),
            sending(),
            4,
            "Uncaught ReferenceError: nothing is not defined",
        ),
        fault(
            Chat::replacing(
                "q('message').value = '';",
                "q('message').value = ''; fetch('/api/none', {method: 'PUT'});",
            ),
            sending(),
            4,
            "1 failed request(s), the first: PUT http://127.0.0.1:",
        ),
    ])
    .await;
}

impl Chat {
    /// Makes two conversations where one was asked for.
    fn twice() -> Self {
        Self::replacing(
            "await fetch('/api/chats', {method: 'POST', body: 'Chat ' + Date.now()});",
            "for (const n of [1, 2]) await fetch('/api/chats', {method: 'POST', body: 'Chat ' + n});",
        )
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dialogs_other_than_the_expected_one_are_refused_and_stall_nothing() {
    let unexpected = json!([
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"act","action":"click","target":{"role":"button","name":"New chat"}},
        {"step":1,"check":"expect","target":items(),"visible":true},
        {"step":2,"check":"act","action":"click","target":{"role":"button","within":items()}},
        {"step":3,"check":"expect","target":items(),"hidden":true,"within_ms":300},
    ]);
    refused(vec![
        fault(Chat::healthy(), unexpected, 2, "an unexpected confirm dialog opened: \"Delete this conversation?\""),
        fault(
            Chat::healthy(),
            deleting("Delete it?"),
            2,
            "expected a confirm dialog \"Delete it?\", but confirm \"Delete this conversation?\" opened",
        ),
        fault(
            Chat::replacing("if (!confirm('Delete this conversation?')) return;", ""),
            deleting("Delete this conversation?"),
            2,
            "expected a confirm dialog \"Delete this conversation?\", but no dialog opened",
        ),
        fault(
            Chat::replacing("load();\n</script>", "load(); alert('Welcome!');\n</script>"),
            sending(),
            1,
            "an unexpected alert dialog opened: \"Welcome!\"",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_does_not_answer_or_start_again_is_refused() {
    let browser = browser().await;
    let checks = json!([
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"expect","target":{"role":"paragraph"},"visible":true},
        {"step":2,"check":"http","method":"GET","path":"/","status":200},
        {"step":3,"check":"restart_app"},
    ]);
    let mut app = OnePage(Site::page("<p>Hello"));
    let verdict = verify(&browser, &checks, &mut app).await.unwrap();
    let reason = &verdict.failure().unwrap().reason;
    assert_eq!(reason, "the application did not start again on the same data: init.sh exited with 1");

    struct Nowhere;
    #[async_trait::async_trait]
    impl longhaul_harness::verifier::AppControl for Nowhere {
        fn base_url(&self) -> String {
            "http://127.0.0.1:9".to_owned()
        }
        async fn restart(&mut self) -> Result<(), String> {
            Ok(())
        }
    }
    let verdict = verify(&browser, &checks, &mut Nowhere).await.unwrap();
    let reason = &verdict.failure().unwrap().reason;
    assert!(reason.contains("/ did not load: net::ERR_"), "{reason}");

    // A page that never ends loading ends with the flow's time.
    let checks = json!([
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"expect","target":{"role":"paragraph"},"count":2,"within_ms":30000},
    ]);
    let limits = Limits { flow: std::time::Duration::from_millis(900), ..Limits::default() };
    let verdict = Verifier::new(browser.clone()).verify(&flow(&checks), &mut app, &limits).await.unwrap();
    assert_eq!(verdict.failure().unwrap().reason, "the flow took longer than 900 ms");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_browser_there_is_no_verdict() {
    let browser = browser().await;
    let process = i32::try_from(browser.process_id().unwrap()).unwrap();
    // The page is asked for the second time in the middle of the flow: then the browser is killed.
    let asked = std::sync::atomic::AtomicU32::new(0);
    let site = Site::serve(move |_| {
        if asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 1 {
            std::process::Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
        }
        crate::site::html("<p>Hello")
    });
    let checks = json!([
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"expect","target":{"role":"paragraph"},"visible":true},
        {"step":2,"check":"goto","path":"/two"},
        {"step":2,"check":"expect","target":{"role":"paragraph"},"visible":true},
    ]);
    let mut app = OnePage(site);
    let error = verify(&browser, &checks, &mut app).await.unwrap_err();
    assert!(matches!(error, VerifyError::Browser(_)), "{error:?}");
    let error = verify(&browser, &checks, &mut app).await.unwrap_err();
    assert!(matches!(error, VerifyError::Browser(_)), "{error:?}");
}

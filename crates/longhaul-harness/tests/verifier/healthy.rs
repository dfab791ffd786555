//! Applications that do what their sentences say pass, with evidence.

use serde_json::json;

use crate::{application::Chat, browser, flow, verify};

#[tokio::test(flavor = "multi_thread")]
async fn a_feature_that_works_passes_and_leaves_evidence() {
    let browser = browser().await;
    let checks = json!([
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"expect","target":{"role":"heading","name":"Lantern"},"visible":true},
        {"step":2,"check":"remember","name":"n","count":{"role":"listitem","within":{"role":"navigation","name":"Conversations"}}},
        {"step":2,"check":"act","action":"click","target":{"role":"button","name":"New chat"}},
        {"step":2,"check":"expect","target":{"role":"listitem","within":{"role":"navigation","name":"Conversations"}},"count":"n + 1"},
        {"step":3,"check":"act","action":"fill","target":{"role":"textbox","name":"Message"},"text":"안녕하세요, 세계!"},
        {"step":3,"check":"expect","target":{"role":"textbox","name":"Message"},"value":"안녕하세요, 세계!","focused":true,"enabled":true},
        {"step":3,"check":"act","action":"click","target":{"role":"button","name":"Send"}},
        {"step":3,"check":"expect","target":{"role":"paragraph","within":{"role":"log"}},"text":"안녕하세요, 세계!"},
        {"step":3,"check":"expect","target":{"role":"log","name":"Messages"},"contains":"세계"},
        {"step":4,"check":"reload"},
        {"step":4,"check":"expect","target":{"role":"listitem"},"count":1},
        {"step":5,"check":"restart_app"},
        {"step":5,"check":"expect","target":{"role":"listitem"},"count":1},
        {"step":5,"check":"http","method":"GET","path":"/api/chats","status":200},
        {"step":6,"check":"dialog","kind":"confirm","message":"Delete this conversation?","answer":"dismiss"},
        {"step":6,"check":"act","action":"click","target":{"role":"button","within":{"role":"listitem"}}},
        {"step":6,"check":"expect","target":{"role":"listitem"},"visible":true},
        {"step":6,"check":"dialog","kind":"confirm","message":"Delete this conversation?","answer":"accept"},
        {"step":6,"check":"act","action":"click","target":{"role":"button","within":{"role":"listitem"}}},
        {"step":6,"check":"expect","target":{"role":"listitem"},"hidden":true},
        {"step":7,"check":"act","action":"upload","target":{"role":"button","name":"Notes"},"files":[{"name":"메모.txt","content":"할 일"}]},
        {"step":7,"check":"expect","target":{"role":"status"},"text":"메모.txt: 할 일"},
        {"step":8,"check":"no_console_errors"},
        {"step":8,"check":"no_failed_requests"},
    ]);
    let mut app = Chat::healthy();
    let verdict = verify(&browser, &checks, &mut app).await.unwrap();
    assert_eq!(verdict.failure(), None);
    assert!(verdict.passed());
    let flow = flow(&checks);
    assert_eq!(*verdict.checks_hash(), longhaul_harness::checks::digest(&flow.steps, &flow.checks));
    assert_eq!(verdict.steps().len(), 8);
    assert_eq!(verdict.activity().dialogs.len(), 2);
    let (log, pictures) = verdict.into_evidence();
    assert_eq!(pictures.len(), 8);
    assert!(pictures.iter().all(|(_, png)| png.starts_with(b"\x89PNG")));
    assert_eq!(pictures[1].0, "step 2: sentence 2");
    assert!(String::from_utf8(log).unwrap().contains("remembered n = \\\"0\\\""));
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_flow_starts_with_a_fresh_profile() {
    let browser = browser().await;
    let site = crate::site::Site::page(
        "<p role=status id=out></p><script>out.textContent = 'visit ' + (localStorage.v = 1 + Number(localStorage.v || 0)); \
         document.cookie = 'seen=1'</script>",
    );
    let checks = json!([
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"expect","target":{"role":"status"},"text":"visit 1"},
        {"step":2,"check":"reload"},
        {"step":2,"check":"expect","target":{"role":"status"},"text":"visit 2"},
        {"step":2,"check":"expect","url":"/"},
        {"step":2,"check":"no_console_errors"},
    ]);
    let mut app = crate::application::OnePage(site);
    for _ in 0..3 {
        let verdict = verify(&browser, &checks, &mut app).await.unwrap();
        assert_eq!(verdict.failure(), None);
        let steps: Vec<u64> = verdict.steps().iter().map(|step| step.ms).collect();
        println!("a flow of six checks took {} ms, its sentences {steps:?}", verdict.elapsed_ms());
    }
    assert_eq!(app.0.seen().iter().filter(|request| *request == "GET /").count(), 6);
    browser.close().await;
}

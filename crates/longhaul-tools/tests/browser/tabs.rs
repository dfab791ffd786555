//! Tabs that a page opens are followed, found again by what a user tells them by, and closed.

use std::time::Duration;

use longhaul_tools::browser::{ArmedDialog, DialogKind, Page, TabWanted};
use serde_json::json;

use crate::{browser, open, site::Site, target};

fn site() -> Site {
    crate::pages(&[
        (
            "/",
            "<title>Chats</title><h1>Chats</h1><a href=/help target=_blank>Help</a>\
             <button onclick=\"window.open('/share', 'share')\">Share</button>\
             <button onclick=\"const w = window.open(''); w.document.write('<title>Draft</title><h1>Draft</h1>')\">Draft</button>\
             <button onclick=\"window.open('/share', 'wide', 'width=400,height=300')\">Wide</button>\
             <button onclick=\"window.open('/loud')\">Loud</button><p role=status id=out></p>",
        ),
        ("/help", "<title>Help pages</title><h1>Help</h1><button>Print</button>"),
        (
            "/share",
            "<title>Share</title><h1>Share</h1><button onclick=\"opener.out.textContent = 'shared'; window.close()\">Done</button>",
        ),
        (
            "/loud",
            "<title>Loud</title><script>alert('Welcome'); console.error('loud'); fetch('/none')</script><h1>Loud</h1>",
        ),
    ])
}

async fn see(page: &Page, heading: &str) {
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    let wanted = target(json!({"role": "heading", "name": heading}));
    loop {
        let found = page.find(&wanted).await.unwrap();
        if found.first().is_some_and(|element| element.hidden.is_none()) {
            assert!(page.painted(&found[0]).await.unwrap(), "{heading} is painted");
            return;
        }
        let why = found.first().and_then(|element| element.hidden.clone());
        assert!(std::time::Instant::now() < deadline, "{heading} does not come, at {:?}, {why:?}", page.url().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_tab_is_followed_and_the_old_one_found_again() {
    let browser = browser().await;
    let site = site();
    let page = open(&browser, &site).await;
    let click = async |role: &str, name: &str| page.click(&target(json!({"role": role, "name": name}))).await.unwrap();
    click("link", "Help").await;
    see(&page, "Help").await;
    assert!(page.url().await.unwrap().ends_with("/help"));
    assert_eq!(page.tab_count(), 2);
    let title = |title: &str| TabWanted { title: Some(title.to_owned()), ..TabWanted::default() };
    let limit = Duration::from_millis(800);
    page.switch_tab(&title("Chats"), limit).await.unwrap();
    see(&page, "Chats").await;
    page.switch_tab(&TabWanted { url: Some("/help".to_owned()), ..TabWanted::default() }, limit).await.unwrap();
    page.close_tab().await.unwrap();
    see(&page, "Chats").await;
    let error = page.switch_tab(&title("Help pages"), Duration::from_millis(100)).await.unwrap_err().to_string();
    assert!(error.starts_with("found no tab \"Help pages\"; open are \"Chats\" at http://"), "{error}");

    // A tab that closes itself leaves its opener in front.
    click("button", "Share").await;
    see(&page, "Share").await;
    page.switch_tab(&title("Chats"), limit).await.unwrap();
    page.switch_tab(&TabWanted { name: Some("share".to_owned()), ..TabWanted::default() }, limit).await.unwrap();
    click("button", "Done").await;
    see(&page, "Chats").await;
    let told = page.find(&target(json!({"role": "status"}))).await.unwrap();
    assert_eq!(told[0].text, "shared");

    for (name, heading) in [("Draft", "Draft"), ("Wide", "Share")] {
        let began = std::time::Instant::now();
        click("button", name).await;
        see(&page, heading).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{name}");
        page.close_tab().await.unwrap();
        see(&page, "Chats").await;
    }
    assert_eq!(page.tab_count(), 1);
    assert!(page.close_tab().await.is_err());
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_new_tab_does_first_is_observed() {
    let browser = browser().await;
    let site = site();
    let page = open(&browser, &site).await;
    page.arm(ArmedDialog { kind: DialogKind::Alert, message: Some("Welcome".to_owned()), accept: true, text: None });
    page.click(&target(json!({"role": "button", "name": "Loud"}))).await.unwrap();
    page.dialogs_done().await.unwrap();
    see(&page, "Loud").await;
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    while page.activity().requests.is_empty() {
        assert!(std::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    let activity = page.activity();
    assert_eq!(activity.console[0].text, "loud");
    assert_eq!(activity.requests[0].status, Some(404));
    page.click(&target(json!({"role": "button", "name": "Loud"}))).await.unwrap_err(); // the new tab has none
    browser.close().await;
}

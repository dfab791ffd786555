//! Downloads, printing and permissions.

use std::time::Duration;

use longhaul_tools::browser::Permission;
use serde_json::json;

use crate::{
    browser, open,
    site::{Answer, Site, html},
    target,
};

async fn shows(page: &longhaul_tools::browser::Page, text: &str) {
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    loop {
        let found = page.find(&target(json!({"role": "status"}))).await.unwrap();
        let shown = found.first().map(|element| element.text.clone()).unwrap_or_default();
        if shown == text {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "expected {text:?}, it shows {shown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn downloads_arrive_with_name_and_content() {
    let browser = browser().await;
    let site = Site::serve(|request| match request.path.as_str() {
        "/" => html(
            "<a href=/file>Export</a> <a href=/file target=_blank>Export in a tab</a> \
             <a download='메모.md' href='data:text/markdown,%23 Hi'>Note</a> \
             <button id=blob>Blob</button><script>blob.onclick = () => { const a = document.createElement('a'); \
             a.href = URL.createObjectURL(new Blob(['a;b'])); a.download = 'blob.csv'; a.click(); }</script>",
        ),
        _ => {
            Answer { status: 200, media_type: "text/csv", body: "id,name\n1,Ada\n".to_owned() }.attachment("people.csv")
        }
    });
    let page = open(&browser, &site).await;
    let limit = Duration::from_secs(5);
    for (role, link, name, content) in [
        ("link", "Export", "people.csv", "id,name\n1,Ada\n"),
        ("link", "Note", "메모.md", "# Hi"),
        ("button", "Blob", "blob.csv", "a;b"),
        ("link", "Export in a tab", "people.csv", "id,name\n1,Ada\n"),
    ] {
        let before = page.activity().downloads.len();
        page.click(&target(json!({"role": role, "name": link}))).await.unwrap();
        let got = page.download(limit, |all| (all.len() > before).then_some(before)).await.unwrap();
        assert_eq!((got.name.as_str(), String::from_utf8(got.content).unwrap().as_str()), (name, content), "{link}");
    }
    let error = page.download(Duration::from_millis(50), |_| None).await.unwrap_err().to_string();
    assert!(error.starts_with("no such download within 50 ms; there were \"people.csv\", "), "{error}");
    assert_eq!(page.tab_count(), 1, "a tab that was only opened for a download closes itself");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_printed_is_paper_with_its_text() {
    let browser = browser().await;
    let site = Site::page(
        "<style>.only { display: none } @media print { nav { display: none } .sheet { break-after: page } .only { display: block } }</style>
         <nav>Menu</nav><div class=sheet>First sheet</div><div class=sheet>둘째 장</div><p class=only>Printed by Lantern</p>
         <button onclick='window.print()'>Print</button>",
    );
    let page = open(&browser, &site).await;
    let error = page.printed(Duration::from_millis(50)).await.unwrap_err().to_string();
    assert_eq!(error, "no page asked to be printed within 50 ms (window.print was not called)");
    page.click(&target(json!({"role": "button", "name": "Print"}))).await.unwrap();
    let printed = page.printed(Duration::from_secs(5)).await.unwrap();
    assert!(printed.pdf.starts_with(b"%PDF"));
    assert_eq!(printed.pages, 3);
    assert_eq!(printed.text, "First sheet 둘째 장 Printed by Lantern Print");
    let menu = page.find(&target(json!({"role": "navigation"}))).await.unwrap();
    assert_eq!(menu[0].hidden, None, "the screen is as it was");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_are_granted_and_denied() {
    let browser = browser().await;
    let site = Site::page(
        "<button onclick=\"navigator.geolocation.getCurrentPosition((p) => { out.textContent = p.coords.latitude.toFixed(2) + ' ' + p.coords.longitude.toFixed(2); }, (e) => { out.textContent = 'no: ' + e.code; })\">Where</button>
         <button onclick=\"Notification.requestPermission().then((p) => { out.textContent = p; })\">Notify</button>
         <button onclick=\"navigator.clipboard.writeText('복사한 글').then(() => { out.textContent = 'copied'; }, (e) => { out.textContent = e.name; })\">Copy</button>
         <button onclick=\"navigator.clipboard.readText().then((t) => { out.textContent = t; }, (e) => { out.textContent = e.name; })\">Read</button>
         <label>Field <input oninput='out.textContent = this.value'></label><p role=status id=out></p>",
    );
    let page = open(&browser, &site).await;
    let click = async |name: &str| page.click(&target(json!({"role": "button", "name": name}))).await.unwrap();
    page.permit(Permission::Geolocation, true).await.unwrap();
    page.set_place(37.5665, 126.978).await.unwrap();
    click("Where").await;
    shows(&page, "37.57 126.98").await;
    page.permit(Permission::Geolocation, false).await.unwrap();
    click("Where").await;
    shows(&page, "no: 1").await;
    page.permit(Permission::Notifications, true).await.unwrap();
    click("Notify").await;
    shows(&page, "granted").await;
    page.permit(Permission::Notifications, false).await.unwrap();
    click("Notify").await;
    shows(&page, "denied").await;
    let _guard = browser.clipboard().await;
    page.permit(Permission::Clipboard, true).await.unwrap();
    click("Copy").await;
    shows(&page, "copied").await;
    click("Read").await;
    shows(&page, "복사한 글").await;
    page.press(Some(&target(json!({"role": "textbox"}))), &"Control+v".parse().unwrap()).await.unwrap();
    let field = page.find(&target(json!({"role": "textbox"}))).await.unwrap();
    assert_eq!(field[0].value.as_deref(), Some("복사한 글"));
    page.permit(Permission::Clipboard, false).await.unwrap();
    click("Read").await;
    shows(&page, "NotAllowedError").await;
    browser.close().await;
}

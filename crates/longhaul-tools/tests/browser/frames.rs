//! Frames of the page's own site, of another site, sandboxed ones, and frames in frames: seen and operated as a user does.

use longhaul_tools::browser::{ArmedDialog, DialogKind, Page, UploadFile};
use serde_json::{Value, json};

use crate::{browser, open, site::Site, target};

const INNER: &str = "<title>Inner</title><h2>Kitchen</h2><label>Dish <input></label><button onclick=\"out.textContent = 'cooked ' + document.querySelector('input').value\">Cook</button>
  <button onclick=\"out.textContent = confirm('Really?')\">Ask</button><label>Recipe <input type=file onchange=\"out.textContent = this.files[0].name\"></label><p role=status id=out></p>";

/// The same page three times: of the same site, of another site (the host's other name), and in a sandbox.
fn site() -> Site {
    crate::pages(&[
        (
            "/",
            "<h1>House</h1><button>Cook</button><section aria-label=Left><iframe name=same title=Same src=/inner width=500 height=220></iframe></section>
             <section aria-label=Right id=right></section><iframe title=Boxed sandbox='allow-scripts allow-modals allow-forms' src=/inner width=500 height=220></iframe>
             <script>right.innerHTML = `<iframe name=other title=Other width=500 height=220 src='http://localhost:${location.port}/inner'></iframe>`</script>",
        ),
        ("/inner", INNER),
    ])
}

async fn text(page: &Page, wanted: Value) -> String {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    loop {
        let found = page.find(&target(wanted.clone())).await.unwrap();
        match found.first() {
            Some(element) => return element.text.clone(),
            None => assert!(std::time::Instant::now() < deadline, "no {wanted}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_of_every_origin_are_seen_and_operated() {
    let browser = browser().await;
    let site = site();
    let page = open(&browser, &site).await;
    for frame in [json!("same"), json!({"title": "Other"}), json!({"title": "Boxed"})] {
        let one = |role: &str, name: &str| json!({"role": role, "name": name, "frame": frame});
        assert_eq!(text(&page, one("heading", "Kitchen")).await, "Kitchen", "{frame}");
        page.fill(&target(one("textbox", "Dish")), "김치찌개").await.unwrap();
        page.click(&target(one("button", "Cook"))).await.unwrap();
        assert_eq!(text(&page, json!({"role": "status", "frame": frame})).await, "cooked 김치찌개", "{frame}");
        page.press(Some(&target(one("textbox", "Dish"))), &"Control+a".parse().unwrap()).await.unwrap();
        page.press(None, &"Backspace".parse().unwrap()).await.unwrap();
        page.click(&target(one("button", "Cook"))).await.unwrap();
        assert_eq!(text(&page, json!({"role": "status", "frame": frame})).await, "cooked", "{frame}");
        page.arm(ArmedDialog { kind: DialogKind::Confirm, message: None, accept: true, text: None });
        page.click(&target(one("button", "Ask"))).await.unwrap();
        page.dialogs_done().await.unwrap();
        assert_eq!(text(&page, json!({"role": "status", "frame": frame})).await, "true", "{frame}");
        let file = UploadFile { name: "soup.txt".to_owned(), content: "water".to_owned() };
        page.upload(&target(one("button", "Recipe")), &[file]).await.unwrap();
        assert_eq!(text(&page, json!({"role": "status", "frame": frame})).await, "soup.txt", "{frame}");
        let seen = page.find(&target(one("button", "Cook"))).await.unwrap();
        assert_eq!((seen.len(), seen[0].hidden.clone()), (1, None), "{frame}");
        assert!(page.painted(&seen[0]).await.unwrap(), "{frame}");
    }
    // Without a frame, the whole of what a user sees is meant; a region around a frame is around what is in it.
    assert_eq!(page.find(&target(json!({"role": "button", "name": "Cook"}))).await.unwrap().len(), 4);
    let right = json!({"role": "button", "name": "Cook", "within": {"role": "region", "name": "Right"}});
    assert_eq!(page.find(&target(right)).await.unwrap().len(), 1);
    let url = json!({"role": "button", "name": "Cook", "frame": {"url": "localhost"}});
    assert_eq!(page.find(&target(url)).await.unwrap().len(), 1);
    assert_eq!(page.find(&target(json!({"role": "button", "frame": "none"}))).await.unwrap().len(), 0);
    assert_eq!(page.activity().requests, []);
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_frame_hides_or_holds_below_is_told() {
    let browser = browser().await;
    let inner = "<body style='margin:0'><div style='height:1500px'></div><button onclick=\"this.textContent='Sent'\">Send</button>";
    let cases = [
        ("<iframe src=/inner></iframe>", ""),
        ("<div style='height:2000px'></div><iframe src=/inner></iframe>", ""),
        ("<iframe src=/inner style='height:1600px;border:7px solid;padding:5px'></iframe>", ""),
        (
            "<div style='height:900px'></div><iframe sandbox='allow-scripts' src=/inner style='height:1600px'></iframe>",
            "",
        ),
        ("<iframe src=/outer width=600 height=400></iframe>", ""),
        ("<iframe src=/inner style='opacity:0'></iframe>", "the frame around it: opacity 0 on it"),
        ("<iframe src=/inner style='position:absolute;left:-900px'></iframe>", "the frame around it: it is off-screen"),
        (
            "<iframe src=/inner></iframe><div class=veil style='position:fixed;inset:0;background:#eee'></div>",
            "the frame around it: it is covered by <div class=\"veil\">",
        ),
    ];
    let mut wrong = Vec::new();
    for (page, reason) in cases {
        let outer = "<iframe title=Deep src=/inner width=400 height=300></iframe>";
        let site = crate::pages(&[("/", page), ("/inner", inner), ("/outer", outer)]);
        let page_open = open(&browser, &site).await;
        let send = target(json!({"role": "button", "name": "Send"}));
        let found = page_open.find(&send).await.unwrap();
        let said = match found.first() {
            None => "not found".to_owned(),
            Some(element) => element.hidden.clone().unwrap_or_default(),
        };
        let right = if reason.is_empty() { said.is_empty() } else { said.contains(reason) };
        if !right {
            wrong.push(format!("{page}\n  expected {reason:?}\n  said     {said:?}"));
        } else if reason.is_empty() {
            page_open.click(&send).await.unwrap();
            let sent = page_open.find(&target(json!({"role": "button", "name": "Sent"}))).await.unwrap();
            if sent.len() != 1 {
                wrong.push(format!("{page}\n  the click did not arrive"));
            }
        }
    }
    browser.close().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_shadow_roots_are_no_border() {
    let browser = browser().await;
    let site = Site::page(
        "<app-card></app-card><script>customElements.define('app-card', class extends HTMLElement {
           constructor() { super(); const root = this.attachShadow({mode: 'closed'});
             root.innerHTML = '<label>Name <input></label><slot></slot><inner-part></inner-part><p role=status></p>';
             const inner = root.querySelector('inner-part').attachShadow({mode: 'closed'});
             inner.innerHTML = '<button>Greet</button>';
             inner.querySelector('button').onclick = () => { root.querySelector('p').textContent = 'Hello ' + root.querySelector('input').value; };
           } });</script>",
    );
    let page = open(&browser, &site).await;
    page.fill(&target(json!({"role": "textbox", "name": "Name"})), "Ada").await.unwrap();
    page.click(&target(json!({"role": "button", "name": "Greet"}))).await.unwrap();
    let status = page.find(&target(json!({"role": "status"}))).await.unwrap();
    assert_eq!((status[0].text.as_str(), &status[0].hidden), ("Hello Ada", &None));
    assert!(page.painted(&status[0]).await.unwrap());
    browser.close().await;
}

//! Flows around the page: tabs, frames, dialogs of every kind, permissions, downloads, paper, pictures, films.

use std::sync::Arc;

use longhaul_harness::verifier::{Baselines, Limits, Verifier, media_type};
use longhaul_tools::browser::Browser;
use serde_json::{Value, json};

use crate::{
    application::OnePage,
    browser, flow,
    site::{Answer, Site, html, status},
    verify,
};

const PAGE: &str = "<title>Desk</title><h1>Desk</h1><nav><a href=/help target=_blank>Help</a></nav>
  <iframe title=Preview sandbox='allow-scripts' srcdoc=\"<button onclick=&quot;this.textContent='On'&quot;>Off</button>\"></iframe>
  <button id=export>Export</button> <button onclick='window.print()'>Print</button> <button id=where>Where</button>
  <button id=copy>Copy link</button> <label>Paste <input></label> <button id=save>Save</button><p role=status id=out></p>
  <style>@media print { nav, button { display: none } }</style>
  <script>
    const on = (id, act) => { document.getElementById(id).onclick = act; };
    on('export', () => { const a = document.createElement('a'); a.download = 'desk-7.json';
      a.href = URL.createObjectURL(new Blob([JSON.stringify({items: [{id: 7}], note: '메모'})])); a.click(); });
    on('where', () => navigator.geolocation.getCurrentPosition((p) => { out.textContent = 'at ' + p.coords.latitude; }, () => { out.textContent = 'denied'; }));
    on('copy', () => navigator.clipboard.writeText('https://desk/7').then(() => { out.textContent = 'copied'; }));
    on('save', () => { out.textContent = prompt('Name?', 'x') + ' ' + confirm('Sure?'); alert('Saved'); addEventListener('beforeunload', (e) => e.preventDefault()); });
  </script>";

fn desk(page: &str) -> OnePage {
    let page = page.to_owned();
    OnePage(Site::serve(move |request| match request.path.as_str() {
        "/" => html(page.clone()),
        "/help" => html("<title>Help</title><h1>Help</h1><a href=/guide.md>Guide</a>"),
        "/guide.md" => Answer { status: 200, media_type: "text/markdown", body: "# Guide\nstep 1".to_owned() }
            .attachment("guide.md"),
        _ => status(404),
    }))
}

/// Everything that is around a page, in one flow.
fn everything() -> Value {
    json!([
        {"step":1,"check":"permission","name":"geolocation","answer":"grant","latitude":37.5,"longitude":127.0},
        {"step":1,"check":"permission","name":"clipboard","answer":"grant"},
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"act","action":"click","target":{"role":"button","name":"Off","frame":"Preview"}},
        {"step":1,"check":"expect","target":{"role":"button","name":"On","frame":{"title":"Preview"}},"visible":true},
        {"step":2,"check":"act","action":"click","target":{"role":"link","name":"Help"}},
        {"step":2,"check":"expect","target":{"role":"heading","name":"Help"},"visible":true},
        {"step":2,"check":"act","action":"click","target":{"role":"link","name":"Guide"}},
        {"step":2,"check":"download","name":"guide.*","contains":"# Guide","matches":"step \\d"},
        {"step":2,"check":"tab","close":true},
        {"step":2,"check":"expect","target":{"role":"heading","name":"Desk"},"visible":true},
        {"step":3,"check":"act","action":"click","target":{"role":"button","name":"Export"}},
        {"step":3,"check":"download","name":"desk-*.json","json":{"items":[{"id":7}],"note":"메모"}},
        {"step":4,"check":"act","action":"click","target":{"role":"button","name":"Print"}},
        {"step":4,"check":"print","contains":"Desk","lacks":"Help","pages":1},
        {"step":5,"check":"act","action":"click","target":{"role":"button","name":"Where"}},
        {"step":5,"check":"expect","target":{"role":"status"},"text":"at 37.5"},
        {"step":5,"check":"act","action":"click","target":{"role":"button","name":"Copy link"}},
        {"step":5,"check":"expect","target":{"role":"status"},"text":"copied"},
        {"step":5,"check":"act","action":"press","target":{"role":"textbox","name":"Paste"},"key":"Control+v"},
        {"step":5,"check":"expect","target":{"role":"textbox","name":"Paste"},"value":"https://desk/7"},
        {"step":6,"check":"dialog","kind":"prompt","message":"Name?","answer":"accept","text":"민수"},
        {"step":6,"check":"dialog","kind":"confirm","answer":"accept"},
        {"step":6,"check":"dialog","kind":"alert","message":"Saved","answer":"accept"},
        {"step":6,"check":"act","action":"click","target":{"role":"button","name":"Save"}},
        {"step":6,"check":"expect","target":{"role":"status"},"text":"민수 true"},
        {"step":7,"check":"visual","name":"desk","tolerance":0.002},
        {"step":7,"check":"visual","name":"status","target":{"role":"status"}},
        {"step":8,"check":"dialog","kind":"beforeunload","answer":"dismiss"},
        {"step":8,"check":"reload"},
        {"step":8,"check":"expect","target":{"role":"status"},"text":"민수 true"},
        {"step":8,"check":"dialog","kind":"beforeunload","answer":"accept"},
        {"step":8,"check":"reload"},
        {"step":8,"check":"expect","target":{"role":"status"},"hidden":true},
        {"step":8,"check":"expect","target":{"role":"heading","name":"Desk"},"visible":true},
        {"step":9,"check":"no_console_errors"},
        {"step":9,"check":"no_failed_requests"},
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_around_a_page_is_carried_out_several_times_at_once_and_filmed() {
    let browser = browser().await;
    let (mut one, mut other) = (desk(PAGE), desk(PAGE));
    let limits = Limits { film: true, ..Limits::default() };
    let flow = flow(&everything());
    let verifier = Verifier::new(browser.clone());
    let plain = Limits::default();
    let (first, second) =
        futures::join!(verifier.verify(&flow, &mut one, &limits), verifier.verify(&flow, &mut other, &plain));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.failure(), None);
    assert_eq!(second.failure(), None);
    assert_eq!(first.activity().dialogs.len(), 5);
    let names: Vec<&str> = first.baselines().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["desk", "status"]);
    let (_, pieces) = first.into_evidence();
    let kinds: Vec<&str> = pieces.iter().map(|(_, content)| media_type(content)).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "image/png").count(), 9);
    assert!(kinds.contains(&"application/pdf"));
    let (_, film) = pieces.iter().find(|(_, content)| media_type(content) == "image/webp").unwrap();
    plays(&browser, film).await;
    browser.close().await;
}

/// A browser can play it: it is an animated picture half as wide as the window.
async fn plays(browser: &Arc<Browser>, film: &[u8]) {
    let film = film.to_vec();
    let frames = film.windows(4).filter(|four| *four == b"ANMF").count();
    assert!(frames > 5, "{frames} pictures");
    let encoded: Vec<String> = film.iter().map(u8::to_string).collect();
    let page = format!(
        "<p role=status id=out></p><script>const d = new ImageDecoder({{type: 'image/webp', data: new Uint8Array([{}])}});
         d.tracks.ready.then(() => d.completed).then(() => {{ const t = d.tracks.selectedTrack; return d.decode({{frameIndex: t.frameCount - 1}}).then((r) => {{
           out.textContent = t.animated + ' ' + t.frameCount + ' ' + r.image.displayWidth; }}); }}).catch((e) => {{ out.textContent = e; }});</script>",
        encoded.join(",")
    );
    let checks = json!([
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"expect","target":{"role":"status"},"text":format!("true {frames} 640")},
    ]);
    let verdict = verify(browser, &checks, &mut OnePage(Site::page(&page))).await.unwrap();
    assert_eq!(verdict.failure(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_around_a_page_is_refused() {
    let browser = browser().await;
    let go = json!({"step":1,"check":"goto","path":"/"});
    let click = |name: &str| json!({"step":1,"check":"act","action":"click","target":{"role":"button","name":name}});
    let cases = [
        (
            "desk-7.json",
            "desk-7.exe",
            click("Export"),
            json!({"step":1,"check":"download","name":"*.json","within_ms":400}),
            "no such download within 400 ms; there were \"desk-7.exe\" (expected \"*.json\")",
        ),
        (
            "id: 7",
            "id: 8",
            click("Export"),
            json!({"step":1,"check":"download","name":"*.json","json":{"items":[{"id":7}]}}),
            "is other JSON: items[0].id is 8, expected 7",
        ),
        (
            "",
            "",
            click("Export"),
            json!({"step":1,"check":"download","name":"*","contains":"nothing of it"}),
            "\"nothing of it\" is not in it; it begins",
        ),
        (
            "window.print()",
            "console.log(1)",
            click("Print"),
            json!({"step":1,"check":"print","within_ms":300}),
            "no page asked to be printed within 300 ms",
        ),
        (
            "nav, button { display: none }",
            "",
            click("Print"),
            json!({"step":1,"check":"print","lacks":"Help"}),
            "the paper shows \"Help\"",
        ),
        (
            "h1>Desk",
            "h1 style='break-after:page'>Desk",
            click("Print"),
            json!({"step":1,"check":"print","pages":1}),
            "expected 1 sheets of paper, but there are 2",
        ),
        (
            "",
            "",
            click("Export"),
            json!({"step":1,"check":"tab","title":"Help","within_ms":200}),
            "found no tab \"Help\"; open are \"Desk\"",
        ),
        ("", "", click("Export"), json!({"step":1,"check":"tab","close":true}), "this is the only tab"),
        (
            "'allow-scripts'",
            "''",
            click("Off"),
            json!({"step":1,"check":"expect","target":{"role":"button","name":"On","frame":"Preview"},"visible":true,"within_ms":300}),
            "found no button \"On\" in frame \"Preview\"; there is button \"Off\"",
        ),
    ];
    let mut wrong = Vec::new();
    for (from, to, act, check, reason) in cases {
        let page = PAGE.replace(from, if from.is_empty() { "" } else { to });
        let see = json!({"step":1,"check":"expect","target":{"role":"heading"},"visible":true});
        let verdict = verify(&browser, &json!([go, see, act, check, see]), &mut desk(&page)).await.unwrap();
        let said = verdict.failure().map(|failure| failure.reason.clone()).unwrap_or_default();
        if !said.contains(reason) {
            wrong.push(format!("expected {reason:?}\n  said     {said:?}"));
        }
    }
    browser.close().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_is_held_against_the_accepted_one() {
    let browser = browser().await;
    let checks = json!([
        {"step":1,"check":"goto","path":"/"},
        {"step":1,"check":"expect","target":{"role":"heading"},"visible":true},
        {"step":1,"check":"visual","name":"home"},
        {"step":1,"check":"visual","name":"title","target":{"role":"heading"},"tolerance":0.02},
    ]);
    let page =
        |style: &str| OnePage(Site::page(&format!("<style>{style}</style><h1>Desk</h1><p style='height:300px'>Text")));
    let flow = flow(&checks);
    let first = Verifier::new(browser.clone()).verify(&flow, &mut page(""), &Limits::default()).await.unwrap();
    assert_eq!(first.failure(), None);
    let accepted: Baselines = first.baselines().iter().cloned().collect();
    let again = |style: &'static str| {
        let verifier = Verifier::new(browser.clone()).with_baselines(accepted.clone());
        let flow = &flow;
        async move { verifier.verify(flow, &mut page(style), &Limits::default()).await.unwrap() }
    };
    let same = again("").await;
    assert_eq!(same.failure(), None);
    assert!(same.baselines().is_empty());
    assert_eq!(again("p{color:#111}").await.failure(), None, "a shade that nobody sees");
    let other = again("body{background:#ddeeff}").await;
    let reason = &other.failure().unwrap().reason;
    assert!(
        reason.starts_with("\"home\" does not look as accepted: ") && reason.contains("at most 1.00 % may"),
        "{reason}"
    );
    assert!(other.baselines().is_empty());
    let (_, pieces) = other.into_evidence();
    let shown: Vec<&str> = pieces.iter().map(|(summary, _)| summary.as_str()).collect();
    assert_eq!(shown[1..], ["home: as accepted", "home: as it is now"]);
    let small = again("h1{font-size:24px}").await;
    let reason = &small.failure().unwrap().reason;
    assert!(reason.contains("home") || reason.contains("title"), "{reason}");
    browser.close().await;
}

//! What a user does: pointer, keys in any script, files, dialogs.

use longhaul_tools::browser::{ArmedDialog, DialogFault, DialogKind, PageError, UploadFile};
use serde_json::json;

use crate::{browser, open, site::Site, target};

async fn shows(page: &longhaul_tools::browser::Page, text: &str) {
    let found = page.find(&target(json!({"role": "status"}))).await.unwrap();
    assert_eq!(found.first().map(|element| element.text.as_str()), Some(text));
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_take_text_in_any_script_keys_and_choices() {
    let browser = browser().await;
    let site = Site::page(
        "<form><input aria-label=Title value=old><textarea aria-label=Note></textarea><input type=date aria-label=Day>
           <div contenteditable role=textbox aria-label=Rich>before</div>
           <select aria-label=Model><option>Small<option value=l>Large model</select>
           <input aria-label=Fixed readonly><input type=checkbox aria-label=Done></form>
         <p role=status id=out></p><script>
           const out = document.getElementById('out'); let typed = 0;
           addEventListener('input', (e) => { typed++; });
           addEventListener('keydown', (e) => { if (e.key === 'Enter') { e.preventDefault(); out.textContent = 'enter ' + (e.shiftKey ? 'shift' : 'plain'); } });
           addEventListener('change', (e) => { out.textContent = e.target.ariaLabel + ' ' + (e.target.type === 'checkbox' ? e.target.checked : e.target.value); });
         </script>",
    );
    let page = open(&browser, &site).await;
    let field = |name: &str| target(json!({"role": "textbox", "name": name}));
    let value = async |name: &str| page.find(&field(name)).await.unwrap()[0].value.clone();

    page.fill(&field("Title"), "안녕 세계 — 你好").await.unwrap();
    assert_eq!(value("Title").await.as_deref(), Some("안녕 세계 — 你好"));
    page.fill(&field("Title"), "").await.unwrap();
    assert_eq!(value("Title").await.as_deref(), Some(""));
    page.fill(&field("Note"), "one\ntwo").await.unwrap();
    assert_eq!(value("Note").await.as_deref(), Some("one\ntwo"));
    page.fill(&field("Rich"), "後").await.unwrap();
    assert_eq!(page.find(&field("Rich")).await.unwrap()[0].text, "後");
    page.fill(&field("Day"), "2026-02-03").await.unwrap();
    assert_eq!(value("Day").await.as_deref(), Some("2026-02-03"));
    let error = page.fill(&field("Day"), "tomorrow").await.unwrap_err().to_string();
    assert_eq!(error, "textbox \"Day\" cannot be used: a field of kind date takes no \"tomorrow\"");
    page.press(Some(&field("Note")), &"Shift+Enter".parse().unwrap()).await.unwrap();
    shows(&page, "enter shift").await;
    page.press(None, &"Enter".parse().unwrap()).await.unwrap();
    shows(&page, "enter plain").await;
    let list = target(json!({"role": "combobox", "name": "Model"}));
    page.select(&list, "Large model").await.unwrap();
    shows(&page, "Model l").await;
    let error = page.select(&list, "Huge").await.unwrap_err().to_string();
    assert_eq!(error, r#"combobox "Model" has no option "Huge"; it has "Small", "Large model""#);
    page.click(&target(json!({"role": "checkbox"}))).await.unwrap();
    shows(&page, "Done true").await;
    assert_eq!(page.find(&target(json!({"role": "checkbox"}))).await.unwrap()[0].checked, Some(true));
    let error = page.fill(&field("Fixed"), "x").await.unwrap_err().to_string();
    assert_eq!(error, "textbox \"Fixed\" cannot be used: it is read-only");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_act_waits_for_its_target_and_says_why_it_cannot_be_done() {
    let browser = browser().await;
    let site = Site::page(
        "<p role=status id=out></p><button id=late disabled>Late</button><button disabled>Never</button>
         <button>Twin</button><button>Twin</button>
         <div style='position:relative;width:200px'><button>Under</button><div class=veil style='position:absolute;inset:0'></div></div>
         <button id=mover style='position:relative'>Mover</button>
         <script>
           const out = document.getElementById('out');
           addEventListener('click', (e) => { out.textContent = 'clicked ' + e.target.textContent; });
           setTimeout(() => { late.disabled = false; }, 200);
           let x = 0; const move = () => { x += 7; mover.style.left = x + 'px'; if (x < 100) setTimeout(move, 30); }; move();
         </script>",
    );
    let page = open(&browser, &site).await;
    let click = async |name: &str| {
        page.click(&target(json!({"role": "button", "name": name}))).await.map_err(|error| error.to_string())
    };
    click("Late").await.unwrap();
    shows(&page, "clicked Late").await;
    click("Mover").await.unwrap();
    shows(&page, "clicked Mover").await;
    assert_eq!(click("Never").await.unwrap_err(), "button \"Never\" cannot be used: it is disabled");
    assert!(click("Under").await.unwrap_err().contains("it is covered by <div class=\"veil\">"));
    assert!(click("Twin").await.unwrap_err().starts_with("found 2 of button \"Twin\": button \"Twin\" <button>"));
    page.click(&target(json!({"role": "button", "name": "Twin", "nth": 1}))).await.unwrap();
    let missing = click("Gone").await.unwrap_err();
    assert!(missing.starts_with("found no button \"Gone\"; there is button \"Late\""), "{missing}");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dialogs_are_answered_and_never_stall() {
    let browser = browser().await;
    let site = Site::page(
        "<button onclick=\"out.textContent = confirm('Delete it?')\">Ask</button>
         <button onclick=\"out.textContent = prompt('Name?', 'x')\">Name</button>
         <button onclick=\"alert('Hello  there'); out.textContent = 'told'\">Tell</button>
         <button onclick=\"setTimeout(() => { alert('late'); }, 50)\">Later</button><p role=status id=out></p>",
    );
    let page = open(&browser, &site).await;
    let click = async |name: &str| page.click(&target(json!({"role": "button", "name": name}))).await;
    let arm = |kind, message: &str, accept, text: Option<&str>| {
        page.arm(ArmedDialog { kind, message: Some(message.to_owned()), accept, text: text.map(str::to_owned) });
    };
    arm(DialogKind::Confirm, "Delete it?", true, None);
    click("Ask").await.unwrap();
    page.dialogs_done().await.unwrap();
    shows(&page, "true").await;
    arm(DialogKind::Confirm, "Delete it?", false, None);
    click("Ask").await.unwrap();
    page.dialogs_done().await.unwrap();
    shows(&page, "false").await;
    arm(DialogKind::Prompt, "Name?", true, Some("민수"));
    click("Name").await.unwrap();
    page.dialogs_done().await.unwrap();
    shows(&page, "민수").await;
    arm(DialogKind::Alert, "Hello there", true, None);
    click("Tell").await.unwrap();
    page.dialogs_done().await.unwrap();

    arm(DialogKind::Confirm, "Remove it?", true, None);
    click("Ask").await.unwrap();
    let fault = page.dialogs_done().await.unwrap_err().to_string();
    assert_eq!(fault, r#"expected a confirm dialog "Remove it?", but confirm "Delete it?" opened"#);
    shows(&page, "false").await;
    arm(DialogKind::Alert, "never", true, None);
    let fault = page.dialogs_done().await.unwrap_err();
    assert!(matches!(fault, PageError::Dialog(DialogFault::Missing { .. })), "{fault}");
    click("Tell").await.err().unwrap_or_else(|| page.fault().unwrap());
    shows(&page, "told").await;
    click("Later").await.unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    let fault = loop {
        assert!(std::time::Instant::now() < deadline);
        if let Some(fault) = page.fault() {
            break fault;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(fault.to_string(), r#"an unexpected alert dialog opened: "late""#);
    assert_eq!(page.activity().dialogs.len(), 7);
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_chosen_through_the_chooser_that_a_click_opens() {
    let browser = browser().await;
    let site = Site::page(
        "<label>Notes <input type=file multiple></label><button onclick=\"document.querySelector('input').click()\">Attach</button>
         <button>Dead</button><p role=status id=out></p><script>
           document.querySelector('input').onchange = async (e) => {
             out.textContent = (await Promise.all([...e.target.files].map(async (f) => f.name + '=' + await f.text()))).join(' '); };
         </script>",
    );
    let page = open(&browser, &site).await;
    let file = |name: &str, content: &str| UploadFile { name: name.to_owned(), content: content.to_owned() };
    let arrived = async |text: &str| {
        let status = target(json!({"role": "status", "text": text}));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while page.find(&status).await.unwrap().is_empty() {
            assert!(std::time::Instant::now() < deadline, "{text} does not arrive");
        }
    };
    page.upload(&target(json!({"role": "button", "name": "Attach"})), &[file("메모.txt", "안녕"), file("b.md", "two")])
        .await
        .unwrap();
    arrived("메모.txt=안녕 b.md=two").await;
    page.upload(&target(json!({"role": "button", "name": "Notes"})), &[file("c.txt", "three")]).await.unwrap();
    arrived("c.txt=three").await;
    let error = page.upload(&target(json!({"role": "button", "name": "Dead"})), &[file("d", "")]).await.unwrap_err();
    assert!(error.to_string().starts_with("clicking button \"Dead\" opened no file chooser within"), "{error}");
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pointers_hover_and_drag() {
    let browser = browser().await;
    let site = Site::page(
        "<button onmouseenter=\"out.textContent='over'\">Menu</button>
         <div role=list><div role=listitem aria-label=Card draggable=true ondragstart=\"event.dataTransfer.setData('text/plain','card')\" style='width:80px;height:40px;background:#9cf'>Card</div></div>
         <div role=region aria-label=Bin ondragover=\"event.preventDefault()\" ondrop=\"out.textContent='dropped '+event.dataTransfer.getData('text/plain')\" style='width:200px;height:100px;background:#fc9'>Bin</div>
         <p role=status id=out></p>",
    );
    let page = open(&browser, &site).await;
    page.hover(&target(json!({"role": "button", "name": "Menu"}))).await.unwrap();
    shows(&page, "over").await;
    page.drag(&target(json!({"role": "listitem", "name": "Card"})), &target(json!({"role": "region", "name": "Bin"})))
        .await
        .unwrap();
    shows(&page, "dropped card").await;
    browser.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_act_ends_with_the_navigation_it_began_and_waits_for_no_other() {
    let browser = browser().await;
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let site = Site::serve(move |request| match request.path.as_str() {
        "/" => crate::site::html(
            "<a href='/slow'>Slow</a> <a href='#part'>Part</a> <a href='javascript:void 0'>Script</a> \
             <a download=x.txt href='data:text/plain,hello'>Export</a> <a href='mailto:a@b.c'>Mail</a> \
             <a href='/nothing'>Nothing</a> <form action='/sent' method=post><button>Submit</button></form> \
             <button onclick=\"history.pushState(0, '', '/pushed')\">Push</button>\
             <button onclick=\"setTimeout(() => { location.href = '/sent'; })\">Soon</button>",
        ),
        "/slow" => {
            let _ = held.lock().unwrap().recv_timeout(std::time::Duration::from_secs(10));
            crate::site::html("<h1>Slow</h1>")
        }
        "/nothing" => crate::site::status(204),
        _ => crate::site::html("<h1>Sent</h1>"),
    });
    let page = open(&browser, &site).await;
    let click = async |role: &str, name: &str| {
        let began = std::time::Instant::now();
        page.click(&target(json!({"role": role, "name": name}))).await.unwrap();
        (page.url().await.unwrap().replace(&site.base_url(), ""), began.elapsed())
    };
    for (name, url) in
        [("Part", "/#part"), ("Script", "/#part"), ("Export", "/#part"), ("Mail", "/#part"), ("Nothing", "/#part")]
    {
        let (at, took) = click("link", name).await;
        assert_eq!(at, url, "{name}");
        assert!(took.as_millis() < 3_000, "{name} took {took:?}");
    }
    assert_eq!(click("button", "Push").await.0, "/pushed");
    // The answer comes only after it has been asked for, so after the click.
    let asked = || site.seen().contains(&"GET /slow".to_owned());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
            while !asked() && std::time::Instant::now() < deadline {
                std::thread::yield_now();
            }
            release.send(()).unwrap();
        });
        tokio::task::block_in_place(|| {
            let (at, _) = tokio::runtime::Handle::current().block_on(click("link", "Slow"));
            assert_eq!(at, "/slow");
        });
    });
    assert_eq!(page.find(&target(json!({"role": "heading", "name": "Slow"}))).await.unwrap().len(), 1);
    page.goto("/").await.unwrap();
    assert_eq!(click("button", "Submit").await.0, "/sent");
    page.goto("/").await.unwrap();
    click("button", "Soon").await; // begins only after the click: whoever looks next, looks until it is there
    let sent = target(json!({"role": "heading", "name": "Sent"}));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while page.find(&sent).await.unwrap().is_empty() {
        assert!(std::time::Instant::now() < deadline);
    }
    browser.close().await;
}

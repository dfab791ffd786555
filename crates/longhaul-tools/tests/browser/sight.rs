//! What counts as visible. One page a case; the reason must name the fault.

use serde_json::{Value, json};

use crate::{browser, site::Site, target};

/// Opens a page and says why its button "Save" (or the given target) is not visible.
struct Case {
    page: &'static str,
    target: Value,
    /// Part of the reason; empty when it must be visible.
    reason: &'static str,
}

fn case(page: &'static str, reason: &'static str) -> Case {
    Case { page, target: json!({"role": "button", "name": "Save"}), reason }
}

fn paragraph(page: &'static str, reason: &'static str) -> Case {
    Case { page, target: json!({"role": "paragraph"}), reason }
}

async fn check(cases: &[Case]) {
    let browser = browser().await;
    let mut wrong = Vec::new();
    for case in cases {
        let site = Site::page(case.page);
        let page = crate::open(&browser, &site).await;
        let found = page.find(&target(case.target.clone())).await.unwrap();
        let said = match found.first() {
            None => format!("not found{}", page.nearby(&target(case.target.clone())).await),
            Some(element) => match &element.hidden {
                Some(reason) => reason.clone(),
                None if page.painted(element).await.unwrap() => String::new(),
                None => "paints nothing".to_owned(),
            },
        };
        let right = if case.reason.is_empty() { said.is_empty() } else { said.contains(case.reason) };
        if !right {
            wrong.push(format!("{}\n  expected {:?}\n  said     {said:?}", case.page, case.reason));
        }
    }
    browser.close().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_cannot_see_is_not_visible_and_the_reason_names_the_fault() {
    check(&[
        case(
            "<div class=panel style='opacity:0'><button>Save</button></div>",
            "opacity 0 on its ancestor <div class=\"panel\">",
        ),
        case("<button style='opacity:0.04'>Save</button>", "opacity 0.04 on it"),
        case("<div style='filter:opacity(0)'><button>Save</button></div>", "filter: opacity(0)"),
        case(
            "<div id=box style='display:none'><button>Save</button></div>",
            "display: none on its ancestor <div id=\"box\">",
        ),
        case("<button style='visibility:hidden'>Save</button>", "visibility: hidden"),
        case("<button aria-hidden=true>Save</button>", "aria-hidden"),
        case("<button style='width:0;height:0;padding:0;border:0;overflow:hidden'>Save</button>", "no size"),
        case("<button style='transform:scale(0)'>Save</button>", "no size"),
        case("<button style='position:absolute;left:-9999px'>Save</button>", "off-screen"),
        case("<button style='position:fixed;top:2000px'>Save</button>", "off-screen"),
        case(
            "<div style='height:0;overflow:hidden' class=shut><button>Save</button></div>",
            "clipped away by <div class=\"shut\">",
        ),
        case(
            "<div style='height:50px;overflow:hidden'><div style='height:400px'></div><button>Save</button></div>",
            "clipped away by <div>",
        ),
        case(
            "<button style='position:absolute;width:1px;height:1px;padding:0;border:0;overflow:hidden'>Save</button>",
            "1×1 pixels",
        ),
        case("<button style='clip-path:inset(100%)'>Save</button>", "clip"),
        case(
            "<button>Save</button><div class=cover style='position:fixed;inset:0;background:#eee'></div>",
            "covered by <div class=\"cover\">",
        ),
        case(
            "<button>Save</button><div style='position:fixed;inset:0;background:#eee;pointer-events:none'></div>",
            "paints nothing",
        ),
        // What moves elsewhere does not make it visible.
        case(
            "<style>@keyframes t{to{left:200px}}i{position:fixed;left:0;bottom:0;width:20px;height:20px;background:red;animation:t 1s infinite;z-index:9}</style><i></i><button>Save</button><div style='position:fixed;inset:0;background:#eee;pointer-events:none'></div>",
            "paints nothing",
        ),
        case(
            "<div style='background:#fff'><button style='position:relative;z-index:-1'>Save</button></div>",
            "behind its ancestor",
        ),
        paragraph("<p style='color:#fff'>Saved", "its text has the colour of its background, rgb(255, 255, 255)"),
        paragraph(
            "<div style='background:#223'><p style='color:#222233'>Saved</div>",
            "colour of its background, rgb(34, 34, 51)",
        ),
        paragraph("<p style='color:transparent'>Saved", "its text is transparent"),
        paragraph("<p style='font-size:0'>Saved", "no size"),
        paragraph("<p style='text-indent:-9999px;overflow:hidden'>Saved", "its text is outside of what it shows"),
        paragraph("<p style='color:#fff;text-shadow:0 0 1px #fff'>Saved", "paints nothing"),
        case("<p>Nothing here</p><button>Save all</button>", "there is button \"Save all\""),
        case("<div onclick=''>Save</div>", "has that text, but another role"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_can_see_is_visible_also_after_scrolling() {
    check(&[
        case("<button>Save</button>", ""),
        case("<div style='height:3000px'></div><button>Save</button>", ""),
        case("<div style='height:90px;overflow:auto'><div style='height:900px'></div><button>Save</button></div>", ""),
        case("<body style='margin:0;height:100vh;overflow:hidden;display:flex'><main style='overflow:auto'><div style='height:2000px'></div><button>Save</button></main>", ""),
        case("<button style='border-radius:50%;width:60px;height:60px'>Save</button>", ""),
        case("<button style='pointer-events:none'>Save</button>", ""),
        case("<button disabled>Save</button>", ""),
        case("<div style='display:contents'><button>Save</button></div>", ""),
        case("<button><svg width=20 height=20 aria-label=Save role=img><rect width=20 height=20 /></svg></button>", ""),
        case("<div id=host></div><script>host.attachShadow({mode:'closed'}).innerHTML='<button>Save</button>'</script>", ""),
        case("<style>*{transition:all 2s}</style><button>Save</button>", ""),
        case("<dialog id=d><button>Save</button></dialog><script>d.showModal()</script>", ""),
        paragraph("<p style='background:#123;color:#fff'>Saved", ""),
        paragraph("<p style='background:linear-gradient(#000,#333);color:#fff'>Saved", ""),
        paragraph("<p style='position:absolute;top:300px;left:300px'>안녕하세요", ""),
        paragraph("<div style='position:relative;overflow:hidden;height:1px'><p style='position:fixed;top:9px;left:9px'>Saved</div>", ""),
        Case { page: "<ul><li>Buy milk</ul>", target: json!({"role": "listitem", "name": "Buy milk"}), reason: "" },
        Case { page: "<textarea aria-label=Note></textarea>", target: json!({"role": "textbox", "name": "Note"}), reason: "" },
        Case { page: "<p>One <b>two</b>", target: json!({"role": "text", "name": "two"}), reason: "" },
        Case {
            page: "<nav aria-label=A><button>Save</button></nav><main><ul><li><button>Save</button></ul></main>",
            target: json!({"role": "button", "name": "save", "within": {"role": "listitem", "within": {"role": "main"}}}),
            reason: "",
        },
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_leaves_the_page_as_it_was() {
    let browser = browser().await;
    let site = Site::page(
        "<div style='height:3000px'></div><input aria-label=Name style='transition:opacity 1s'><p id=seen>none</p><script>
           const input = document.querySelector('input'); input.focus({preventScroll:true});
           const seen = document.getElementById('seen'); let n = 0;
           for (const kind of ['blur', 'transitionrun', 'animationstart'])
             input.addEventListener(kind, () => { seen.textContent = kind; });
           new MutationObserver(() => { seen.textContent = 'mutated'; })
             .observe(document.documentElement, {attributes: true, childList: true, subtree: false});
         </script>",
    );
    let page = crate::open(&browser, &site).await;
    for _ in 0..2 {
        let found = page.find(&target(json!({"role": "textbox", "name": "Name"}))).await.unwrap();
        assert_eq!(found[0].hidden, None);
        assert!(found[0].focused);
        assert!(page.painted(&found[0]).await.unwrap());
    }
    let seen = page.find(&target(json!({"role": "paragraph"}))).await.unwrap();
    assert_eq!(seen[0].text, "none");
    browser.close().await;
}

//! The agent's `browser` tool, called as a model calls it.

use std::sync::Arc;

use longhaul_core::ToolCall;
use longhaul_tools::{
    ToolOutput, ToolRegistry,
    browser::{AppAddress, BrowserSettings, BrowserTool, SharedBrowser},
};

use crate::site::{self, Site};

#[tokio::test(flavor = "multi_thread")]
async fn a_model_opens_acts_and_reads_what_went_wrong() {
    let browser = SharedBrowser::new(BrowserSettings::default());
    let address = AppAddress::default();
    let registry = ToolRegistry::new([
        Arc::new(BrowserTool::new(browser.clone(), address.clone())) as Arc<dyn longhaul_tools::Tool>
    ])
    .unwrap();
    let call = async |arguments: &str| -> ToolOutput {
        let call = ToolCall { id: "1".into(), name: "browser".into(), arguments: arguments.into() };
        registry.call(&call).await
    };
    let off = call(r#"{"action":"open"}"#).await;
    assert!(off.is_error && off.text.starts_with("error: the application is not running"), "{}", off.text);

    let site = Site::serve(|request| match request.path.as_str() {
        "/" => site::html(
            "<h1>Notes</h1><input aria-label=Title><button onclick=\"fetch('/api', {method: 'PUT', body: '새 메모'}).then(() => { console.error('no notes'); \
             list.innerHTML = '<li>first' })\">Load</button><ul id=list></ul>",
        ),
        _ => {
            assert_eq!((request.method.as_str(), request.body.as_slice()), ("PUT", "새 메모".as_bytes()));
            site::status(500)
        }
    });
    address.set(Some(site.base_url()));
    let early = call(r#"{"action":"snapshot"}"#).await;
    assert!(early.is_error && early.text.contains("no page is open"), "{}", early.text);
    let opened = call(r#"{"action":"open","path":"/"}"#).await;
    assert_eq!(
        opened.text,
        "opened /\npage /\n- heading \"Notes\" level=1\n- textbox \"Title\"\n- button \"Load\"\n- list\n"
    );
    let filled = call(r#"{"action":"fill","target":{"role":"textbox","name":"Title"},"text":"새 메모"}"#).await;
    assert!(filled.text.contains("- textbox \"Title\" value=\"새 메모\" focused"), "{}", filled.text);
    let clicked = call(r#"{"action":"click","target":{"role":"button","name":"Load"}}"#).await;
    let mut looked = call(r#"{"action":"snapshot"}"#).await;
    let mut told = looked.text.clone();
    while !looked.text.contains("first") {
        looked = call(r#"{"action":"snapshot"}"#).await;
        told.push_str(&looked.text);
    }
    assert_eq!(looked.attachments.len(), 1);
    assert!(clicked.text.starts_with("clicked button \"Load\"\npage /\n"), "{}", clicked.text);
    told.push_str(&clicked.text);
    assert_eq!(told.matches("CONSOLE ERROR: no notes").count(), 1, "{told}");
    assert_eq!(told.matches("FAILED REQUEST: PUT ").count(), 1, "{told}");
    let wrong = call(r#"{"action":"click","target":{"role":"button","name":"Save"}}"#).await;
    assert!(
        wrong.is_error && wrong.text.contains("found no button \"Save\"; there is button \"Load\""),
        "{}",
        wrong.text
    );
    let bad = call(r#"{"action":"click","target":{"css":".x"}}"#).await;
    assert!(bad.text.contains("target.css: is not a field of a target"), "{}", bad.text);
    browser.close().await;
    let again = call(r#"{"action":"open"}"#).await;
    assert!(!again.is_error, "a browser that has gone is started again: {}", again.text);
    browser.close().await;
}

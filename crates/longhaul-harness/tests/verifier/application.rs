//! A small chat application whose page and server can be given a fault each.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use longhaul_harness::verifier::AppControl;

use crate::site::{Answer, Request, Site, html, status};

const PAGE: &str = r#"<body><h1>Lantern</h1><button id=new>New chat</button>
<nav aria-label=Conversations><ul id=list></ul></nav>
<main><label>Message <input id=message></label><button id=send>Send</button>
<section role=log aria-label=Messages id=log></section>
<label>Notes <input type=file id=file></label><p role=status id=note></p></main>
<script>
const q = (id) => document.getElementById(id);
async function load() {
  const chats = await (await fetch('/api/chats')).json();
  q('list').innerHTML = chats.map((c, i) => `<li>${c} <button onclick="remove(${i})" aria-label="Delete ${c}">x</button></li>`).join('');
}
async function remove(i) {
  if (!confirm('Delete this conversation?')) return;
  await fetch('/api/chats/' + i, {method: 'DELETE'}); load();
}
q('new').onclick = async () => { await fetch('/api/chats', {method: 'POST', body: 'Chat ' + Date.now()}); load(); };
q('send').onclick = () => {
  const p = document.createElement('p'); p.textContent = q('message').value; q('log').append(p); q('message').value = '';
};
q('file').onchange = async (e) => { const f = e.target.files[0]; q('note').textContent = f.name + ': ' + await f.text(); };
load();
</script>"#;

/// The application. A restart moves it to another port and keeps its data.
pub(crate) struct Chat {
    page: String,
    chats: Arc<Mutex<Vec<String>>>,
    forgets: bool,
    site: Site,
}

impl Chat {
    pub(crate) fn healthy() -> Self {
        Self::with(|page| page.to_owned())
    }

    /// With a fault planted into its page.
    pub(crate) fn with(fault: impl FnOnce(&str) -> String) -> Self {
        let page = fault(PAGE);
        let chats: Arc<Mutex<Vec<String>>> = Arc::default();
        let site = serve(page.clone(), chats.clone());
        Self { page, chats, forgets: false, site }
    }

    /// With this replaced in its page.
    pub(crate) fn replacing(from: &str, to: &str) -> Self {
        assert!(PAGE.contains(from), "{from} is not in the page");
        Self::with(|page| page.replace(from, to))
    }

    /// Loses its data when it is restarted.
    pub(crate) fn forgetting() -> Self {
        Self { forgets: true, ..Self::healthy() }
    }
}

fn serve(page: String, chats: Arc<Mutex<Vec<String>>>) -> Site {
    Site::serve(move |request| answer(request, &page, &chats))
}

fn answer(request: &Request, page: &str, chats: &Mutex<Vec<String>>) -> Answer {
    let mut chats = chats.lock().unwrap();
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/") => return html(page),
        ("GET", "/api/chats") => {}
        ("POST", "/api/chats") => chats.push(String::from_utf8_lossy(&request.body).into_owned()),
        ("DELETE", path) => {
            let index =
                path.rsplit('/').next().and_then(|index| index.parse().ok()).filter(|index| *index < chats.len());
            match index {
                Some(index) => drop(chats.remove(index)),
                None => return status(404),
            }
        }
        _ => return status(404),
    }
    Answer { status: 200, media_type: "application/json", body: serde_json::to_string(&*chats).unwrap() }
}

#[async_trait]
impl AppControl for Chat {
    fn base_url(&self) -> String {
        self.site.base_url()
    }

    async fn restart(&mut self) -> Result<(), String> {
        if self.forgets {
            self.chats.lock().unwrap().clear();
        }
        self.site = serve(self.page.clone(), self.chats.clone());
        Ok(())
    }
}

/// An application of one page that cannot be restarted.
pub(crate) struct OnePage(pub(crate) Site);

#[async_trait]
impl AppControl for OnePage {
    fn base_url(&self) -> String {
        self.0.base_url()
    }

    async fn restart(&mut self) -> Result<(), String> {
        Err("init.sh exited with 1".to_owned())
    }
}

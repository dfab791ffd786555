//! An application under test: a folder with `init.sh`, started as an ordinary process with data of its own, with or
//! without a fault.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use async_trait::async_trait;
use longhaul_harness::verifier::AppControl;
use tempfile::TempDir;

use crate::plan::{Fault, Seed};

const SCRIPT: &str = include_str!("fault.js");
const HOOK: &str = include_str!("sitecustomize.py");
const BOOT: Duration = Duration::from_secs(30);

/// The committed folder of an application.
pub(crate) fn folder(app: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/apps").join(app)
}

/// A running application.
pub(crate) struct App {
    place: TempDir,
    fault: &'static str,
    port: u16,
    child: Option<Child>,
}

impl App {
    pub(crate) async fn start(app: &str, fault: Option<&Fault>) -> Result<Self, String> {
        let place = TempDir::new().map_err(|e| e.to_string())?;
        for name in ["app", "data", "hook"] {
            fs::create_dir(place.path().join(name)).map_err(|e| e.to_string())?;
        }
        for entry in fs::read_dir(folder(app)).map_err(|e| e.to_string())?.flatten() {
            fs::copy(entry.path(), place.path().join("app").join(entry.file_name())).map_err(|e| e.to_string())?;
        }
        let mut kind = "";
        if let Some(fault) = fault {
            kind = plant(&place.path().join("app"), &fault.seed);
        }
        fs::write(place.path().join("hook/sitecustomize.py"), HOOK).map_err(|e| e.to_string())?;
        let mut app = Self { place, fault: kind, port: 0, child: None };
        app.boot().await.map(|()| app)
    }

    async fn boot(&mut self) -> Result<(), String> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        self.port = free.map_err(|e| e.to_string())?.port();
        let mut command = Command::new("/bin/sh");
        command.arg("init.sh").current_dir(self.place.path().join("app")).stdin(Stdio::null()).stderr(Stdio::null());
        command.env("PORT", self.port.to_string()).env("DATA_DIR", self.place.path().join("data"));
        command.env("PYTHONPATH", self.place.path().join("hook")).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("LONGHAUL_FAULT", self.fault);
        self.child = Some(command.spawn().map_err(|e| e.to_string())?);
        let ready = async {
            let mut again = tokio::time::interval(Duration::from_millis(10));
            while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
                again.tick().await;
            }
        };
        tokio::time::timeout(BOOT, ready).await.map_err(|_| "it does not listen".to_owned())
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill(); // it may have ended by itself
            let _ = child.wait();
        }
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.end();
    }
}

#[async_trait]
impl AppControl for App {
    fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    async fn restart(&mut self) -> Result<(), String> {
        self.end();
        self.boot().await
    }
}

/// Plants the fault into a copy of the application; gives the kind that its server must know.
fn plant(app: &Path, seed: &Seed) -> &'static str {
    match *seed {
        Seed::Server { kind } => return kind,
        Seed::Page { kind, at } => {
            let fault = serde_json::json!({"kind": kind, "at": at}).to_string();
            let script = format!("<head>\n<script>\n{}</script>", SCRIPT.replace("FAULT", &fault));
            let pages = fs::read_dir(app).unwrap().flatten().map(|entry| entry.path());
            for page in pages.filter(|path| path.extension().is_some_and(|ending| ending == "html")) {
                let text = fs::read_to_string(&page).unwrap();
                assert!(text.contains("<head>"), "{} has no head", page.display());
                fs::write(&page, text.replacen("<head>", &script, 1)).unwrap();
            }
        }
        Seed::Text { file, from, nth, to } => {
            let path = app.join(file);
            let text = fs::read_to_string(&path).unwrap();
            let (at, _) = text.match_indices(from).nth(nth).unwrap_or_else(|| panic!("{file} has no {from:?} [{nth}]"));
            fs::write(&path, format!("{}{to}{}", &text[..at], &text[at + from.len()..])).unwrap();
        }
    }
    ""
}

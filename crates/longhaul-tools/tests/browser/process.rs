//! The browser's process: as whom it runs, what it may reach, and that it never outlives us.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use longhaul_tools::browser::{Browser, BrowserError, BrowserSettings, PageError};

use crate::{browser, open, site::Site};

/// Processes of a session's folder that still live, zombies aside: `(number, command line)`.
fn processes_naming(text: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(text) && id != std::process::id() {
            found.push((id, line));
        }
    }
    found
}

fn profile_of(process: u32) -> PathBuf {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap();
    let line = String::from_utf8_lossy(&line).into_owned();
    let flag = line.split('\0').find_map(|word| word.strip_prefix("--user-data-dir=")).unwrap();
    Path::new(flag).parent().unwrap().to_owned()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} does not come true");
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_runs_as_an_ordinary_user_in_its_own_sandbox_without_a_debugging_port() {
    let browser = browser().await;
    assert!(browser.version().starts_with("Chrome/"), "{}", browser.version());
    let process = browser.process_id().unwrap();
    let folder = profile_of(process);
    let ours = processes_naming(folder.to_str().unwrap());
    assert!(!ours.is_empty());
    for (id, line) in &ours {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        assert!(!status.contains("Uid:\t0\t"), "{line} runs as root");
        assert!(!line.contains("--no-sandbox"), "{line} runs without its sandbox");
        assert!(!line.contains("--remote-debugging-port"), "{line} listens");
    }
    // Sockets of the browser's own processes that listen, by their inode.
    let listening = fs::read_to_string("/proc/net/tcp").unwrap();
    let inodes: Vec<&str> = listening
        .lines()
        .skip(1)
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[3] == "0A").then(|| words[9])
        })
        .collect();
    for (id, _) in &ours {
        for descriptor in fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten() {
            let Ok(link) = fs::read_link(descriptor.path()) else { continue };
            let link = link.to_string_lossy().into_owned();
            assert!(!inodes.iter().any(|inode| link == format!("socket:[{inode}]")), "process {id} listens on a port");
        }
    }
    browser.close().await;
    assert!(!browser.is_alive());
    assert!(!folder.exists(), "{} is left behind", folder.display());
    until("the end of all of its processes", || processes_naming(folder.to_str().unwrap()).is_empty());
    let site = Site::page("<p>x");
    assert!(matches!(browser.open_page(&site.base_url()).await, Err(BrowserError::Gone)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_cannot_be_had_is_an_error_that_says_what_to_do() {
    let with = |program: &str| BrowserSettings {
        program: Some(program.into()),
        launch_timeout: Duration::from_secs(5),
        ..BrowserSettings::default()
    };
    let missing = Browser::launch(with("no-such-browser")).await.unwrap_err();
    assert!(
        missing.to_string().contains("no-such-browser") && missing.to_string().contains("apt-get install chromium")
    );
    assert!(matches!(missing, BrowserError::NotFound { .. }));
    let other = Browser::launch(with("/bin/false")).await.unwrap_err();
    assert!(matches!(other, BrowserError::Start { .. }), "{other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_may_take_longer_than_a_call() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("slow-chromium");
    let chromium = BrowserSettings::default().locate().unwrap();
    fs::write(&program, format!("#!/bin/sh\nsleep 4\nexec {} \"$@\"\n", chromium.display())).unwrap();
    // Who starts it may be another user than who wrote it.
    for (path, mode) in [(dir.path(), 0o755), (&program, 0o755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let call_timeout = Duration::from_secs(3);
    let settings = BrowserSettings { program: Some(program), call_timeout, ..BrowserSettings::default() };
    Browser::launch(settings).await.unwrap().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_killed_in_the_middle_is_gone_for_every_call() {
    let browser = browser().await;
    let site = Site::page("<button>Save</button>");
    let page = open(&browser, &site).await;
    let process = rustix::process::Pid::from_raw(i32::try_from(browser.process_id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    let error = page.find(&crate::target(serde_json::json!({"role": "button"}))).await.unwrap_err();
    assert!(matches!(error, PageError::Browser(BrowserError::Gone)), "{error:?}");
    assert!(!browser.is_alive());
}

const VICTIM: &str = "LONGHAUL_TEST_VICTIM";

/// Opens a browser, names its folder and waits to be killed.
fn be_the_victim() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let browser = browser().await;
        println!("folder {}", profile_of(browser.process_id().unwrap()).display());
        std::future::pending::<()>().await;
    });
}

#[test]
fn after_sigkill_of_its_owner_no_browser_stays_and_the_next_start_sweeps_its_folder() {
    use std::io::BufRead as _;
    if std::env::var_os(VICTIM).is_some() {
        return be_the_victim();
    }
    let this = "process::after_sigkill_of_its_owner_no_browser_stays_and_the_next_start_sweeps_its_folder";
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args([this, "--exact", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(owner.stdout.take().unwrap()).lines();
    let folder = lines.map_while(Result::ok).find_map(|line| Some(line.split_once("folder ")?.1.to_owned())).unwrap();
    assert!(!processes_naming(&folder).is_empty());
    owner.kill().unwrap();
    owner.wait().unwrap();
    until("the end of the browser", || processes_naming(&folder).is_empty());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { browser().await.close().await });
    assert!(!Path::new(&folder).exists(), "{folder} was not swept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_reaches_its_application_and_nothing_else() {
    let browser = browser().await;
    let other = Site::page("secret");
    let site = Site::page(&format!(
        "<p id=out>waiting</p><script>
           const tries = ['{0}/', 'http://example.com/', 'http://127.0.0.1:1/'];
           const socket = new Promise((done) => {{
             const s = new WebSocket('{1}/'); s.onopen = () => done('open'); s.onerror = () => done('refused'); }});
           Promise.all([...tries.map((u) => fetch(u, {{mode: 'no-cors'}}).then(() => 'reached ' + u, () => 'refused')), socket])
             .then((all) => {{ out.textContent = all.join(' '); }});
         </script>",
        other.base_url(),
        other.base_url().replace("http", "ws"),
    ));
    let page = open(&browser, &site).await;
    let text = crate::target(serde_json::json!({"role": "paragraph", "text": "refused"}));
    let deadline = Instant::now() + Duration::from_secs(10);
    while page.find(&text).await.unwrap().is_empty() {
        assert!(Instant::now() < deadline, "the page's requests do not end");
        tokio::task::yield_now().await;
    }
    assert_eq!(page.find(&text).await.unwrap()[0].text, "refused refused refused refused");
    assert!(other.seen().is_empty(), "{:?}", other.seen());
    let requests = page.activity().requests;
    assert!(requests.len() >= 3, "{requests:?}");
    assert!(requests[0].to_string().contains("only the application's own origin"), "{}", requests[0]);
    drop(page);

    // A second page starts with an empty profile.
    let site =
        Site::page("<p id=out></p><script>out.textContent = 'was ' + localStorage.x; localStorage.x = 1</script>");
    for _ in 0..2 {
        let page = open(&browser, &site).await;
        let found = page.find(&crate::target(serde_json::json!({"role": "paragraph"}))).await.unwrap();
        assert_eq!(found[0].text, "was undefined");
    }
    browser.close().await;
}

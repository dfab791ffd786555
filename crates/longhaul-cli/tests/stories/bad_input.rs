//! What goes wrong around a project: a model that talks nonsense, an application that does not do its part, a disk that
//! is full, a browser that dies. Each ends in a state that is told, and the work goes on from there.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    process::Command,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    processes,
    stage::{Ended, Running, Stage},
    tampering::story::{BOOT, SERVER, Story, Turn},
};

const WAITS_FOR_EVER: &str = "#!/bin/sh\nexec sleep 1000\n";
const WAITS_FOR_INPUT: &str =
    "#!/bin/sh\nread answer\n[ -n \"$answer\" ] && exec python3 server.py\necho no answer\nexit 3\n";
const ANOTHER_PORT: &str = "#!/bin/sh\nPORT=8123 exec python3 server.py\n";
const FLOODS_ITS_LOG: &str =
    "#!/bin/sh\n(yes 'a line that nobody reads' | head -c 200000000) &\nexec python3 server.py\n";

fn crashes() -> String {
    SERVER.replace("class Handler", "LEFT = []\n\n\nclass Handler").replace(
        "    def log_message",
        "    def do_GET(self):\n        if not LEFT:\n            os._exit(1)\n        LEFT.pop()\n        super().do_GET()\n\n    def log_message",
    )
}

#[test]
fn nonsense_of_the_model_and_faults_of_the_application_are_told_and_mended() {
    let stage = Stage::new();
    let mut story = Story::with_plan();
    story.add(Turn::of("F01").call("launch_rocket", json!({"to": "the moon"})).call("write_file", json!("no object")));
    story.add(Turn::of("F01").cut("write_file", "{\"path\": \"index.html\", \"content\": \"<h1>He"));
    story.add(Turn::of("F01").say("@@@ \u{fffd} 我不知道 ]]]}"));
    story.add(Turn::of("F01").page("Hello").file("init.sh", WAITS_FOR_EVER).claim("waits"));
    story.add(Turn::of("F01").file("init.sh", WAITS_FOR_INPUT).claim("asks"));
    story.add(Turn::of("F01").file("init.sh", ANOTHER_PORT).claim("listens elsewhere"));
    story.add(Turn::of("F01").file("init.sh", BOOT).file("server.py", &crashes()).claim("crashes"));
    story.add(Turn::of("F01").file("server.py", SERVER).file("init.sh", FLOODS_ITS_LOG).claim("the page greets"));
    stage.write("story.toml", &story.cassette());
    let mut demo = stage.command(&["demo", "--cassette", "story.toml", "--dir", "app"]);
    let ended = Ended::of(demo.env("LONGHAUL_HARNESS_BOOT_SECONDS_MAX", "2"));
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.out.contains("1 of 1 feature verified"), "{}", ended.out);
    let refused: Vec<String> =
        stage.log("claim.refused").iter().map(|data| data["reason"].as_str().unwrap().to_owned()).collect();
    assert_eq!(refused.len(), 4, "{refused:#?}");
    assert!(refused[0].contains("does not start"), "{}", refused[0]);
    assert!(refused[1].contains("does not start"), "{}", refused[1]);
    assert!(refused[2].contains("does not start") && refused[2].contains("8000"), "{}", refused[2]);
    assert_eq!(stage.git(&["log", "--format=%s"]), "feat: the page greets\nchore: a skeleton\n");
    let store = fs::metadata(stage.path("home/longhaul.db")).unwrap().len();
    assert!(store < 20_000_000, "200 MB of log left {store} bytes in the store");

    a_browser_that_is_killed_is_started_again(&stage);
    a_submodule_of_a_person_stays(&stage);
}

fn a_browser_that_is_killed_is_started_again(stage: &Stage) {
    let mut verifying = Running::start(&mut stage.command(&["verify", "--dir", "app", "--json"]));
    let mut killed = false;
    while verifying.goes_on(Duration::from_millis(5)) {
        let browser = processes::descendants(verifying.pid()).into_iter().find(|id| {
            processes::command_line(*id)
                .is_some_and(|line| line.contains("--remote-debugging-pipe") && line.contains("chrom"))
        });
        // Once it draws a page: one that dies while it starts is waited for, and told as what it is.
        let draws = processes::descendants(verifying.pid())
            .into_iter()
            .any(|id| processes::command_line(id).is_some_and(|line| line.contains("--type=renderer")));
        if let (false, true, Some(browser)) = (killed, draws, browser) {
            let pid = rustix::process::Pid::from_raw(browser.cast_signed()).unwrap();
            killed = rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok();
        }
    }
    assert!(killed, "no browser was seen");
    let code = verifying.wait();
    if code != Some(0) {
        // It died before anybody could use it: told, and nothing was decided.
        assert!(matches!(code, Some(1 | 4)), "{code:?}");
        let status: Value = serde_json::from_str(&stage.run_to(0, &["status", "--dir", "app", "--json"]).out).unwrap();
        assert_eq!(status["passing"], 1);
    }
    stage.run_to(0, &["verify", "--dir", "app"]);
}

fn a_submodule_of_a_person_stays(stage: &Stage) {
    let library = stage.path("library");
    fs::create_dir(&library).unwrap();
    let who = ["-c", "user.name=p", "-c", "user.email=p@q", "-c", "protocol.file.allow=always"];
    for args in [&["init", "--quiet", "."][..], &["commit", "--quiet", "--allow-empty", "-m", "a library"]] {
        assert!(Command::new("git").args(who).args(args).current_dir(&library).status().unwrap().success());
    }
    stage.git(&[&who[..], &["submodule", "--quiet", "add", library.to_str().unwrap(), "vendor/lib"]].concat());
    stage.git(&[&who[..], &["commit", "--quiet", "-m", "a submodule"]].concat());
    let tip = stage.git(&["rev-parse", "HEAD"]);
    stage.run_to(0, &["run", "--dir", "app", "--model", "cassette:story.toml"]);
    assert_eq!(stage.git(&["rev-parse", "HEAD"]), tip);
    assert!(stage.git(&["submodule", "status"]).contains("vendor/lib"));
    assert!(stage.path("app/vendor/lib/.git").exists(), "a submodule was taken for a repository of the agent's");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_refusal_and_an_endless_answer_end_the_session_and_the_next_goes_on() {
    let stage = Stage::new();
    let mut story = Story::with_plan();
    story.add(Turn::of("F01").refuse("I cannot help with that."));
    story.add(Turn::of("F01").call("hand_over", json!({"note": "the service refuses to go on"})));
    let planned = story.cassette();
    stage.write("story.toml", &planned);
    let request = "Build a page that greets";
    stage.run_to(0, &["init", request, "--dir", "app", "--model", "cassette:story.toml"]);
    let refused = stage.run(&["run", "--dir", "app", "--sessions", "1"]);
    assert!(matches!(refused.code, Some(1 | 3)), "{refused:#?}");

    let address = endless();
    let url = format!("http://{address}/v1");
    let ended = stage.run(&["run", "--dir", "app", "--sessions", "1", "--model", "openai:m", "--base-url", &url]);
    assert!(matches!(ended.code, Some(1 | 2 | 3)), "{ended:#?}");
    assert!(ended.err.contains("longhaul run --dir") || ended.out.contains("longhaul run"), "{ended:#?}");

    let mut story = Story::with_plan();
    story.add(Turn::of("F01").page("Hello").claim("the page greets"));
    stage.write("story.toml", &story.cassette());
    let finished = stage.run_to(0, &["run", "--dir", "app", "--model", "cassette:story.toml"]);
    assert!(finished.out.contains("1 of 1 feature verified"), "{}", finished.out);
}

/// A service whose answer never ends.
fn endless() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut request = [0; 64 * 1024];
                let read = stream.read(&mut request).unwrap_or_default();
                if request[..read].starts_with(b"GET") {
                    let list = r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#;
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        list.len()
                    );
                    let _ = stream.write_all((head + list).as_bytes());
                    return;
                }
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n");
                let piece = json!({"id": "x", "object": "chat.completion.chunk", "model": "m", "created": 1,
                    "choices": [{"index": 0, "delta": {"content": "and so on ".repeat(1000)}, "finish_reason": null}]});
                let line = format!("data: {piece}\n\n");
                while stream.write_all(line.as_bytes()).is_ok() {}
            });
        }
    });
    address
}

#[test]
fn a_disk_that_is_full_at_the_commit_loses_nothing() {
    let stage = Stage::new();
    let mut story = Story::with_plan();
    // What cannot be made smaller, so that the commit needs as much again.
    let bulk = "head -c 3000000 /dev/urandom > bulk.bin";
    story.add(Turn::of("F01").page("Hello").shell(bulk).claim("the page greets"));
    stage.write("story.toml", &story.cassette());
    fs::create_dir(stage.path("disk")).unwrap();
    // One view for all steps, because the small file system lives as long as it.
    let script = r#"
        head -c 6500000 /dev/zero > disk/in-the-way
        "$0" demo --cassette story.toml --dir disk/app --home home; echo "code $?"
        rm disk/in-the-way
        "$0" run --dir disk/app --home home; echo "code $?"
        git -c safe.directory='*' -C disk/app log --format=%s
        git -c safe.directory='*' -C disk/app fsck --strict --no-progress --no-dangling && echo whole"#;
    let template = stage.command::<&str>(&[]);
    let mut view = Command::new("bwrap");
    view.args(["--die-with-parent", "--dev-bind", "/", "/", "--size", "12000000", "--tmpfs"]).arg(stage.path("disk"));
    view.args(["/bin/sh", "-c", script, env!("CARGO_BIN_EXE_longhaul")]).current_dir(stage.path("."));
    view.env_clear().envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = Ended::of(&mut view);
    if ended.err.starts_with("bwrap: ") || ended.err.contains("the sandbox does not start") {
        eprintln!("skipped: a sandbox within a sandbox is not possible here: {}", ended.err);
        return;
    }
    let codes: Vec<&str> = ended.out.lines().filter(|line| line.starts_with("code ")).collect();
    assert_ne!(codes[0], "code 0", "{ended:#?}");
    assert!(ended.err.contains("No space left on device"), "{ended:#?}");
    assert_eq!(codes[1], "code 0", "{ended:#?}");
    assert!(ended.out.ends_with("feat: the page greets\nchore: a skeleton\nwhole\n"), "{ended:#?}");
}

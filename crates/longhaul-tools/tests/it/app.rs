//! An application in its sandbox: booting, being reached from outside and from commands, ending.

use std::{
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::fs::PermissionsExt,
    sync::Arc,
    time::Duration,
};

use longhaul_core::ToolCall;
use longhaul_tools::{
    AppSlot, ShellTool, Tool, ToolRegistry,
    sandbox::{AppError, AppSpec, CommandExit},
};

use crate::fixture::{Fixture, processes_with, until};

/// Answers with what it was sent after the client's half-close, and with facts about itself.
const SERVER: &str = r#"
import os, socket, sys, threading
def serve(c):
    data = b""
    while True:
        part = c.recv(65536)
        if not part: break
        data += part
    if data == b"die": os._exit(3)
    if data == b"keep":
        with open(os.path.join(os.environ["DATA_DIR"], "kept"), "a") as f: f.write("x")
    if data == b"kept": data = open(os.path.join(os.environ["DATA_DIR"], "kept")).read().encode()
    c.sendall(b"echo:" + data)
    c.close()
s = socket.create_server(("127.0.0.1", int(os.environ["PORT"])), backlog=64)
print("listening as", os.getuid(), flush=True)
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"#;

fn fixture(script: &str) -> Fixture {
    let fixture = Fixture::new();
    fs::write(fixture.project().join("server.py"), SERVER).unwrap();
    fs::write(fixture.project().join("init.sh"), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(fixture.project().join("init.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fixture.sandbox.prepare_project().unwrap();
    fixture
}

fn spec(port: u16) -> AppSpec {
    AppSpec { port, boot_timeout: Duration::from_secs(20), ..AppSpec::default() }
}

/// Sends, closes its side, and reads the whole answer.
async fn ask(base_url: &str, text: &[u8]) -> std::io::Result<Vec<u8>> {
    let (base_url, text) = (base_url.to_owned(), text.to_owned());
    tokio::task::spawn_blocking(move || ask_blocking(&base_url, &text)).await.unwrap()
}

fn ask_blocking(base_url: &str, text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(base_url.strip_prefix("http://").unwrap())?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(text)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

const CLIENT: &str = "import os, socket; s = socket.create_connection(('127.0.0.1', int(os.environ['PORT']))); \
                      s.sendall(b'inside'); s.shutdown(socket.SHUT_WR); print(s.recv(100))";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_reached_from_outside_and_from_commands() {
    let fixture = fixture("exec python3 server.py");
    let app = fixture.sandbox.start_app(spec(8000)).await.unwrap();
    assert!(app.is_running());
    let url = app.base_url();
    assert!(!url.ends_with(":8000"));
    assert_eq!(ask(&url, b"hi").await.unwrap(), b"echo:hi");
    let large = vec![b'x'; 3_000_000];
    assert_eq!(ask(&url, &large).await.unwrap().len(), large.len() + 5);

    // Many at once, each with its own answer.
    let threads: Vec<_> = (0..40)
        .map(|number| {
            let url = url.clone();
            std::thread::spawn(move || {
                ask_blocking(&url, format!("n{number}").as_bytes()).unwrap() == format!("echo:n{number}").as_bytes()
            })
        })
        .collect();
    let all = tokio::task::spawn_blocking(|| threads.into_iter().all(|thread| thread.join().unwrap())).await.unwrap();
    assert!(all);

    // The same client inside: with the link it gets through, without it there is nothing.
    let with = fixture.shell_with(&format!("python3 -c \"{CLIENT}\""), Some(&app.link())).await;
    assert_eq!(with.output, "b'echo:inside'\n");
    let without = fixture.shell(&format!("export PORT=8000; python3 -c \"{CLIENT}\"")).await;
    assert!(without.output.contains("Connection refused"), "{}", without.output);
    // Nothing else leads out of the folder with the socket, which cannot be changed.
    let folder = fixture.shell_with("ls -A /run/longhaul/app; rm /run/longhaul/app/app.sock", Some(&app.link())).await;
    assert!(folder.output.starts_with("app.sock\n") && !folder.success(), "{}", folder.output);

    assert!(app.log_tail(10).contains("listening as"), "{}", app.log_tail(10));
    assert!(!app.log_tail(10).contains("listening as 0"));
    app.stop().await;
    assert!(ask(&url, b"hi").await.is_err());
}

#[tokio::test]
async fn the_shell_tool_reaches_the_running_application() {
    let fixture = fixture("exec python3 server.py");
    let slot = AppSlot::default();
    let shell: Arc<dyn Tool> = Arc::new(ShellTool::new(fixture.sandbox.clone(), slot.clone()));
    let registry = ToolRegistry::new([shell]).unwrap();
    let command = serde_json::json!({ "command": format!("python3 -c \"{CLIENT}\"") }).to_string();
    let call = ToolCall { id: "1".to_owned(), name: "shell".to_owned(), arguments: command };

    let before = registry.call(&call).await;
    assert!(before.text.starts_with("exit 1\n") && !before.is_error, "{}", before.text);
    let app = fixture.sandbox.start_app(spec(8123)).await.unwrap();
    slot.set(Some(app.link()));
    assert_eq!(registry.call(&call).await.text, "exit 0\nb'echo:inside'\n");
    app.stop().await;
    assert!(registry.call(&call).await.text.starts_with("exit "));
}

#[tokio::test]
async fn data_survives_a_restart_in_the_folder_that_was_given() {
    let fixture = fixture("exec python3 server.py");
    let data = fixture.folder.path().join("data-1");
    let with_data = || AppSpec { data_dir: Some(data.clone()), ..spec(8000) };
    let app = fixture.sandbox.start_app(with_data()).await.unwrap();
    ask(&app.base_url(), b"keep").await.unwrap();
    app.stop().await;
    let app = fixture.sandbox.start_app(with_data()).await.unwrap();
    ask(&app.base_url(), b"keep").await.unwrap();
    assert_eq!(ask(&app.base_url(), b"kept").await.unwrap(), b"echo:xx");
    app.stop().await;
    assert_eq!(fs::read_to_string(data.join("kept")).unwrap(), "xx");
    assert!(!fixture.project().join("data").exists());
}

#[tokio::test]
async fn two_applications_on_one_port_do_not_meet() {
    let (one, two) = (fixture("exec python3 server.py"), fixture("exec python3 server.py"));
    let (first, second, third) = tokio::join!(
        one.sandbox.start_app(spec(8000)),
        two.sandbox.start_app(spec(8000)),
        one.sandbox.start_app(spec(8000))
    );
    let (first, second, third) = (first.unwrap(), second.unwrap(), third.unwrap());
    assert_ne!(first.base_url(), second.base_url());
    let url = third.base_url();
    first.stop().await;
    assert_eq!(ask(&second.base_url(), b"two").await.unwrap(), b"echo:two");
    assert_eq!(ask(&url, b"three").await.unwrap(), b"echo:three");
    drop(second);
    third.stop().await;
}

#[tokio::test]
async fn a_script_may_put_the_server_into_the_background() {
    let fixture = fixture("python3 server.py & echo booted");
    let app = fixture.sandbox.start_app(spec(8000)).await.unwrap();
    assert_eq!(ask(&app.base_url(), b"hi").await.unwrap(), b"echo:hi");
    // The end of its last process is its end.
    let _ = ask(&app.base_url(), b"die").await;
    until("it has ended", || !app.is_running()).await;
    assert_eq!(app.exit(), Some(CommandExit::Code(0)));
    assert!(ask(&app.base_url(), b"hi").await.is_err());
}

#[tokio::test]
async fn failures_to_boot_say_why() {
    let failing = fixture("echo about to fail; echo 'no module named chat' >&2; exit 4");
    match failing.sandbox.start_app(spec(8000)).await {
        Err(AppError::Exited { exit: CommandExit::Code(4), log, .. }) => {
            assert_eq!(log, "about to fail\nno module named chat");
        }
        other => panic!("{other:?}"),
    }

    let mark = format!("mark-{}-deaf", std::process::id());
    let deaf = fixture(&format!("echo wrong port; sleep 600; : {mark}"));
    fs::write(deaf.project().join("init.sh"), format!("#!/bin/sh\necho deaf\nsh -c 'sleep 600; : {mark}'\n")).unwrap();
    let impatient = AppSpec { boot_timeout: Duration::from_millis(600), ..spec(8000) };
    match deaf.sandbox.start_app(impatient).await {
        Err(AppError::NotListening { port: 8000, waited_ms: 600.., log, .. }) => assert_eq!(log, "deaf"),
        other => panic!("{other:?}"),
    }
    assert_eq!(processes_with(&mark), Vec::<u32>::new());

    let none = Fixture::new();
    let error = none.sandbox.start_app(spec(8000)).await.unwrap_err();
    assert!(matches!(error, AppError::ScriptMissing { .. }), "{error}");
}

#[tokio::test]
async fn the_log_is_bounded_and_a_dropped_application_ends() {
    let mark = format!("mark-{}-log", std::process::id());
    let fixture = fixture(&format!("seq 1 200000\npython3 server.py {mark}"));
    let app = fixture.sandbox.start_app(AppSpec { log_bytes_max: 2000, ..spec(8000) }).await.unwrap();
    until("the log has the end", || app.log_tail(2).contains("listening")).await;
    let log = app.log_tail(usize::MAX);
    assert!(log.len() <= 2000 && log.contains("200000"), "{log}");
    assert!(!processes_with(&mark).is_empty());
    drop(app);
    until("it is gone", || processes_with(&mark).is_empty()).await;
}

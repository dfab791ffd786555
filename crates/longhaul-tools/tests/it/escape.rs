//! Ways out that are known, tried in both kinds of sandbox. Each refusal has its control: the same act by the same user
//! without the sandbox, or on what the sandbox allows.

use std::{
    collections::BTreeMap,
    fs,
    net::UdpSocket,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{PermissionsExt as _, symlink},
            net::{SocketAddr, UnixListener},
        },
    },
    process::{Child, Command, Stdio},
    time::Duration,
};

use longhaul_tools::sandbox::{
    AppSpec, CommandExit, Network, SANDBOX_UID, SandboxBuilder, SandboxCommand, SandboxError, SandboxInit, SandboxKind,
    SandboxLimits,
};

use crate::fixture::{Fixture, processes_with, until};

const KINDS: [SandboxBuilder; 2] = [SandboxBuilder::Bubblewrap, SandboxBuilder::Landlock];

/// A project in a folder that the sandbox's user may enter, as the fallback needs it.
fn fixture(kind: SandboxBuilder, limits: SandboxLimits) -> Fixture {
    Fixture::with(|settings| {
        let folder = settings.project.parent().unwrap().to_owned();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        // The folder of the build may be closed to that user.
        let helper = folder.join("helper");
        fs::copy(&settings.init.program, &helper).unwrap();
        settings.init = SandboxInit { program: helper, args: Vec::new() };
        fs::create_dir_all(settings.project.join("src")).unwrap();
        settings.builder = kind;
        settings.limits = limits;
    })
}

/// The same user as inside, without the sandbox.
fn outside(argv: &[&str]) -> Command {
    let mut command;
    if rustix::process::geteuid().is_root() {
        command = Command::new("setpriv");
        let uid = SANDBOX_UID.to_string();
        command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--inh-caps=-all", "--"]).args(argv);
    } else {
        command = Command::new(argv[0]);
        command.args(&argv[1..]);
    }
    command.current_dir("/");
    command
}

#[tokio::test]
async fn ways_around_a_list_of_commands_end_at_the_same_boundary() {
    for kind in KINDS {
        let fixture = fixture(kind, SandboxLimits::default());
        let secret = fixture.folder.path().join("secret");
        fs::write(&secret, "SECRET\n").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(fixture.project().join("src/own"), "SECRET\n").unwrap();
        let own = fixture.project().join("src/own").display().to_string();
        let secret = secret.display().to_string();
        for (name, form) in [
            ("a newline", "true\ncat FILE"),
            ("a substitution", "echo \"$(cat FILE)\""),
            ("backticks", "echo `cat FILE`"),
            ("a process substitution", "bash -c 'cat <(cat FILE)'"),
            ("an interpreter", "python3 -c 'print(open(\"FILE\").read())'"),
            ("git's own commands", "git -c alias.x='!cat FILE' x"),
            ("a variable", "X=cat; $X FILE"),
        ] {
            let control = fixture.shell(&form.replace("FILE", &own)).await;
            assert!(control.output.contains("SECRET"), "{kind:?}: {name} does not work at all: {}", control.output);
            let tried = fixture.shell(&form.replace("FILE", &secret)).await;
            assert!(!tried.output.contains("SECRET"), "{kind:?}: {name} reads what is outside");
        }
    }
}

/// Tries everything; prints `name errno`, 0 for what worked.
const TRIES: &str = r#"
import ctypes, os, signal, socket, sys
where, victim, udp, tcp, abstract = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, act):
    try:
        act(); print(name, 0)
    except OSError as e:
        print(name, e.errno)
def call(number, *arguments):
    ctypes.set_errno(0)
    if libc.syscall(number, *[ctypes.c_long(a) for a in arguments]) == -1:
        raise OSError(ctypes.get_errno(), "")
def connect(family, kind, address, protocol=0):
    s = socket.socket(family, kind, protocol); s.settimeout(3); s.connect(address)
def datagram():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"out", ("127.0.0.1", udp))
def fast_open():
    s = socket.socket(); s.settimeout(3); s.sendto(b"x", 0x20000000, ("127.0.0.1", tcp))
    s.getpeername()
attempt("read", lambda: open(where + "/secret").read())
attempt("read-by-link", lambda: open("link").read())
attempt("read-up", lambda: open("../secret").read())
attempt("read-by-proc", lambda: open("/proc/%d/root%s/secret" % (victim, where)).read())
attempt("write", lambda: open(where + "/open/new", "w").write("x"))
attempt("hard-link", lambda: os.link(where + "/open/file", "hard"))
attempt("move-out", lambda: os.rename("src/here", where + "/open/there"))
attempt("environ", lambda: open("/proc/%d/environ" % victim).read())
attempt("memory", lambda: open("/proc/%d/mem" % victim).read(0))
attempt("signal", lambda: os.kill(victim, 0))
attempt("ptrace", lambda: call(101, 16, victim, 0, 0))
attempt("tcp", lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", tcp)))
attempt("mptcp", lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", tcp), 262))
attempt("fast-open", fast_open)
attempt("udp", datagram)
attempt("abstract", lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + abstract))
attempt("socket", lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, where + "/open/socket"))
attempt("user-namespace", lambda: call(272, 0x10000000))
attempt("keyring", lambda: call(250, 0, -3, 1))
attempt("io_uring", lambda: call(425, 1, 0))
attempt("userfaultfd", lambda: call(323, 0x7fffffff))
attempt("perf", lambda: call(298, 0, 0, 0, 0, 0))
attempt("handle", lambda: call(304, -1, 0, 0))
attempt("mount", lambda: call(165, 0, 0, 0, 0, 0))
attempt("privileges", lambda: (_ for _ in ()).throw(OSError(1, "")) if "NoNewPrivs:\t1" in open("/proc/self/status").read() else None)
"#;

#[tokio::test]
async fn what_works_without_the_sandbox_does_not_work_inside() {
    for kind in KINDS {
        let fixture = fixture(kind, SandboxLimits::default());
        let place = fixture.folder.path();
        let open = place.join("open");
        fs::create_dir(&open).unwrap();
        let everybody = |path: &std::path::Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        everybody(&open, 0o777);
        for file in ["secret", "open/file"] {
            fs::write(place.join(file), "SECRET").unwrap();
            everybody(&place.join(file), 0o666);
        }
        for file in ["link", "src/here"] {
            let path = fixture.project().join(file);
            if file == "link" { symlink(place.join("secret"), &path).unwrap() } else { fs::write(&path, "x").unwrap() }
        }
        fixture.sandbox.prepare_project().unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let name = format!("longhaul-escape-{}-{kind:?}", std::process::id());
        let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let _socket = UnixListener::bind(open.join("socket")).unwrap();
        everybody(&open.join("socket"), 0o777);
        let mut victim = Victim(outside(&["sleep", "600"]).stdin(Stdio::null()).spawn().unwrap());
        let ports = [udp.local_addr().unwrap().port(), tcp.local_addr().unwrap().port()];
        let place = place.canonicalize().unwrap().display().to_string();
        let arguments = [place, victim.0.id().to_string(), ports[0].to_string(), ports[1].to_string(), name];
        let mut argv = vec!["/usr/bin/python3", "-c", TRIES];
        argv.extend(arguments.iter().map(String::as_str));

        let inside = fixture.sandbox.run(SandboxCommand::argv(argv.clone()), None).await.unwrap();
        let inside = results(&inside.output);
        assert!(inside.len() >= 25, "{kind:?}: {inside:?}");
        let mut byte = [0; 8];
        assert!(udp.recv(&mut byte).is_err(), "{kind:?}: a datagram came out");
        assert!(!open.join("new").exists() && !open.join("there").exists(), "{kind:?}: something was written outside");
        for (name, errno) in &inside {
            // Without a network of the host's a datagram is lost, not refused.
            let lost = name == "udp" && kind == SandboxBuilder::Bubblewrap;
            assert!(*errno != 0 || lost, "{kind:?}: {name} works inside");
        }

        let mut control = outside(&argv);
        control.current_dir(fixture.project());
        let control = String::from_utf8(control.output().unwrap().stdout).unwrap();
        let control = results(&control);
        for (name, errno) in &control {
            // Not everything works for an ordinary user; then its error is not the sandbox's.
            let own = ["mount", "handle", "hard-link", "fast-open", "mptcp", "memory", "ptrace", "perf"];
            let works = *errno == 0 || (["io_uring", "userfaultfd"].contains(&name.as_str()) && *errno != inside[name]);
            assert!(works || own.contains(&name.as_str()), "{kind:?}: {name} does not work outside either ({errno})");
        }
        assert_eq!(udp.recv(&mut byte).unwrap(), 3, "the datagram of the control");
        victim.0.kill().unwrap();
    }
}

/// A process that somebody might get hold of; gone with the test.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn results(output: &str) -> BTreeMap<String, i32> {
    let pair = |line: &str| {
        let (name, errno) = line.split_once(' ')?;
        Some((name.to_owned(), errno.parse().ok()?))
    };
    output.lines().filter_map(pair).collect()
}

#[tokio::test]
async fn the_fallback_keeps_git_and_the_top_folder_and_takes_work_below_it() {
    let fixture = fixture(SandboxBuilder::Landlock, SandboxLimits::default());
    assert_eq!(fixture.sandbox.kind(), SandboxKind::Landlock);
    fs::write(fixture.project().join("kept.txt"), "one\n").unwrap();
    fixture.sandbox.prepare_project().unwrap();
    let works = "echo two >> kept.txt && mkdir src/sub && echo x > src/sub/x && cat .git/config kept.txt && \
                 echo y > $TMPDIR/y && echo z > ~/z && id -u > src/uid && ls src";
    let done = fixture.shell(works).await;
    assert!(done.success(), "{}", done.output);
    assert_eq!(done.output, "[core]\none\ntwo\nsub\nuid\n");
    assert_ne!(fs::read_to_string(fixture.project().join("src/uid")).unwrap(), "0\n");
    for act in [
        "echo x >> .git/config",
        "mkdir .git/hooks",
        "rm -rf .git/config",
        "mv .git old",
        "ln .git/config src/hard",
        "mv src/sub .git/hooks",
        "echo x > new-at-the-top",
        "ls $PWD/..",
        "cat /etc/shadow",
        "ls /root /home /var /proc",
        "su -c true",
    ] {
        let tried = fixture.shell(act).await;
        assert!(!tried.success(), "{act} worked: {}", tried.output);
    }
    assert_eq!(fs::read_to_string(fixture.project().join(".git/config")).unwrap(), "[core]\n");
    // What it wrote aside is gone with it.
    let left = fs::read_dir(fixture.folder.path().join("runtime")).unwrap();
    assert!(left.filter_map(Result::ok).all(|entry| !entry.file_name().to_string_lossy().starts_with("scratch-")));

    let listed = SandboxCommand::shell("true").network(Network::Allow(vec!["example.org".parse().unwrap()]));
    let refused = fixture.sandbox.run(listed, None).await.unwrap_err();
    assert!(matches!(refused, SandboxError::NeedsNamespaces { .. }), "{refused}");
}

#[tokio::test]
async fn the_fallback_runs_applications_and_commands_reach_them_and_nothing_else() {
    let fixture = fixture(SandboxBuilder::Landlock, SandboxLimits::default());
    fs::write(
        fixture.project().join("init.sh"),
        "echo hello > $DATA_DIR/page\ncd $DATA_DIR && exec python3 -m http.server $PORT\n",
    )
    .unwrap();
    fixture.sandbox.prepare_project().unwrap();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let data = fixture.folder.path().join("data");
    let app = fixture.sandbox.start_app(AppSpec { data_dir: Some(data), ..AppSpec::default() }).await.unwrap();
    let line = format!(
        "curl -sS http://127.0.0.1:$PORT/page; curl -sS -m 3 http://127.0.0.1:{}/ 2>&1 | head -c 60; python3 -m http.server 0 2>&1 | tail -1",
        other.local_addr().unwrap().port()
    );
    let seen = fixture.shell_with(&line, Some(&app.link())).await.output;
    assert!(seen.starts_with("hello\ncurl: (7)") && seen.contains("PermissionError"), "{seen}");
    let url = format!("{}/page", app.base_url());
    let page = tokio::task::spawn_blocking(move || outside(&["curl", "-sS", &url]).output().unwrap()).await.unwrap();
    assert_eq!(page.stdout, b"hello\n");
    let mark = fixture.project().display().to_string();
    app.stop().await;
    assert!(processes_with(&mark).is_empty());
}

#[tokio::test]
async fn whatever_hides_ends_with_its_command_in_the_fallback_too() {
    let limits = SandboxLimits { processes_max: 300, memory_bytes_max: 300 * 1024 * 1024, ..SandboxLimits::default() };
    let fixture = fixture(SandboxBuilder::Landlock, limits);
    let mark = format!("mark-{}-fallback", std::process::id());
    let hidden = format!(
        "(setsid setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done; : {mark}' >/dev/null 2>&1 &) ; echo started"
    );
    let left = fixture.shell(&format!("{hidden}; exit 4")).await;
    assert_eq!((left.exit, left.output.as_str()), (CommandExit::Code(4), "started\n"));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());

    let late = SandboxCommand::shell(format!("{hidden}; sleep 600")).timeout(Duration::from_secs(1));
    assert_eq!(fixture.sandbox.run(late, None).await.unwrap().exit, CommandExit::TimedOut);
    assert_eq!(processes_with(&mark), Vec::<u32>::new());

    let dropped = fixture.sandbox.run(SandboxCommand::shell(format!("{hidden}; sleep 600")), None);
    tokio::select! {
        _ = dropped => panic!("it ended by itself"),
        () = until("it runs", || processes_with(&mark).len() > 1) => {}
    }
    until("it is gone", || processes_with(&mark).is_empty()).await;

    // Marked, as another test has such a bomb too.
    let marked = format!("{mark}-bomb");
    let bomb = format!("b() {{ b | b & }}; b; sleep 600; : {marked}");
    let bomb = ["/bin/bash", "-c", bomb.as_str()];
    let bombed = fixture.sandbox.run(SandboxCommand::argv(bomb).timeout(Duration::from_secs(2)), None).await.unwrap();
    assert_eq!(bombed.exit, CommandExit::TimedOut);
    assert_eq!(processes_with(&marked), Vec::<u32>::new());

    let herd = "import os, signal\nfor _ in range(8):\n  if os.fork() == 0:\n    b = b'x' * (100 * 2**20); signal.pause()\nsignal.pause()";
    assert_eq!(fixture.python(herd).await.exit, CommandExit::OutOfMemory);
}

#[tokio::test]
async fn a_command_that_fills_the_disk_is_ended() {
    for kind in KINDS {
        let limits = SandboxLimits { disk_bytes_max: 64 * 1024 * 1024, ..SandboxLimits::default() };
        let fixture = fixture(kind, limits);
        let fill = "i=0; while :; do i=$((i+1)); head -c 8388608 /dev/zero > src/f$i || exit 1; sleep 0.01; done";
        let filled = fixture.shell(fill).await;
        assert_eq!(filled.exit, CommandExit::DiskFull, "{kind:?}: {}", filled.output);
        let bytes: u64 = fs::read_dir(fixture.project().join("src"))
            .unwrap()
            .filter_map(|f| Some(f.ok()?.metadata().ok()?.len()))
            .sum();
        assert!((48 << 20..2 << 30).contains(&bytes), "{bytes}");
        assert!(fixture.shell("head -c 8388608 /dev/zero > src/f1").await.success());
    }
}

//! What is inside the boundary and what is not. Every refusal has a control which shows that the same act works where
//! it should.

use std::{
    fs,
    io::Read as _,
    net::{TcpListener, TcpStream},
    os::{
        fd::AsRawFd as _,
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _, symlink},
            net::{SocketAddr, UnixListener, UnixStream},
        },
    },
    path::Path,
    process::Command,
};

use longhaul_tools::sandbox::{
    CommandExit, Network, SANDBOX_UID, Sandbox, SandboxBuilder, SandboxCommand, SandboxError, SandboxKind,
};

use crate::fixture::{Fixture, settings};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test]
async fn the_project_is_the_only_place_that_keeps_what_is_written() {
    let fixture = Fixture::new();
    let beside = fixture.folder.path().join("beside");
    fs::create_dir(&beside).unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(beside.join("kept"), "outside").unwrap();

    let inside = fixture.shell("echo new > made.txt && mkdir sub && echo x > sub/x && cat made.txt && pwd").await;
    let project = fixture.project().canonicalize().unwrap();
    assert_eq!((inside.exit, inside.output), (CommandExit::Code(0), format!("new\n{}\n", project.display())));
    assert_eq!(fs::read_to_string(project.join("made.txt")).unwrap(), "new\n");
    let owner = fs::metadata(project.join("made.txt")).unwrap().uid();
    assert_eq!(owner, if is_root() { SANDBOX_UID } else { rustix::process::geteuid().as_raw() });

    for place in ["/", "/usr", "/usr/bin", "/etc", "/dev", "/proc", "/run/longhaul", "/home", "../beside"] {
        let output = fixture.shell(&format!("echo x > {place}/longhaul-was-here")).await;
        assert!(!output.success(), "{place} was written: {}", output.output);
        assert!(!Path::new(place).join("longhaul-was-here").exists());
    }
    // Memory-backed places work, and are gone with the command.
    let scratch = fixture.shell("for d in /tmp /dev/shm $HOME; do echo x > $d/y || exit 1; done").await;
    assert!(scratch.success(), "{}", scratch.output);
    assert!(!fixture.shell("cat /tmp/y").await.success());
    // The folder above the project is one of those places here; the real one does not change.
    fixture.shell("mkdir ../beside ../more; echo x > ../beside/kept").await;
    assert_eq!(fs::read_to_string(beside.join("kept")).unwrap(), "outside");
    assert!(!fixture.folder.path().join("more").exists());
}

#[tokio::test]
async fn files_of_the_host_cannot_be_read() {
    let fixture = Fixture::new();
    let store = fixture.folder.path().join("store.db");
    fs::write(&store, "secret").unwrap();
    fs::set_permissions(&store, fs::Permissions::from_mode(0o644)).unwrap();
    symlink(&store, fixture.project().join("link")).unwrap();
    assert_eq!(fs::read_to_string(fixture.project().join("link")).unwrap(), "secret");

    let store = store.display();
    for path in
        [store.to_string().as_str(), "link", "../store.db", "/etc/shadow", "/etc/hostname", "/proc/1/root/etc/shadow"]
    {
        let output = fixture.shell(&format!("cat {path}")).await;
        assert!(!output.success() && !output.output.contains("secret"), "{path}: {}", output.output);
    }
    for folder in ["/root", "/home", "/var", "/sys", "/opt", "/work", "/mnt"] {
        let output = fixture.shell(&format!("ls -A {folder} 2>/dev/null | grep -v -x -e agent -e '{}'", "tmp")).await;
        assert_eq!(output.output, "", "{folder}");
    }
    assert_eq!(fixture.shell("cut -d: -f1 /etc/passwd").await.output, "agent\nnobody\n");
}

#[tokio::test]
async fn a_project_that_only_root_could_enter_works_and_git_reads_it() {
    let fixture = Fixture::new();
    fs::remove_dir_all(fixture.project().join(".git")).unwrap();
    assert_eq!(fs::metadata(fixture.folder.path()).unwrap().mode() & 0o777, 0o700);
    fs::write(fixture.project().join("a.txt"), "one\n").unwrap();
    let git = |args: &[&str]| {
        let project = fixture.project();
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
        let done = Command::new("git").arg("-C").arg(project).args(identity).args(args).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["init", "-q"]);
    fixture.sandbox.prepare_project().unwrap();
    // The user's own git goes on trusting the folder after it was handed over.
    git(&["add", "a.txt"]);
    git(&["commit", "-q", "-m", "first"]);

    let seen =
        fixture.shell("git log --format=%s && git status --short && echo two >> a.txt && git status --short").await;
    assert_eq!(seen.output, "first\n M a.txt\n");
    let refused = fixture.shell("git commit -q -a -m second").await;
    assert!(!refused.success() && refused.output.contains("Read-only file system"), "{}", refused.output);
}

#[tokio::test]
async fn the_git_folder_cannot_be_changed_moved_or_replaced() {
    let fixture = Fixture::new();
    assert!(fixture.shell("cat .git/config").await.success());
    for act in [
        "echo x >> .git/config",
        "mkdir .git/hooks",
        "rm -rf .git/config",
        "mv .git old",
        "rmdir .git",
        "chmod 777 .git",
        "ln .git/config hard",
        "mount --bind /tmp .git",
        "unshare -U true",
    ] {
        let output = fixture.shell(act).await;
        assert!(!output.success(), "{act} worked: {}", output.output);
    }
    assert_eq!(fs::read_to_string(fixture.project().join(".git/config")).unwrap(), "[core]\n");

    fs::remove_dir_all(fixture.project().join(".git")).unwrap();
    let missing = fixture.sandbox.run(SandboxCommand::shell("mkdir .git"), None).await.unwrap_err();
    assert!(matches!(missing, SandboxError::ReadonlyMissing { .. }), "{missing}");
    symlink("/etc", fixture.project().join(".git")).unwrap();
    let link = fixture.sandbox.run(SandboxCommand::shell("true"), None).await.unwrap_err();
    assert!(link.to_string().contains("symbolic link"), "{link}");
}

#[tokio::test]
async fn neither_the_hosts_loopback_nor_the_outside_can_be_reached() {
    let fixture = Fixture::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let name = format!("longhaul-test-{}-{port}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract_listener = UnixListener::bind_addr(&address).unwrap();
    let path = fixture.folder.path().join("host.sock");
    let _path_listener = UnixListener::bind(&path).unwrap();
    TcpStream::connect(("127.0.0.1", port)).unwrap();
    UnixStream::connect_addr(&address).unwrap();
    UnixStream::connect(&path).unwrap();

    let tries = format!(
        r#"
import socket
own = socket.create_server(("127.0.0.1", 0))
def attempt(name, family, address):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(3)
    try:
        s.connect(address)
        print(name, "connected")
    except OSError as e:
        print(name, type(e).__name__, e.errno)
attempt("own", socket.AF_INET, own.getsockname())
attempt("loopback", socket.AF_INET, ("127.0.0.1", {port}))
attempt("abstract", socket.AF_UNIX, "\0{name}")
attempt("path", socket.AF_UNIX, "{path}")
attempt("outside", socket.AF_INET, ("192.0.2.1", 80))
print(socket.if_nameindex())
"#,
        path = path.display()
    );
    let output = fixture.python(&tries).await.output;
    assert_eq!(
        output,
        "own connected\nloopback ConnectionRefusedError 111\nabstract ConnectionRefusedError 111\n\
         path FileNotFoundError 2\noutside OSError 101\n[(1, 'lo')]\n"
    );

    // The control: with the host's network, which the settings must ask for, the same program gets through.
    let open = Fixture::with(|settings| settings.network = Network::Host);
    let output = open.python(&tries).await.output;
    assert!(output.contains("loopback connected") && output.contains("abstract connected"), "{output}");
}

#[tokio::test]
async fn commands_are_nobody_with_no_rights() {
    let fixture = Fixture::new();
    let status =
        fixture.shell("id -u; grep -E '^(CapPrm|CapEff|CapBnd|CapInh|NoNewPrivs)' /proc/self/status").await.output;
    let mut lines = status.lines();
    assert_ne!(lines.next(), Some("0"));
    for line in lines {
        let (name, value) = line.split_once(":\t").unwrap();
        assert_eq!(value, if name == "NoNewPrivs" { "1" } else { "0000000000000000" }, "{name}");
    }
    // Set-user-id programs give nothing, and devices cannot be made.
    for act in ["su -c true", "mknod d c 1 3", "chown 0 /tmp", "mount -t tmpfs none /tmp"] {
        assert!(!fixture.shell(act).await.success(), "{act}");
    }
}

#[tokio::test]
async fn only_the_sandboxs_own_processes_and_nothing_of_the_harness_can_be_seen() {
    let fixture = Fixture::new();
    let pids = fixture.shell("ls /proc | grep -c '^[0-9]'").await.output;
    assert!(pids.trim().parse::<u32>().unwrap() <= 5, "{pids}");
    assert!(fs::read_dir("/proc").unwrap().count() > 60);

    // What the harness has in its environment is nowhere inside.
    let inside = fixture.shell("env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'").await.output;
    assert!(inside.contains("HOME=/home/agent"), "{inside}");
    let usual = ["PATH", "HOME", "USER", "LANG", "TMPDIR", "PWD", "_", "SHLVL", "OLDPWD", "SHELL", "TERM"];
    let own: Vec<(String, String)> = std::env::vars().filter(|(name, _)| !usual.contains(&name.as_str())).collect();
    assert!(!own.is_empty(), "this test needs a variable to look for; cargo sets many");
    for (name, _) in own {
        assert!(!inside.contains(&format!("\n{name}=")), "{name} is visible inside");
    }

    // The helper is process 1: it cannot be read, stopped or killed from inside.
    assert!(!fixture.shell("cat /proc/1/environ").await.success());
    assert!(!fixture.shell("ls -l /proc/1/fd/").await.success());
    let survived = fixture.shell("kill -KILL 1; kill -STOP 1; sleep 0.01; echo survived").await;
    assert_eq!(survived.output, "survived\n");
}

#[tokio::test]
async fn open_files_which_leaked_into_the_harness_stay_out() {
    let fixture = Fixture::new();
    let path = fixture.folder.path().join("secret");
    fs::write(&path, "leaked secret").unwrap();
    let file = fs::File::open(&path).unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let program = format!("import os; print(os.pread({}, 100, 0))", file.as_raw_fd());

    let mut control = Command::new("/usr/bin/python3");
    let control = control.args(["-c", &program]).output().unwrap();
    assert!(String::from_utf8_lossy(&control.stdout).contains("leaked secret"));
    let output = fixture.python(&program).await;
    assert!(!output.output.contains("secret") && output.output.contains("Bad file descriptor"), "{}", output.output);
}

#[tokio::test]
async fn toolchains_can_be_read_but_not_written() {
    let tools = tempfile::tempdir().unwrap();
    let bin = tools.path().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("greet"), "#!/bin/sh\necho hello from $0\n").unwrap();
    fs::set_permissions(bin.join("greet"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(tools.path(), fs::Permissions::from_mode(0o777)).unwrap();

    let without = Fixture::new();
    assert_eq!(without.shell("greet").await.exit, CommandExit::Code(127));
    let with = Fixture::with(|settings| {
        settings.toolchains.push(tools.path().to_owned());
        settings.path_first.push(bin.clone());
    });
    assert_eq!(with.shell("greet").await.output, format!("hello from {}/greet\n", bin.display()));
    assert!(!with.shell(&format!("echo x > {}/x", tools.path().display())).await.success());
}

#[tokio::test]
async fn without_a_sandbox_nothing_runs() {
    let fixture = Fixture::new();
    assert!(Sandbox::probe(SandboxBuilder::Any).is_ok());
    let folder = fixture.folder.path();

    let mut absent = settings(folder);
    absent.builder = SandboxBuilder::Bubblewrap;
    absent.bwrap = Some("/nowhere/bwrap".into());
    let error = Sandbox::new(absent).unwrap_err();
    assert!(error.to_string().contains("apt-get install bubblewrap"), "{error}");

    let broken = folder.join("bwrap");
    fs::write(&broken, "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    let mut unusable = settings(folder);
    unusable.builder = SandboxBuilder::Bubblewrap;
    unusable.bwrap = Some(broken.clone());
    let error = Sandbox::new(unusable).unwrap_err();
    assert!(matches!(&error, SandboxError::Unusable { detail, .. } if detail.contains("No permissions")), "{error}");

    // Unless the user insists on bubblewrap, the fallback takes over, and says what it is.
    let mut fallen_back = settings(folder);
    fallen_back.bwrap = Some(broken);
    assert_eq!(Sandbox::new(fallen_back).unwrap().kind(), SandboxKind::Landlock);

    // A helper that is not one: the command does not run, and the error says what was said.
    let mut no_helper = settings(folder);
    no_helper.init.program = "/bin/false".into();
    let error = Sandbox::new(no_helper).unwrap().run(SandboxCommand::shell("echo ran > ran"), None).await.unwrap_err();
    assert!(matches!(error, SandboxError::Setup { .. }), "{error}");
    assert!(!fixture.project().join("ran").exists());
}

#[test]
fn settings_that_would_open_the_boundary_are_refused() {
    let fixture = Fixture::new();
    let folder = fixture.folder.path();
    let refused = |change: &dyn Fn(&mut longhaul_tools::sandbox::SandboxSettings)| {
        let mut settings = settings(folder);
        change(&mut settings);
        Sandbox::new(settings).unwrap_err().to_string()
    };
    assert!(refused(&|s| s.project = "/".into()).contains("whole file system"));
    assert!(refused(&|s| s.project = "/tmp".into()).contains("too near the root"));
    assert!(refused(&|s| s.project = "/usr/share".into()).contains("choose another place"));
    assert!(refused(&|s| s.runtime_dir = s.project.join("run")).contains("inside the project"));
    assert!(refused(&|s| s.toolchains = vec!["/".into()]).contains("whole file system"));
    assert!(refused(&|s| s.toolchains = vec![s.project.join("..")]).contains("contains the project"));
    assert!(refused(&|s| s.readonly = vec!["../x".into()]).contains("plain path"));
}

#[test]
fn the_helper_refuses_to_act_outside_a_sandbox() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul-sandbox-init"));
    let mut child = child.arg("{}").stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert!(said.contains("started by longhaul itself"), "{said}");
}

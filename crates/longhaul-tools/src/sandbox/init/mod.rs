//! The helper that runs as process 1 **inside** the sandbox: starts the command, relays the application's connections,
//! watches memory, and ends everything when the harness has gone.
//!
//! Its standard output is the command's output, its standard error the status lines of [`super::plan`]; commands never
//! get the latter. As process 1 it cannot be killed or stopped from inside, and the kernel ends every process of the
//! namespace with it.

mod fds;
mod relay;
mod watch;

use std::{
    ffi::OsString,
    fs,
    io::{self, BufRead as _, BufReader, Read as _},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixListener, process::ExitStatusExt},
    },
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    thread,
};

use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, WaitOptions};

use self::watch::Watch;
use super::{
    CommandExit,
    plan::{Mode, Plan, Status},
};

/// Longest piece of a line that a piped command's standard error is reported by, in bytes.
const SAID_BYTES_MAX: u64 = 2048;

/// Acts as the helper inside the sandbox; `args` are the arguments after those of [`super::SandboxInit`]. Only the
/// hidden subcommand which the settings name calls this; elsewhere it fails without doing anything.
#[must_use]
pub fn init_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Being process 1 means being in a process namespace of its own: outside one, what follows would do harm.
    if std::process::id() != 1 {
        eprintln!("this command is the inside of the sandbox; it is started by longhaul itself");
        return ExitCode::from(2);
    }
    match run(args) {
        Ok(exit) => {
            report(&Status::Ended(exit));
            ExitCode::SUCCESS
        }
        Err(why) => {
            report(&Status::Failed(why));
            ExitCode::FAILURE
        }
    }
}

fn run(args: impl IntoIterator<Item = OsString>) -> Result<CommandExit, String> {
    let mut args = args.into_iter();
    let plan = args.next().and_then(|text| text.into_string().ok()).ok_or("there is no plan")?;
    let plan: Plan = serde_json::from_str(&plan).map_err(|error| format!("the plan cannot be read: {error}"))?;
    let argv: Vec<OsString> = args.collect();
    let argv = fds::without_inherited(&argv).map_err(|error| format!("cannot look at the open files: {error}"))?;
    harden(&plan)?;
    let output = || io::stdout().as_fd().try_clone_to_owned().map_err(|error| format!("no output: {error}"));
    Watch::start(output()?, plan.memory_bytes_max)?;
    let app_socket = match plan.mode {
        Mode::App { .. } => {
            let input = io::stdin().as_fd().try_clone_to_owned().map_err(|error| format!("no socket: {error}"))?;
            Some(UnixListener::from(input))
        }
        Mode::Command { forward } | Mode::Piped { forward } => {
            if let Some(port) = forward {
                relay::from_port(port)?;
            }
            None
        }
    };
    for relay in &plan.relays {
        relay::outward(relay)?;
    }
    report(&Status::Started);
    let started = match plan.mode {
        Mode::Command { .. } | Mode::App { .. } => start(&argv, Stdio::null(), output()?.into(), output()?.into()),
        Mode::Piped { .. } => start_piped(&argv, output()?),
    };
    let pid = match started {
        Ok(pid) => pid,
        Err(error) => {
            println!("cannot run {}: {error}", argv.first().map(|word| word.to_string_lossy()).unwrap_or_default());
            return Ok(CommandExit::Code(127));
        }
    };
    match (plan.mode, app_socket) {
        (Mode::App { port }, Some(socket)) => {
            relay::from_socket(socket, port)?;
            relay::report_when_ready(port)?;
            wait(pid, Until::NothingIsLeft)
        }
        _ => wait(pid, Until::ItEnds),
    }
}

pub(super) fn report(status: &Status) {
    // One write a line, so that lines of several threads do not mix. Nobody may be listening any more.
    let _ = rustix::io::write(io::stderr().as_fd(), status.to_line().as_bytes());
}

/// Puts the limits on this process, from which everything inside inherits them.
fn harden(plan: &Plan) -> Result<(), String> {
    let failed = |what: &str| format!("cannot set the limit of {what}");
    // If only bubblewrap is killed, nobody would wait for this process any more.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|_| failed("life"))?;
    // If memory runs out on the host, this sandbox goes before anything else does. Not everywhere allowed.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let limits = [
        (Resource::Core, 0, "core dumps"),
        (Resource::Data, plan.memory_bytes_max, "memory"),
        (Resource::Nproc, plan.processes_max, "processes"),
        (Resource::Fsize, plan.file_bytes_max, "file size"),
        (Resource::Nofile, plan.open_files_max, "open files"),
    ];
    for (resource, wanted, what) in limits {
        // The host may allow less than the settings ask for; a limit can only be lowered.
        let most = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let value = Some(wanted.min(most));
        rustix::process::setrlimit(resource, Rlimit { current: value, maximum: value }).map_err(|_| failed(what))?;
    }
    // Commands have the same user id: without this they could read and change this process.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|_| failed("inspection"))
}

fn start(argv: &[OsString], stdin: Stdio, stdout: Stdio, stderr: Stdio) -> io::Result<Pid> {
    let (program, args) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(args).stdin(stdin).stdout(stdout).stderr(stderr);
    // The child is reaped below, together with every orphan.
    pid_of(&command.spawn()?)
}

/// Starts a command that is talked to. What it writes to its standard error is reported line by line.
fn start_piped(argv: &[OsString], stdout: OwnedFd) -> io::Result<Pid> {
    let (said, stderr) = io::pipe()?;
    let pid = start(argv, Stdio::inherit(), stdout.into(), stderr.into())?;
    let body = move || {
        let mut lines = BufReader::new(said);
        let mut line = Vec::new();
        while matches!(lines.by_ref().take(SAID_BYTES_MAX).read_until(b'\n', &mut line), Ok(1..)) {
            report(&Status::Said(String::from_utf8_lossy(&line).trim_end().to_owned()));
            line.clear();
        }
    };
    thread::Builder::new().name("said".to_owned()).spawn(body)?;
    Ok(pid)
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The command's own end; what it left in the background ends with it.
    ItEnds,
    /// A failure, or until no process is left: a boot script may put its server into the background and end.
    NothingIsLeft,
}

/// Reaps every process until it is over, as process 1 must.
fn wait(pid: Pid, until: Until) -> Result<CommandExit, String> {
    let mut own = CommandExit::Code(0);
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((reaped, status))) if reaped == pid => {
                own = exit_of(status.as_raw());
                if until == Until::ItEnds || own != CommandExit::Code(0) {
                    return Ok(own);
                }
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CHILD) => return Ok(own),
            Err(error) => return Err(format!("cannot wait for the command: {error}")),
        }
    }
}

fn exit_of(status: i32) -> CommandExit {
    let status = ExitStatus::from_raw(status);
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandExit::Code(code),
        (None, Some(signal)) => CommandExit::Signal(signal),
        (None, None) => CommandExit::Code(-1),
    }
}

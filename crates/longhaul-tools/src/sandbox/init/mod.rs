//! The helper that runs as process 1 **inside** the sandbox: starts the command, relays the application's connections,
//! watches memory, and ends everything when the harness has gone.
//!
//! Its standard output is the command's output, its standard error the status lines of [`super::plan`]; commands never
//! get the latter. As process 1 it cannot be killed or stopped from inside, and the kernel ends every process of the
//! namespace with it.

mod fds;
mod messages;
mod relay;
mod watch;

use std::{
    ffi::OsString,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixListener, process::ExitStatusExt},
    },
    process::{Command, ExitCode, ExitStatus, Stdio},
};

use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, WaitOptions};

use self::watch::Watch;
use super::{
    CommandExit,
    plan::{Mode, Plan, Status},
};

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
        Mode::Command { forward } => {
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
    let streams = if plan.is_interactive { Streams::talking(output()?)? } else { Streams::quiet(output()?, output()?) };
    let pid = match start(&argv, streams) {
        Ok(pid) => pid,
        Err(error) => {
            let why =
                format!("cannot run {}: {error}", argv.first().map(|word| word.to_string_lossy()).unwrap_or_default());
            if plan.is_interactive {
                messages::tell(&why);
            } else {
                println!("{why}");
            }
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

/// What a command gets as its standard streams.
struct Streams {
    input: Stdio,
    output: OwnedFd,
    errors: OwnedFd,
}

impl Streams {
    /// Nothing to read; errors among the output.
    fn quiet(output: OwnedFd, errors: OwnedFd) -> Self {
        Self { input: Stdio::null(), output, errors }
    }

    /// Our own input; errors told line by line.
    fn talking(output: OwnedFd) -> Result<Self, String> {
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(|error| format!("no input: {error}"))?;
        Ok(Self { input: input.into(), output, errors: messages::collect()? })
    }
}

fn start(argv: &[OsString], streams: Streams) -> io::Result<Pid> {
    let (program, args) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(args).stdin(streams.input).stdout(streams.output).stderr(streams.errors);
    // The child is reaped below, together with every orphan.
    let child = command.spawn()?;
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

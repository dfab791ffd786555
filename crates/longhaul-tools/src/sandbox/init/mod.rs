//! The helper that runs as process 1 **inside** the sandbox: starts the command, relays the application's connections,
//! watches memory, and ends everything when the harness has gone.
//!
//! Its standard output is the command's output, its standard error the status lines of [`super::plan`]; commands never
//! get the latter. As process 1 it cannot be killed or stopped from inside, and the kernel ends every process of the
//! namespace with it.

mod confine;
mod fds;
mod filter;
mod messages;
mod relay;
mod tree;
mod watch;

use std::{
    ffi::OsString,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixListener, process::ExitStatusExt},
    },
    process::{Command, ExitCode, ExitStatus, Stdio},
    thread,
};

use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, WaitOptions};

use self::{filter::Boundary, watch::Watch};
use super::{
    CommandExit,
    plan::{Confine, Mode, Plan, Status},
};
pub(super) use confine::supported as confinable;

/// Acts as the helper inside the sandbox; `args` are the arguments after those of [`super::SandboxInit`]. Only the
/// hidden subcommand which the settings name calls this; elsewhere it fails without doing anything.
#[must_use]
pub fn init_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let plan = args.next().and_then(|text| text.into_string().ok());
    let plan = plan.ok_or_else(|| "there is no plan".to_owned()).and_then(|plan| {
        serde_json::from_str::<Plan>(&plan).map_err(|error| format!("the plan cannot be read: {error}"))
    });
    // Being process 1 means being in a process namespace of its own: outside one, what follows would do harm, unless the
    // plan names another boundary.
    let confined = matches!(&plan, Ok(Plan { confine: Some(_), .. }));
    if std::process::id() != 1 && !confined {
        eprintln!("this command is the inside of the sandbox; it is started by longhaul itself");
        return ExitCode::from(2);
    }
    let ended = plan.and_then(|plan| run(plan, args.collect()));
    if confined {
        tree::end_all();
    }
    match ended {
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

fn run(plan: Plan, argv: Vec<OsString>) -> Result<CommandExit, String> {
    let argv = fds::without_inherited(&argv).map_err(|error| format!("cannot look at the open files: {error}"))?;
    let is_confined = plan.confine.is_some();
    if is_confined {
        tree::adopt_orphans()?;
    }
    harden(&plan)?;
    let output = || io::stdout().as_fd().try_clone_to_owned().map_err(|error| format!("no output: {error}"));
    Watch::start(output()?, &plan)?;
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
    let (streams, told) = if plan.is_interactive {
        let (streams, told) = Streams::talking(output()?)?;
        (streams, Some(told))
    } else {
        (Streams::quiet(output()?, output()?), None)
    };
    let pid = match start(argv.clone(), streams, plan.confine)? {
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
        _ => {
            let ended = wait(pid, Until::ItEnds);
            if let Some(told) = told {
                told.wait();
            }
            ended
        }
    }
}

pub(super) fn report(status: &Status) {
    // One write a line, so that lines of several threads do not mix. Nobody may be listening any more.
    let _ = rustix::io::write(io::stderr().as_fd(), status.to_line().as_bytes());
}

/// Puts the limits on this process, from which everything inside inherits them.
fn harden(plan: &Plan) -> Result<(), String> {
    let failed = |what: &str| format!("cannot set the limit of {what}");
    if plan.confine.is_none() {
        // If only bubblewrap is killed, nobody would wait for this process any more.
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
            .map_err(|_| failed("life"))?;
    }
    if plan.confine.is_none() {
        // If memory runs out on the host, this sandbox goes before anything else does. Not everywhere allowed.
        let _ = fs::write("/proc/self/oom_score_adj", "1000");
    }
    // Without a user namespace of its own, the limit counts what the user runs elsewhere, too.
    let others = if plan.confine.is_some() { watch::threads_of_user() } else { 0 };
    let processes_max = plan.processes_max.saturating_add(others);
    let limits = [
        (Resource::Core, 0, "core dumps"),
        (Resource::Data, plan.memory_bytes_max, "memory"),
        (Resource::Nproc, processes_max, "processes"),
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
    fn talking(output: OwnedFd) -> Result<(Self, messages::Told), String> {
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(|error| format!("no input: {error}"))?;
        let (errors, told) = messages::collect()?;
        Ok((Self { input: input.into(), output, errors }, told))
    }
}

/// Starts the command from a thread that carries its restrictions; this one, and the helper's others, stay without.
/// The outer error is a boundary that could not be set, the inner one a command that cannot be run.
fn start(argv: Vec<OsString>, streams: Streams, confine: Option<Confine>) -> Result<io::Result<Pid>, String> {
    let body = move || {
        let boundary = match &confine {
            Some(confine) => {
                confine::restrict(confine)?;
                Boundary::Landlock { open_network: confine.open_network }
            }
            None => Boundary::Namespaces,
        };
        filter::apply(boundary)?;
        Ok(spawn(&argv, streams, confine.as_ref()))
    };
    let thread = thread::Builder::new().name("start".to_owned()).spawn(body);
    let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
    thread.join().map_err(|_| "the thread that starts the command failed".to_owned())?
}

fn spawn(argv: &[OsString], streams: Streams, confine: Option<&Confine>) -> io::Result<Pid> {
    let (program, args) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(args).stdin(streams.input).stdout(streams.output).stderr(streams.errors);
    if let Some(confine) = confine {
        command.env_clear().envs(confine.env.iter().cloned()).current_dir(&confine.cwd);
    }
    // The child is reaped below, together with every orphan.
    let child = command.spawn()?;
    if confine.is_some() {
        // The command goes before the helper, which alone could end what is left of it. Not everywhere allowed.
        let _ = fs::write(format!("/proc/{}/oom_score_adj", child.id()), "1000");
    }
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

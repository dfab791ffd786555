//! What `init`, `run` and `demo` share: the home is opened, work goes on while its events are shown, Ctrl-C stops it at
//! a boundary, and how it ended becomes an exit code.

use std::{
    future::Future,
    io::{Write, stderr},
    pin::pin,
    process,
};

use anyhow::Context;
use longhaul::{
    CancellationToken, Ending, Event, Longhaul, LonghaulError, News, Program, RunReport, Visibility, model::Retry,
    settings::Settings,
};
use serde_json::json;
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
    sync::broadcast::error::RecvError,
};

use crate::{
    args::Global,
    exit::Exit,
    progress::{Glyph, Progress, count, duration, print_line},
};

/// The runtime of a command that works. Two threads: one waits for people and the model, one has room for the store.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().context("cannot start the async runtime")
}

/// Opens the home that the settings name.
pub(super) async fn open(settings: Settings) -> Result<Longhaul, LonghaulError> {
    Longhaul::open(settings, Program::this_one()?).await
}

/// Drives `work` to its end while showing what happens. `work` must stop soon after the token it was made with is cancelled.
pub(super) async fn watch<T>(
    longhaul: &Longhaul,
    progress: &mut Progress,
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, LonghaulError>>,
) -> anyhow::Result<T> {
    let mut events = longhaul.events();
    let mut steps = longhaul.progress();
    let mut retries = longhaul.retries();
    let mut signals = Signals::listen()?;
    let mut work = pin!(work);
    let result = loop {
        tokio::select! {
            biased;
            () = signals.next() => {
                if cancel.is_cancelled() {
                    process::exit(i32::from(Exit::Interrupted.number())); // asked twice: recorded steps are safe
                }
                cancel.cancel();
                progress.step("stopping; Ctrl-C again stops at once, and nothing is lost either way");
            }
            event = events.recv() => match event {
                Ok(event) => show(progress, &event)?,
                Err(RecvError::Lagged(missed)) => progress.say(&format!("… {missed} events not shown; `longhaul log` has them"))?,
                Err(RecvError::Closed) => break work.await,
            },
            step = steps.recv() => {
                if let Ok(news) = step.map(|step| step.news)
                    && let News::StepStarted { name } = news
                {
                    progress.step(&name);
                }
            }
            retry = retries.recv() => {
                if let Ok(retry) = retry {
                    progress.notice(&retrying(&retry))?;
                }
            }
            result = &mut work => break result,
        }
    };
    while let Ok(event) = events.try_recv() {
        show(progress, &event)?;
    }
    Ok(result?)
}

/// Why nothing happens just now.
fn retrying(retry: &Retry) -> String {
    let status = retry.status.map_or_else(String::new, |status| format!(" (HTTP {status})"));
    format!("the model's service does not answer{status}; asked again in {}", duration(retry.waited_ms))
}

fn show(progress: &mut Progress, event: &Event) -> anyhow::Result<()> {
    if event.visibility == Visibility::Business {
        progress.event(event)?;
    }
    Ok(())
}

/// Ctrl-C and a polite kill.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Says how a run ended and what to type next.
pub(super) fn conclude(global: &Global, report: &RunReport) -> anyhow::Result<Exit> {
    if global.json {
        print_line(&json!({ "report": report }).to_string())?;
    }
    let dir = report.dir.display();
    let (exit, next) = match report.ending {
        Ending::Done => (Exit::Done, format!("longhaul report --dir {dir}")),
        Ending::Planned => (Exit::Done, format!("longhaul run --dir {dir}")),
        Ending::Limit => (Exit::Unfinished, format!("longhaul run --dir {dir}")),
        Ending::Budget => (Exit::Unfinished, format!("allow more, then longhaul run --dir {dir}")),
        Ending::Stuck if report.proposals > 0 => (Exit::Unfinished, format!("longhaul features proposals --dir {dir}")),
        Ending::Stuck => (Exit::Unfinished, format!("longhaul status --dir {dir}")),
        Ending::Waiting => (Exit::Unfinished, "longhaul waits".to_owned()),
        Ending::Paused | Ending::TakenOver => (Exit::Unfinished, format!("longhaul resume --dir {dir}")),
        Ending::Interrupted => (Exit::Interrupted, format!("longhaul run --dir {dir}")),
    };
    if global.json {
        return Ok(exit);
    }
    let style = global.style();
    let so_far = format!("{} of {} verified", report.passing, count(report.total as u64, "feature"));
    let line = match report.ending {
        Ending::Done => None,
        Ending::Planned => Some(format!("{} planned; nothing is built yet", count(report.total as u64, "feature"))),
        Ending::Limit => Some(format!("{so_far}; the limit of sessions is reached")),
        Ending::Budget => Some(format!("{so_far}; {}", report.limit.as_deref().unwrap_or("the budget is used up"))),
        Ending::Stuck if report.proposals > 0 => {
            let waiting = count(report.proposals as u64, "proposal");
            Some(format!("{so_far}; {waiting} to change a check must be decided first"))
        }
        Ending::Stuck => {
            Some(format!("{so_far}; {} parked, and nothing else can be done", count(report.parked as u64, "feature")))
        }
        Ending::Waiting => Some(format!("{so_far}; somebody has to answer a question first")),
        Ending::Paused => Some(format!("{so_far}; paused")),
        Ending::TakenOver => Some(format!("{so_far}; a person has the folder")),
        Ending::Interrupted => None,
    };
    if let Some(line) = line {
        print_line(&format!("\n{} {line}", style.glyph(if exit == Exit::Done { Glyph::Pass } else { Glyph::Notice })))?;
    }
    if report.ending == Ending::Interrupted {
        let so_far = if report.total == 0 { "nothing is planned yet".to_owned() } else { so_far };
        let _ = writeln!(stderr(), "\ninterrupted; {so_far}, nothing is lost");
    }
    print_line(&format!("  next: {next}"))?;
    Ok(exit)
}

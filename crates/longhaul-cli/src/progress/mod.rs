//! Shows work while it goes on: a live status line on a terminal, plain lines elsewhere, one JSON object per line for
//! machines. What is said is decided in [`view`]; here it is only put out.

mod style;
mod view;

#[cfg(test)]
mod tests;

use std::{
    io::{self, IsTerminal, Write, stderr, stdout},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use longhaul::Event;

pub(crate) use style::{Glyph, Ink, Style, count, duration, tokens};
pub(crate) use view::Detail;
use view::View;

/// Where progress goes.
enum Output {
    Json,
    Lines { view: View, live: Option<ProgressBar> },
}

/// Takes the events of a run and shows them on standard output.
pub(crate) struct Progress {
    output: Output,
}

impl Progress {
    /// For this terminal. `json` wins over everything else.
    pub(crate) fn new(json: bool, style: Style, detail: Detail) -> Self {
        if json {
            return Self { output: Output::Json };
        }
        let live = (style.columns.is_some() && stderr().is_terminal() && style.colour).then(|| status_line(style));
        Self { output: Output::Lines { view: View::new(style, detail), live } }
    }

    /// One event.
    ///
    /// # Errors
    /// Standard output is closed.
    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        match &mut self.output {
            Output::Json => print_line(&serde_json::to_string(event)?),
            Output::Lines { view, live } => {
                let lines = view.apply(&event.kind, &event.data);
                put(live.as_ref(), &lines)?;
                refresh(live.as_ref(), view);
                Ok(())
            }
        }
    }

    /// A step began; it is shown on the status line only.
    pub(crate) fn step(&mut self, what: &str) {
        if let Output::Lines { view, live } = &mut self.output {
            view.step(what);
            refresh(live.as_ref(), view);
        }
    }

    /// A line of the command's own.
    ///
    /// # Errors
    /// Standard output is closed.
    pub(crate) fn say(&self, line: &str) -> io::Result<()> {
        match &self.output {
            Output::Json => Ok(()),
            Output::Lines { live, .. } => put(live.as_ref(), &[line.to_owned()]),
        }
    }

    /// Something to know while waiting.
    ///
    /// # Errors
    /// Standard output is closed.
    pub(crate) fn notice(&self, text: &str) -> io::Result<()> {
        match &self.output {
            Output::Json => Ok(()),
            Output::Lines { view, live } => put(live.as_ref(), &view.one(Glyph::Notice, text)),
        }
    }

    /// Takes the status line away.
    pub(crate) fn finish(self) {
        if let Output::Lines { live: Some(bar), .. } = self.output {
            bar.finish_and_clear();
        }
    }
}

fn status_line(style: Style) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let template = ProgressStyle::with_template("{spinner} {elapsed:.dim} {msg}");
    let template = template.unwrap_or_else(|_| ProgressStyle::default_spinner());
    bar.set_style(if style.unicode { template } else { template.tick_chars("|/-\\ ") });
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Shown on a terminal, hidden elsewhere.
pub(crate) fn spinner(style: Style, json: bool) -> ProgressBar {
    if style.columns.is_some() && stderr().is_terminal() && style.colour && !json {
        status_line(style)
    } else {
        ProgressBar::hidden()
    }
}

fn refresh(live: Option<&ProgressBar>, view: &View) {
    if let Some(bar) = live {
        bar.set_message(view.now());
    }
}

fn put(live: Option<&ProgressBar>, lines: &[String]) -> io::Result<()> {
    let all = || lines.iter().try_for_each(|line| print_line(line));
    match live {
        Some(bar) if !lines.is_empty() => bar.suspend(all),
        Some(_) | None => all(),
    }
}

/// Prints at once: a reader at the other end of a pipe follows along.
pub(crate) fn print_line(line: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

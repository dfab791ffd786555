//! A program that has graphs, asked over its standard input.
//!
//! It owns the other process: one is started when a case needs it and ended with the last. Invariant: a program that
//! does not answer in time is ended, and the next case gets another.

use std::{
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use longhaul_durable::replay::{ASKED, MARK, PROTOCOL_V, Replayed, ServedAnswer, ServedRequest};

use super::EvalError;

/// The program and, once something was asked, its process.
pub(super) struct Program {
    command: Vec<String>,
    name: String,
    limit: Duration,
    running: Option<Running>,
}

struct Running {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<io::Result<String>>,
}

impl Program {
    pub(super) fn new(command: &[String], limit: Duration) -> Result<Self, EvalError> {
        let name = command.join(" ");
        if command.is_empty() {
            return Err(EvalError::Program { program: name, source: io::ErrorKind::NotFound.into() });
        }
        let mut program = Self { command: command.to_vec(), name, limit, running: None };
        program.start()?;
        Ok(program)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn start(&mut self) -> Result<(), EvalError> {
        let failed = |source| EvalError::Program { program: self.name.clone(), source };
        let mut child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .env(ASKED, PROTOCOL_V.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = mpsc::sync_channel(64);
        if let Some(output) = output {
            // Ends with the process, whose output it reads, or when nobody listens any more.
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines() {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        self.running = Some(Running { child, input, lines });
        Ok(())
    }

    /// What the program makes of a case, or why it makes nothing of it.
    pub(super) fn replay(&mut self, case: String) -> Result<Replayed, String> {
        if self.running.is_none() {
            self.start().map_err(|error| super::chain(&error))?;
        }
        let answer = self.ask(case);
        if answer.is_err() {
            // Whatever state it is in, the next case gets another process.
            self.running = None;
        }
        let ServedAnswer { replayed, error } = answer?;
        match (replayed, error) {
            (_, Some(error)) => Err(error),
            (Some(replayed), None) => Ok(replayed),
            (None, None) => Err(format!("{} answered nothing", self.name)),
        }
    }

    fn ask(&mut self, case: String) -> Result<ServedAnswer, String> {
        let until = Instant::now() + self.limit;
        let Some(running) = &mut self.running else { return Err(format!("{} is not running", self.name)) };
        let request = serde_json::to_string(&ServedRequest { case }).map_err(|error| error.to_string())?;
        let gone = |what: &str| {
            format!("{} {what}: does it call `Replayer::serve_if_asked` first? docs/evaluation.md shows how", self.name)
        };
        let written = running.input.as_mut().map(|input| {
            input.write_all(request.as_bytes()).and_then(|()| input.write_all(b"\n")).and_then(|()| input.flush())
        });
        if !matches!(written, Some(Ok(()))) {
            return Err(gone("ended before it was asked anything"));
        }
        loop {
            match running.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Ok(line)) => {
                    if let Some(answer) = line.strip_prefix(MARK) {
                        return serde_json::from_str(answer)
                            .map_err(|error| gone(&format!("answered what cannot be read ({error})")));
                    }
                    // What its nodes print is for people.
                    if !line.is_empty() {
                        eprintln!("{line}");
                    }
                }
                Ok(Err(error)) => return Err(gone(&format!("cannot be read ({error})"))),
                Err(RecvTimeoutError::Disconnected) => return Err(gone("ended without an answer")),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("{} did not answer within {} s", self.name, self.limit.as_secs()));
                }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A program that was asked and has answered ends when there is no more to read; any other is ended.
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

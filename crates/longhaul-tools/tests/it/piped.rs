//! Commands that are talked to while they run.

use std::time::Duration;

use longhaul_tools::sandbox::{CommandExit, PipedEnd, SandboxCommand};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::fixture::{Fixture, processes_with, until};

const PARROT: &str = "import sys\nprint('ready', file=sys.stderr, flush=True)\n\
                      for line in sys.stdin: print('heard ' + line.strip(), flush=True)\n\
                      print('bye', flush=True); sys.exit(3)";

#[tokio::test]
async fn a_piped_command_hears_answers_and_ends_with_its_input() {
    let fixture = Fixture::new();
    let command = SandboxCommand::argv(["/usr/bin/python3", "-c", PARROT]);
    let mut piped = fixture.sandbox.open(command, None).await.unwrap();
    let (mut input, output) = piped.take().unwrap();
    assert!(piped.take().is_none());
    let mut output = BufReader::new(output);
    for word in ["one", "zwei", "三"] {
        input.write_all(format!("{word}\n").as_bytes()).await.unwrap();
        let mut line = String::new();
        output.read_line(&mut line).await.unwrap();
        assert_eq!(line, format!("heard {word}\n"));
    }
    assert_eq!((piped.ended(), piped.said(10).as_str()), (None, "ready"));
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "bye\n");
    assert_eq!(piped.wait().await, PipedEnd::Exit(CommandExit::Code(3)));
}

#[tokio::test]
async fn a_piped_command_ends_when_it_is_stopped_dropped_or_out_of_time() {
    let fixture = Fixture::new();
    let mark = format!("mark-{}-piped", std::process::id());
    let line = format!("setsid sh -c 'while :; do sleep 1; done; : {mark}' & cat; sleep 600");
    let start = |seconds| {
        let command = SandboxCommand::shell(line.clone()).timeout(Duration::from_secs(seconds));
        fixture.sandbox.open(command, None)
    };
    let stopped = start(600).await.unwrap();
    until("it runs", || !processes_with(&format!(": {mark}")).is_empty()).await;
    stopped.stop().await;
    assert!(processes_with(&mark).is_empty());

    // Whoever still holds the streams does not keep it alive.
    let mut dropped = start(600).await.unwrap();
    let streams = dropped.take();
    until("it runs", || !processes_with(&format!(": {mark}")).is_empty()).await;
    drop(dropped);
    until("it is gone", || processes_with(&mark).is_empty()).await;
    drop(streams);

    let mut late = start(1).await.unwrap();
    assert_eq!(late.wait().await, PipedEnd::Exit(CommandExit::TimedOut));
    assert!(processes_with(&mark).is_empty());

    let mut absent = fixture.sandbox.open(SandboxCommand::argv(["no-such-program"]), None).await.unwrap();
    assert_eq!(absent.wait().await, PipedEnd::Exit(CommandExit::Code(127)));
}

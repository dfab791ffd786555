//! Programs that are talked to while they run.

use longhaul_tools::sandbox::{CommandExit, SandboxCommand};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::fixture::{Fixture, processes_with, until};

const PARROT: &str = "import sys\nprint('ready', file=sys.stderr, flush=True)\n\
                      for line in sys.stdin: print('heard ' + line.strip(), flush=True)\n\
                      print('bye', flush=True); sys.exit(3)";

#[tokio::test]
async fn a_program_hears_answers_and_ends_with_its_input() {
    let fixture = Fixture::new();
    let command = SandboxCommand::argv(["/usr/bin/python3", "-c", PARROT]);
    let mut program = fixture.sandbox.start_program(command, None).unwrap();
    let (output, mut input) = program.take_streams().unwrap();
    assert!(program.take_streams().is_none());
    let mut output = BufReader::new(output);
    for word in ["one", "zwei", "三"] {
        input.write_all(format!("{word}\n").as_bytes()).await.unwrap();
        let mut line = String::new();
        output.read_line(&mut line).await.unwrap();
        assert_eq!(line, format!("heard {word}\n"));
    }
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "bye\n");
    drop(output);
    let end = program.finish().await;
    assert_eq!(end.exit, Some(CommandExit::Code(3)));
    assert!(end.messages.contains("says: ready"), "{}", end.messages);
}

#[tokio::test]
async fn a_program_ends_when_it_is_finished_or_dropped() {
    let fixture = Fixture::new();
    let mark = format!("mark-{}-program", std::process::id());
    let line = format!("setsid sh -c 'while :; do sleep 1; done; : {mark}' & cat; sleep 600");
    let start = || fixture.sandbox.start_program(SandboxCommand::shell(line.clone()), None).unwrap();
    let finished = start();
    until("it runs", || !processes_with(&format!(": {mark}")).is_empty()).await;
    assert_eq!(finished.finish().await.exit, None);
    assert!(processes_with(&mark).is_empty());

    let dropped = start();
    until("it runs", || !processes_with(&format!(": {mark}")).is_empty()).await;
    drop(dropped);
    until("it is gone", || processes_with(&mark).is_empty()).await;

    let absent = fixture.sandbox.start_program(SandboxCommand::argv(["no-such-program"]), None).unwrap();
    let mut absent = absent;
    let (mut output, input) = absent.take_streams().unwrap();
    output.read_to_string(&mut String::new()).await.unwrap();
    drop((output, input));
    assert_eq!(absent.finish().await.exit, Some(CommandExit::Code(127)));
}

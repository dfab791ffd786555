//! Time, processes, memory, files and output of a command are bounded.

use std::time::{Duration, Instant};

use longhaul_tools::{
    AppSlot, ShellLimits, ShellTool, Tool,
    sandbox::{CommandExit, SandboxCommand, SandboxError, SandboxLimits},
};

use crate::fixture::{Fixture, processes_with, until};

const MIB: u64 = 1024 * 1024;

#[tokio::test]
async fn exit_and_output_come_in_order() {
    let fixture = Fixture::new();
    let output = fixture.shell("echo one; echo two >&2; echo drei; exit 7").await;
    assert_eq!((output.exit, output.output.as_str()), (CommandExit::Code(7), "one\ntwo\ndrei\n"));
    assert_eq!(fixture.shell("kill -TERM $$").await.exit, CommandExit::Signal(15));
    let unknown = fixture.sandbox.run(SandboxCommand::argv(["no-such-program"]), None).await.unwrap();
    assert_eq!(unknown.exit, CommandExit::Code(127));
    assert!(unknown.output.contains("no-such-program"), "{}", unknown.output);
    let long = fixture.sandbox.run(SandboxCommand::shell("x".repeat(200_000)), None).await.unwrap_err();
    assert!(matches!(long, SandboxError::CommandTooLong { .. }), "{long}");
}

#[tokio::test]
async fn at_the_wall_time_everything_is_killed_however_it_hides() {
    let fixture = Fixture::new();
    let mark = format!("mark-{}-wall", std::process::id());
    let line = format!(
        "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done; : {mark}' >/dev/null 2>&1 </dev/null & \
         (setsid setsid sh -c 'while :; do sleep 1; done; : {mark}' &) ; echo started; sleep 600"
    );
    let run = fixture.sandbox.run(SandboxCommand::shell(line).timeout(Duration::from_secs(2)), None);
    let seen = async {
        // The shell itself and both hidden ones.
        until("the hidden processes run", || processes_with(&format!(": {mark}")).len() >= 3).await;
    };
    let started = Instant::now();
    let (output, ()) = tokio::join!(run, seen);
    let output = output.unwrap();
    assert_eq!((output.exit, output.output.as_str()), (CommandExit::TimedOut, "started\n"));
    assert_eq!(processes_with(&format!(": {mark}")), Vec::<u32>::new());
    assert!(started.elapsed() < Duration::from_secs(6));
}

#[tokio::test]
async fn what_a_command_leaves_running_ends_with_it() {
    let fixture = Fixture::new();
    let mark = format!("mark-{}-left", std::process::id());
    let output = fixture.shell(&format!("setsid sh -c 'sleep 600; : {mark}' & echo done")).await;
    assert_eq!((output.exit, output.output.as_str()), (CommandExit::Code(0), "done\n"));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn a_dropped_run_leaves_nothing() {
    let fixture = Fixture::new();
    let mark = format!("mark-{}-drop", std::process::id());
    let run = fixture.sandbox.run(SandboxCommand::shell(format!("sleep 600; : {mark}")), None);
    tokio::select! {
        _ = run => panic!("it ended by itself"),
        () = until("it runs", || !processes_with(&mark).is_empty()) => {}
    }
    until("it is gone", || processes_with(&mark).is_empty()).await;
}

#[tokio::test]
async fn a_run_dropped_at_any_moment_of_its_start_leaves_nothing() {
    let fixture = Fixture::new();
    let mark = format!("mark-{}-any", std::process::id());
    for moment_us in (0..24).map(|step| step * 1500) {
        let run = fixture.sandbox.run(SandboxCommand::shell(format!("sleep 600; : {mark}")), None);
        tokio::select! {
            _ = run => panic!("it ended by itself"),
            () = tokio::time::sleep(Duration::from_micros(moment_us)) => {}
        }
    }
    until("all are gone", || processes_with(&mark).is_empty()).await;
}

#[tokio::test]
async fn a_fork_bomb_stays_small() {
    let fixture = Fixture::with_limits(SandboxLimits { processes_max: 40, ..SandboxLimits::default() });
    let count = fixture
        .python(
            "import os, signal\n\
             n = 0\n\
             try:\n\
             \x20   while n < 500:\n\
             \x20       if os.fork() == 0: signal.pause()\n\
             \x20       n += 1\n\
             except OSError as e: print(e.errno)\n\
             print(n)",
        )
        .await;
    let numbers: Vec<u32> = count.output.lines().map(|line| line.parse().unwrap()).collect();
    assert!(matches!(numbers[..], [11, 20..40]), "{}", count.output);

    let mark = format!("mark-{}-bomb", std::process::id());
    let script = format!("b() {{ b | b & }}; b; sleep 600; : {mark}");
    let bomb = SandboxCommand::argv(["/bin/bash", "-c", &script]).timeout(Duration::from_secs(2));
    let bombed = fixture.sandbox.run(bomb, None).await.unwrap();
    assert_eq!(bombed.exit, CommandExit::TimedOut);
    assert!(processes_with(&mark).is_empty());
    // Another sandbox has its own count.
    assert!(fixture.shell("true | true | true").await.success());
}

#[tokio::test]
async fn memory_is_bounded_for_one_process_and_for_all() {
    let limits = SandboxLimits { memory_bytes_max: 300 * MIB, ..SandboxLimits::default() };
    let fixture = Fixture::with_limits(limits);
    let modest = fixture.python("b = bytearray(50 * 2**20); print(len(b))").await;
    assert_eq!(modest.output, format!("{}\n", 50 * MIB));
    let hog = fixture.python("b = bytearray(400 * 2**20); print(len(b))").await;
    assert_eq!(hog.exit, CommandExit::Code(1));
    assert!(hog.output.contains("MemoryError"), "{}", hog.output);
    let herd = "import os, signal\nfor _ in range(8):\n  if os.fork() == 0:\n    b = b'x' * (100 * 2**20); signal.pause()\nsignal.pause()";
    assert_eq!(fixture.python(herd).await.exit, CommandExit::OutOfMemory);
    // Memory that is not private to a process has its own bounds.
    let scratch = SandboxLimits { scratch_bytes_max: 10 * MIB, ..SandboxLimits::default() };
    let full = Fixture::with_limits(scratch).shell("head -c 20000000 /dev/zero > /tmp/big").await;
    assert!(full.output.contains("No space left"), "{}", full.output);
}

#[tokio::test]
async fn files_are_bounded() {
    let fixture =
        Fixture::with_limits(SandboxLimits { file_bytes_max: MIB, open_files_max: 50, ..SandboxLimits::default() });
    assert!(fixture.shell("head -c 1000000 /dev/zero > fits").await.success());
    assert!(!fixture.shell("head -c 2000000 /dev/zero > toobig").await.success());
    assert!(std::fs::metadata(fixture.project().join("toobig")).unwrap().len() <= MIB);
    let open = fixture
        .python("f = []\ntry:\n  while True: f.append(open('/dev/null'))\nexcept OSError as e: print(e.errno)")
        .await;
    assert_eq!(open.output, "24\n");
}

#[tokio::test]
async fn a_flood_of_output_keeps_both_ends_and_says_so() {
    let fixture = Fixture::new();
    let flood = "echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last";
    let command = SandboxCommand::shell(flood).output_bytes_max(1000).timeout(Duration::from_secs(30));
    let output = fixture.sandbox.run(command, None).await.unwrap();
    assert!(output.success());
    assert_eq!(output.output_bytes_cut, 30_000_000 + 6 + 6 - 1000);
    assert!(output.output.starts_with("first\nxxx") && output.output.ends_with("xxx\nlast\n"));
    assert!(output.output.contains("bytes cut here") && output.output.len() < 1200);

    let endless = SandboxCommand::shell("yes").output_bytes_max(1000).timeout(Duration::from_millis(500));
    let output = fixture.sandbox.run(endless, None).await.unwrap();
    assert_eq!(output.exit, CommandExit::TimedOut);
    assert!(output.output_bytes_cut > 0 && output.output.len() < 1200);
}

#[tokio::test]
async fn a_shell_keeps_to_the_bounds_it_was_given_whatever_the_model_asks_for() {
    let fixture = Fixture::new();
    let limits = ShellLimits { seconds_max: 1, output_bytes_max: 1000 };
    let shell = ShellTool::new(fixture.sandbox.clone(), AppSlot::default()).limits(limits);
    assert_eq!(shell.spec().parameters["properties"]["timeout_s"]["maximum"], 1);
    let asked = serde_json::json!({ "command": "seq 100000; sleep 600", "timeout_s": 900 });
    let answer = shell.call(asked).await.text;
    assert!(answer.starts_with("exit 124 (killed after 1 s"), "{answer}");
    assert!(answer.contains("no command may run longer"), "{answer}");
    assert!(answer.contains("bytes cut here") && answer.len() < 1_400, "{answer}");
}

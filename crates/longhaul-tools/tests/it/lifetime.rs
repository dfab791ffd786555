//! Nothing outlives the harness, even if it is killed without a chance to tidy up.

use std::{
    env, fs,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use longhaul_tools::sandbox::{AppSpec, Sandbox, SandboxCommand};

use crate::fixture::{Fixture, processes_with, settings, until};

const ROLE: &str = "LONGHAUL_TEST_HARNESS_FOLDER";
const MARK: &str = "LONGHAUL_TEST_MARK";

#[tokio::test]
async fn after_a_sigkill_of_the_harness_nothing_runs() {
    if let Some(folder) = env::var_os(ROLE) {
        return act_as_harness(folder.into()).await;
    }
    let fixture = Fixture::new();
    let mark = format!("mark-{}-sigkill", std::process::id());
    let hidden = format!("setsid sh -c 'trap \"\" HUP TERM; while :; do sleep 1; done; : {mark}' >/dev/null 2>&1 &");
    fs::write(fixture.project().join("hide.sh"), format!("{hidden}\n")).unwrap();
    fs::write(fixture.project().join("init.sh"), format!("{hidden}\nexec python3 -m http.server $PORT\n")).unwrap();
    fixture.sandbox.prepare_project().unwrap();

    let mut harness = Command::new(env::current_exe().unwrap())
        .args(["lifetime::after_a_sigkill_of_the_harness_nothing_runs", "--exact", "--nocapture"])
        .env(ROLE, fixture.folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // One hidden process of the application, one of the command.
    until("both sandboxes run", || processes_with(&format!(": {mark}")).len() >= 2).await;
    let init = fixture.project().display().to_string();
    assert!(!processes_with(&init).is_empty());
    harness.kill().unwrap();
    assert_eq!(harness.wait().unwrap().signal(), Some(9));
    until("everything is gone", || processes_with(&mark).is_empty() && processes_with(&init).is_empty()).await;
}

#[tokio::test]
async fn a_harness_killed_while_it_starts_a_command_leaves_nothing() {
    if let Some(folder) = env::var_os(ROLE) {
        let mark = env::var(MARK).unwrap();
        let sandbox = Sandbox::new(settings(folder.as_ref())).unwrap();
        sandbox.run(SandboxCommand::shell(format!("sleep 600; : {mark}")), None).await.unwrap();
        return;
    }
    let fixture = Fixture::new();
    for round in 0..5 {
        let mark = format!("mark-{}-{round}-start", std::process::id());
        let mut harness = Command::new(env::current_exe().unwrap())
            .args(["lifetime::a_harness_killed_while_it_starts_a_command_leaves_nothing", "--exact", "--nocapture"])
            .env(ROLE, fixture.folder.path())
            .env(MARK, &mark)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // The first sight of it is the outermost process, before the sandbox stands.
        while processes_with(&format!(": {mark}")).is_empty() {
            tokio::task::yield_now().await;
        }
        harness.kill().unwrap();
        harness.wait().unwrap();
        until("it is gone", || processes_with(&mark).is_empty()).await;
    }
}

async fn act_as_harness(folder: PathBuf) {
    let sandbox = Sandbox::new(settings(&folder)).unwrap();
    let app = sandbox.start_app(AppSpec::default()).await.unwrap();
    let command = SandboxCommand::shell(". ./hide.sh; sleep 600");
    sandbox.run(command, Some(&app.link())).await.unwrap();
}

//! A run that is killed on one machine and finished on another. The two share a PostgreSQL database, an S3 bucket and a
//! git remote, and nothing else: when the second begins, everything of the first one's disk is gone.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use longhaul_testbed::{PrivateCluster, S3Server, serve_s3_if_asked};
use serde_json::Value;

use crate::stage::{Ended, Running, Stage, TINY};

/// What both machines are told.
struct Shared {
    stage: Stage,
    url: String,
    s3: S3Server,
}

impl Shared {
    /// The program on one of the machines, each with a disk of its own.
    fn on(&self, machine: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        let disk = self.disk(machine);
        fs::create_dir_all(&disk).unwrap();
        let template = self.stage.command::<&str>(&[]);
        command.args(args).current_dir(&disk).env_clear();
        command.envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("HOME", &disk).env("LONGHAUL_HOME", disk.join("data"));
        command.env("LONGHAUL_STORE_URL", &self.url).env("LONGHAUL_STORE_LEASE_SECONDS", "5");
        command.env("LONGHAUL_STORE_BLOBS", "s3://evidence/longhaul").env("AWS_ALLOW_HTTP", "1");
        command.env("AWS_ENDPOINT_URL", format!("http://{}", self.s3.address()));
        command.env("AWS_ACCESS_KEY_ID", S3Server::KEY).env("AWS_SECRET_ACCESS_KEY", S3Server::SECRET);
        command
    }

    fn disk(&self, machine: &str) -> PathBuf {
        self.stage.path(machine)
    }
}

#[test]
fn a_run_killed_on_one_machine_is_finished_on_another() {
    let database = PrivateCluster::shared().unwrap().create_database().unwrap();
    let shared = Shared {
        stage: Stage::new(),
        url: database.url(),
        s3: S3Server::start("another_machine::the_bucket_is_served", "evidence"),
    };
    let (stage, remote) = (&shared.stage, shared.stage.path("remote.git"));
    stage.write("tiny.toml", TINY);
    let made = Command::new("git").args(["init", "--quiet", "--bare", "--initial-branch=main"]).arg(&remote).status();
    assert!(made.unwrap().success());
    let story = format!("cassette:{}", stage.path("tiny.toml").display());
    let request = "Build a page that counts clicks and keeps notes, with Python's standard library only.";

    let remote_text = remote.to_str().unwrap();
    let init = ["init", request, "--dir", "app", "--remote", remote_text, "--model", &story];
    let planned = Ended::of(&mut shared.on("one", &init));
    assert_eq!(planned.code, Some(0), "{planned:#?}");
    let checks: Value =
        serde_json::from_slice(&fs::read(shared.disk("one").join("app/feature_checks.json")).unwrap()).unwrap();
    let task = checks["task"].as_str().unwrap().to_owned();
    let first = Running::start(&mut shared.on("one", &["run", "--dir", "app", "--json"]));
    first.line(|event| event["kind"] == "claim.refused");
    drop(first); // as SIGKILL does
    fs::remove_dir_all(shared.disk("one")).unwrap();

    let ended = taken_over(&shared, &["run", "--dir", "elsewhere", "--task", &task, "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let report = ended.lines().into_iter().find(|line| line["report"].is_object()).unwrap();
    assert_eq!((&report["report"]["passing"], &report["report"]["total"]), (&3.into(), &3.into()));
    everything_is_there(&shared, &remote);
}

/// Runs on the second machine as soon as the first one has been silent for long enough.
fn taken_over(shared: &Shared, args: &[&str]) -> Ended {
    for _ in 0..200 {
        let ended = Ended::of(&mut shared.on("two", args));
        if ended.code == Some(0) || !ended.err.contains("another longhaul works on this project") {
            return ended;
        }
    }
    panic!("the first machine is dead and holds the project for ever");
}

fn everything_is_there(shared: &Shared, remote: &std::path::Path) {
    let app = shared.disk("two").join("elsewhere");
    let list: Value = serde_json::from_slice(&fs::read(app.join("feature_list.json")).unwrap()).unwrap();
    assert!(list.as_array().unwrap().iter().all(|feature| feature["passes"] == true), "{list}");
    let git = |dir: &std::path::Path, args: &[&str]| {
        let output = Command::new("git").args(["-c", "safe.directory=*", "-C"]).arg(dir).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let subjects = git(&app, &["log", "--reverse", "--format=%s"]);
    assert_eq!(
        subjects.lines().collect::<Vec<_>>(),
        ["chore: a skeleton that boots", "feat: count clicks", "feat: a list of notes", "feat: keep notes"]
    );
    assert_eq!(
        git(&app, &["rev-parse", "HEAD"]),
        git(remote, &["rev-parse", "main"]),
        "the remote has the last commit"
    );
    assert_eq!(git(&app, &["status", "--porcelain"]), "");
    let log = Ended::of(&mut shared.on("two", &["log", "--dir", "elsewhere", "--json"])).lines();
    let of = |kind: &str| log.iter().filter(|event| event["kind"] == kind).count();
    assert_eq!((of("feature.passed"), of("run.finished")), (3, 1));
    assert_eq!(log.iter().filter(|event| event["kind"] == "mirror.pushed" && event["data"]["ok"] == true).count(), 4);
    // Pictures of both machines, from the bucket.
    let mut report = shared.on("two", &["report", "--dir", "elsewhere", "--out", "report.html"]);
    assert!(report.stdout(Stdio::null()).status().unwrap().success());
    let page = fs::read_to_string(shared.disk("two").join("report.html")).unwrap();
    assert!(page.matches("data:image/").count() >= 4, "{} pictures", page.matches("data:image/").count());
    for feature in ["F01", "F02", "F03"] {
        assert!(page.contains(feature), "{feature}");
    }
}

#[test]
fn the_bucket_is_served() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(serve_s3_if_asked());
}

//! How long a sandbox takes to start: `true` in a sandbox of its own, from the call to the collected output, for each
//! kind that works here. Prints one JSON object.
//!
//! It acts as its own helper inside, as `longhaul` does.

#![expect(clippy::unwrap_used, reason = "an example that cannot measure has nothing to say")]

use std::{env, fs, os::unix::fs::PermissionsExt as _, process::ExitCode};

use longhaul_tools::sandbox::{Sandbox, SandboxBuilder, SandboxCommand, SandboxInit, SandboxSettings, init_main};
use serde_json::json;

const INSIDE: &str = "--inside";
const STARTS: usize = 200;

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    if args.next().is_some_and(|first| first == INSIDE) {
        return init_main(args);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let figures = runtime.block_on(async {
        let mut figures = serde_json::Map::new();
        for (name, builder) in [("bubblewrap", SandboxBuilder::Bubblewrap), ("landlock", SandboxBuilder::Landlock)] {
            if let Some(of_kind) = measure(builder).await {
                figures.insert(name.to_owned(), of_kind);
            }
        }
        figures
    });
    println!("{}", serde_json::Value::Object(figures));
    ExitCode::SUCCESS
}

/// Milliseconds; `None` where this kind does not work.
async fn measure(builder: SandboxBuilder) -> Option<serde_json::Value> {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let project = folder.path().join("project");
    fs::create_dir_all(project.join(".git")).unwrap();
    let helper = folder.path().join("helper");
    fs::copy(env::current_exe().unwrap(), &helper).unwrap();
    let init = SandboxInit { program: helper, args: vec![INSIDE.to_owned()] };
    let mut settings = SandboxSettings::new(project, folder.path().join("run"), init);
    settings.builder = builder;
    let sandbox = Sandbox::new(settings).ok()?;
    sandbox.prepare_project().unwrap();
    let mut times = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        let begun = std::time::Instant::now();
        let done = sandbox.run(SandboxCommand::argv(["true"]), None).await.unwrap();
        times.push(begun.elapsed().as_secs_f64() * 1_000.0);
        assert!(done.success(), "{}", done.output);
    }
    times.sort_by(f64::total_cmp);
    Some(json!({ "kind": sandbox.kind(), "p50_ms": times[STARTS / 2], "p95_ms": times[STARTS * 95 / 100] }))
}

//! A project with a sandbox around it, in a temporary folder.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use longhaul_tools::sandbox::{
    AppLink, CommandOutput, Sandbox, SandboxCommand, SandboxInit, SandboxLimits, SandboxSettings,
};
use tempfile::TempDir;

pub(crate) struct Fixture {
    /// Holds `project`, `runtime` and whatever a test puts beside them.
    pub(crate) folder: TempDir,
    pub(crate) sandbox: Sandbox,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with_limits(limits: SandboxLimits) -> Self {
        Self::with(|settings| settings.limits = limits)
    }

    pub(crate) fn with(change: impl FnOnce(&mut SandboxSettings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // As closed to other users as /root is.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let project = folder.path().join("project");
        fs::create_dir_all(project.join(".git")).unwrap();
        fs::write(project.join(".git/config"), "[core]\n").unwrap();
        let mut settings = settings(folder.path());
        change(&mut settings);
        let sandbox = Sandbox::new(settings).unwrap();
        sandbox.prepare_project().unwrap();
        Self { folder, sandbox }
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// Runs a shell line, ten seconds at most.
    pub(crate) async fn shell(&self, line: &str) -> CommandOutput {
        self.shell_with(line, None).await
    }

    pub(crate) async fn shell_with(&self, line: &str, app: Option<&AppLink>) -> CommandOutput {
        let command = SandboxCommand::shell(line).timeout(Duration::from_secs(20));
        self.sandbox.run(command, app).await.unwrap()
    }

    /// Runs a Python program inside.
    pub(crate) async fn python(&self, program: &str) -> CommandOutput {
        let command = SandboxCommand::argv(["/usr/bin/python3", "-c", program]).timeout(Duration::from_secs(20));
        self.sandbox.run(command, None).await.unwrap()
    }
}

pub(crate) fn settings(folder: &Path) -> SandboxSettings {
    let init = SandboxInit { program: env!("CARGO_BIN_EXE_longhaul-sandbox-init").into(), args: Vec::new() };
    SandboxSettings::new(folder.join("project"), folder.join("runtime"), init)
}

/// The processes of this machine whose command line has this text.
pub(crate) fn processes_with(mark: &str) -> Vec<u32> {
    let found = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let entry = entry.ok()?;
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(mark).then_some(pid)
    });
    found.collect()
}

/// Waits until a condition holds; fails after ten seconds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("did not come to pass: {what}");
}

//! What a run needs of this machine, looked for before anything is asked of a model or written: git, a sandbox, a
//! browser. `longhaul doctor` looks more closely; here it must be quick, so the browser is found and not started.

use std::process::Stdio;

use longhaul_harness::GitError;
use longhaul_tools::{browser::BrowserSettings, sandbox::Sandbox};
use tokio::process::Command;

use crate::{Longhaul, LonghaulError};

impl Longhaul {
    /// Refuses to begin what could not be finished here.
    pub(crate) async fn check_machine(&self) -> Result<(), LonghaulError> {
        let mut git = Command::new("git");
        git.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        git.status().await.map_err(GitError::Missing)?;
        self.browser_settings().locate()?;
        Sandbox::probe(self.settings.sandbox.builder)?;
        Ok(())
    }

    /// How the browser is run.
    pub(crate) fn browser_settings(&self) -> BrowserSettings {
        BrowserSettings {
            program: self.settings.browser.program.clone(),
            headed: self.settings.browser.headed,
            ..BrowserSettings::default()
        }
    }
}

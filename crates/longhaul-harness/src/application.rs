//! The application under construction, as the harness runs it: once for the agent's own trials, and afresh for every
//! verification.
//!
//! Invariant: what the agent tries is the code as it is. The trial application is started again whenever the folder has
//! changed since it was started.

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;
use longhaul_durable::StepError;
use longhaul_tools::{
    AppSlot,
    browser::AppAddress,
    sandbox::{App, AppError, AppSpec, Sandbox},
};
use tokio::{sync::Mutex, time::Instant};

use crate::{verifier::AppControl, work_tree::TreeId};

/// How applications are started.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) sandbox: Sandbox,
    pub(crate) port: u16,
    pub(crate) boot_timeout: Duration,
}

impl Launch {
    fn spec(&self, data_dir: PathBuf) -> AppSpec {
        AppSpec { port: self.port, boot_timeout: self.boot_timeout, data_dir: Some(data_dir), ..AppSpec::default() }
    }

    async fn start(&self, data_dir: PathBuf) -> Result<App, AppError> {
        self.sandbox.start_app(self.spec(data_dir)).await
    }
}

/// The application of the agent's trials.
#[derive(Debug)]
pub(crate) struct Trial {
    launch: Launch,
    data_dir: PathBuf,
    running: Mutex<Option<(TreeId, App)>>,
    /// Where the shell finds it.
    slot: AppSlot,
    /// Where the agent's browser finds it.
    address: AppAddress,
}

/// What starting it came to.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Boot {
    /// How long it took.
    pub(crate) elapsed_ms: u64,
    /// Why it did not start, with the end of its output.
    pub(crate) failure: Option<String>,
}

impl Trial {
    pub(crate) fn new(launch: Launch, data_dir: PathBuf) -> Self {
        Self { launch, data_dir, running: Mutex::new(None), slot: AppSlot::default(), address: AppAddress::default() }
    }

    /// Makes sure that the application runs the code of `tree`; a failure to start is a result, not an error.
    pub(crate) async fn ensure(&self, tree: &TreeId) -> Boot {
        let started = Instant::now();
        let mut running = self.running.lock().await;
        let current = running.as_ref().is_some_and(|(of, app)| of == tree && app.is_running());
        let mut failure = None;
        if !current {
            self.slot.set(None);
            self.address.set(None);
            if let Some((_, app)) = running.take() {
                app.stop().await;
            }
            match self.launch.start(self.data_dir.clone()).await {
                Ok(app) => {
                    self.slot.set(Some(app.link()));
                    self.address.set(Some(app.base_url()));
                    *running = Some((tree.clone(), app));
                }
                Err(error) => failure = Some(explain(&error)),
            }
        }
        Boot { elapsed_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX), failure }
    }

    /// Where the shell finds the application.
    pub(crate) fn slot(&self) -> AppSlot {
        self.slot.clone()
    }

    /// Where the agent's browser finds the application.
    pub(crate) fn address(&self) -> AppAddress {
        self.address.clone()
    }

    pub(crate) async fn stop(&self) {
        self.slot.set(None);
        self.address.set(None);
        if let Some((_, app)) = self.running.lock().await.take() {
            app.stop().await;
        }
    }
}

/// The application of one verification flow: its own empty data folder, which a restart keeps and the end removes.
#[derive(Debug)]
pub(crate) struct FlowApp {
    launch: Launch,
    data_dir: tempfile::TempDir,
    app: Option<App>,
}

/// Why there is no application to verify.
#[derive(Debug)]
pub(crate) enum NoFlow {
    /// It does not start; the text, with the end of its output, is for whoever built it.
    App(String),
    /// This machine cannot start anything.
    Here(StepError),
}

impl FlowApp {
    /// Starts it.
    ///
    /// # Errors
    /// [`NoFlow::App`] is about the application and may be a verdict; [`NoFlow::Here`] is about this machine and is none.
    pub(crate) async fn start(launch: Launch, scratch: &std::path::Path) -> Result<Self, NoFlow> {
        let data_dir = tempfile::Builder::new().prefix("flow-").tempdir_in(scratch);
        let data_dir = data_dir.map_err(|e| NoFlow::Here(StepError::from(e)))?;
        match launch.start(data_dir.path().to_owned()).await {
            Ok(app) => Ok(Self { launch, data_dir, app: Some(app) }),
            Err(AppError::Sandbox(error)) => Err(NoFlow::Here(StepError::from(error))),
            Err(error) => Err(NoFlow::App(explain(&error))),
        }
    }

    /// Ends it.
    pub(crate) async fn stop(mut self) {
        if let Some(app) = self.app.take() {
            app.stop().await;
        }
    }
}

#[async_trait]
impl AppControl for FlowApp {
    fn base_url(&self) -> String {
        self.app.as_ref().map(App::base_url).unwrap_or_default()
    }

    async fn restart(&mut self) -> Result<(), String> {
        if let Some(app) = self.app.take() {
            app.stop().await;
        }
        let app = self.launch.start(self.data_dir.path().to_owned()).await.map_err(|e| explain(&e))?;
        self.app = Some(app);
        Ok(())
    }
}

/// An error with its causes, in one text for the agent.
pub(crate) fn explain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

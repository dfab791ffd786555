//! Answers the agent's requests: permission by the rules, files and commands by our own tools; and writes down what it did.

use async_trait::async_trait;
use longhaul_agent::acp::{AgentDeed, AgentHost, AskedPermission, Permission, TerminalCommand, TerminalState};
use longhaul_core::EventDraft;
use longhaul_store::StoreError;
use longhaul_tools::files::ProjectFiles;
use serde_json::json;

use super::{
    permission::{Decision, decide},
    terminals::Terminals,
};
use crate::sitting::Sitting;

/// The desk of one session.
pub(super) struct Desk<'s> {
    pub(super) sitting: &'s Sitting<'s>,
    pub(super) decisions: &'s [Decision],
    pub(super) files: ProjectFiles,
    pub(super) terminals: Terminals,
    /// The step that this belongs to, for events.
    pub(super) step: String,
}

impl Desk<'_> {
    /// Writes an event at once, so that whoever watches sees it. What counts in the end is written with the session's step;
    /// these are what an interrupted session has done, too.
    pub(super) async fn tell(&self, event: EventDraft) {
        let (owner, execution) = (self.sitting.owner(), self.sitting.ctx.execution().clone());
        let step = self.step.clone();
        let told =
            self.sitting.harness.store.write::<_, StoreError>(move |tx| {
                tx.append_event(&owner, Some(&execution), Some(&step), event).map(drop)
            });
        if let Err(error) = told.await {
            tracing::warn!(%error, "an event of the agent's could not be written");
        }
    }

    /// The path as our tools want it, relative to the project.
    fn inside(&self, path: &str) -> Result<String, String> {
        let project = self.sitting.sandbox.project();
        let path = std::path::Path::new(path);
        let inside = if path.is_absolute() { path.strip_prefix(project).ok() } else { Some(path) };
        let inside = inside.and_then(std::path::Path::to_str);
        inside.map(str::to_owned).ok_or_else(|| format!("{} is outside the project", path.display()))
    }
}

#[async_trait]
impl AgentHost for Desk<'_> {
    async fn permission(&self, asked: &AskedPermission) -> Permission {
        let answer = decide(&self.sitting.harness.settings.policy, self.decisions, asked);
        let decision = match answer {
            Permission::Allow => "allowed",
            Permission::Deny => "denied",
            Permission::Ask => "asked about",
        };
        let tool = format!("agent__{}", asked.kind);
        let data = json!({"tool": tool, "decision": decision, "why": asked.title, "input": asked.input});
        self.tell(EventDraft::business("agent.permission", data)).await;
        answer
    }

    async fn read_text_file(&self, path: &str, first: Option<u64>, lines_max: Option<u64>) -> Result<String, String> {
        let text = self.files.read(&self.inside(path)?).await?;
        if first.is_none() && lines_max.is_none() {
            return Ok(text);
        }
        let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let lines = text.split_inclusive('\n').skip(number(first.unwrap_or(1)).saturating_sub(1));
        Ok(lines.take(lines_max.map_or(usize::MAX, number)).collect())
    }

    async fn write_text_file(&self, path: &str, content: &str) -> Result<(), String> {
        let path = self.inside(path)?;
        let written = self.files.write(&path, content).await;
        self.did(&AgentDeed { kind: "write_file".to_owned(), title: path, is_error: written.is_err() }).await;
        written
    }

    async fn create_terminal(&self, command: TerminalCommand) -> Result<String, String> {
        let line = std::iter::once(&command.command).chain(&command.args);
        let title = line.map(String::as_str).collect::<Vec<_>>().join(" ").chars().take(100).collect();
        let made = self.terminals.create(command);
        self.did(&AgentDeed { kind: "terminal".to_owned(), title, is_error: made.is_err() }).await;
        made
    }

    async fn terminal(&self, id: &str, until_exit: bool) -> Result<TerminalState, String> {
        self.terminals.state(id, until_exit).await
    }

    async fn end_terminal(&self, id: &str, release: bool) -> Result<(), String> {
        self.terminals.end(id, release)
    }

    async fn did(&self, deed: &AgentDeed) {
        let data = json!({"tool": deed.kind, "summary": deed.title, "is_error": deed.is_error, "ms": 0});
        self.tell(EventDraft::business("tool.called", data)).await;
    }
}

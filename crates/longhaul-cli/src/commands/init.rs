//! `longhaul init`: one sentence becomes a plan that can be verified, in a new folder or on top of a repository.

use std::path::PathBuf;

use clap::Args;
use longhaul::{CancellationToken, InitRequest, Profile};

use super::work;
use crate::{args::Global, exit::Exit};

/// Turn a request into features with verifiable steps
///
/// The initializer writes the feature list, locks how each feature will be verified, makes an init.sh that starts the
/// application, and the first commit. Interrupted, it goes on when asked again. Nothing is built yet: `longhaul run`
/// does that.
///
/// With --adopt it plans on top of a git repository that is there: its history, its build and its tests are read, nothing
/// of it is changed, and init.sh and the records are added to its branch with a commit.
///
/// --profile says what kind of work it is: `software` has an application that is verified in a browser, `research` texts
/// whose claims cite stored sources, `documents` tables and models whose numbers hold.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  longhaul init \"A recipe book with search\" --dir recipes --model openai:gpt-4o
  longhaul init \"做一个待办事项应用\" --dir todo --model openai:qwen3 --base-url http://127.0.0.1:8080/v1
  longhaul init \"Add full-text search\" --adopt ~/src/recipes
  longhaul init \"What is known of X, with sources\" --dir review --profile research")]
pub(crate) struct Init {
    /// What to build, in any language
    request: String,
    /// The folder to build it in: new or empty
    #[arg(long, value_name = "DIR", required_unless_present = "adopt")]
    dir: Option<PathBuf>,
    /// A git repository to take over instead: clean, on a branch
    #[arg(long, value_name = "DIR", conflicts_with = "dir")]
    adopt: Option<PathBuf>,
    /// What kind of work it is: software, research or documents
    #[arg(long, value_name = "NAME", default_value = "software")]
    profile: Profile,
    /// A git remote, empty so far, that takes every commit: another machine can go on from there
    #[arg(long, value_name = "URL")]
    remote: Option<String>,
    #[command(flatten)]
    model: ModelFlags,
}

/// Which model works.
#[derive(Debug, Args)]
pub(crate) struct ModelFlags {
    /// The model: openai:NAME, anthropic:NAME, openai-responses:NAME, cassette:FILE or cassette:demo [default:
    /// OPENAI_MODEL, or the project's]
    #[arg(long, value_name = "SPEC")]
    model: Option<String>,
    /// Where the model's service is, up to and including /v1 [default: OPENAI_BASE_URL or ANTHROPIC_BASE_URL, or OpenAI's
    /// or Anthropic's own]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Who works in coding sessions: own, or acp:COMMAND for an agent such as acp:claude-agent-acp [default: the project's]
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
}

impl ModelFlags {
    /// The address is meant for the model's service, whichever protocol that speaks.
    pub(super) fn assignments(&self) -> [(&'static str, Option<&str>, &'static str); 4] {
        let base_url = self.base_url.as_deref();
        [
            ("model.spec", self.model.as_deref(), "--model"),
            ("model.base_url", base_url, "--base-url"),
            ("model.anthropic_url", base_url, "--base-url"),
            ("harness.agent", self.agent.as_deref(), "--agent"),
        ]
    }
}

/// Runs the command.
pub(crate) fn run(global: &Global, command: &Init) -> anyhow::Result<Exit> {
    let dir = command.adopt.as_ref().or(command.dir.as_ref()).cloned().unwrap_or_default();
    let settings = global.settings(Some(&dir), &command.model.assignments())?;
    work::runtime()?.block_on(async {
        let longhaul = work::open(settings).await?;
        let cancel = CancellationToken::new();
        let mut progress = global.progress();
        let (profile, adopt) = (command.profile, command.adopt.is_some());
        let asked =
            InitRequest { profile, adopt, remote: command.remote.clone(), ..InitRequest::new(&command.request, dir) };
        let outcome = work::watch(&longhaul, &mut progress, &cancel, longhaul.init(asked, cancel.clone())).await;
        progress.finish();
        work::conclude(global, &outcome?)
    })
}
